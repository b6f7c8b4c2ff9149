/**
 * Rules of a batch: when it is closed, what it contains, where it is cut after a failure, and its identity. Pure. A
 * batch holds whole messages; the first limit of records, bytes and seconds closes it
 * (docs/dev/contract.md#order-and-batches).
 */
import { v5 } from 'uuid'
import type { Batch } from '../destinations/driver.ts'
import type { StoredMessage } from '../log/buffer.ts'
import type { FlushLimits } from '../metadata/lane-state.ts'

export interface Backlog {
  messages: number
  records: number
  bytes: number
  /** How long the oldest message has been waiting. */
  oldestAgeMs: number
}

/** Milliseconds until the batch must be closed: 0 for now, Infinity while there is nothing to send. */
export function closesInMs(backlog: Backlog, limits: FlushLimits): number {
  if (backlog.messages <= 0) return Number.POSITIVE_INFINITY
  if (backlog.records >= limits.maxRecords || backlog.bytes >= limits.maxBytes) return 0
  return Math.max(0, limits.maxSeconds * 1000 - Math.max(0, backlog.oldestAgeMs))
}

/** The longest prefix within the limits, but at least one message if there is any. */
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
 * Where to cut a failing run next: returns the number of messages (1 to length − 1) that are tried separately. A hint of
 * the driver leads directly to the part before the failing message.
 */
export function bisectAt(messages: readonly StoredMessage[], failedSeq: number | undefined): number {
  const hinted = messages.findIndex((message) => message.seq === failedSeq)
  if (hinted === 0) return 1
  if (hinted > 0) return hinted
  return Math.floor(messages.length / 2)
}

/** The first half of a run by records: at least one message and, of several, never all. */
export function firstHalf(messages: readonly StoredMessage[]): StoredMessage[] {
  return cutBatch(messages, {
    maxRecords: Math.floor(recordsOf(messages) / 2),
    maxBytes: Number.MAX_SAFE_INTEGER,
  })
}

/**
 * UUID version 5 of `<first>-<last>` in the namespace of the destination's own id: the same range of a destination
 * always has the same identity, so a destination can recognize a repeated batch (`webhook-id`).
 */
export function batchIdentity(destinationId: string, firstSeq: number, lastSeq: number): string {
  return v5(`${firstSeq}-${lastSeq}`, destinationId)
}

/** The messages of a range as the driver receives them. At least one. */
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
