/**
 * Sends a batch one record at a time, for destinations that accept only single records.
 *
 *   record 1 ─┐  up to `concurrency` in progress; no new ones after the first failure
 *   record 2 ─┼▶ destination   stored = the records from the start without a gap: the next attempt continues after them
 *   record 3 ─┘                and repeats those stored beyond the gap
 *
 * A repeated record has the same id. If the lane parks records, a rejected one counts as stored once it is parked, and the
 * others continue.
 */
import { v5 } from 'uuid'
import { recordPlace, records } from '../log/record-text.ts'
import {
  type AttemptProgress,
  type Batch,
  DeliveryError,
  type ParkRecords,
  type RejectedRecord,
} from './driver.ts'
import { parkAll, rejectedRecordOf } from './park.ts'

export interface SingleRecord {
  /** UUID version 5, the same for every attempt, so that the receiver can detect a repetition. */
  id: string
  body: Buffer
  /** The seq of its message. */
  seq: number
  /** Index in that message. */
  recordIndex: number
}

/**
 * In order, without those that are already stored. The id depends on the record, not the batch: a batch that failed half-way
 * continues with another range and identity. In a replay it depends on the replay: the receiver may have seen, and rejected,
 * the record under its original id.
 */
export function* singleRecords(batch: Batch, destinationId: string): Generator<SingleRecord, void> {
  let place = 0
  const namespace = batch.isReplay ? (batch.replayId ?? batch.identity) : destinationId
  for (const message of batch.messages) {
    const { body, msgId, seq } = message
    let at = 0
    for (const record of records(body)) {
      const recordIndex = recordPlace(message, at)
      if (place >= batch.recordOffset)
        yield { id: v5(`${msgId}:${recordIndex}`, namespace), body: record, seq, recordIndex }
      place += 1
      at += 1
    }
  }
}

export interface Sending<One> {
  batch: Batch
  /** The records of the batch that are not stored yet. */
  records: Iterator<One, void>
  concurrency: number
  /** Resolves once the record is stored. The part before its first await runs in the order of the records. */
  send(record: One): Promise<void>
}

/** Rejects with the error of the first record that is not stored, and the number of stored ones before it. */
export async function sendOneByOne<One>(
  { batch, records, concurrency, send }: Sending<One>,
  signal: AbortSignal,
  progress: AttemptProgress,
): Promise<void> {
  /** Indexes of stored records beyond one that is not stored yet. */
  const ahead = new Set<number>()
  const failures: { place: number; error: unknown }[] = []
  let stored = batch.recordOffset
  let begun = batch.recordOffset
  let next = batch.recordOffset
  const isOver = () => failures.length > 0 || parking.hasFailed || signal.aborted
  const isDone = (place: number) => {
    ahead.add(place)
    while (ahead.delete(stored)) stored += 1
    progress.stored(stored)
  }
  const parking = new ParkQueue(progress.park, isDone)

  /** False: no record is left. Index and record are read together, so that the first call sends the earlier record. */
  const sendNext = async () => {
    const place = next++
    const { value: record } = records.next()
    if (record === undefined) return false
    try {
      await send(record)
      isDone(place)
    } catch (error) {
      if (!parking.takes(place, error)) failures.push({ place, error })
    }
    return true
  }
  const worker = async () => {
    while (begun < batch.recordCount && !isOver()) {
      begun += 1
      if (begun > batch.recordOffset + 1) await progress.beforeRequest()
      if (isOver() || !(await sendNext())) return
    }
  }
  await Promise.all(Array.from({ length: concurrency }, worker))
  await parking.done().catch((error: unknown) => failures.push({ place: stored, error }))
  const [first] = failures.sort((one, other) => one.place - other.place)
  if (first?.error instanceof DeliveryError) throw first.error.with({ storedRecords: stored })
  if (first !== undefined) throw first.error
  if (signal.aborted && stored < batch.recordCount) throw aborted().with({ storedRecords: stored })
}

export function aborted(): DeliveryError {
  return new DeliveryError('transient', 'aborted', 'The attempt was cancelled.')
}

/**
 * Collects records to park while others are sent: those that are rejected during one call are parked in the next. Each counts
 * as stored once it is parked; until then it would be sent again.
 */
class ParkQueue {
  readonly #park: ParkRecords | null
  readonly #onParked: (place: number) => void
  #waiting: { place: number; rejected: RejectedRecord }[] = []
  #parking: Promise<void> | null = null
  /** Some records could not be parked. */
  hasFailed = false

  constructor(park: ParkRecords | null, onParked: (place: number) => void) {
    this.#park = park
    this.#onParked = onParked
  }

  /** True: the error concerns only this record, which is parked. */
  takes(place: number, error: unknown): boolean {
    const rejected = rejectedRecordOf(error)
    if (this.#park === null || rejected === undefined) return false
    this.#waiting.push({ place, rejected })
    this.#parking ??= this.#run(this.#park)
    // The caller that waits for all of them reports the error.
    this.#parking.catch(() => {
      this.hasFailed = true
    })
    return true
  }

  /** Rejects if some records could not be parked. */
  async done(): Promise<void> {
    await this.#parking
  }

  async #run(park: ParkRecords): Promise<void> {
    while (this.#waiting.length > 0) {
      const taken = this.#waiting
      this.#waiting = []
      await parkAll(
        park,
        taken.map(({ rejected }) => rejected),
      )
      for (const { place } of taken) this.#onParked(place)
    }
    this.#parking = null
  }
}
