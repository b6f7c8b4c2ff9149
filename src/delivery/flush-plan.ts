/**
 * When a batch is closed and what goes into it (contract "Delivery"): whole messages, closed by the first of records,
 * bytes and seconds; a message over a limit goes alone. Pure.
 */
import type { StoredMessage } from '../buffer/buffer.ts'
import type { FlushLimits } from './delivery.ts'

export interface Backlog {
  messages: number
  records: number
  bytes: number
  /** How long the oldest of them has been waiting. */
  oldestAgeMs: number
}

/** Ms until a batch must be closed: 0 now, Infinity while there is nothing to send. */
export function closesInMs(backlog: Backlog, limits: FlushLimits): number {
  if (backlog.messages <= 0) return Number.POSITIVE_INFINITY
  if (backlog.records >= limits.maxRecords || backlog.bytes >= limits.maxBytes) return 0
  return Math.max(0, limits.maxSeconds * 1000 - Math.max(0, backlog.oldestAgeMs))
}

/** The longest run from the start that keeps within the limits; never empty unless there is no message. */
export function cutBatch(
  messages: readonly StoredMessage[],
  limits: Pick<FlushLimits, 'maxRecords' | 'maxBytes'>,
): StoredMessage[] {
  let records = 0
  let bytes = 0
  let count = 0
  for (const message of messages) {
    records += message.recordCount
    bytes += message.body.length
    if (count > 0 && (records > limits.maxRecords || bytes > limits.maxBytes)) break
    count += 1
  }
  return messages.slice(0, count)
}

/**
 * Where a failing run is cut next. Returns how many of its messages (1 to length − 1) are tried by themselves; the
 * driver's hint, where it has one, points straight at what stands before the failing message.
 */
export function narrowTo(messages: readonly StoredMessage[], failedSeq: number | undefined): number {
  const hinted = messages.findIndex((message) => message.seq === failedSeq)
  if (hinted === 0) return 1
  if (hinted > 0) return hinted
  return Math.floor(messages.length / 2)
}
