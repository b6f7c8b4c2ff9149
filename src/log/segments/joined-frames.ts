/**
 * Frames that wait for the writer at the same time, from several threads, are one transaction: one fsync for all of them.
 * Each then gets its part of the result, as if it had been committed alone.
 */
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { SharedAppends } from '../buffer.ts'
import { type Frame, readFrame } from '../frame.ts'
import type { CommittedFrame, SkippedAppend } from './frame-commit.ts'

/** Joined frames have no more bytes than the largest frame that gathers several messages. */
export const joinedMaxBytes = resourceLimits.frameBytes
const hourMs = 3_600_000

/** The frame itself where it is the only one. */
export function joinFrames(frames: readonly [Frame, ...Frame[]]): Frame {
  const [first, ...others] = frames
  if (others.length === 0) return first
  const length = frames.reduce((sum, frame) => sum + frame.length, 0)
  const joined = new Uint8Array(length)
  let at = 0
  for (const frame of frames) {
    joined.set(new Uint8Array(frame.buffer, 0, frame.length), at)
    at += frame.length
  }
  return { buffer: joined.buffer, length, count: frames.reduce((sum, frame) => sum + frame.count, 0) }
}

export interface CommittedPart {
  firstSeq: number
  skipped: SkippedAppend[]
}

/** The result of each frame, in their order. */
export function splitCommitted(
  frames: readonly Frame[],
  { firstSeq, skipped }: Pick<CommittedFrame, 'firstSeq' | 'skipped'>,
): CommittedPart[] {
  let begin = 0
  let seq = firstSeq
  return frames.map(({ count }) => {
    const first = begin
    const own = skipped
      .filter(({ index }) => index >= first && index < first + count)
      .map((append) => ({ ...append, index: append.index - first }))
    const part = { firstSeq: seq, skipped: own }
    begin += count
    seq += count - own.length
    return part
  })
}

/** Counts the new messages of a committed frame of this appender, by pipe and hour. */
export function countAppends(
  frame: Frame,
  skipped: readonly SkippedAppend[],
  appender: number,
): SharedAppends[] {
  const left = new Set(skipped.map(({ index }) => index))
  const counts = new Map<string, SharedAppends>()
  let index = -1
  for (const { pipeId, recordCount, body, receivedMs } of readFrame(frame)) {
    index += 1
    if (left.has(index)) continue
    const key = `${pipeId}/${Math.floor(receivedMs / hourMs)}`
    const count = counts.get(key) ?? {
      appender,
      pipeId,
      messages: 0,
      records: 0,
      bytes: 0,
      lastMs: receivedMs,
    }
    count.messages += 1
    count.records += recordCount
    count.bytes += body.length
    count.lastMs = Math.max(count.lastMs, receivedMs)
    counts.set(key, count)
  }
  return [...counts.values()]
}
