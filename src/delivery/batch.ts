/**
 * Rules of a batch: when it is closed, what it contains, where it is cut after a failure, and its identity. Pure. A
 * batch holds whole messages; the first limit of records, bytes and seconds closes it
 * (docs/dev/contract.md#order-and-batches). The step that transforms a batch is at the end.
 */
import { v5 } from 'uuid'
import { type Batch, DeliveryError, type ParkRecords, type RejectedRecord } from '../destinations/driver.ts'
import { parkInSlices } from '../destinations/park.ts'
import type { StoredMessage } from '../log/buffer.ts'
import { keptRecords } from '../log/erased-body.ts'
import { hasDeleted, recordPlace } from '../log/record-text.ts'
import type { FlushLimits, LaneSpec } from '../metadata/lane-state.ts'
import { ExceededError, type TransformedBody } from './transform/thread-protocol.ts'
import type { TransformThreads } from './transform/transform-threads.ts'

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

/** By seq, the number of records of a message that the transform filters out, including stored ones. */
export type FilteredRecords = ReadonlyMap<number, number>

export function filteredOf(
  messages: readonly Pick<StoredMessage, 'seq'>[],
  filtered: FilteredRecords,
): number {
  return messages.reduce((sum, { seq }) => sum + (filtered.get(seq) ?? 0), 0)
}

export interface TransformedBatch {
  readonly batch: Batch
  /** Records that the transform cannot be applied to, except those already stored or parked. */
  readonly failed: readonly RejectedRecord[]
  readonly filtered: FilteredRecords
  /** Converts the driver's count of stored records into the lane's count, including left-out records before the next one. */
  readonly given: (stored: number) => number
}

/** False when the salt is missing: masks would differ, so the driver reports the unreadable secret and sends nothing. */
export function isTransformed({ transform, unreadableSecrets }: LaneSpec): boolean {
  return transform !== null && transform !== undefined && unreadableSecrets === undefined
}

/**
 * The step of an attempt that applies the destination's transform to the batch.
 *
 *   batch ──filter, map──▶ kept records, each with its index in its message ──▶ driver
 *              ├─ filtered out, or deleted from the log ──▶ counted by the lane
 *              ├─ cannot be applied ──▶ parked, or an error of that record, as when the destination rejects it
 *              └─ nothing is left ──▶ delivered: the driver is not called
 *
 * The batch keeps its identity, range and messages, including messages without records, and each record keeps its
 * index. So ids do not depend on what is left out, and a repeat has the same ids. The lane counts its own records;
 * `recordOffset` and `stored` are translated between it and the driver. Records are parked as received, and their
 * replay is transformed.
 *
 * Rejects with a DeliveryError when aborted, when the transform exceeds a limit, or when it cannot run.
 */
export async function transformBatch(
  threads: Pick<TransformThreads, 'run'>,
  spec: LaneSpec,
  batch: Batch,
  signal: AbortSignal,
): Promise<TransformedBatch> {
  if (!isTransformed(spec)) {
    if (batch.messages.some(({ body }) => hasDeleted(body)))
      return keptOf(batch, batch.messages.map(withoutDeleted))
    return { batch, failed: [], filtered: new Map(), given: (stored) => stored }
  }
  return keptOf(batch, await run(threads, spec, batch, signal))
}

/** Records that were deleted from the log count as filtered out, also without a transform. */
function withoutDeleted({ body }: StoredMessage): TransformedBody {
  const kept = keptRecords(body)
  if (kept === null) return { body: null, places: null, filtered: 0, failed: [] }
  return { body: kept.body, places: kept.places, filtered: kept.deleted, failed: [] }
}

async function run(
  threads: Pick<TransformThreads, 'run'>,
  { workspaceId, destinationId, transform }: LaneSpec,
  { messages, firstSeq }: Batch,
  signal: AbortSignal,
): Promise<TransformedBody[]> {
  const bodies = messages.map(({ body }) => body)
  try {
    const made = await threads.run({ workspaceId, destinationId }, transform!, bodies, signal)
    signal.throwIfAborted()
    return made
  } catch (error) {
    if (signal.aborted)
      throw new DeliveryError('transient', 'aborted', 'The attempt was cancelled before anything was sent.')
    if (!(error instanceof ExceededError)) {
      const message = error instanceof Error ? error.message : String(error)
      throw new DeliveryError('transient', 'transform_failed', `The transform could not be run: ${message}.`)
    }
    throw exceeded(error, messages, firstSeq)
  }
}

/** Nothing was sent: several messages are retried immediately in smaller batches. A single message is itself the cause. */
function exceeded(
  { message, messageAt }: ExceededError,
  messages: readonly StoredMessage[],
  firstSeq: number,
): DeliveryError {
  const code = 'transform_exceeded'
  if (messages.length > 1) return new DeliveryError('transient', code, message, { timedOut: 'rolled_back' })
  const seq = messages[messageAt]?.seq ?? firstSeq
  const rejected = { seq, recordIndex: null, code, message }
  return new DeliveryError('permanent', code, message, { fault: 'records', failedSeq: seq, rejected })
}

/** Parks the failed records, or fails the attempt at the first of them when the lane does not park. */
export async function parkFailed(failed: readonly RejectedRecord[], park: ParkRecords | null): Promise<void> {
  const [first] = failed
  if (first === undefined) return
  if (park === null) {
    const { code, message, seq: failedSeq } = first
    throw new DeliveryError('permanent', code, message, { fault: 'records', failedSeq, rejected: first })
  }
  await parkInSlices(park, failed)
}

function keptOf(given: Batch, made: readonly TransformedBody[]): TransformedBatch {
  /** The index of each kept record among all input records. */
  const origins: number[] = []
  const messages: StoredMessage[] = []
  const failed: RejectedRecord[] = []
  const filtered = new Map<number, number>()
  let before = 0
  for (const [at, message] of given.messages.entries()) {
    const result = made[at]!
    const recordCount = result.places?.length ?? message.recordCount
    for (let index = 0; index < recordCount; index += 1)
      origins.push(before + (result.places?.[index] ?? index))
    for (const { place, code, message: text } of result.failed) {
      if (before + place < given.recordOffset) continue
      failed.push({ seq: message.seq, recordIndex: recordPlace(message, place), code, message: text })
    }
    filtered.set(message.seq, result.filtered)
    messages.push(keptMessage(message, recordCount, result))
    before += message.recordCount
  }
  const offset = origins.findIndex((origin) => origin >= given.recordOffset)
  const batch = {
    ...given,
    messages,
    recordCount: origins.length,
    byteCount: messages.reduce((sum, { body }) => sum + body.length, 0),
    recordOffset: offset === -1 ? origins.length : offset,
  }
  return { batch, failed, filtered, given: (stored) => origins[stored] ?? given.recordCount }
}

function keptMessage(
  message: StoredMessage,
  recordCount: number,
  { body, places }: TransformedBody,
): StoredMessage {
  return {
    ...message,
    recordCount,
    ...(body === null ? {} : { body: Buffer.from(body.buffer, body.byteOffset, body.byteLength) }),
    ...(places === null ? {} : { places: places.map((place) => recordPlace(message, place)) }),
  }
}
