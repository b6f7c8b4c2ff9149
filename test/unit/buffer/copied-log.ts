/** A log with everything that a copy has to keep, and the comparison of a copy with it. */
import { cpSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import type { Test } from 'tap'
import type { Appended, BufferReader } from '../../../src/log/buffer.ts'
import { checkChain } from '../../../src/log/segments/check-chain.ts'
import { checkMark } from '../../../src/log/segments/check-derived.ts'
import { checkSegment, holesIn } from '../../../src/log/segments/check-segment.ts'
import { listSegments } from '../../../src/log/segments/layout.ts'
import { type LogCopy, openLogCopy } from '../../../src/log/segments/log-copy.ts'
import { type LogRows, openLogRows } from '../../../src/log/segments/replicated-rows.ts'
import { until } from '../../support/until.ts'
import {
  idempotent,
  KiB,
  message,
  newPipeId,
  type OpenedBuffer,
  type Overrides,
  openAt,
  specAt,
  watermark,
} from './open.ts'

const dataDirId = '6b5b9b1e-3c57-4c29-9d0e-2f6f4c1c7a11'
export const firstEpoch = { dataDirId, epoch: 1 }
export const secondEpoch = { identity: { dataDirId, epoch: 2 }, nextSeqAtLeast: 2 ** 40 }
export const small: Overrides = { identity: firstEpoch, segmentMaxBytes: 64 * KiB, deliveredMaxBytes: 0 }
const nothingLost = { missingAcknowledged: 0, damagedSegments: 0, missingSegments: 0, lostMessages: 0 }
export const dirOf = (root: string) => specAt(root).dir

export interface Source extends OpenedBuffer {
  root: string
  pipes: string[]
  /** Everything that was appended with a key. */
  keyed: { pipeId: string; key: string; sent: Appended }[]
}

/** A `number` makes the size, the time and the key of a message. */
export async function append(source: Source, pipeId: string, number: number): Promise<Appended> {
  const key = `clé ${number}`
  const more = number % 3 === 0 ? idempotent(key, `hash of ${number}`) : {}
  const text = `{"user":"u${number % 7}","number":${number}}`.padEnd(number % 50 === 1 ? 300 * KiB : 2 * KiB)
  const receivedMs = 1_760_000_000_000 + number * 1000
  const sent = await source.handle.appender.append(
    message(pipeId, text, { ...more, receivedMs, recordCount: 1 + (number % 4) }),
  )
  if ('idempotency' in more) source.keyed.push({ pipeId, key, sent })
  return sent
}

/**
 * Three pipes in two epochs, with rolls: one is delivered up to a part of the second epoch, one is idle, so that segments
 * were dropped at the old end and in the middle and others were compacted; and the records of one user were erased.
 */
export async function filledSource(t: Test, root: string): Promise<Source> {
  const pipes = [newPipeId(), newPipeId(), newPipeId()]
  const [busy, idle, other] = pipes as [string, string, string]
  const first: Source = { ...(await openAt(t, root, small)), root, pipes, keyed: [] }
  for (let n = 0; n < 120; n += 1) await append(first, busy, n)
  await append(first, idle, 1000)
  for (let n = 120; n < 300; n += 1) await append(first, n % 20 === 0 ? other : busy, n)
  await first.close()
  const source: Source = { ...first, ...(await openAt(t, root, { ...small, ...secondEpoch })) }
  let seq = 0
  for (let n = 300; n < 420; n += 1) ({ seq } = await append(source, n % 30 === 0 ? idle : busy, n))
  source.feed.reportLowWatermarks([watermark(busy, seq), watermark(idle, 0), watermark(other, 0)])
  const dir = dirOf(root)
  await until(
    'segments were dropped at the old end and in the middle, and others were compacted',
    () => {
      const names = listSegments(dir)
      const isCompacted = names.some(({ generation }) => generation > 0)
      return names[0]!.firstSeq > 1 && isCompacted && holesIn(dir, names.at(-1)!).length > 0
    },
    { timeoutMs: 20_000 },
  )
  // Until the next report nothing more is dropped.
  await source.close()
  Object.assign(source, await openAt(t, root, { ...small, ...secondEpoch }))
  t.match(await source.handle.status(), nothingLost, 'the log itself is sound after a restart')
  for (let n = 420; n < 500; n += 1) await append(source, pipes[n % 3]!, n)
  const conditions = [{ path: ['user'], value: 'u3' }]
  await source.handle.erasure!.erase({ pipeIds: pipes, conditions })
  for (let n = 500; n < 520; n += 1) await append(source, pipes[n % 3]!, n)
  return source
}

/** Copies what is new, in batches of about `maxBytes`. */
export function copyRows(rows: LogRows, copy: LogCopy, maxBytes: number, afterSeq = copy.lastSeq): void {
  for (let cursor = afterSeq; ; ) {
    const read = rows.read(cursor, maxBytes)
    if (read === null) return
    copy.append(read.rows)
    cursor = read.lastSeq
  }
}

export function openCopyAt(root: string, rows: LogRows): LogCopy {
  const keptFromSeq = rows.keptFromSeq()
  return openLogCopy(dirOf(root), { identity: firstEpoch, segmentMaxBytes: 64 * KiB, keptFromSeq })
}

/** A directory with the sealed segments of the source. */
export function copySealed(rows: LogRows, root: string): void {
  mkdirSync(dirOf(root), { recursive: true })
  for (const { file } of rows.sealed()) cpSync(file, path.join(dirOf(root), path.basename(file)))
}

/** The whole log in one call. */
export function copyAll(from: string, to: string, maxBytes = 100 * KiB, hasSealed = false): void {
  const rows = openLogRows(dirOf(from))
  if (hasSealed) copySealed(rows, to)
  const copy = openCopyAt(to, rows)
  copyRows(rows, copy, maxBytes)
  copy.close()
  rows.close()
}

/** What a reader says about every pipe, at every position. */
export async function answersOf(reader: BufferReader, pipes: readonly string[]) {
  const answers: Record<string, unknown> = {
    pipeIds: (await reader.pipeIds()).sort(),
    heads: await reader.heads(0),
  }
  for (const pipeId of pipes) answers[pipeId] = await answersOfPipe(reader, pipeId)
  return answers
}

async function answersOfPipe(reader: BufferReader, pipeId: string) {
  const beginning = await reader.head(newPipeId())
  const earliest = await reader.earliest(pipeId)
  const runs = []
  for (let from = earliest; ; ) {
    const run = await reader.read(pipeId, from.seq, {
      maxRecords: 50,
      maxBytes: 256 * KiB,
      afterMark: from.mark,
    })
    runs.push(run)
    const last = run.messages.at(-1)
    from = run.lost.at(-1)?.to ?? (last && { seq: last.seq, mark: last.mark }) ?? from
    if (!run.more) break
  }
  const messages = runs.flatMap((run) => run.messages)
  const positions = []
  for (const { seq, receivedMs } of messages) {
    const cursor = await reader.cursorAt(pipeId, seq)
    positions.push({
      cursor,
      before: await reader.cursorAt(pipeId, seq - 1),
      backlog: await reader.backlog(pipeId, cursor),
      through: await reader.backlog(pipeId, beginning, seq),
      atTime: await reader.cursorAtTime(pipeId, receivedMs),
      relocated: await reader.relocate(pipeId, cursor),
    })
  }
  return {
    earliest,
    head: await reader.head(pipeId),
    total: await reader.backlog(pipeId, beginning),
    beforeAll: await reader.read(pipeId, 0, { maxRecords: 10, maxBytes: KiB, afterMark: beginning.mark }),
    runs,
    positions,
  }
}

/** The problems that `pipectl verify` would list. */
export function problemsIn(root: string): unknown[] {
  const dir = dirOf(root)
  const checks = listSegments(dir).map((name) => checkSegment(dir, name))
  const missing = checkChain(checks, dataDirId)
  const { problem } = checkMark(path.join(dir, 'high-water'))
  return [...checks.flatMap(({ problems }) => problems), ...missing, ...(problem === null ? [] : [problem])]
}

/** Opens the copy as the daemon does, and compares everything that can be asked. */
export async function sameAnswers(t: Test, source: Source, root: string): Promise<OpenedBuffer> {
  t.same(problemsIn(root), [], 'verify finds nothing')
  const opened = await openAt(t, root, { ...small, ...secondEpoch })
  const status = await opened.handle.status()
  t.match(status, nothingLost, 'nothing is reported as lost')
  t.same(await answersOf(opened.reader, source.pipes), await answersOf(source.reader, source.pipes))
  t.same(await opened.handle.appended(), await source.handle.appended())
  return opened
}

/** The keys of messages that are still in the log. */
export async function keptKeys({ reader, pipes, keyed }: Source): Promise<Source['keyed']> {
  const earliest = new Map<string, number>()
  for (const pipeId of pipes) earliest.set(pipeId, (await reader.earliest(pipeId)).seq)
  return keyed.filter(({ pipeId, sent }) => sent.seq > earliest.get(pipeId)!)
}

/** What an append with each key would return. */
export async function repeatsOf({ handle }: OpenedBuffer, keyed: Source['keyed']) {
  const repeats = []
  for (const { pipeId, key } of keyed) {
    const bodyHash = key.replace('clé', 'hash of')
    repeats.push({ key, repeat: await handle.appender.findRepeat(pipeId, { key, bodyHash }) })
  }
  return repeats
}
