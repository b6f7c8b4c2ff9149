/**
 * The conformance suite of push lanes, whatever stores the messages and the lanes' rows. The caller opens a back end;
 * nothing here knows which. Time is real, and tests wait only for conditions.
 */
import type { Test } from 'tap'
import { DeliveryError } from '../../../src/destinations/driver.ts'
import type { LaneBackEnd, LaneProcess } from '../../support/lane-process.ts'
import { LaneStack, type Sent } from '../../support/lane-stack.ts'
import { type RecordingDestination, refusing, transient } from '../../support/recording-driver.ts'
import { until } from '../../support/until.ts'
import { testRestarts } from './lane-conformance-restart.ts'

/** An empty one, closed with the test. */
export type OpenBackEnd = (t: Test, undeliveredSeconds?: number) => Promise<LaneBackEnd>

export const seqsOf = (sent: readonly { seq: number }[]) => sent.map(({ seq }) => seq)
export const isIdle = ({ lane_state }: { lane_state: string }) => lane_state === 'idle'

/** With one process, both closed with the test. */
export async function openStack(
  t: Test,
  backEnd: LaneBackEnd,
): Promise<{ stack: LaneStack; process: LaneProcess }> {
  const stack = await LaneStack.open(backEnd)
  t.teardown(() => stack.close())
  return { stack, process: await stack.start() }
}

/** Each message is stored after the one before it, also when it comes again. The same identity is the same batch. */
export function isInOrder(t: Test, { stored, attempts }: RecordingDestination, sent: readonly Sent[]): void {
  const places = new Map(sent.map(({ seq }, place) => [seq, place]))
  let previous = -1
  for (const seq of stored) {
    const place = places.get(seq)
    if (place === undefined || place > previous + 1)
      return void t.fail(`${seq} is stored too early`, { stored })
    previous = place
  }
  t.equal(new Set(stored).size, sent.length, 'everything is stored')
  const ranges = new Map<string, number[]>()
  for (const { identity, seqs } of attempts) {
    const known = ranges.get(identity) ?? seqs
    ranges.set(identity, seqs)
    if (String(known) !== String(seqs)) t.strictSame(seqs, known, `batch ${identity}`)
  }
}

/** Compares the pending messages after the saved cursor, by its mark, by the lane itself and by the sent messages. */
export async function countsExactly(
  t: Test,
  stack: LaneStack,
  process: LaneProcess,
  { id, pipeId }: { id: string; pipeId: string },
  sent: readonly Sent[],
): Promise<void> {
  const { cursorSeq, cursorMark } = await stack.saved(id)
  const pending = sent.filter(({ seq }) => seq > cursorSeq)
  const sum = (count: (one: Sent) => number) => pending.reduce((total, one) => total + count(one), 0)
  const counts = {
    messages: pending.length,
    records: sum((one) => one.records),
    bytes: sum((one) => one.bytes),
  }
  t.strictSame(await process.reader.backlog(pipeId, { seq: cursorSeq, mark: cursorMark! }), counts)
  const { pending_messages, pending_bytes, head_seq, cursor_seq } = await process.status(id)
  t.strictSame(
    { pending_messages, pending_bytes },
    { pending_messages: counts.messages, pending_bytes: counts.bytes },
  )
  t.strictSame({ head_seq, cursor_seq }, { head_seq: sent.at(-1)?.seq ?? 0, cursor_seq: cursorSeq })
}

export async function testLanes(t: Test, open: OpenBackEnd): Promise<void> {
  const { stack, process } = await openStack(t, await open(t))
  const untilDone = async (id: string, sent: readonly Sent[]) => {
    await stack.untilSaved(id, 'all is saved', ({ cursorSeq }) => cursorSeq === sent.at(-1)!.seq)
    return await process.untilLane(id, 'all is delivered', isIdle)
  }

  await t.test('everything arrives in order while several appenders write', async (t) => {
    const pipeId = await stack.pipe(process)
    const { id, destination } = await stack.lane(pipeId, [process], { batch: 7 })
    const all: Sent[] = []
    const write = async (at: number) => {
      for (let round = 0; round < 8; round += 1) {
        all.push(
          ...(await stack.send(pipeId, 1 + at * 20, { appender: stack.appenders[at]!, records: 1 + at })),
        )
      }
    }
    await Promise.all([0, 1, 2].map(write))
    all.sort((a, b) => a.seq - b.seq)
    const lane = await untilDone(id, all)
    t.strictSame(destination.stored, seqsOf(all), 'once each')
    isInOrder(t, destination, all)
    t.ok(destination.attempts.every(({ records }) => records <= 7))
    t.equal(
      lane.delivered_records,
      all.reduce((sum, { records }) => sum + records, 0),
    )
    await countsExactly(t, stack, process, { id, pipeId }, all)
  })

  await t.test(
    'batches are cut by records, bytes and time, also inside what was appended at once',
    async (t) => {
      const pipeId = await stack.pipe(process)
      const sent = await stack.send(pipeId, 23, { records: 2 })
      const [{ bytes }] = sent as [Sent]
      const sizesOf = async (flush: { max_records: number; max_bytes: number; max_seconds: number }) => {
        const { id, destination } = await stack.lane(pipeId, [process], { flush })
        await untilDone(id, sent)
        t.strictSame(destination.stored, seqsOf(sent))
        await countsExactly(t, stack, process, { id, pipeId }, sent)
        return destination.attempts.map(({ seqs }) => seqs.length)
      }
      const large = 10_000_000
      t.strictSame(await sizesOf({ max_records: 11, max_bytes: large, max_seconds: 0 }), [5, 5, 5, 5, 3])
      t.strictSame(await sizesOf({ max_records: 500, max_bytes: bytes * 8, max_seconds: 0 }), [8, 8, 7])
      t.strictSame(await sizesOf({ max_records: 20, max_bytes: large, max_seconds: 1 }), [10, 10, 3])
    },
  )

  await t.test('a transient failure blocks the lane until it is over: the same batch again', async (t) => {
    const pipeId = await stack.pipe(process)
    const { id, destination } = await stack.lane(pipeId, [process], { batch: 3 })
    destination.react = (_, attempt) => (attempt <= 2 ? transient('http_503', 60_000) : 'store')
    const sent = await stack.send(pipeId, 8)
    const first = await process.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
    t.match(first, { lane_state: 'retrying', last_error: { class: 'transient', code: 'http_503' } })
    t.equal(first.blocking_msg_id, sent[0]!.msgId)
    t.match(await process.service.blockingMessage(id), { msg_id: sent[0]!.msgId, stream_seq: sent[0]!.seq })
    await stack.untilSaved(id, 'that is saved', ({ attempts }) => attempts === 1)
    await countsExactly(t, stack, process, { id, pipeId }, sent)
    sent.push(...(await stack.send(pipeId, 2)))
    t.equal(await process.service.retryNow(id), sent[0]!.msgId)
    await process.untilLane(id, 'it failed again', ({ attempts }) => attempts === 2)
    t.equal(await process.service.retryNow(id), sent[0]!.msgId)
    const lane = await untilDone(id, sent)
    t.match(lane, { attempts: 0, last_error: null, blocking_msg_id: null, delivered_records: 10 })
    t.equal(new Set(destination.attempts.slice(0, 3).map(({ identity }) => identity)).size, 1)
    t.strictSame(destination.stored, seqsOf(sent))
    isInOrder(t, destination, sent)
    await countsExactly(t, stack, process, { id, pipeId }, sent)
  })

  await t.test(
    'the message that is refused is found; skipping it parks it, and the rest follows',
    async (t) => {
      const pipeId = await stack.pipe(process)
      const { id, destination } = await stack.lane(pipeId, [], { batch: 50 })
      const sent = await stack.send(pipeId, 40, { records: 2 })
      const bad = sent[27]!
      destination.react = refusing(bad.seq)
      await process.lanes.refresh(pipeId)
      const lane = await process.untilLane(id, 'it stands before it', (l) => l.blocking_msg_id === bad.msgId)
      t.match(lane, { last_error: { class: 'permanent' }, pending_messages: 13 })
      await until('it is stuck', () => process.events('lane.stuck').length > 0)
      await stack.untilSaved(id, 'that is saved', ({ cursorSeq }) => cursorSeq === sent[26]!.seq)
      await countsExactly(t, stack, process, { id, pipeId }, sent)
      t.equal(await process.service.skip(id), true)
      t.match(await untilDone(id, sent), { skipped_messages: 1, parked_records: 1, last_error: null })
      const query = { limit: 10, after: null, errorCode: null, reason: null }
      const { parked } = await stack.metadata.parked.list(
        { workspaceId: stack.backEnd.workspaceId, destinationId: id },
        query,
      )
      t.match(parked, [{ stream_seq: bad.seq, reason: 'skipped', records_count: 2 }])
      await countsExactly(t, stack, process, { id, pipeId }, sent)
    },
  )

  await t.test('on_permanent_error park: what is rejected is parked, and nothing else waits', async (t) => {
    const pipeId = await stack.pipe(process)
    const sent = await stack.send(pipeId, 30)
    const bad = [sent[4]!, sent[19]!]
    const { id, destination } = await stack.lane(pipeId, [], { on_permanent_error: 'park' })
    const refused = new DeliveryError('permanent', 'refused', 'This will never do.', { fault: 'records' })
    destination.react = ({ messages }) =>
      messages.some(({ seq }) => seqsOf(bad).includes(seq)) ? refused : 'store'
    await process.lanes.refresh(pipeId)
    t.match(await untilDone(id, sent), { delivered_records: 28, parked_records: 2, skipped_messages: 0 })
    t.strictSame(destination.stored, seqsOf(sent.filter((one) => !bad.includes(one))))
    await countsExactly(t, stack, process, { id, pipeId }, sent)
  })

  await t.test('the next full batch is read while one is under way', async (t) => {
    const pipeId = await stack.pipe(process)
    const { id, destination } = await stack.lane(pipeId, [], { batch: 10 })
    destination.react = (_, attempt) => (attempt === 1 ? 'slow' : 'store')
    const sent = await stack.send(pipeId, 35)
    await process.lanes.refresh(pipeId)
    await until('the first is under way', () => destination.waiting === 1)
    await until('the next is read', () => process.lanes.budget.lentBytes > 0)
    destination.release()
    await untilDone(id, sent)
    t.strictSame(destination.stored, seqsOf(sent))
    t.strictSame(
      destination.attempts.map(({ seqs }) => seqs.length),
      [10, 10, 10, 5],
    )
    await countsExactly(t, stack, process, { id, pipeId }, sent)
  })

  await t.test('two lanes of a pipe are each where they are; one that is slow holds nobody up', async (t) => {
    const pipeId = await stack.pipe(process)
    const sent = await stack.send(pipeId, 20)
    const slow = await stack.lane(pipeId, [], { batch: 3 })
    slow.destination.react = (_, attempt) => (attempt === 3 ? 'slow' : 'store')
    const later = await stack.lane(pipeId, [process], { batch: 4, startAfterSeq: sent[8]!.seq })
    await untilDone(later.id, sent)
    t.strictSame(later.destination.stored, seqsOf(sent.slice(9)))
    await until('the slow one is at its third', () => slow.destination.waiting === 1)
    sent.push(...(await stack.send(pipeId, 5)))
    await untilDone(later.id, sent)
    const lane = await process.untilLane(slow.id, 'it is behind', (l) => l.pending_messages === 19)
    t.equal(lane.cursor_seq, sent[5]!.seq)
    const backlogs = await process.service.backlogs([pipeId])
    t.match(backlogs[pipeId], { pending_messages: 19, blocked_lanes: 0 }, 'the slowest counts')
    slow.destination.release()
    await untilDone(slow.id, sent)
    t.strictSame(slow.destination.stored, seqsOf(sent))
    for (const { id } of [slow, later]) await countsExactly(t, stack, process, { id, pipeId }, sent)
  })

  await t.test('a pipe without lanes keeps its messages for the first one', async (t) => {
    const pipeId = await stack.pipe(process)
    const sent = await stack.send(pipeId, 5)
    const bytes = sent.reduce((sum, one) => sum + one.bytes, 0)
    const backlogs = await process.service.backlogs([pipeId])
    t.strictSame(backlogs[pipeId], { pending_messages: 5, pending_bytes: bytes, blocked_lanes: 0 })
    const { id, destination } = await stack.lane(pipeId, [process])
    await untilDone(id, sent)
    t.strictSame(destination.stored, seqsOf(sent))
  })

  await t.test('a pipe that is deleted ends its lanes at once, and no other', async (t) => {
    const [pipeId, other] = [await stack.pipe(process), await stack.pipe(process)]
    const { id, destination } = await stack.lane(pipeId, [process])
    const beside = await stack.lane(other, [process])
    destination.react = () => 'slow'
    await stack.send(pipeId, 3)
    await until('an attempt is under way', () => destination.waiting === 1)
    await stack.metadata.pipes.delete({ workspaceId: stack.backEnd.workspaceId, pipeId })
    await process.lanes.refresh(pipeId)
    t.equal(destination.aborts, 1)
    t.equal(process.lanes.lane(id), undefined)
    t.notOk(process.lanes.runs(pipeId))
    t.equal(await stack.metadata.laneStore.load(id), null)
    await stack.send(pipeId, 1)
    const sent = await stack.send(other, 3)
    await untilDone(beside.id, sent)
    t.strictSame(destination.stored, [])
  })
  await t.test('over restarts', async (t) => testRestarts(t, open))
}
