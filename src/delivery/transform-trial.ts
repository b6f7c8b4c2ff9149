/**
 * Tries a transform on the newest records of its pipe, or on a sample. Nothing is stored or delivered.
 *
 *   records ─portions of 100─▶ thread ─▶ each record kept (transformed), filtered or failed
 *                └── exceeds what a job may take ─▶ its halves, down to the one record
 *
 * Trials are limited in number and time and run in threads that no lane uses. When the time is over, the result covers
 * the records so far and is marked as incomplete.
 */
import { resourceLimits } from '../contract/resource-limits.ts'
import type { Transform } from '../contract/transform.ts'
import { DeliveryError } from '../destinations/driver.ts'
import type { BufferReader, StoredMessage } from '../log/buffer.ts'
import { withoutDeleted } from '../log/erased-body.ts'
import { lineFeed, recordPlace, records } from '../log/record-text.ts'
import { Semaphore } from '../platform/semaphore.ts'
import type { Clock } from './clock.ts'
import { ExceededError, type FailedRecord, type TransformedBody } from './transform/thread-protocol.ts'

/** Pipes take turns by `pipeId`; a slow pipe continues in another thread. */
export type RunTransform = (
  pipeId: string,
  transform: Transform,
  bodies: readonly Buffer[],
  signal: AbortSignal,
) => Promise<TransformedBody[]>

export interface TrialSource {
  pipeId: string
  /** NDJSON; null for the newest records of the pipe. */
  sample: string | null
}

export interface TriedRecord {
  /** Null when the record is from the sample. */
  message: StoredMessage | null
  /** Index of the record in its message or in the sample. */
  place: number
  before: Buffer
  /** Null when it was filtered out or failed. */
  after: Buffer | null
  failed: Omit<FailedRecord, 'place'> | null
}
type GivenRecord = Pick<TriedRecord, 'message' | 'place' | 'before'>

const { inferredRecords, trialMs, trialsAtOnce, trialPortionBytes, trialPortionRecords } = resourceLimits

export class TransformTrials {
  readonly #reader: BufferReader
  readonly #clock: Clock
  readonly #run: RunTransform
  readonly #places = new Semaphore(trialsAtOnce)

  constructor(deps: { reader: BufferReader; clock: Clock; run: RunTransform }) {
    this.#reader = deps.reader
    this.#clock = deps.clock
    this.#run = deps.run
  }

  /**
   * Calls `take` for each record: the newest message first, a sample in order. Resolves with false when time ran out
   * before the last record. Rejects when the records cannot be read.
   */
  async each(
    source: TrialSource,
    transform: Transform,
    take: (record: TriedRecord) => void,
  ): Promise<boolean> {
    const deadline = new AbortController()
    let cancel = () => {}
    const late = new Promise<false>((resolve) => {
      cancel = this.#clock.wake(trialMs, () => {
        deadline.abort(new Error('the trial took too long'))
        resolve(false)
      })
    })
    const work = this.#places
      .run(() => this.#each(source, transform, take, deadline.signal), { signal: deadline.signal })
      .catch((error: unknown) => {
        if (!deadline.signal.aborted) throw error
        return false
      })
    try {
      // A read that hangs is abandoned.
      return await Promise.race([work, late])
    } finally {
      cancel()
    }
  }

  async #each(
    { pipeId, sample }: TrialSource,
    transform: Transform,
    take: (record: TriedRecord) => void,
    signal: AbortSignal,
  ): Promise<boolean> {
    const given =
      sample === null
        ? newestFirst(await newestMessages(pipeId, this.#reader))
        : recordsOf(null, Buffer.from(sample))
    const run = (bodies: readonly Buffer[]) => this.#run(pipeId, transform, bodies, signal)
    for (const portion of portions(given.slice(0, inferredRecords)))
      for await (const tried of triedRecords(portion, run)) {
        if (signal.aborted) return false
        take(tried)
      }
    return true
  }
}

function newestFirst(messages: readonly StoredMessage[]): GivenRecord[] {
  const found: GivenRecord[] = []
  for (const message of [...messages].reverse()) {
    if (found.length >= inferredRecords) break
    for (const record of recordsOf(message, message.body)) found.push(record)
  }
  return found
}

function recordsOf(message: StoredMessage | null, body: Buffer): GivenRecord[] {
  const found: GivenRecord[] = []
  for (const before of records(body)) {
    found.push({ message, place: recordPlace(message ?? {}, found.length), before })
    if (found.length === inferredRecords) break
  }
  return found
}

function* portions(given: readonly GivenRecord[]): Generator<GivenRecord[]> {
  let portion: GivenRecord[] = []
  let bytes = 0
  for (const record of given) {
    const isFull = portion.length === trialPortionRecords || bytes + record.before.length > trialPortionBytes
    if (portion.length > 0 && isFull) {
      yield portion
      portion = []
      bytes = 0
    }
    portion.push(record)
    bytes += record.before.length
  }
  if (portion.length > 0) yield portion
}

/** Each record is sent as a body of its own. */
async function* triedRecords(
  given: readonly GivenRecord[],
  run: (bodies: readonly Buffer[]) => Promise<TransformedBody[]>,
): AsyncGenerator<TriedRecord> {
  let made: TransformedBody[]
  try {
    made = await run(given.map(({ before }) => before))
  } catch (error) {
    if (!(error instanceof ExceededError)) throw error
    const [first] = given
    if (given.length === 1 && first !== undefined) {
      const failed = { code: 'transform_exceeded', message: error.message, step: 1 }
      yield { ...first, after: null, failed }
      return
    }
    const half = Math.ceil(given.length / 2)
    yield* triedRecords(given.slice(0, half), run)
    yield* triedRecords(given.slice(half), run)
    return
  }
  for (const [at, record] of given.entries()) {
    const { body, filtered, failed } = made[at]!
    const [fault] = failed
    const after = fault !== undefined || filtered > 0 ? null : body === null ? record.before : asBuffer(body)
    yield {
      ...record,
      after,
      failed: fault === undefined ? null : { ...fault, message: printable(fault) },
    }
  }
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
}

/** The error can contain keys of the record. */
function printable({ code, message }: FailedRecord): string {
  return new DeliveryError('permanent', code, message).message
}

const newestLimits = { maxRecords: resourceLimits.inferredRecords, maxBytes: resourceLimits.inferredBytes }

/**
 * The newest messages, oldest first: about `inferredRecords` records or `inferredBytes`, whichever is less. It reads
 * back from the newest message and doubles the distance (seqs are shared by all pipes) until there is enough, in at most
 * about 40 short reads. Only the beginning of a large message is used. When the last step exceeds the read limit,
 * messages between it and the previous step are left out, never the newest.
 */
export async function newestMessages(pipeId: string, reader: BufferReader): Promise<StoredMessage[]> {
  const { seq: head } = await reader.head(pipeId)
  if (head === 0) return []
  const { seq: earliest } = await reader.earliest(pipeId)
  let nearer: StoredMessage[] = []
  for (let distance = 1; ; distance *= 2) {
    const afterSeq = Math.max(earliest, head - distance)
    const { messages, more } = await reader.read(pipeId, afterSeq, newestLimits)
    const nearest = nearer[0]?.seq ?? Number.POSITIVE_INFINITY
    const found = more ? [...messages.filter(({ seq }) => seq < nearest), ...nearer] : messages
    if (more || afterSeq === earliest) return newestOf(found)
    nearer = messages
  }
}

/** Within the limits, but at least one. */
function newestOf(messages: readonly StoredMessage[]): StoredMessage[] {
  let [records, bytes] = [0, 0]
  const isWithin = ({ recordCount, body }: StoredMessage, at: number) => {
    const isLast = at === 0 || (records < newestLimits.maxRecords && bytes < newestLimits.maxBytes)
    records += recordCount
    bytes += body.length
    return isLast
  }
  const newestFirst = [...messages].reverse()
  const end = newestFirst.findIndex((message, at) => !isWithin(message, at))
  return newestFirst
    .slice(0, end === -1 ? newestFirst.length : end)
    .map(withoutDeleted)
    .map((message) => ({ ...message, body: beginning(message.body, newestLimits.maxBytes) }))
    .reverse()
}

export async function newestBodies(pipeId: string, reader: BufferReader): Promise<Buffer[]> {
  return (await newestMessages(pipeId, reader)).map(({ body }) => body)
}

/** Complete records up to `maxBytes`, but at least the first record. */
function beginning(body: Buffer, maxBytes: number): Buffer {
  if (body.length <= maxBytes) return body
  const last = body.lastIndexOf(lineFeed, maxBytes)
  const end = last === -1 ? body.indexOf(lineFeed) : last
  return end === -1 ? body : body.subarray(0, end)
}
