/** docs/dev/contract.md#fair-share-of-the-buffer: an idle pipe does not keep the space of what others have delivered. */
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { Frame } from '../../../src/log/frame.ts'
import { appendToFrame, openFrame } from '../../../src/log/frame.ts'
import { type BufferWriter, openBufferWriter } from '../../../src/log/segments/buffer-writer.ts'
import { Compaction } from '../../../src/log/segments/compaction.ts'
import { fileBytes, listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { openSegmentLog } from '../../../src/log/segments/open-segment-log.ts'
import { SegmentLog } from '../../../src/log/segments/segment-log.ts'
import { until } from '../../support/until.ts'
import { findAll, runUntilDead } from './crash-run.ts'
import {
  countOf,
  idempotent,
  KiB,
  MiB,
  message,
  newPipeId,
  openAt,
  readAll,
  specAt,
  temporaryDirectory,
  textsOf,
  watermark,
} from './open.ts'

const silent = pino({ level: 'silent' })
const block = 'x'.repeat(4 * KiB)
const tight = { maxBytes: 6 * MiB, segmentMaxBytes: 256 * KiB }

t.test(
  'with an idle pipe in the buffer, 200 MB of another pass through 6 MiB and no append is rejected',
  async (t) => {
    const [idle, busy] = [newPipeId(), newPipeId()]
    const { handle, reader, feed } = await openAt(t, temporaryDirectory(t), tight)
    const kept: string[] = []
    for (let n = 0; n < 5; n += 1) {
      kept.push(`${n} `.padEnd(KiB, 'i'))
      await handle.appender.append(message(idle, kept[n]!))
    }
    const body = 'x'.repeat(64 * KiB)
    let lastSeq = 0
    const report = () => feed.reportLowWatermarks([watermark(idle, 0), watermark(busy, lastSeq)])
    feed.onReportWanted(report)
    for (let sent = 0; sent < 200_000_000; ) {
      const group = await Promise.all(
        Array.from({ length: 8 }, () => handle.appender.append(message(busy, body))),
      )
      lastSeq = group.at(-1)!.seq
      sent += 8 * body.length
      report()
    }
    t.same(textsOf(await readAll(reader, idle)), kept, 'nothing of the idle pipe is lost')
    t.same(await countOf(reader, idle), { messages: 5, records: 5, bytes: 5 * KiB })
    t.ok((await handle.status()).bytes <= 6 * MiB)
  },
)

t.test('a write waits for a few slices, with a sign of life after each, and is then rejected', async (t) => {
  let steps = 0
  let signs = 0
  const { step } = Compaction.prototype
  t.capture(Compaction.prototype, 'step', function (this: Compaction) {
    steps += 1
    return step.call(this)
  })
  const onSlice = () => {
    signs += 1
    if (signs !== steps) t.fail(`${steps} slices and ${signs} signs of life`)
  }
  const events = { onCommitted() {}, onDropped() {}, onErased() {}, onReportWanted() {}, onSlice }
  const spec = specAt(temporaryDirectory(t), { maxBytes: 40 * MiB, segmentMaxBytes: 32 * MiB })
  const writer = openBufferWriter(spec, silent, events)
  const [idle, busy] = [newPipeId(), newPipeId()]
  const body = 'x'.repeat(56 * KiB)
  let most = 0
  const write = (pipeId: string) => {
    const before = steps
    const result = writer.write(frameOf([[pipeId, body]]))
    most = Math.max(most, steps - before)
    return result
  }
  for (let n = 0; write(n % 5 < 2 ? idle : busy).ok; n += 1) writer.afterCommit()
  t.same(write(busy), { ok: false, reason: 'over_quota' })
  t.equal(steps, 0, 'nothing is delivered')
  writer.reportLowWatermarks([watermark(idle, 0), watermark(busy, writer.headSeq)])
  t.equal(steps, 16)
  t.same(write(busy), { ok: false, reason: 'over_quota' }, 'the compaction has only begun')
  let turns = 0
  for (; !write(busy).ok; turns += 1) {
    writer.rewriteSlice()
    signs = steps
  }
  t.ok(turns > 16, `${turns} turns did the rest`)
  t.ok(most <= 16)
  writer.close()
})

function frameOf(messages: readonly [pipeId: string, text: string][]): Frame {
  const frame = openFrame(64 * KiB)
  for (const [pipeId, text] of messages) appendToFrame(frame, message(pipeId, text))
  return { buffer: frame.buffer.buffer as ArrayBuffer, length: frame.length, count: frame.count }
}

/** The same flow over the writer itself: the reason of the first rejection, null when there was none. */
function passThrough(writer: BufferWriter, megabytes: number): string | null {
  const [idle, busy] = [newPipeId(), newPipeId()]
  const body = 'x'.repeat(32 * KiB)
  writer.write(frameOf([[idle, 'i'.repeat(5 * KiB)]]))
  for (let sent = 0; sent < megabytes * MiB; sent += body.length) {
    const result = writer.write(frameOf([[busy, body]]))
    if (!result.ok) return result.reason
    // One message of the idle pipe in every segment.
    if (sent % (128 * KiB) === 0) writer.write(frameOf([[idle, 'i']]))
    writer.reportLowWatermarks([watermark(idle, 0), watermark(busy, writer.headSeq)])
    writer.afterCommit()
    writer.rewriteSlice()
  }
  return null
}

t.test('negative control: without compaction the same flow is rejected', async (t) => {
  const open = () => {
    const events = { onCommitted() {}, onDropped() {}, onErased() {}, onReportWanted() {}, onSlice() {} }
    return openBufferWriter(specAt(temporaryDirectory(t), tight), pino({ level: 'silent' }), events)
  }
  const writer = open()
  t.equal(passThrough(writer, 20), null)
  writer.close()
  t.intercept(SegmentLog.prototype, 'startCompaction', {
    value: () => {
      throw Object.assign(new Error('compaction is off'), { code: 'ENOSPC' })
    },
  })
  const without = open()
  t.equal(passThrough(without, 20), 'over_quota')
  without.close()
})

/** An idle pipe's messages among those of a busy one in many segments; the busy one is delivered up to `deliveredSeq`. */
async function mixed(t: Test, root: string) {
  const [idle, busy] = [newPipeId(), newPipeId()]
  const opened = await openAt(t, root, { segmentMaxBytes: 128 * KiB, deliveredMaxBytes: 0 })
  const { handle } = opened
  const texts = { idle: [] as string[], busy: [] as string[] }
  const seqs: number[] = []
  for (let n = 0; n < 200; n += 1) {
    if (n % 10 === 0) {
      texts.idle.push(`idle ${n}`)
      await handle.appender.append(message(idle, `idle ${n}`, { recordCount: 2, ...idempotent(`key ${n}`) }))
    }
    texts.busy.push(`${n} ${block}`)
    seqs.push((await handle.appender.append(message(busy, texts.busy[n]!))).seq)
  }
  const delivered = 151
  return { ...opened, idle, busy, texts, delivered, deliveredSeq: seqs[delivered - 1]! }
}

/** The bytes of the files themselves: the status is up to a second old. */
function segmentsBytes(root: string): number {
  const { dir } = specAt(root)
  return listSegments(dir).reduce((sum, name) => sum + fileBytes(segmentFile(dir, name)), 0)
}

const isCompacted = (root: string) => listSegments(specAt(root).dir).some(({ generation }) => generation > 0)

t.test('readers, cursors, marks and counts are right while and after segments are compacted', async (t) => {
  const root = temporaryDirectory(t)
  const { reader, feed, idle, busy, texts, delivered, deliveredSeq, close } = await mixed(t, root)
  const beginning = await reader.head(newPipeId())
  const middle = await reader.cursorAt(busy, Math.floor(deliveredSeq / 2))
  const atDelivered = await reader.cursorAt(busy, deliveredSeq)
  const [idleHead, busyHead] = [await reader.head(idle), await reader.head(busy)]
  const countsBefore = await countOf(reader, busy)
  const wholeBacklog = await reader.backlog(busy, middle)
  const bytesBefore = segmentsBytes(root)
  let dropped = 0
  feed.onDropped(() => {
    dropped += 1
  })
  feed.reportLowWatermarks([watermark(idle, 0), watermark(busy, deliveredSeq)])
  await until('delivered messages are gone', async () => {
    // Every look reads on, from connections that were open before and from files that changed their name.
    const { messages } = await reader.read(idle, 0, { maxRecords: 1e6, maxBytes: 1e9 })
    if (textsOf(messages).join() !== texts.idle.join()) t.fail('the idle pipe lacks a message')
    return (await reader.earliest(busy)).seq > deliveredSeq - 60
  })
  await until('the space is back', () => segmentsBytes(root) < bytesBefore * 0.75)
  t.ok(isCompacted(root))
  t.ok(dropped > 0, 'lanes are notified')

  const check = async (opened: Pick<Awaited<ReturnType<typeof openAt>>, 'reader'>) => {
    const { reader } = opened
    t.same(textsOf(await readAll(reader, idle, 0, 3)), texts.idle)
    const rest = textsOf(await readAll(reader, busy, deliveredSeq))
    t.same(rest, texts.busy.slice(delivered), 'nothing undelivered is gone')
    t.same(await reader.head(idle), idleHead)
    t.same(await reader.head(busy), busyHead)
    t.equal((await reader.earliest(idle)).seq, 0)
    const earliest = await reader.earliest(busy)
    t.ok(earliest.seq > middle.seq && earliest.seq <= deliveredSeq)
    t.same(await reader.cursorAt(busy, middle.seq), earliest, 'a cursor is clamped to what is kept')
    t.same(await reader.cursorAt(busy, deliveredSeq), atDelivered)
    t.same(await reader.backlog(busy, atDelivered), {
      messages: 49,
      records: 49,
      bytes: texts.busy.slice(delivered).join('').length,
    })
    t.same(await reader.backlog(busy, middle), wholeBacklog, 'a mark from before counts what is gone as well')
    t.same(await countOf(reader, busy), countsBefore)
    t.same(await countOf(reader, idle), { messages: 20, records: 40, bytes: texts.idle.join('').length })
    const kept = await readAll(reader, busy, earliest.seq)
    const lost = (await reader.backlog(busy, beginning, earliest.seq)).messages
    t.equal(lost + kept.length, 200, 'every message is either kept or counted as gone')
  }
  await check({ reader })
  await close()
  const again = await openAt(t, root)
  await check(again)
  const repeat = await again.handle.appender.append(message(idle, 'x', idempotent('key 0')))
  t.equal(repeat.repeated, true)
  const next = await again.handle.appender.append(message(busy, 'next'))
  t.ok(next.seq > busyHead.seq)
  t.same(textsOf(await readAll(again.reader, busy, busyHead.seq)), ['next'])
})

t.test('messages of a deleted pipe leave segments that others still need', async (t) => {
  const root = temporaryDirectory(t)
  const { handle, feed, reader, idle, busy, texts } = await mixed(t, root)
  feed.reportLowWatermarks([watermark(idle, 0), watermark(busy, 0)])
  feed.pipeDeleted(busy)
  await until('they are gone, but for the segment being written', async () => {
    return (await readAll(reader, busy)).length < 30
  })
  t.same(textsOf(await readAll(reader, idle)), texts.idle)
  // The tables of each segment and the look-up of keys remain.
  await until('less is used than its bodies alone took', async () => {
    return (await handle.status()).bytes < texts.busy.length * block.length
  })
})

/** Opens what is there, which must be everything undelivered and no leftover. */
async function checkRestart(t: Test, root: string, { idle, busy, texts, delivered, deliveredSeq }: Mixed) {
  const { reader, close } = await openAt(t, root)
  t.same(textsOf(await readAll(reader, idle)), texts.idle)
  t.same(textsOf(await readAll(reader, busy, deliveredSeq)), texts.busy.slice(delivered))
  t.equal((await countOf(reader, busy)).messages, 200)
  await close()
  const { dir } = specAt(root)
  const segments = new Set(listSegments(dir).map((name) => path.basename(segmentFile(dir, name))))
  // Readers leave a -wal and a -shm beside a segment that is there.
  const leftovers = readdirSync(dir).filter((name) => {
    return /^\d|tmp/.test(name) && !segments.has(name.replace(/-(?:wal|shm)$/, ''))
  })
  t.same(leftovers, [], 'one file per segment and nothing else')
}
type Mixed = Awaited<ReturnType<typeof mixed>>

t.test(
  'whatever step of a compaction a crash follows, the next start loses nothing and cleans up',
  async (t) => {
    const source = temporaryDirectory(t)
    const scene = await mixed(t, source)
    await scene.close()
    const { dir } = specAt(source)
    const states = temporaryDirectory(t)
    let count = 0
    const snapshot = (name: string, change = (_dir: string) => {}) => {
      count += 1
      const root = path.join(states, `${count} ${name}`)
      cpSync(dir, specAt(root).dir, { recursive: true })
      change(specAt(root).dir)
    }
    const log = openSegmentLog(specAt(source), silent)
    const [segment] = log.facts()
    const name = { firstSeq: segment!.firstSeq, generation: 0 }
    const old = segmentFile(dir, name)
    const deliveredThrough = (pipeId: string) => (pipeId === scene.busy ? scene.deliveredSeq : 0)
    const compaction: Compaction = log.startCompaction(name.firstSeq, deliveredThrough)
    snapshot('begun')
    snapshot('cut off in the middle of a write', (at) =>
      writeFileSync(path.join(at, 'compacted-segment.tmp'), Buffer.alloc(5_000, 1)),
    )
    compaction.step()
    snapshot('copied')
    while (!compaction.step());
    snapshot('compared')
    compaction.swap()
    snapshot('renamed')
    snapshot('renamed, and the old one has files of readers beside it', (at) => {
      for (const suffix of ['-wal', '-shm']) writeFileSync(segmentFile(at, name) + suffix, '')
    })
    const kept = path.join(states, '..', `${path.basename(states)}-kept.db`)
    cpSync(old, kept)
    t.teardown(() => rmSync(kept))
    log.close(0)
    const reopened = openSegmentLog(specAt(source), silent)
    t.notOk(existsSync(old), 'a start removes the older generation')
    const again = reopened.startCompaction(name.firstSeq, (pipeId) => (pipeId === scene.idle ? 3 : 1e9))
    while (!again.step());
    again.abandon()
    reopened.close(0)
    cpSync(kept, old)
    snapshot('an unlink that a power cut undid')
    for (const state of readdirSync(states)) {
      await t.test(state, async (t) => checkRestart(t, path.join(states, state), scene))
    }
  },
)

t.test('a compaction for which there is no space leaves the segment as it was', async (t) => {
  const root = temporaryDirectory(t)
  const scene = await mixed(t, root)
  await scene.close()
  const log = openSegmentLog(specAt(root), silent)
  const { firstSeq } = log.facts()[0]!
  const compaction = log.startCompaction(firstSeq, () => 0)
  compaction.step()
  compaction.abandon()
  log.close(0)
  await checkRestart(t, root, scene)
})

t.test('kill -9 at any time while segments are compacted: nothing undelivered is lost', async (t) => {
  const root = temporaryDirectory(t)
  mkdirSync(root, { recursive: true })
  const [idle, ...busy] = [newPipeId(), newPipeId(), newPipeId()]
  const settings = { ...tight, segmentMaxBytes: 128 * KiB, deliveredMaxBytes: 0 }
  const acknowledged = []
  let from = 0
  for (let round = 0; round < 4; round += 1) {
    const task = { root, pipes: [idle!, ...busy], undelivered: [idle!], from, bodyBytes: 2 * KiB, settings }
    const run = await runUntilDead({ ...task, delivers: true, inFlight: 8 }, { killAfter: 300 + round * 137 })
    t.equal(run.exit.signal, 'SIGKILL')
    acknowledged.push(...run.acknowledged.filter(({ pipeId }) => pipeId === idle))
    from += 100_000
  }
  const { reader, handle } = await openAt(t, root, settings)
  t.equal(await findAll(reader, acknowledged), acknowledged.length)
  t.equal((await handle.status()).missingAcknowledged, 0)
  t.ok(isCompacted(root), 'segments were compacted')
})
