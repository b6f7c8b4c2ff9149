/** A copy of the log is compared with the log: what the copy lacks is an error or newer, by when it was acknowledged. */
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { compareLogs } from '../../../src/log/segments/compare-logs.ts'
import { openLogCopy } from '../../../src/log/segments/log-copy.ts'
import { openLogRows } from '../../../src/log/segments/replicated-rows.ts'
import { until } from '../../support/until.ts'
import { append, dirOf, filledSource, firstEpoch, type Source, small } from './copied-log.ts'
import { KiB, newPipeId, openAt, temporaryDirectory, watermark } from './open.ts'

type Tap = Parameters<typeof temporaryDirectory>[0]

async function openSource(t: Tap): Promise<Source> {
  const root = temporaryDirectory(t)
  return { ...(await openAt(t, root, small)), root, pipes: [newPipeId()], keyed: [] }
}

/** A copy with the messages up to `throughSeq`, except those from `hole`. */
function copyOf(root: string, throughSeq: number, hole?: { firstSeq: number; lastSeq: number }): string {
  const dir = path.join(temporaryCopy(root), 'buffer')
  const copy = openLogCopy(dir, { identity: firstEpoch, segmentMaxBytes: 64 * KiB, keptFromSeq: 1 })
  const rows = openLogRows(dirOf(root))
  for (let seq = 0; seq < throughSeq; ) {
    if (seq + 1 === hole?.firstSeq) seq = hole.lastSeq
    const read = rows.read(seq, 1)
    if (read === null) break
    copy.append(read.rows)
    seq = read.lastSeq
  }
  copy.close()
  return dir
}

let copies = 0
function temporaryCopy(root: string): string {
  const dir = path.join(root, `copy-${++copies}`)
  mkdirSync(dir)
  return dir
}

const compare = (source: Source, copyDir: string, throughMs: number) =>
  compareLogs({ copyDir, logDir: dirOf(source.root), throughMs, onProgress: () => {} })

t.test('messages that the copy lacks are newer, or missing', async (t) => {
  const source = await openSource(t)
  const [pipeId] = source.pipes as [string]
  for (let n = 1; n <= 60; n += 1) await append(source, pipeId, n)
  const receivedMs = 1_760_000_000_000
  const copy = copyOf(source.root, 40)
  const same = { pipeId, messages: 40, firstSeq: 1, lastSeq: 40, same: 40, different: 0, changedSince: 0 }
  t.match(compare(source, copy, receivedMs), [{ ...same, newer: 20, missing: 0 }])
  t.match(compare(source, copy, receivedMs + 3_600_000), [{ ...same, newer: 0, missing: 20 }])
  const withHole = copyOf(source.root, 60, { firstSeq: 11, lastSeq: 13 })
  t.match(compare(source, withHole, receivedMs), [{ messages: 57, same: 57, missing: 3, newer: 0 }])
})

t.test('what the log has dropped, compacted or erased since is no error', async (t) => {
  const source = await openSource(t)
  const [pipeId] = source.pipes as [string]
  let seq = 0
  for (let n = 1; n <= 200; n += 1) ({ seq } = await append(source, pipeId, n))
  const copy = copyOf(source.root, seq)
  source.feed.reportLowWatermarks([watermark(pipeId, seq)])
  const rows = openLogRows(dirOf(source.root))
  await until('messages are dropped', () => rows.keptFromSeq() > 100)
  const [pipe] = compare(source, copy, Number.MAX_SAFE_INTEGER)
  t.match(pipe, { messages: 200, missing: 0, different: 0 })
  t.ok(pipe!.changedSince >= 100)
})

t.test('two logs with other contents are different', async (t) => {
  const [one, two] = [await openSource(t), await openSource(t)]
  for (let n = 1; n <= 10; n += 1) {
    await append(one, one.pipes[0]!, n)
    await append(two, one.pipes[0]!, n + 100)
  }
  t.match(compare(one, copyOf(two.root, 10), 0), [{ same: 0, different: 10 }])
})

t.test('a log with everything that can be in one equals its own copy', async (t) => {
  const source = await filledSource(t, temporaryDirectory(t))
  const pipes = compare(source, dirOf(source.root), Number.MAX_SAFE_INTEGER)
  t.equal(pipes.length, 3)
  for (const { messages, same, missing, different } of pipes)
    t.match({ same, missing, different }, { same: messages, missing: 0, different: 0 })
})
