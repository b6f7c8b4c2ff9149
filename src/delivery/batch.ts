/**
 * A batch: when it is closed, what it contains, where it is cut after a failure, and its identity. Pure. It holds whole
 * messages and is closed by the first of records, bytes and seconds (docs/dev/contract.md#order-and-batches).
 */
import { v5 } from 'uuid'
import type { Batch } from '../destinations/driver.ts'
import type { StoredMessage } from '../log/buffer.ts'
import type { FlushLimits } from '../metadata/lane-state.ts'

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
export function cutBatch<Message extends StoredMessage>(
  messages: readonly Message[],
  limits: Pick<FlushLimits, 'maxRecords' | 'maxBytes'>,
): Message[] {
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
 * driver's hint, where it has one, points straight at the part before the failing message.
 */
export function bisectAt(messages: readonly StoredMessage[], failedSeq: number | undefined): number {
  const hinted = messages.findIndex((message) => message.seq === failedSeq)
  if (hinted === 0) return 1
  if (hinted > 0) return hinted
  return Math.floor(messages.length / 2)
}

/** The first half of a run by records: at least one message, never all of several. */
export function firstHalf(messages: readonly StoredMessage[]): StoredMessage[] {
  return cutBatch(messages, {
    maxRecords: Math.floor(recordsOf(messages) / 2),
    maxBytes: Number.MAX_SAFE_INTEGER,
  })
}

/**
 * UUID version 5 of `<first>-<last>` in the namespace of the destination's own id: the same range of a destination
 * always has the same identity, so a destination can recognise a repeated batch (`webhook-id`).
 */
export function batchIdentity(destinationId: string, firstSeq: number, lastSeq: number): string {
  return v5(`${firstSeq}-${lastSeq}`, destinationId)
}

/** The messages of a range, as a driver gets them. At least one. */
export function batchOf(
  destinationId: string,
  messages: readonly StoredMessage[],
  recordOffset: number,
  generation: number,
): Batch {
  const firstSeq = messages[0]!.seq
  const lastSeq = messages.at(-1)!.seq
  return {
    identity: batchIdentity(destinationId, firstSeq, lastSeq),
    firstSeq,
    lastSeq,
    messages,
    recordCount: recordsOf(messages),
    byteCount: bytesOf(messages),
    recordOffset,
    generation,
  }
}

export function recordsOf(messages: readonly StoredMessage[]): number {
  return messages.reduce((sum, message) => sum + message.recordCount, 0)
}

export function bytesOf(messages: readonly StoredMessage[]): number {
  return messages.reduce((sum, message) => sum + message.body.length, 0)
}
