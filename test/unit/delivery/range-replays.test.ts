/** Replays of ranges of messages by their lane: a batch of the range, a batch of the lane, and what a crash leaves. */
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import { v5 } from 'uuid'
import { type Batch, DeliveryError } from '../../../src/destinations/driver.ts'
import type { NewDestination } from '../../../src/metadata/destinations.ts'
import type { RangeQuery } from '../../../src/observe/history/history.ts'
import { openStoredHistory } from '../../../src/observe/history/stored-history.ts'
import { LaneWorld } from '../../support/lane-world.ts'
import { type RecordingDestination, transient } from '../../support/recording-driver.ts'
import { until } from '../../support/until.ts'

const parks = { on_permanent_error: 'park' as const }
const refused = () => new DeliveryError('permanent', 'refused', 'This will never do.', { fault: 'records' })
const all = { from: { at: 'start' }, to: { at: 'end' }, throughSeq: 1_000 } as const

/** A lane that has delivered `count` messages, in batches of at most `batch` records. */
async function delivered(count: number, batch = 2, change: Partial<NewDestination> = {}) {
  const world = await LaneWorld.open()
  await world.limit(batch, 1_000_000, 1)
  const { id, destination } = await world.addLane(change)
  world.send(count)
  const isDone = ({ cursor_seq }: { cursor_seq: number }) => cursor_seq === count
  await until('all are delivered', async () => {
    await world.clock.advance(1_000)
    return isDone(await world.lane(id))
  })
  destination.attempts.length = 0
  destination.stored.length = 0
  const ref = { workspaceId: world.workspaceId, pipeId: world.pipeId, destinationId: id }
  const show = async (replayId: string) => (await world.metadata.replays.get(ref, replayId))!
  const request = async (query: Partial<RangeQuery> = {}) => {
    const history = openStoredHistory(world.buffer, {} as never, {} as never)
    const { after, throughSeq, messages, records, bytes, first, last } = await history.range(world.pipeId, {
      ...all,
      ...query,
    })
    const counted = { messages, records, bytes, first_seq: first?.seq ?? null, last_seq: last?.seq ?? null }
    const range = { from: 'earliest', to: 'now', ...counted, after, throughSeq }
    const made = await world.metadata.replays.create(ref, range)
    if (made.kind !== 'created') throw new Error(made.kind)
    return made.replay.replay_id
  }
  const replay = async (query: Partial<RangeQuery> = {}) => {
    const replayId = await request(query)
    await world.service.parkedChanged(id)
    return replayId
  }
  const ends = (replayId: string, state = 'done') =>
    until(`the replay is ${state}`, async () => {
      const shown = await show(replayId)
      return shown.state === state ? shown : null
    })
  const cancel = async (replayId: string) => {
    const result = await world.metadata.replays.cancel(ref, replayId)
    await world.service.parkedChanged(id)
    return result
  }
  return { world, id, destination, ref, show, request, replay, ends, cancel }
}

const ranges = (destination: RecordingDestination) =>
  destination.attempts.map(({ firstSeq, lastSeq }) => [firstSeq, lastSeq])

t.test('the messages of the range arrive again, and nothing else changes', async (t) => {
  const { world, id, destination, replay, ends } = await delivered(6)
  const other = await world.addLane()
  await world.untilLane(other.id, 'the other lane has all', ({ cursor_seq }) => cursor_seq === 6)
  const before = [other.destination.attempts.length, (await world.lane(other.id)).delivered_records]
  const replayId = await replay({ from: { at: 'seq', seq: 2 }, to: { at: 'seq', seq: 6 } })
  const done = await ends(replayId)
  t.strictSame(destination.stored, [2, 3, 4, 5])
  t.strictSame(ranges(destination), [
    [2, 3],
    [4, 5],
  ])
  t.strictSame(
    destination.attempts.map(({ identity }) => identity),
    [v5('2-3', replayId), v5('4-5', replayId)],
  )
  t.match(done, { messages: 4, records: 4, done_messages: 4, done_seq: 5, replayed_records: 4, error: null })
  t.match(done, { parked_records: 0, filtered_records: 0, expired_messages: 0, finished_ts: String })
  t.match(await world.lane(id), { cursor_seq: 6, delivered_records: 10, attempts: 0, lane_state: 'idle' })
  t.strictSame([other.destination.attempts.length, (await world.lane(other.id)).delivered_records], before)
  t.equal(world.events('lane.range_replay_started').length, 1)
  t.match(world.events('lane.range_replay_ended'), [{ state: 'done', replayed_records: 4 }])
  await world.close()
})

t.test('a replay and the lane take turns', async (t) => {
  const { world, destination, replay, ends } = await delivered(40)
  const order: number[] = []
  destination.react = ({ messages }: Batch) => {
    order.push(messages[0]!.seq)
    if (order.length === 3) world.send(2)
    return 'store'
  }
  await ends(await replay())
  t.ok(order.indexOf(41) >= 0 && order.indexOf(41) < 8, `new messages did not wait: ${order}`)
  await world.close()
})

t.test('a batch that fails for now is repeated under its identity, and the lane continues', async (t) => {
  const { world, id, destination, replay, ends, show } = await delivered(4)
  destination.react = ({ messages }: Batch) => (messages[0]!.seq <= 2 ? transient() : 'store')
  const replayId = await replay()
  await until('it failed', async () => (await show(replayId)).attempts === 1)
  t.match(await show(replayId), { state: 'running', error: { code: transient().code }, done_messages: 0 })
  world.send(2)
  await world.untilLane(id, 'the lane continues', ({ cursor_seq }) => cursor_seq === 6)
  t.match(await world.lane(id), { attempts: 0, blocking_msg_id: null, last_error: null })
  destination.react = () => 'store'
  await until('it is repeated', async () => {
    await world.clock.advance(1_000)
    return (await show(replayId)).state === 'done'
  })
  t.match(await ends(replayId), { replayed_records: 4, error: null })
  const first = destination.attempts.filter(({ firstSeq }) => firstSeq === 1)
  t.ok(first.length >= 2)
  t.strictSame([...new Set(first.map(({ identity }) => identity))], [v5('1-2', replayId)])
  await world.close()
})

t.test('a rejected record is parked by a lane that parks, and the others are stored', async (t) => {
  const { world, id, destination, replay, ends } = await delivered(6, 4, parks)
  destination.react = ({ messages }: Batch) => (messages.some(({ seq }) => seq === 3) ? refused() : 'store')
  const done = await ends(await replay())
  t.match(done, { replayed_records: 5, parked_records: 1, done_messages: 6 })
  t.strictSame(destination.stored, [1, 2, 4, 5, 6])
  t.match(await world.lane(id), { parked_records: 1, cursor_seq: 6, blocking_msg_id: null })
  destination.react = () => 'store'
  await ends(await replay())
  t.equal((await world.lane(id)).parked_records, 0, 'stored by the next replay, it is no longer parked')
  await world.close()
})

t.test('a lane that blocks ends the replay at the rejected message, and is not blocked itself', async (t) => {
  const { world, id, destination, replay, ends } = await delivered(6, 4)
  destination.react = ({ messages }: Batch) => (messages.some(({ seq }) => seq === 3) ? refused() : 'store')
  const failed = await ends(await replay(), 'failed')
  t.match(failed, { error: { code: 'refused' }, done_seq: 2, replayed_records: 2 })
  t.match(await world.lane(id), { cursor_seq: 6, blocking_msg_id: null, attempts: 0 })
  destination.react = () => 'store'
  t.match(await ends(await replay({ from: { at: 'seq', seq: 4 } })), { replayed_records: 3 })
  await world.close()
})

t.test('what fails for the whole window ends the replay, and the next one begins', async (t) => {
  const { world, id, destination, request, replay, show } = await delivered(4)
  await world.change(id, { destination_max_retry_seconds: 5 })
  destination.react = ({ messages }: Batch) => (messages[0]!.seq === 1 ? transient('http_503') : 'store')
  const first = await request()
  const second = await replay({ from: { at: 'seq', seq: 3 } })
  t.match(await show(second), { state: 'waiting', started_ts: null })
  await until('it ends', async () => {
    await world.clock.advance(2_000)
    return (await show(first)).state === 'failed' && (await show(second)).state === 'done'
  })
  t.match(await show(first), { error: { code: 'http_503' }, replayed_records: 0 })
  await world.close()
})

t.test('messages that retention takes meanwhile are counted as expired', async (t) => {
  const { world, id, destination, request, ends } = await delivered(6)
  const replayId = await request()
  world.drop(3)
  await world.service.parkedChanged(id)
  const done = await ends(replayId)
  t.match(done, { messages: 6, expired_messages: 3, expired_records: 3, replayed_records: 3 })
  t.strictSame(destination.stored, [4, 5, 6])
  t.equal((await world.lane(id)).dropped_messages, 0, 'the lane itself has lost nothing')
  t.match(world.events('lane.range_replay_expired'), [{ records: 3 }])
  await world.close()
})

t.test('a cancelled replay stops after its batch; a finished one cannot be cancelled', async (t) => {
  const { world, destination, replay, request, cancel, ends, show } = await delivered(8)
  const waiting = await request()
  t.equal(await cancel(waiting), 'cancelled')
  t.match(await show(waiting), { state: 'cancelled', replayed_records: 0 })
  destination.react = () => transient()
  const replayId = await replay()
  await until('it failed', async () => (await show(replayId)).attempts > 0)
  t.equal(await cancel(replayId), 'cancelled')
  destination.react = () => 'store'
  const next = await replay({ from: { at: 'seq', seq: 7 } })
  t.match(await ends(next), { replayed_records: 2 })
  t.match(await show(replayId), { state: 'cancelled', replayed_records: 0 })
  t.equal(await cancel(next), 'finished')
  t.strictSame(destination.stored, [7, 8])
  await world.close()
})

t.test('a blocked destination keeps the replay, and a restart too', async (t) => {
  const { world, id, destination, replay, show, ends } = await delivered(4)
  await world.change(id, { destination_status: 'blocked' })
  const replayId = await replay()
  await world.restart()
  t.equal((await show(replayId)).state, 'waiting')
  t.equal(destination.attempts.length, 0)
  await world.change(id, { destination_status: 'active' })
  t.match(await ends(replayId), { replayed_records: 4 })
  await world.close()
})

t.test('a rewind and a replay deliver what each was asked for', async (t) => {
  const { world, id, destination, replay, show, ends } = await delivered(4, 4)
  destination.react = ({ isReplay }: Batch) => (isReplay ? transient() : 'store')
  const replayId = await replay()
  await until('it failed', async () => (await show(replayId)).attempts > 0)
  await world.service.rewind(id, { to: 'earliest' })
  await world.untilLane(id, 'delivered again', ({ cursor_seq }) => cursor_seq === 4)
  destination.react = () => 'store'
  await world.service.parkedChanged(id)
  await ends(replayId)
  t.strictSame(destination.stored, [1, 2, 3, 4, 1, 2, 3, 4])
  await world.close()
})

t.test('a changed destination gets the rest at once, cut again; a deleted one ends the replay', async (t) => {
  const { world, id, destination, replay, show, ends } = await delivered(4, 4)
  destination.react = () => transient()
  const replayId = await replay()
  await until('it failed', async () => (await show(replayId)).attempts > 0)
  destination.react = () => 'store'
  await world.limit(1, 1_000_000, 1)
  t.match(await ends(replayId), { replayed_records: 4 })
  t.strictSame(ranges(destination).slice(1), [
    [1, 1],
    [2, 2],
    [3, 3],
    [4, 4],
  ])
  destination.react = () => transient()
  const last = await replay()
  await until('it failed', async () => (await show(last)).attempts > 0)
  await world.metadata.destinations.delete({
    workspaceId: world.workspaceId,
    pipeId: world.pipeId,
    destinationId: id,
  })
  await world.lanes.refresh(world.pipeId)
  t.equal(await show(last), null)
  await world.close()
})

/** Every message of the range was stored, and each attempt at a message in a batch of one identity. */
function faults(destination: RecordingDestination, count: number): string[] {
  const found: string[] = []
  const batches = new Map<number, Set<string>>()
  for (const { identity, firstSeq, lastSeq } of destination.attempts)
    for (let seq = firstSeq; seq <= lastSeq; seq += 1)
      batches.set(seq, (batches.get(seq) ?? new Set()).add(identity))
  for (let seq = 1; seq <= count; seq += 1) {
    if (!destination.stored.includes(seq)) found.push(`${seq} is missing`)
    if ((batches.get(seq)?.size ?? 0) > 1) found.push(`${seq} had several identities`)
  }
  return found
}

/** Kills the process at its nth save of a replay, before or after it, and changes the limits before the restart. */
async function killedAt(t: Test, nth: number, isBefore: boolean, onKilled: (file: string) => void) {
  const { world, id, destination, request, ends } = await delivered(6)
  let saves = 0
  let isKilled = false
  world.atSave = () => {
    saves += 1
    if (saves === nth) world.dieAtSave = { isBefore, onReached: () => (isKilled = true) }
  }
  const replayId = await request()
  // A dead process does not respond.
  void world.service.parkedChanged(id)
  await until('it is killed or done', async () => isKilled || (await endedIn(world, id)))
  world.atSave = () => {}
  if (!isKilled) {
    await world.close()
    return null
  }
  onKilled(world.metadataFile)
  await world.limit(3, 1_000_000, 1, { isSeen: false })
  await world.restart()
  const done = await ends(replayId)
  t.match(done, { replayed_records: 6, done_messages: 6 })
  const found = faults(destination, 6)
  await world.close()
  return found
}

async function endedIn(world: LaneWorld, destinationId: string): Promise<boolean> {
  const list = await world.metadata.replays.list({ workspaceId: world.workspaceId, destinationId })
  return list.every(({ state }) => state === 'done')
}

t.test('a kill around each save: every batch keeps its identity, and nothing is missing', async (t) => {
  let kills = 0
  for (const isBefore of [true, false])
    for (let nth = 1; ; nth += 1) {
      const found = await killedAt(t, nth, isBefore, () => {})
      if (found === null) break
      kills += 1
      t.strictSame(found, [], `save ${nth}, ${isBefore ? 'before' : 'after'} it`)
    }
  t.ok(kills >= 12, `${kills} kills`)
})

t.test('negative control: without the saved range, the test above finds several identities', async (t) => {
  const found = await killedAt(t, 2, true, (file) => {
    const db = new Database(file)
    const rows = db.prepare('SELECT replay_id, progress_json FROM replays').all() as Record<string, string>[]
    for (const { replay_id, progress_json } of rows) {
      const { position, ...progress } = JSON.parse(progress_json!)
      const { batchFirstSeq, batchLastSeq, ...rest } = position
      t.ok(batchFirstSeq && batchLastSeq, 'a range was saved')
      db.prepare('UPDATE replays SET progress_json = ? WHERE replay_id = ?').run(
        JSON.stringify({ ...progress, position: rest }),
        replay_id,
      )
    }
    db.close()
  })
  t.match(found, [/several identities/])
})
