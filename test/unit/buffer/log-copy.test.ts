/** A copy of the log has the same messages, positions, totals, gaps and keys as its source. */
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { openHighWater, readHighWater } from '../../../src/log/segments/high-water.ts'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { openLogCopy } from '../../../src/log/segments/log-copy.ts'
import { openLogRows } from '../../../src/log/segments/replicated-rows.ts'
import {
  answersOf,
  append,
  copyAll,
  copyRows,
  dirOf,
  filledSource,
  firstEpoch,
  keptKeys,
  openCopyAt,
  problemsIn,
  repeatsOf,
  type Source,
  sameAnswers,
  small,
} from './copied-log.ts'
import { KiB, newPipeId, openAt, readAll, temporaryDirectory, watermark } from './open.ts'

t.test('the copy gives the same answers as the log', async (t) => {
  const root = temporaryDirectory(t)
  const source = await filledSource(t, root)
  const keyed = await keptKeys(source)
  t.ok(keyed.length > 20)
  const expected = await repeatsOf(source, keyed)
  const compare = async (maxBytes: number, hasSealed: boolean) => {
    const to = temporaryDirectory(t)
    copyAll(root, to, maxBytes, hasSealed)
    const copy = await sameAnswers(t, source, to)
    t.same(await repeatsOf(copy, keyed), expected, 'keys are known')
    await copy.close()
  }
  await compare(1, false)
  await compare(100 * KiB, false)
  await compare(64 * 1024 * KiB, true)
})

t.test('in small steps while the source is written, compacted and dropped', async (t) => {
  const root = temporaryDirectory(t)
  const pipes = [newPipeId(), newPipeId(), newPipeId()]
  const [busy, idle, other] = pipes as [string, string, string]
  const source: Source = { ...(await openAt(t, root, small)), root, pipes, keyed: [] }
  const rows = openLogRows(dirOf(root))
  const to = temporaryDirectory(t)
  let copy = openCopyAt(to, rows)
  let batches = 0
  for (let n = 0; n < 600; n += 1) {
    const { seq } = await append(source, n % 10 === 0 ? idle : n % 11 === 0 ? other : busy, n)
    if (n % 40 === 0)
      source.feed.reportLowWatermarks([watermark(busy, seq), watermark(idle, 0), watermark(other, 0)])
    // The copy is behind, so that a part of a segment is copied before it is compacted, and the rest after it.
    if (n % 97 !== 0) continue
    for (let step = 0; step < 8; step += 1) {
      const read = rows.read(copy.lastSeq, 20 * KiB)
      if (read === null) break
      copy.append(read.rows)
      batches += 1
    }
    copy.close()
    copy = openCopyAt(to, rows)
  }
  t.ok(batches > 20)
  const isCompacted = listSegments(dirOf(root)).some(({ generation }) => generation > 0)
  t.ok(isCompacted, 'segments of the source were compacted meanwhile')
  copyRows(rows, copy, 20 * KiB)
  copy.close()
  t.same(problemsIn(to), [])
  const opened = await openAt(t, to, small)
  t.match(await opened.handle.status(), { missingAcknowledged: 0, missingSegments: 0, lostMessages: 0 })
  t.same(await opened.handle.appended(), await source.handle.appended())
  for (const pipeId of pipes) {
    t.same(await opened.reader.head(pipeId), await source.reader.head(pipeId))
    const kept = await readAll(source.reader, pipeId, (await source.reader.earliest(pipeId)).seq)
    const copied = await readAll(opened.reader, pipeId, (await opened.reader.earliest(pipeId)).seq)
    t.same(copied.slice(-kept.length), kept, 'everything that the source keeps')
    const { seq, mark } = await opened.reader.earliest(pipeId)
    const run = await opened.reader.read(pipeId, seq, { maxRecords: 1e6, maxBytes: 1e8, afterMark: mark })
    t.same(run.lost, [], 'what was dropped is not lost')
  }
})

t.test('a batch that is applied again changes nothing', async (t) => {
  const root = temporaryDirectory(t)
  const source = await filledSource(t, root)
  const rows = openLogRows(dirOf(root))
  const to = temporaryDirectory(t)
  const copy = openCopyAt(to, rows)
  const batches: Buffer[] = []
  for (let cursor = 0; ; ) {
    const read = rows.read(cursor, 50 * KiB)
    if (read === null) break
    batches.push(read.rows)
    copy.append(read.rows)
    copy.append(read.rows)
    cursor = read.lastSeq
  }
  const { lastSeq } = copy
  for (const batch of batches) copy.append(batch)
  t.equal(copy.lastSeq, lastSeq)
  copy.close()
  await sameAnswers(t, source, to)
})

t.test('a damaged message is lost in the copy, and nothing else is', async (t) => {
  const root = temporaryDirectory(t)
  const pipes = [newPipeId(), newPipeId()]
  const source: Source = { ...(await openAt(t, root, small)), root, pipes, keyed: [] }
  const seqs: number[] = []
  for (let n = 2; n < 100; n += 1) seqs.push((await append(source, pipes[n % 2]!, n)).seq)
  await source.close()
  const damagedSeqs = [seqs[10]!, seqs[60]!]
  for (const name of listSegments(dirOf(root))) {
    const db = new Database(segmentFile(dirOf(root), name))
    for (const seq of damagedSeqs) db.prepare("UPDATE message SET body = x'00' WHERE seq = ?").run(seq)
    db.close()
  }
  const rows = openLogRows(dirOf(root))
  t.match(rows.read(0, 1e9), {
    damaged: 2,
    messages: 96,
    firstSeq: seqs[0],
    lastSeq: seqs.at(-1),
    more: false,
  })
  const to = temporaryDirectory(t)
  copyAll(root, to, 10 * KiB)
  t.same(problemsIn(to), [], 'the loss is not reported again and again')
  const opened = await openAt(t, to, small)
  t.match(await opened.handle.status(), { damagedSegments: 0, missingSegments: 0 })
  const { runs } = (await answersOf(opened.reader, [pipes[0]!]))[pipes[0]!] as {
    runs: { messages: { seq: number }[]; lost: { messages: number }[] }[]
  }
  const found = runs.flatMap(({ messages }) => messages.map(({ seq }) => seq))
  t.same(
    found,
    seqs.filter((seq, index) => index % 2 === 0 && !damagedSeqs.includes(seq)),
  )
  t.equal(runs.flatMap(({ lost }) => lost).length, 2, 'each is reported as one lost message')
})

t.test('a key counts for 24 hours, also when its message is dropped from the copy', async (t) => {
  const root = temporaryDirectory(t)
  const pipes = [newPipeId()]
  const source: Source = { ...(await openAt(t, root, small)), root, pipes, keyed: [] }
  for (let n = 2; n < 100; n += 1) await append(source, pipes[0]!, n)
  const expected = await repeatsOf(source, source.keyed)
  await source.close()
  const [fresh, old] = [temporaryDirectory(t), temporaryDirectory(t)]
  const rows = openLogRows(dirOf(root))
  const copy = openCopyAt(fresh, rows)
  copyRows(rows, copy, 20 * KiB)
  const before = listSegments(dirOf(fresh)).length
  copy.keepFrom(copy.lastSeq)
  t.ok(before > 2)
  t.equal(listSegments(dirOf(fresh)).length, 1)
  copy.close()
  t.same(problemsIn(fresh), [])
  const opened = await openAt(t, fresh, small)
  t.same(await repeatsOf(opened, source.keyed), expected)
  t.match(await opened.handle.status(), { missingSegments: 0, lostMessages: 0 })
  await opened.close()

  const file = path.join(dirOf(root), 'high-water')
  const mark = readHighWater(file)
  if (typeof mark === 'string') throw new Error(mark)
  const later = openHighWater(file, firstEpoch)
  later.write(mark.seq, mark.clockMs + 25 * 3_600_000)
  later.close()
  copyAll(root, old)
  const aged = await openAt(t, old, small)
  const repeats = await repeatsOf(aged, source.keyed)
  t.equal(repeats[0]?.repeat, null, 'a key of a sealed segment is too old')
  t.same(repeats.at(-1), expected.at(-1), 'one of the newest segment counts from now')
})

t.test('a batch that was changed is rejected, and the copy stays as it is', async (t) => {
  const root = temporaryDirectory(t)
  const pipes = [newPipeId()]
  const source: Source = { ...(await openAt(t, root, small)), root, pipes, keyed: [] }
  for (let n = 2; n < 6; n += 1) await append(source, pipes[0]!, n)
  const rows = openLogRows(dirOf(root))
  const copy = openCopyAt(temporaryDirectory(t), rows)
  const batch = rows.read(0, 1e6)!.rows
  const wrong = /batch of rows/
  for (let at = 0; at < batch.length; at += 1 + Math.floor(at / 200)) {
    const changed = Buffer.from(batch)
    changed[at]! ^= 1 << (at % 8)
    t.throws(() => copy.append(changed), wrong)
  }
  for (const length of [0, 3, 39, 40, 41, 300, batch.length - 1])
    t.throws(() => copy.append(batch.subarray(0, length)), wrong)
  t.throws(() => copy.append(Buffer.concat([batch, Buffer.alloc(1)])), wrong)
  t.equal(copy.lastSeq, 0)
  copy.append(batch)
  t.equal(copy.lastSeq, rows.read(0, 1e6)!.lastSeq)
  copy.close()
})

t.test('a directory with a segment of another log is rejected', async (t) => {
  const root = temporaryDirectory(t)
  await (await openAt(t, root, small)).close()
  const identity = { dataDirId: '00000000-0000-4000-8000-000000000000', epoch: 1 }
  const open = () => openLogCopy(dirOf(root), { identity, segmentMaxBytes: 64 * KiB, keptFromSeq: 1 })
  t.throws(open, /belongs to another log/)
})
