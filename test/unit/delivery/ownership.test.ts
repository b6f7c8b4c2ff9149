/** Which lanes a process runs, and the three ends of a lane: closed, removed, handed over. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import type { LaneOwnership } from '../../../src/metadata/lane-ownership.ts'
import { LaneOwnershipLostError } from '../../../src/metadata/lane-state.ts'
import { StorageUnavailableError } from '../../../src/platform/error-code.ts'
import { LaneWorld } from '../../support/lane-world.ts'
import { until } from '../../support/until.ts'

/** A process of a cluster: who owns what is decided elsewhere. */
class Owner implements LaneOwnership {
  readonly #epochs = new Map<string, number>()
  #gained: (pipeId: string) => void = () => {}
  #lost: (pipeId: string) => void = () => {}
  #released: (pipeId: string, graceMs: number) => Promise<void> = async () => {}
  readonly #releasing = new Map<string, number>()
  /** Its time is over, and nobody has told the lanes. */
  isOver = false

  owned(pipeId: string): number | null {
    return this.#epochs.get(pipeId) ?? null
  }
  holds(pipeId: string, epoch: number): boolean {
    return !this.isOver && (this.#epochs.get(pipeId) === epoch || this.#releasing.get(pipeId) === epoch)
  }
  onGained(listener: (pipeId: string) => void): void {
    this.#gained = listener
  }
  onLost(listener: (pipeId: string) => void): void {
    this.#lost = listener
  }
  onReleased(listener: (pipeId: string, graceMs: number) => Promise<void>): void {
    this.#released = listener
  }
  async changed(): Promise<void> {}
  /** Without telling the lanes. */
  own(pipeId: string, epoch: number): void {
    this.#epochs.set(pipeId, epoch)
  }
  gain(pipeId: string, epoch: number): void {
    this.own(pipeId, epoch)
    this.#gained(pipeId)
  }
  async release(pipeId: string, graceMs: number): Promise<void> {
    this.#releasing.set(pipeId, this.#epochs.get(pipeId)!)
    this.#epochs.delete(pipeId)
    await this.#released(pipeId, graceMs)
    this.#releasing.delete(pipeId)
  }
  lose(pipeId: string): void {
    this.#epochs.delete(pipeId)
    this.#releasing.delete(pipeId)
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

t.test(
  'a pull lane that is handed over while it saves ends alone, and so does one that is closed',
  async (t) => {
    for (const end of ['lose', 'close'] as const) {
      const { world, owner } = await openOwned(1)
      const config = { ack_mode: 'explicit' }
      const pulls = { destination_type: 'destination_pull', destination_config: config } as const
      const { id } = await world.addLane(pulls)
      world.send(1)
      t.match(await world.service.pull(id, { waitMs: 0, afterSeq: null }), { kind: 'message' })
      const { leaseMsgId } = await world.saved(id)
      const lane = world.lanes.lane(id)!
      let closed = Promise.resolve()
      world.atSave = () => {
        if (end === 'lose') owner.lose(world.pipeId)
        else closed = lane.end('closed')
        closed.catch(() => {})
        throw new LaneOwnershipLostError([id])
      }
      await t.rejects(world.service.acknowledge({ destinationId: id, msgId: leaseMsgId! }, true), {
        name: 'LaneOwnershipLostError',
      })
      await t.resolves(closed)
      await until('the lane is gone', () => world.lanes.lane(id) === undefined)
      t.strictSame(world.fatal, [], end)
      world.atSave = () => {}
      await world.close()
    }
  },
)

t.test('an acknowledgement that a hand-over leaves unsaved is not reported as done', async (t) => {
  const { world, owner } = await openOwned(1)
  const config = { ack_mode: 'explicit' }
  const { id } = await world.addLane({ destination_type: 'destination_pull', destination_config: config })
  world.send(1)
  t.match(await world.service.pull(id, { waitMs: 0, afterSeq: null }), { kind: 'message' })
  const before = await world.saved(id)
  const acknowledged = world.service
    .acknowledge({ destinationId: id, msgId: before.leaseMsgId! }, true)
    .catch(() => false)
  owner.lose(world.pipeId)
  t.equal(await acknowledged, false)
  t.strictSame(await world.saved(id), before)
  t.strictSame(world.fatal, [])
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

t.test('a pipe that is given up: the batch under way is stored and saved first', async (t) => {
  const { world, owner } = await openOwned(2)
  const { id, destination } = await world.addLane()
  destination.react = () => 'slow'
  world.send(2)
  await until('an attempt is under way', () => destination.waiting === 1)
  const released = owner.release(world.pipeId, 4_000)
  destination.release()
  await released
  t.match(await world.saved(id), { cursorSeq: 2, ownerEpoch: 2 })
  t.equal(world.lanes.lane(id), undefined)
  world.send(1)
  await world.clock.advance(10_000)
  t.strictSame(destination.stored, [1, 2], 'nothing is begun any more')
  t.notOk(reported(world).includes(world.pipeId))
  destination.react = () => 'store'
  owner.gain(world.pipeId, 3)
  await until('it goes on where it was', () => destination.stored.length === 3)
  t.strictSame(world.fatal, [])
  await world.close()
})

t.test('a batch that takes longer than a hand-over may is aborted, and delivered again', async (t) => {
  const { world, owner } = await openOwned(1)
  const { destination } = await world.addLane()
  destination.react = () => 'slow'
  world.send(2)
  await until('an attempt is under way', () => destination.waiting === 1)
  const released = owner.release(world.pipeId, 4_000)
  await world.clock.advance(4_000)
  await released
  t.equal(destination.aborts, 1)
  destination.react = () => 'store'
  owner.gain(world.pipeId, 2)
  await until('delivered', () => destination.stored.length === 2)
  await world.close()
})

t.test('a lease that ends during a hand-over aborts at once and saves nothing', async (t) => {
  const { world, owner } = await openOwned(1)
  const { id, destination } = await world.addLane()
  destination.react = () => 'slow'
  world.send(2)
  await until('an attempt is under way', () => destination.waiting === 1)
  const before = await world.saved(id)
  const released = owner.release(world.pipeId, 4_000)
  await until('it is asked to end', () => world.lanes.lane(id) === undefined)
  owner.lose(world.pipeId)
  await released
  t.equal(destination.aborts, 1)
  t.strictSame(await world.saved(id), before)
  await world.close()
})

t.test('a process that stood still for longer than its lease sends nothing more', async (t) => {
  const { world, owner } = await openOwned(1)
  const push = await world.addLane()
  const pull = await world.addLane({ destination_type: 'destination_pull', destination_config: {} })
  owner.isOver = true
  world.send(2)
  await until('the lane has ended', () => world.lanes.lane(push.id) === undefined)
  t.equal(push.destination.attempts.length, 0)
  t.match(await world.service.pull(pull.id, { waitMs: 0, afterSeq: null }), { kind: 'empty' })
  await world.clock.advance(5_000)
  t.notOk(reported(world).includes(world.pipeId), 'nor does it say how far its lanes are')
  t.strictSame(world.fatal, [])
  await world.close()
})

t.test('a pipe of which one lane is lost is not reported: its smallest cursor is unknown', async (t) => {
  const { world } = await openOwned(4)
  const lost = await world.addLane()
  const kept = await world.addLane()
  await world.metadata.laneStore.take(lost.id, 5)
  world.send(3)
  await world.untilLane(kept.id, 'the other delivers', ({ cursor_seq }) => cursor_seq === 3)
  await until('the lost lane is gone', () => world.lanes.lane(lost.id) === undefined)
  await world.clock.advance(10_000)
  t.notOk(reported(world).includes(world.pipeId))
  await world.close()
})

t.test('a pipe that is lost and gained again before its lanes were told has new lanes', async (t) => {
  const { world, owner } = await openOwned(1)
  const { id, destination } = await world.addLane()
  const before = world.lanes.lane(id)
  owner.gain(world.pipeId, 3)
  await until('another lane runs', () => ![before, undefined].includes(world.lanes.lane(id)))
  world.send(2)
  await until('delivered', () => destination.stored.length === 2)
  await until('saved', async () => (await world.saved(id)).cursorSeq === 2)
  t.equal((await world.saved(id)).ownerEpoch, 3)
  t.strictSame(world.fatal, [])
  await world.close()
})

t.test('a pipe that is gained again is not whole before all its lanes are opened again', async (t) => {
  const { world, owner } = await openOwned(1)
  const first = await world.addLane()
  const second = await world.addLane()
  const before = world.lanes.lane(second.id)
  t.equal(world.lanes.runs(world.pipeId), true)
  const wasWhole: boolean[] = []
  world.atTake = () => void wasWhole.push(world.lanes.runs(world.pipeId))
  owner.gain(world.pipeId, 3)
  await until(
    'both lanes run again',
    () => world.lanes.lanesOf(world.pipeId).length === 2 && world.lanes.lane(second.id) !== before,
  )
  t.strictSame(wasWhole, [false, false], 'the smallest cursor of all lanes is unknown until then')
  t.equal(world.lanes.runs(world.pipeId), true)
  world.send(1)
  await until('delivered', () => first.destination.stored.length === 1)
  await world.close()
})

for (const opening of ['gained', 'started'] as const)
  t.test(
    `metadata is away while the lanes of a pipe are opened (${opening}): it is tried again`,
    async (t) => {
      const { world, owner } = await openOwned(1)
      const first = await world.addLane()
      const second = await world.addLane()
      world.send(2)
      await until('delivered', () => first.destination.stored.length + second.destination.stored.length === 4)
      owner.lose(world.pipeId)
      await until('lost', () => !world.lanes.runs(world.pipeId))
      let failures = 0
      world.atTake = (id) => {
        if (id !== second.id || failures >= 3) return
        failures += 1
        throw new StorageUnavailableError('metadata: the connection was lost')
      }
      world.reports.length = 0
      if (opening === 'gained') owner.gain(world.pipeId, 2)
      else {
        owner.own(world.pipeId, 2)
        void world.restart()
      }
      await until('the second lane cannot be opened', () => failures === 1)
      world.send(1)
      await until('the first one delivers', () => first.destination.stored.length === 3)
      t.equal(world.lanes.runs(world.pipeId), false)
      await until('tried again', async () => {
        await world.clock.advance(1_000)
        return world.lanes.runs(world.pipeId)
      })
      await until('the second one delivers', () => second.destination.stored.length === 3)
      world.send(1)
      await until(
        'all is delivered',
        () => first.destination.stored.length + second.destination.stored.length === 8,
      )
      t.equal(failures, 3)
      t.equal(first.destination.attempts.length, 3, 'the lane that was open stayed open')
      t.strictSame(world.fatal, [])
      const watermarks = world.reports.flat().filter(({ pipeId }) => pipeId === world.pipeId)
      t.ok(
        watermarks.every(({ seq }) => seq >= 2),
        'reported only with both lanes',
      )
      await world.close()
    },
  )

t.test(
  'metadata is away while a destination is added: its caller is told, and the lane opens later',
  async (t) => {
    const { world } = await openOwned(1)
    const first = await world.addLane()
    let failures = 0
    world.atTake = (id) => {
      if (id === first.id || failures >= 2) return
      failures += 1
      throw new StorageUnavailableError('metadata: the connection was lost')
    }
    await t.rejects(world.addLane(), StorageUnavailableError)
    await until('it opens', async () => {
      await world.clock.advance(1_000)
      return world.lanes.lanesOf(world.pipeId).length === 2
    })
    t.strictSame(world.fatal, [])
    await world.close()
  },
)

t.test('a pipe that is lost while metadata is away is forgotten', async (t) => {
  const { world, owner } = await openOwned(1)
  const { id, destination } = await world.addLane()
  owner.lose(world.pipeId)
  await until('lost', () => world.lanes.lane(id) === undefined)
  let isAway = true
  let tries = 0
  world.atTake = () => {
    tries += 1
    if (isAway) throw new StorageUnavailableError('metadata: the connection was lost')
  }
  owner.gain(world.pipeId, 2)
  await until('tried', () => tries === 1)
  owner.lose(world.pipeId)
  isAway = false
  world.send(1)
  await world.clock.advance(5_000)
  t.equal(world.lanes.lane(id), undefined)
  t.equal(destination.attempts.length, 0)
  await world.close()
})

t.test(
  'messages are purged of a pipe that was deleted, not of one that metadata does not know',
  async (t) => {
    const { world, owner } = await openOwned(1)
    const unknown = randomUUID()
    owner.gain(unknown, 1)
    await until('noticed', () =>
      world.logged.some(({ msg, pipe_id }) => msg === 'buffer.unknown_pipe' && pipe_id === unknown),
    )
    t.strictSame(world.deletedPipes, [])
    await world.metadata.pipes.delete({ workspaceId: world.workspaceId, pipeId: world.pipeId })
    await world.lanes.refresh(world.pipeId)
    t.strictSame(world.deletedPipes, [world.pipeId])
    await world.close()
  },
)
