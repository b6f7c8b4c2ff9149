/** docs/dev/contract.md#buffer-and-retention: messages of a pipe with a limit of its own, beside pipes without one. */
import { cpSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { listSegments } from '../../../src/log/segments/layout.ts'
import { openSegmentLog } from '../../../src/log/segments/open-segment-log.ts'
import { LowWatermarks, planReclaim } from '../../../src/log/segments/retention.ts'
import type { SegmentFacts } from '../../../src/log/segments/segment-facts.ts'
import { moveBufferClock } from '../../support/buffer-clock.ts'
import { until } from '../../support/until.ts'
import {
  countOf,
  idempotent,
  KiB,
  message,
  newPipeId,
  type Overrides,
  openAt,
  readAll,
  specAt,
  temporaryDirectory,
  textsOf,
  watermark,
} from './open.ts'

const silent = pino({ level: 'silent' })
const hourMs = 3_600_000
const nowMs = 10_000 * hourMs
const limits = { undeliveredHours: 168, deliveredHours: 24, deliveredMaxBytes: 1e9 }

/** Each pipe has ten messages of 100,000 bytes in it. */
function segment(firstSeq: number, pipes: string[], ageHours: number, generation = 0): SegmentFacts {
  const facts = { baseSeq: firstSeq - 1, lastSeq: firstSeq + 8, messages: 10, bytes: 100_000 }
  return {
    ...{ firstSeq, generation, identity: null, lastSeq: firstSeq + 8, bytes: pipes.length * 100_000 },
    ...{ firstReceivedMs: 0, lastClockMs: nowMs - ageHours * hourMs },
    pipes: new Map(pipes.map((pipeId) => [pipeId, { ...facts }])),
  }
}

/** By pipe: how far it is delivered, and its limit. */
type Reported = Record<string, [seq: number, retentionHours: number | null]>

function plan(
  segments: SegmentFacts[],
  reported: Reported,
  { deleted = [] as string[], neededBytes = 0 } = {},
) {
  const watermarks = new LowWatermarks()
  watermarks.report(Object.entries(reported).map(([id, [seq, hours]]) => watermark(id, seq, hours)))
  for (const pipeId of deleted) watermarks.pipeDeleted(pipeId)
  const state = { segments, watermarks, clockMs: nowMs, neededBytes, lookUp: () => {} }
  return planReclaim(state, limits)
}

function texts(segments: SegmentFacts[], reported: Reported, more = {}): string[] {
  return plan(segments, reported, more).map(({ kind, firstSeq, reason }) => `${kind} ${firstSeq} ${reason}`)
}

t.test('the plan: what is older than the limit of its pipe leaves, and nothing else', async (t) => {
  const both = segment(1, ['short', 'long'], 1.1)
  t.same(texts([both], { short: [0, 1], long: [0, null] }), ['compact 1 pipe_age'], 'undelivered as well')
  t.same(
    texts([both], { short: [9, 1], long: [9, null] }),
    ['compact 1 pipe_age'],
    'delivered, 24 h for others',
  )
  t.same(texts([both], { short: [0, 2], long: [0, null] }), [], 'not yet')
  t.same(texts([both], { long: [0, null] }), [], 'a pipe that nobody reported')
  t.same(texts([segment(1, ['short'], 1.1)], { short: [0, 1] }), ['drop 1 pipe_age'], 'nothing else is in it')
  t.same(texts([both], { short: [0, 1], long: [0, 1] }), ['drop 1 pipe_age'])
  t.same(
    texts([both], { short: [0, 1], long: [0, null] }, { deleted: ['long'] }),
    ['drop 1 pipe_age'],
    'a deleted pipe keeps nothing',
  )
  t.same(texts([both], { short: [0, 1] }, { deleted: ['short'] }), [], 'a deleted pipe has no limit')
  const [reclaim] = plan([both], { short: [0, 1], long: [9, null] })
  t.equal(reclaim!.removedThrough('short'), 9)
  t.equal(reclaim!.removedThrough('long'), 0, 'delivered history of other pipes is kept')
  t.equal(reclaim!.removedThrough('neither'), 0)
  t.ok(reclaim!.bytes > 90_000 && reclaim!.bytes < 110_000, 'about half of it becomes free')
})

t.test('the plan: limits of pipes beside those of the buffer', async (t) => {
  const both = (ageHours: number) => segment(1, ['short', 'long'], ageHours)
  t.same(
    texts([both(25)], { short: [0, 25], long: [9, null] }),
    ['drop 1 delivered_age'],
    'one delivered, one old',
  )
  t.same(
    texts([both(25)], { short: [9, 200], long: [9, null] }),
    ['drop 1 delivered_age'],
    'no limit keeps more',
  )
  t.same(texts([both(169)], { short: [0, 100], long: [0, null] }), ['drop 1 age'])
  t.same(texts([both(1.1)], { short: [0, 1], long: [9, null] }, { neededBytes: 1 }), ['drop 1 space'])
})

t.test('the plan: messages leave from the oldest end of their pipe', async (t) => {
  const reported: Reported = { short: [0, 1], long: [0, null] }
  const jumped = [segment(1, ['short', 'long'], 0.5), segment(11, ['short', 'long'], 5)]
  t.same(texts(jumped, reported), [], 'a wrong time makes no gap')
  const apart = [segment(1, ['long'], 0.5), segment(11, ['short', 'long'], 5)]
  t.same(texts(apart, reported), ['compact 11 pipe_age'])
})

t.test('a segment is rewritten 8 times at once, and then once per day of its age', async (t) => {
  const pipes = Array.from({ length: 168 }, (_, index) => `p${index + 1}`)
  const reported = Object.fromEntries(pipes.map((id, index) => [id, [0, index + 1]])) as Reported
  let current = segment(1, [...pipes, 'long'], 0)
  let rewrites = 0
  const late: number[] = []
  for (let ageHours = 0; ageHours <= 168; ageHours += 0.5) {
    current = { ...current, lastClockMs: nowMs - ageHours * hourMs }
    const [reclaim] = plan([current], reported)
    if (reclaim === undefined) continue
    rewrites += 1
    for (const pipeId of reclaim.expired) late.push(ageHours - (reported[pipeId]?.[1] ?? 0))
    const rest = [...current.pipes].filter(
      ([pipeId, { lastSeq }]) => reclaim.removedThrough(pipeId) < lastSeq,
    )
    current = { ...current, generation: current.generation + 1, pipes: new Map(rest) }
  }
  t.same([...current.pipes.keys()], ['long'])
  t.equal(rewrites, 8 + 7)
  t.ok(Math.max(...late) < 24, `at most ${Math.max(...late)} hours later`)
  t.same(late.slice(0, 8), Array(8).fill(0))
})

const block = 'x'.repeat(4 * KiB)
/** The limit, in hours, of a pipe whose messages leave at once. */
const atOnce = 1e-9

/** Messages of two pipes in several segments. */
async function mixed(t: Test, root: string, overrides: Overrides = {}) {
  const [short, long] = [newPipeId(), newPipeId()]
  const opened = await openAt(t, root, { segmentMaxBytes: 64 * KiB, ...overrides })
  const texts = { short: [] as string[], long: [] as string[] }
  for (let n = 0; n < 60; n += 1) {
    const [pipeId, all] = n % 3 === 0 ? [short, texts.short] : [long, texts.long]
    all.push(`${n} ${block}`)
    const key = n % 6 === 0 ? idempotent(`key ${n}`) : {}
    await opened.handle.appender.append(message(pipeId, all.at(-1)!, { recordCount: 2, ...key }))
  }
  return { ...opened, short, long, texts }
}

t.test(
  'the messages of one pipe leave, all others stay, and totals, keys and heads are as before',
  async (t) => {
    const root = temporaryDirectory(t)
    const { handle, reader, feed, short, long, texts, close } = await mixed(t, root)
    const counts = [await countOf(reader, short), await countOf(reader, long)]
    const heads = [await reader.head(short), await reader.head(long)]
    let dropped = 0
    feed.onDropped(() => {
      dropped += 1
    })
    feed.reportLowWatermarks([watermark(short, 0, atOnce), watermark(long, 0)])
    await until('only the segment being written has messages of it', async () => {
      return (await readAll(reader, short)).length < 6
    })
    t.ok(dropped > 0, 'lanes are told')
    const check = async ({ reader: from }: Pick<typeof opened, 'reader'>) => {
      t.same(textsOf(await readAll(from, long)), texts.long)
      t.equal((await from.earliest(long)).seq, 0)
      const { left, before } = await until('nothing leaves meanwhile', async () => {
        const { seq } = await from.earliest(short)
        const kept = textsOf(await readAll(from, short, seq))
        const gone = await from.backlog(short, await from.head(newPipeId()), seq)
        return (await from.earliest(short)).seq === seq ? { left: kept, before: gone } : null
      })
      t.same(left, texts.short.slice(texts.short.length - left.length))
      t.equal(
        before.messages + left.length,
        texts.short.length,
        'each message is kept, or before the earliest',
      )
      t.same([await from.head(short), await from.head(long)], heads)
      t.same([await countOf(from, short), await countOf(from, long)], counts)
      const { lost } = await from.read(short, 0, { maxRecords: 1, maxBytes: 1, afterMark: heads[0]!.mark })
      t.same(lost, [], 'a cursor at the head has lost nothing')
    }
    const opened = { reader, handle }
    await check(opened)
    const repeated = await handle.appender.append(message(short, 'x', idempotent('key 0')))
    t.equal(repeated.repeated, true, 'keys outlive their messages')
    await close()
    const again = await openAt(t, root)
    await check(again)
    t.equal((await again.handle.status()).missingAcknowledged, 0)
    const next = await again.handle.appender.append(message(short, 'next'))
    t.ok(next.seq > heads[0]!.seq)
    t.same(textsOf(await readAll(again.reader, short, heads[0]!.seq)), ['next'])
  },
)

t.test('a lane before removed messages sees a gap with its count, as after a dropped segment', async (t) => {
  const root = temporaryDirectory(t)
  const { reader, feed, short, long, texts } = await mixed(t, root)
  const [first] = await readAll(reader, short)
  const cursor = await reader.cursorAt(short, first!.seq)
  feed.reportLowWatermarks([watermark(short, 0, atOnce), watermark(long, 0)])
  await until('the first segments are rewritten', async () => (await reader.earliest(short)).seq > 30)
  const earliest = await reader.earliest(short)
  const gone = await reader.backlog(short, cursor, earliest.seq)
  t.ok(gone.messages > 5)
  t.equal(gone.records, gone.messages * 2)
  const run = await reader.read(short, cursor.seq, { maxRecords: 1e6, maxBytes: 1e9, afterMark: cursor.mark })
  t.ok(run.lost.length > 0, 'a read across the gap reports it')
  t.equal(run.messages.length, 0)
  t.equal((await reader.cursorAt(short, cursor.seq)).seq, earliest.seq, 'a cursor is clamped to what is kept')
  t.equal(textsOf(await readAll(reader, long)).length, texts.long.length)
})

t.test('a limit that is removed, or larger, keeps what is left', async (t) => {
  const root = temporaryDirectory(t)
  const { handle, reader, feed, short, long } = await mixed(t, root)
  feed.reportLowWatermarks([watermark(short, 0, 1), watermark(long, 0)])
  feed.reportLowWatermarks([watermark(short, 0), watermark(long, 0, 1)])
  const seen = new Set([await handle.status()])
  await until('retention has looked twice', async () => seen.add(await handle.status()).size > 2)
  t.equal((await readAll(reader, short)).length, 20)
  t.equal((await readAll(reader, long)).length, 40)
})

t.test('the age is that of the clock of the buffer, over all its runs', async (t) => {
  const root = temporaryDirectory(t)
  const { short, long, close } = await mixed(t, root)
  await close()
  moveBufferClock(specAt(root).dir, 59 * 60_000)
  const early = await openAt(t, root)
  const report = (from: typeof early) =>
    from.feed.reportLowWatermarks([watermark(short, 0, 1), watermark(long, 0)])
  report(early)
  const seen = new Set([await early.handle.status()])
  await until('retention has looked', async () => seen.add(await early.handle.status()).size > 2)
  t.equal((await readAll(early.reader, short)).length, 20)
  await early.close()
  moveBufferClock(specAt(root).dir, 2 * 60_000)
  const late = await openAt(t, root)
  report(late)
  await until('it is an hour', async () => (await readAll(late.reader, short)).length < 6)
  t.equal((await readAll(late.reader, long)).length, 40)
})

t.test('whatever step of the rewrite a crash follows, nothing of another pipe is lost', async (t) => {
  const source = temporaryDirectory(t)
  const scene = await mixed(t, source)
  await scene.close()
  const states = temporaryDirectory(t)
  let count = 0
  const snapshot = (name: string) => {
    count += 1
    cpSync(specAt(source).dir, specAt(path.join(states, `${count} ${name}`)).dir, { recursive: true })
  }
  const log = openSegmentLog(specAt(source), silent)
  const [first] = log.facts()
  const through = first!.pipes.get(scene.short)!.lastSeq
  const compaction = log.startCompaction(first!.firstSeq, (pipeId) => (pipeId === scene.short ? through : 0))
  snapshot('begun')
  while (!compaction.step()) snapshot('a slice')
  snapshot('complete')
  compaction.swap()
  snapshot('renamed')
  log.close(0)
  openSegmentLog(specAt(source), silent).close(0)
  snapshot('the old one is removed')
  for (const state of readdirSync(states))
    await t.test(state, async (t) => {
      const root = path.join(states, state)
      const { reader, feed, handle } = await openAt(t, root)
      t.same(textsOf(await readAll(reader, scene.long)), scene.texts.long)
      const earliest = await reader.earliest(scene.short)
      t.ok(earliest.seq === 0 || earliest.seq === through, 'all of it, or nothing')
      const left = textsOf(await readAll(reader, scene.short, earliest.seq))
      t.same(left, scene.texts.short.slice(scene.texts.short.length - left.length))
      t.equal((await handle.status()).missingAcknowledged, 0)
      feed.reportLowWatermarks([watermark(scene.short, 0, atOnce), watermark(scene.long, 0)])
      await until(
        'the next run removes the rest',
        async () => (await readAll(reader, scene.short)).length < 6,
      )
      t.same(textsOf(await readAll(reader, scene.long)), scene.texts.long)
      const generations = listSegments(specAt(root).dir).map(({ generation }) => generation)
      t.ok(Math.max(...generations) >= 1)
    })
})

t.test('without space for the copy of a segment, the rewrite waits', async (t) => {
  const root = temporaryDirectory(t)
  const { handle, reader, feed, short, long, close } = await mixed(t, root)
  const { freeBytes } = await handle.status()
  await close()
  const tight = await openAt(t, root, { minFreeBytes: freeBytes + 1e12 })
  tight.feed.reportLowWatermarks([watermark(short, 0, atOnce), watermark(long, 0)])
  const seen = new Set([await tight.handle.status()])
  await until('retention has looked', async () => seen.add(await tight.handle.status()).size > 2)
  t.equal((await readAll(tight.reader, short)).length, 20)
  feed.close()
  await reader.close()
})
