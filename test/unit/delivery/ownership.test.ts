/** Which lanes a process runs, and the three ends of a lane: closed, removed, handed over. */
import t from 'tap'
import type { LaneOwnership } from '../../../src/delivery/lane-ownership.ts'
import { LaneWorld } from '../../support/lane-world.ts'
import { until } from '../../support/until.ts'

/** A process of a cluster: who owns what is decided elsewhere. */
class Owner implements LaneOwnership {
  readonly #epochs = new Map<string, number>()
  #gained: (pipeId: string) => void = () => {}
  #lost: (pipeId: string) => void = () => {}

  owned(pipeId: string): number | null {
    return this.#epochs.get(pipeId) ?? null
  }
  holds(pipeId: string, epoch: number): boolean {
    return this.#epochs.get(pipeId) === epoch
  }
  onGained(listener: (pipeId: string) => void): void {
    this.#gained = listener
  }
  onLost(listener: (pipeId: string) => void): void {
    this.#lost = listener
  }
  onReleased(): void {}
  async changed(): Promise<void> {}
  gain(pipeId: string, epoch: number): void {
    this.#epochs.set(pipeId, epoch)
    this.#gained(pipeId)
  }
  lose(pipeId: string): void {
    this.#epochs.delete(pipeId)
    this.#lost(pipeId)
  }
}

/** A world whose one pipe is owned under `epoch`. */
async function openOwned(epoch: number): Promise<{ world: LaneWorld; owner: Owner }> {
  const world = await LaneWorld.open()
  const owner = new Owner()
  world.ownership = owner
  await world.restart()
  owner.gain(world.pipeId, epoch)
  return { world, owner }
}

const reported = (world: LaneWorld) => world.reports.at(-1)!.map(({ pipeId }) => pipeId)

t.test('lanes of pipes that are not owned do not run, and their pipes are not reported', async (t) => {
  const { world, owner } = await openOwned(1)
  const { id, destination } = await world.addLane()
  owner.lose(world.pipeId)
  await until('the lane is gone', () => world.lanes.lane(id) === undefined)
  world.send(2)
  await world.clock.advance(10_000)
  t.equal(destination.attempts.length, 0)
  t.notOk(reported(world).includes(world.pipeId), 'unknown here, which is not deleted')
  t.strictSame(world.deletedPipes, [])
  owner.gain(world.pipeId, 3)
  await until('delivered', () => destination.stored.length === 2)
  await until('saved', async () => (await world.saved(id)).cursorSeq === 2)
  t.equal((await world.saved(id)).ownerEpoch, 3, 'every save carries the epoch')
  await world.clock.advance(5_000)
  t.ok(reported(world).includes(world.pipeId))
  await world.close()
})

t.test('a lane that is handed over aborts its attempt and saves nothing', async (t) => {
  const { world, owner } = await openOwned(1)
  const { id, destination } = await world.addLane()
  destination.react = () => 'slow'
  world.send(2)
  await until('an attempt is under way', () => destination.waiting === 1)
  let saves = 0
  world.atSave = () => {
    saves += 1
  }
  owner.lose(world.pipeId)
  await until('aborted', () => destination.aborts === 1)
  await until('the lane is gone', () => world.lanes.lane(id) === undefined)
  t.equal(saves, 0)
  t.equal(await world.service.skip(id), false)
  await world.close()
})

t.test('negative control: a lane that is closed saves what it did', async (t) => {
  const { world } = await openOwned(2)
  const { id, destination } = await world.addLane()
  destination.react = () => 'slow'
  world.send(2)
  await until('an attempt is under way', () => destination.waiting === 1)
  const closed = world.lanes.close(10_000)
  destination.release()
  await closed
  t.match(await world.saved(id), { cursorSeq: 2, ownerEpoch: 2 })
  await world.close()
})

t.test('who waits for a message when the lane is handed over gets none', async (t) => {
  const { world, owner } = await openOwned(1)
  const { id } = await world.addLane({ destination_type: 'destination_pull', destination_config: {} })
  const pull = world.service.pull(id, { waitMs: 30_000, afterSeq: null })
  await until('it waits', () => world.clock.nextInMs <= 5_000)
  owner.lose(world.pipeId)
  t.strictSame(await pull, { kind: 'empty' })
  await world.close()
})

t.test('a lane whose save finds a newer owner ends alone, without saving; the others go on', async (t) => {
  const { world } = await openOwned(4)
  const lost = await world.addLane()
  const kept = await world.addLane()
  const saved = { ...(await world.saved(lost.id)), ownerEpoch: 5 }
  await world.metadata.laneStore.save([saved], [])
  world.send(3)
  await world.untilLane(kept.id, 'the other delivers', ({ cursor_seq }) => cursor_seq === 3)
  await until('the lost lane is gone', () => world.lanes.lane(lost.id) === undefined)
  t.match(await world.saved(lost.id), { cursorSeq: 0, ownerEpoch: 5, batchFirstSeq: null })
  t.equal(lost.destination.attempts.length, 0, 'its range was not saved, so it was not attempted')
  t.match(world.events('lane.ownership_lost'), [{ destination_id: lost.id }])
  t.strictSame(world.fatal, [])
  await world.close()
})
