/**
 * Joins frames of several threads that wait at the same time into one transaction with one fsync. Each frame then gets
 * its own part of the result, as if it had been committed separately.
 */
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { SharedAppends } from '../buffer.ts'
import { type Frame, readFrame } from '../frame.ts'
import type { CommittedFrame, SkippedAppend } from './frame-commit.ts'

/** The size limit of joined frames, the same as that of a frame with several messages. */
export const joinedMaxBytes = resourceLimits.frameBytes
const hourMs = 3_600_000

/** A single frame is returned as it is. */
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

/** Returns the result of each frame, in their order. */
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

/** Counts the new messages of an appender's committed frame, by pipe and hour. */
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
