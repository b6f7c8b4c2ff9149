/** docs/dev/contract.md#buffer-and-retention: what is dropped, when, and what never is. */
import t, { type Test } from 'tap'
import type { OpenBuffer } from '../../../src/log/buffer.ts'
import { LowWatermarks, planReclaim } from '../../../src/log/segments/retention.ts'
import type { SegmentFacts } from '../../../src/log/segments/segment-facts.ts'
import { until } from '../../support/until.ts'
import {
  countOf,
  KiB,
  MiB,
  message,
  newPipeId,
  type Overrides,
  openAt,
  readAll,
  temporaryDirectory,
  watermark,
} from './open.ts'

const hourMs = 3_600_000
const limits = { undeliveredHours: 168, deliveredHours: 24, deliveredMaxBytes: 1000 }
const nowMs = 1_000 * hourMs

/** Each pipe has one message here, or as many bytes in ten messages as it says. */
function segment(
  firstSeq: number,
  pipes: Record<string, number | { lastSeq: number; bytes: number }>,
  ageHours = 0,
  bytes = 100,
): SegmentFacts {
  const entries = Object.entries(pipes).map(([pipeId, pipe]) => {
    const facts =
      typeof pipe === 'number' ? { lastSeq: pipe, bytes: 10, messages: 1 } : { ...pipe, messages: 10 }
    return [pipeId, { baseSeq: firstSeq - 1, ...facts }] as const
  })
  const lastClockMs = nowMs - ageHours * hourMs
  const lastSeq = Math.max(...entries.map(([, facts]) => facts.lastSeq))
  const known = { identity: null, lastSeq, bytes, firstReceivedMs: 0, lastClockMs }
  return { firstSeq, generation: 0, ...known, pipes: new Map(entries) }
}

function plan(
  segments: SegmentFacts[],
  reported: Record<string, number> | null,
  { neededBytes = 0, deleted = [] as string[], lookUp = (_: SegmentFacts) => {} } = {},
): string[] {
  const watermarks = new LowWatermarks()
  if (reported !== null) watermarks.report(Object.entries(reported).map(([id, seq]) => watermark(id, seq)))
  for (const pipeId of deleted) watermarks.pipeDeleted(pipeId)
  const state = { segments, watermarks, clockMs: nowMs, neededBytes, lookUp }
  return planReclaim(state, limits).map(({ kind, firstSeq, reason }) =>
    kind === 'drop' ? `${firstSeq} ${reason}` : `${firstSeq} ${reason} (compacted)`,
  )
}

t.test('a deleted pipe is forgotten with the second segment that begins without it', async (t) => {
  const watermarks = new LowWatermarks()
  watermarks.report([watermark('here', 5)])
  for (const pipeId of ['gone', 'kept']) watermarks.pipeDeleted(pipeId)
  const isInLog = (pipeId: string) => pipeId === 'kept'
  watermarks.forgetDeleted(isInLog)
  t.ok(watermarks.isDeleted('gone'), 'an append of it may be under way')
  watermarks.forgetDeleted(isInLog)
  t.notOk(watermarks.isDeleted('gone'))
  t.ok(watermarks.isDeleted('kept'), 'its messages may go because of it')
  t.equal(watermarks.of('here'), 5)
})

t.test('the plan', async (t) => {
  const old = segment(1, { a: 9 }, 169)
  t.same(plan([old], null, { neededBytes: 1e9 }), [], 'nothing before the first report')
  t.same(plan([old, segment(10, { a: 19 }, 167)], { a: 0 }), ['1 age'], 'undelivered: 168 h')
  t.same(plan([segment(1, { a: 9 }, 25)], { a: 9 }), ['1 delivered_age'], 'delivered: 24 h')
  t.same(plan([segment(1, { a: 9 }, 25)], { a: 8 }), [], 'its last message is not delivered')
  t.same(plan([segment(1, { a: 9, b: 7 }, 25)], { a: 9, b: 6 }), [], 'every pipe counts')
  t.same(plan([segment(1, { a: 9 }, 25)], { a: 0 }), [], 'a pipe without lanes waits for one')
  t.same(plan([segment(1, { a: 9 }, 25)], {}), [], 'a pipe that nobody reported is unknown, not deleted')
  t.same(plan([segment(1, { a: 9 }, 25)], {}, { deleted: ['a'] }), ['1 delivered_age'], 'a deleted one')
  t.same(plan([segment(1, { a: 9 }, 25)], { a: 0 }, { deleted: ['a'] }), ['1 delivered_age'], 'for good')
  const history = [1, 10, 20, 30].map((firstSeq) => segment(firstSeq, { a: firstSeq + 5 }, 1, 400))
  t.same(
    plan(history, { a: 100 }),
    ['1 delivered_size', '10 delivered_size'],
    'delivered history: oldest first',
  )
  t.same(plan(history.slice(2), { a: 100 }), [], 'within the limit')
  t.same(plan(history.slice(2), { a: 100 }, { neededBytes: 300 }), ['20 space'], 'only as much as is needed')
  t.same(
    plan(history.slice(2), { a: 24 }, { neededBytes: 1e9 }),
    [],
    'undelivered messages are never dropped for space',
  )
  const blocked = [segment(1, { a: 5 }, 30), segment(10, { b: 15 }, 30), segment(20, { a: 25, b: 26 }, 30)]
  t.same(plan(blocked, { a: 0, b: 30 }), ['10 delivered_age'], 'a blocked lane keeps only its own segments')
  const jumped = [segment(1, { a: 5 }, 1), segment(10, { a: 15 }, 200)]
  t.same(plan(jumped, { a: 0 }), [], 'by age only from the oldest end')
})

t.test('the plan: a segment that is mostly delivered is compacted, for the same reasons', async (t) => {
  const MB = 1_000_000
  const mixed = (ageHours: number, live = 1_000) =>
    segment(1, { idle: { lastSeq: 90, bytes: live }, busy: { lastSeq: 99, bytes: MB } }, ageHours, MB + live)
  const lanes = { idle: 0, busy: 99 }
  t.same(plan([mixed(25)], lanes), ['1 delivered_age (compacted)'])
  t.same(
    plan([mixed(1)], lanes),
    ['1 delivered_size (compacted)'],
    'it is history, and there is too much of it',
  )
  t.same(plan([mixed(25)], null), [], 'nothing before the first report')
  t.same(plan([mixed(25)], { idle: 0, busy: 0 }), [], 'nothing is delivered')
  t.same(plan([mixed(25, MB * 2)], lanes), [], 'more than half of it is needed')
  t.same(plan([mixed(25)], { idle: 90, busy: 99 }), ['1 delivered_age'], 'all of it is delivered: dropped')
  const small = segment(
    1,
    { idle: { lastSeq: 90, bytes: 10 }, busy: { lastSeq: 99, bytes: 60_000 } },
    25,
    60_010,
  )
  t.same(plan([small], lanes), [], 'too little to be worth it')
  let lookedUp = 0
  const lookUp = ({ pipes }: SegmentFacts) => {
    lookedUp += 1
    pipes.get('busy')!.delivered = { throughSeq: 60, messages: 9, bytes: 0.9 * MB }
  }
  t.same(plan([mixed(25)], { idle: 0, busy: 60 }, { lookUp }), ['1 delivered_age (compacted)'])
  t.equal(lookedUp, 1, 'a watermark within the segment is looked up where the decision depends on it')
  t.same(plan([mixed(25, MB * 2)], { idle: 0, busy: 60 }, { lookUp }), [])
  t.equal(lookedUp, 1, 'and only there')
})

const small = { segmentMaxBytes: 64 * KiB }
const block = 'x'.repeat(4 * KiB)

async function filled(t: Test, overrides: Overrides, pipes: string[], count: number) {
  const opened = await openAt(t, temporaryDirectory(t), { ...small, ...overrides })
  for (let n = 0; n < count; n += 1)
    await opened.handle.appender.append(message(pipes[n % pipes.length]!, block))
  return opened
}

t.test('old undelivered messages are dropped, lanes are told, and totals still count them', async (t) => {
  const pipeId = newPipeId()
  const { handle, reader, feed } = await filled(t, { undeliveredHours: 0.5 / 3600 }, [pipeId], 60)
  let told = 0
  feed.onDropped(() => {
    told += 1
  })
  const head = await reader.head(pipeId)
  feed.reportLowWatermarks([watermark(pipeId, 0)])
  await until('everything is dropped', async () => (await reader.earliest(pipeId)).seq === head.seq)
  await until('lanes are told', () => told > 0)
  t.same(await reader.earliest(pipeId), head, 'what was dropped lies before the earliest')
  t.same(await reader.cursorAt(pipeId, 5), head, 'a cursor is clamped to what is kept')
  t.same(await reader.head(pipeId), head)
  t.same(await readAll(reader, pipeId), [])
  t.equal(await reader.cursorAtTime(pipeId, 0), head.seq)
  const { seq } = await handle.appender.append(message(pipeId, 'next'))
  t.equal(seq, head.seq + 1)
  t.equal((await countOf(reader, pipeId)).messages, 61)
})

t.test('delivered history over its size goes, oldest first; undelivered messages stay', async (t) => {
  const pipeId = newPipeId()
  const { reader, feed } = await filled(t, { deliveredMaxBytes: 200 * KiB }, [pipeId], 150)
  const cursor = 100
  feed.reportLowWatermarks([watermark(pipeId, cursor)])
  await until('history is dropped', async () => (await reader.earliest(pipeId)).seq > 0)
  const earliest = await reader.earliest(pipeId)
  t.ok(earliest.seq < cursor, `some history is kept for rewind (from ${earliest.seq})`)
  const kept = await readAll(reader, pipeId)
  t.equal(kept.length, 150 - (await countOf(reader, pipeId, earliest.seq)).messages)
  t.equal(kept.at(-1)?.seq, 150)
})

t.test(
  'a lane that stands still keeps its own messages while others go; the hole shows in earliest',
  async (t) => {
    const [still, moving] = [newPipeId(), newPipeId()]
    const opened = await openAt(t, temporaryDirectory(t), { ...small, deliveredMaxBytes: 0 })
    const { handle, reader, feed } = opened
    const append = async (pipeId: string, count: number) => {
      for (let n = 0; n < count; n += 1) await handle.appender.append(message(pipeId, block))
    }
    await append(moving, 10)
    await append(still, 10)
    await append(moving, 60)
    const head = await handle.headSeq()
    feed.reportLowWatermarks([watermark(still, 0), watermark(moving, head)])
    await until('the others are dropped', async () => (await reader.earliest(moving)).seq === head)
    t.equal((await readAll(reader, still)).length, 10)
    t.equal((await reader.earliest(still)).seq, 0)
    t.same((await reader.cursorAt(moving, 5)).seq, head, 'what lies before the hole counts as gone')
  },
)

t.test('messages of a deleted pipe go, those of a pipe without lanes stay', async (t) => {
  for (const isDeleted of [true, false]) {
    const pipeId = newPipeId()
    const { handle, reader, feed } = await filled(t, { deliveredMaxBytes: 0 }, [pipeId], 40)
    feed.reportLowWatermarks([watermark(pipeId, 0)])
    if (isDeleted) feed.pipeDeleted(pipeId)
    if (isDeleted) await until('they are dropped', async () => (await readAll(reader, pipeId)).length === 0)
    else {
      await until('retention has looked', await hasLooked(handle))
      t.equal((await readAll(reader, pipeId)).length, 40)
    }
  }
})

/** A new status comes with every look at retention; the second one has seen the report. */
async function hasLooked(handle: OpenBuffer): Promise<() => Promise<boolean>> {
  const seen = new Set([await handle.status()])
  return async () => seen.add(await handle.status()).size > 2
}

t.test(
  'over buffer.max_bytes delivered history goes first, then appends are rejected, and taken again by itself',
  async (t) => {
    const pipeId = newPipeId()
    const { handle, reader, feed } = await openAt(t, temporaryDirectory(t), { ...small, maxBytes: 2 * MiB })
    const { appender } = handle
    feed.reportLowWatermarks([watermark(pipeId, 0)])
    const fillUp = async () => {
      for (let n = 0; n < 2_000; n += 1) {
        try {
          await appender.append(message(pipeId, block))
        } catch (error) {
          t.match(error, { name: 'BufferUnavailableError', reason: 'over_quota' })
          return
        }
      }
      t.fail('never refused')
    }
    await fillUp()
    const { seq: first } = await reader.head(pipeId)
    const { messages: accepted } = await countOf(reader, pipeId)
    t.ok(accepted > 200, `${accepted} messages of 4 KiB in 2 MiB`)
    t.equal((await readAll(reader, pipeId)).length, accepted, 'nothing undelivered is dropped for space')
    t.equal(first, await handle.headSeq(), 'what was refused left nothing')
    await until('main knows', async () => (await handle.status()).unavailableReason === 'over_quota')
    t.ok((await handle.status()).bytes < 3 * MiB, `${(await handle.status()).bytes} bytes on disk`)

    feed.reportLowWatermarks([watermark(pipeId, Math.floor(first / 2))])
    await until('there is room again', async () => (await handle.status()).unavailableReason === null, {
      timeoutMs: 5_000,
    })
    await appender.append(message(pipeId, 'taken again'))
    const earliest = await until('delivered history went', async () => (await reader.earliest(pipeId)).seq)
    t.ok(earliest <= first / 2, 'and nothing else')
  },
)
