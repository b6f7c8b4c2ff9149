/**
 * A driver whose batches go through the destination's transform first.
 *
 *   batch ──filter, map──▶ kept records, each with its own place in its message ──▶ driver
 *              ├─ filtered out ──▶ counted by the lane
 *              ├─ cannot be applied ──▶ parked, or an error of that record, as when the destination refuses it
 *              └─ nothing is left ──▶ delivered: the driver is not asked
 *
 * The batch keeps its identity, its range and its messages, one without records included, and each record its place: so ids are
 * the same whatever is left out, and a repeat is a repeat. The lane counts what it gave; between it and the driver
 * `recordOffset` and `stored` are translated. What is parked is the record as it was received: its replay is transformed.
 */
import type { Transform } from '../contract/transform.ts'
import {
  type AttemptProgress,
  type Batch,
  DeliveryError,
  type DestinationDriver,
  noProgress,
  type RejectedRecord,
} from '../destinations/driver.ts'
import { parkInSlices } from '../destinations/park.ts'
import type { StoredMessage } from '../log/buffer.ts'
import { recordPlace } from '../log/record-text.ts'
import type { LaneSpec } from '../metadata/lane-state.ts'
import { ExceededError, type TransformedBody, type Turn } from './transform/thread-protocol.ts'
import type { TransformThreads } from './transform/transform-threads.ts'

export function transformedDriver(
  spec: Pick<LaneSpec, 'workspaceId' | 'destinationId' | 'transform' | 'unreadableSecrets'>,
  driver: DestinationDriver,
  threads: Pick<TransformThreads, 'run'>,
): DestinationDriver {
  const { transform, workspaceId, destinationId } = spec
  // Without its salt it would mask otherwise: the driver says what cannot be read, and sends nothing.
  if (transform === null || transform === undefined || spec.unreadableSecrets !== undefined) return driver
  return {
    async deliver(batch, signal, progress = noProgress) {
      const lane = { workspaceId, destinationId }
      progress.transforming(true)
      const made = await transformed(threads, lane, transform, batch, signal)
      progress.transforming(false)
      const kept = new KeptRecords(batch, made)
      for (const [at, { seq }] of batch.messages.entries()) progress.filtered(seq, made[at]!.filtered)
      await parkFailed(kept.failed, progress)
      if (kept.batch.recordOffset >= kept.batch.recordCount) {
        progress.notAsked()
        return
      }
      try {
        await driver.deliver(kept.batch, signal, kept.progress(progress))
      } catch (error) {
        const isPartly = error instanceof DeliveryError && error.storedRecords !== undefined
        throw isPartly ? error.with({ storedRecords: kept.given(error.storedRecords!) }) : error
      }
    },
    close: () => driver.close(),
  }
}

async function transformed(
  threads: Pick<TransformThreads, 'run'>,
  lane: Turn,
  transform: Transform,
  { messages, firstSeq }: Batch,
  signal: AbortSignal,
): Promise<TransformedBody[]> {
  const bodies = messages.map(({ body }) => body)
  try {
    return await threads.run(lane, transform, bodies, signal)
  } catch (error) {
    if (signal.aborted) throw new DeliveryError('transient', 'aborted', 'It was ended before it was sent.')
    if (!(error instanceof ExceededError)) {
      const message = error instanceof Error ? error.message : String(error)
      throw new DeliveryError('transient', 'transform_failed', `The transform could not be run: ${message}.`)
    }
    throw exceeded(error, messages, firstSeq)
  }
}

/** Nothing was sent: several messages go in smaller batches, at once. One alone is at fault itself. */
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

async function parkFailed(
  failed: readonly RejectedRecord[],
  { park }: Pick<AttemptProgress, 'park'>,
): Promise<void> {
  const [first] = failed
  if (first === undefined) return
  if (park === null) {
    const { code, message, seq: failedSeq } = first
    throw new DeliveryError('permanent', code, message, { fault: 'records', failedSeq, rejected: first })
  }
  await parkInSlices(park, failed)
}

/** Between a batch as the lane gave it and as the driver gets it. */
class KeptRecords {
  readonly batch: Batch
  /** But for those that are stored or parked already. */
  readonly failed: readonly RejectedRecord[]
  /** The position of each kept record among all that were given. */
  readonly #origins: number[] = []
  readonly #given: Batch

  constructor(given: Batch, made: readonly TransformedBody[]) {
    this.#given = given
    const messages: StoredMessage[] = []
    const failed: RejectedRecord[] = []
    let before = 0
    for (const [at, message] of given.messages.entries()) {
      const { body, places, failed: failures } = made[at]!
      const recordCount = places?.length ?? message.recordCount
      for (let index = 0; index < recordCount; index += 1)
        this.#origins.push(before + (places?.[index] ?? index))
      for (const { place, code, message: text } of failures) {
        if (before + place < given.recordOffset) continue
        failed.push({ seq: message.seq, recordIndex: recordPlace(message, place), code, message: text })
      }
      messages.push({
        ...message,
        recordCount,
        ...(body === null ? {} : { body: Buffer.from(body.buffer, body.byteOffset, body.byteLength) }),
        ...(places === null ? {} : { places: places.map((place) => recordPlace(message, place)) }),
      })
      before += message.recordCount
    }
    this.failed = failed
    const offset = this.#origins.findIndex((origin) => origin >= given.recordOffset)
    this.batch = {
      ...given,
      messages,
      recordCount: this.#origins.length,
      byteCount: messages.reduce((sum, { body }) => sum + body.length, 0),
      recordOffset: offset === -1 ? this.#origins.length : offset,
    }
  }

  /** The lane's count for so many records of the driver's: those left out before the next one are done with too. */
  given(stored: number): number {
    return this.#origins[stored] ?? this.#given.recordCount
  }

  progress(progress: AttemptProgress): AttemptProgress {
    return { ...progress, stored: (records) => progress.stored(this.given(records)) }
  }
}
