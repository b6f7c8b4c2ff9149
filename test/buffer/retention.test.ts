/** Contract "Buffer and retention": what is dropped, when, and what never is. */
import t, { type Test } from 'tap'
import type { BufferHandle } from '../../src/buffer/segments/open-buffer.ts'
import { type Drop, floorReport, planDrops } from '../../src/buffer/segments/retention.ts'
import type { SegmentFacts } from '../../src/buffer/segments/segment-facts.ts'
import { until } from '../support/until.ts'
import { KiB, MiB, message, newPipeId, type Overrides, openAt, readAll, temporaryDirectory } from './open.ts'

const hourMs = 3_600_000
const limits = { undeliveredHours: 168, deliveredHours: 24, deliveredMaxBytes: 1000 }
const nowMs = 1_000 * hourMs

function segment(firstSeq: number, pipes: Record<string, number>, ageHours = 0, bytes = 100): SegmentFacts {
  const entries = Object.entries(pipes).map(
    ([pipeId, lastSeq]) => [pipeId, { lastSeq, messages: 1 }] as const,
  )
  const lastClockMs = nowMs - ageHours * hourMs
  return {
    firstSeq,
    bytes,
    messages: entries.length,
    firstReceivedMs: 0,
    lastClockMs,
    pipes: new Map(entries),
  }
}

const plan = (
  segments: SegmentFacts[],
  floors: Record<string, number> | null,
  neededBytes = 0,
  asOfSeq = 1_000,
) =>
  planDrops(
    segments,
    floors === null
      ? null
      : floorReport(
          asOfSeq,
          Object.entries(floors).map(([pipeId, seq]) => ({ pipeId, seq })),
        ),
    limits,
    nowMs,
    neededBytes,
  ).map(({ firstSeq, reason }: Drop) => `${firstSeq} ${reason}`)

t.test('the plan', async (t) => {
  const old = segment(1, { a: 9 }, 169)
  t.same(plan([old], null, 1e9), [], 'nothing before the first report')
  t.same(plan([old, segment(10, { a: 19 }, 167)], { a: 0 }), ['1 age'], 'undelivered: 168 h')
  t.same(plan([segment(1, { a: 9 }, 25)], { a: 9 }), ['1 delivered_age'], 'delivered: 24 h')
  t.same(plan([segment(1, { a: 9 }, 25)], { a: 8 }), [], 'its last message is not delivered')
  t.same(plan([segment(1, { a: 9, b: 7 }, 25)], { a: 9, b: 6 }), [], 'every pipe counts')
  t.same(plan([segment(1, { a: 9 }, 25)], { a: 0 }), [], 'a pipe without lanes waits for one')
  t.same(plan([segment(1, { a: 9 }, 25)], {}), ['1 delivered_age'], 'a deleted pipe does not')
  t.same(plan([segment(1, { a: 9 }, 25)], {}, 0, 8), [], 'a pipe made after the report is not deleted')
  const history = [1, 10, 20, 30].map((firstSeq) => segment(firstSeq, { a: firstSeq + 5 }, 1, 400))
  t.same(
    plan(history, { a: 100 }),
    ['1 delivered_size', '10 delivered_size'],
    'delivered history: oldest first',
  )
  t.same(plan(history.slice(2), { a: 100 }), [], 'within the limit')
  t.same(plan(history.slice(2), { a: 100 }, 300), ['20 space'], 'only as much as is needed')
  t.same(plan(history.slice(2), { a: 24 }, 1e9), [], 'undelivered messages are never dropped for space')
  const blocked = [segment(1, { a: 5 }, 30), segment(10, { b: 15 }, 30), segment(20, { a: 25, b: 26 }, 30)]
  t.same(plan(blocked, { a: 0, b: 30 }), ['10 delivered_age'], 'a blocked lane keeps only its own segments')
  const jumped = [segment(1, { a: 5 }, 1), segment(10, { a: 15 }, 200)]
  t.same(plan(jumped, { a: 0 }), [], 'by age only from the oldest end')
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
  feed.reportFloors(handle.appender.headSeq, [{ pipeId, seq: 0 }])
  await until('everything is dropped', async () => (await reader.floor(pipeId)).seq === head.seq)
  await until('lanes are told', () => told > 0)
  t.same(await reader.floor(pipeId), head, 'the floor counts what was dropped')
  t.same(await reader.positionAt(pipeId, 5), head, 'a position is clamped to what is kept')
  t.same(await reader.head(pipeId), head)
  t.same(await readAll(reader, pipeId), [])
  t.equal(await reader.cursorAtTime(pipeId, 0), head.seq)
  const { seq } = await handle.appender.append(message(pipeId, 'next'))
  t.equal(seq, head.seq + 1)
  t.equal((await reader.head(pipeId)).messages, 61)
})

t.test('delivered history over its size goes, oldest first; undelivered messages stay', async (t) => {
  const pipeId = newPipeId()
  const { handle, reader, feed } = await filled(t, { deliveredMaxBytes: 200 * KiB }, [pipeId], 150)
  const cursor = 100
  feed.reportFloors(handle.appender.headSeq, [{ pipeId, seq: cursor }])
  await until('history is dropped', async () => (await reader.floor(pipeId)).seq > 0)
  const floor = await reader.floor(pipeId)
  t.ok(floor.seq < cursor, `some history is kept for rewind (floor ${floor.seq})`)
  const kept = await readAll(reader, pipeId)
  t.equal(kept.length, 150 - floor.messages)
  t.equal(kept.at(-1)?.seq, 150)
})

t.test(
  'a lane that stands still keeps its own messages while others go; the hole shows in the floor',
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
    const head = handle.appender.headSeq
    feed.reportFloors(head, [
      { pipeId: still, seq: 0 },
      { pipeId: moving, seq: head },
    ])
    await until('the others are dropped', async () => (await reader.floor(moving)).seq === head)
    t.equal((await readAll(reader, still)).length, 10)
    t.equal((await reader.floor(still)).messages, 0)
    t.same((await reader.positionAt(moving, 5)).seq, head, 'what lies before the hole counts as gone')
  },
)

t.test('messages of a deleted pipe go, those of a pipe without lanes stay', async (t) => {
  for (const isDeleted of [true, false]) {
    const pipeId = newPipeId()
    const { handle, reader, feed } = await filled(t, { deliveredMaxBytes: 0 }, [pipeId], 40)
    feed.reportFloors(handle.appender.headSeq, isDeleted ? [] : [{ pipeId, seq: 0 }])
    if (isDeleted) await until('they are dropped', async () => (await readAll(reader, pipeId)).length === 0)
    else {
      await until('retention has looked', hasLooked(handle))
      t.equal((await readAll(reader, pipeId)).length, 40)
    }
  }
})

/** A new status comes with every look at retention; the second one has seen the report. */
function hasLooked(handle: BufferHandle): () => boolean {
  const seen = new Set([handle.status()])
  return () => seen.add(handle.status()).size > 2
}

t.test(
  'over buffer.max_bytes delivered history goes first, then appends are refused, and taken again by itself',
  async (t) => {
    const pipeId = newPipeId()
    const { handle, reader, feed } = await openAt(t, temporaryDirectory(t), { ...small, maxBytes: 2 * MiB })
    const { appender } = handle
    feed.reportFloors(0, [{ pipeId, seq: 0 }])
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
    const { seq: first, messages: accepted } = await reader.head(pipeId)
    t.ok(accepted > 200, `${accepted} messages of 4 KiB in 2 MiB`)
    t.equal((await readAll(reader, pipeId)).length, accepted, 'nothing undelivered is dropped for space')
    t.equal(first, appender.headSeq, 'what was refused left nothing')
    await until('main knows', () => handle.status().refusing === 'over_quota')
    t.ok(handle.status().bytes < 3 * MiB, `${handle.status().bytes} bytes on disk`)

    feed.reportFloors(first, [{ pipeId, seq: Math.floor(first / 2) }])
    await until('there is room again', () => handle.status().refusing === null, { timeoutMs: 5_000 })
    await appender.append(message(pipeId, 'taken again'))
    const floor = await until('delivered history went', async () => (await reader.floor(pipeId)).seq)
    t.ok(floor <= first / 2, 'and nothing else')
  },
)
