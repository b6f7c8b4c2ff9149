/** A lane's replays, of parked records (here) and of ranges of messages (`range-replays.ts`). */
import { v5 } from 'uuid'
import { type Batch, DeliveryError } from '../destinations/driver.ts'
import { descriptorOf } from '../destinations/drivers.ts'
import { type LaneSpec, newLaneState } from '../metadata/lane-state.ts'
import type { ParkedCause, Replay } from '../metadata/parked-store-port.ts'
import { StorageUnavailableError } from '../platform/error-code.ts'
import type { AttemptOutcome } from './attempt.ts'
import { filteredOf } from './batch.ts'
import { RetryWindow } from './clock.ts'
import type { DurableState } from './durable-state.ts'
import type { LaneDeps } from './lane.ts'
import type { PushAttempts } from './push-attempts.ts'
import { RangeReplays } from './range-replays.ts'

/**
 * A lane's replays of parked records, one parked row at a time. Each is a batch of its own between two of the lane's
 * batches or retries.
 *
 *   requested ──▶ (the cursor is past its message) ──▶ attempt ──stored──▶ row deleted, counted, in one save
 *                      ▲                                 │
 *                      └── pause (backoff) ◀─────────────┼─ transient, or a fault of the destination
 *                                                        └─ rejected, or too long without success ─▶ parked again
 *
 * Identity: UUID version 5 of the parked row and its try, so that a repeat of the same try can be recognized. A replay
 * starts only when the cursor is past its message; until then the lane itself can still store it. The next replay
 * starts only when the previous one was stored or abandoned: with `exactly_once`, a row in `_pipectl_lanes` identifies
 * only the last one.
 *
 * A replay of a range makes its next attempt when no parked record is due. Once one of its batches has begun, parked
 * records wait until that batch is stored or abandoned.
 *
 * After a crash:
 *
 *   | the process ends …                          | the parked row says   | after restart                          |
 *   |---------------------------------------------|-----------------------|----------------------------------------|
 *   | after it was requested                      | replaying             | it is replayed                         |
 *   | after its number is saved (exactly_once)    | replaying, the number | the same try, the same number: the     |
 *   |                                             |                       |   destination's row says if it is there|
 *   | after the destination stored it, before     | replaying             | the same try again: at least once;     |
 *   |   that is saved                             |                       |   exactly_once: nothing is sent        |
 *   | after that save                             | there is none         | the next one                           |
 *   | half-way (json_object), before that save    | all of its records    | the same records, the same identities  |
 *   | after it was rejected, before that save     | replaying             | the same try again                     |
 */
type Failed = Extract<AttemptOutcome, { kind: 'failed' }>

export class Replays {
  readonly #destinationId: string
  readonly #state: DurableState
  readonly #attempts: PushAttempts
  readonly #deps: LaneDeps
  readonly #ranges: RangeReplays
  /** Counts only failures of the current replay; the lane counts its own. */
  readonly #retry: RetryWindow
  /** Attempts of the current replay. */
  #tries = 0
  /** Nothing can be replayed until the cursor has moved past this seq. */
  #waitsAtSeq: number | null = null

  constructor(destinationId: string, state: DurableState, attempts: PushAttempts, deps: LaneDeps) {
    this.#destinationId = destinationId
    this.#state = state
    this.#attempts = attempts
    this.#deps = deps
    this.#ranges = new RangeReplays(destinationId, state, attempts, deps)
    this.#retry = new RetryWindow(newLaneState(destinationId), deps.clock)
  }

  /** Infinity when nothing was requested, or the replay waits for the lane. */
  get dueInMs(): number {
    const isWaiting = this.#waitsAtSeq === this.#state.row.cursorSeq
    const hasParked = this.#deps.parking.counts.isReplaying && !isWaiting
    if (!hasParked || this.#ranges.hasBegun) return this.#ranges.dueInMs
    return Math.max(0, this.#retry.nextAttemptAt - this.#deps.clock.monotonicMs())
  }

  /** A replay was requested, or the destination was changed. */
  changed(): void {
    this.#waitsAtSeq = null
    this.#retry.tryNow()
    this.#ranges.changed()
  }

  reconfigured(before: LaneSpec, after: LaneSpec): void {
    this.changed()
    this.#ranges.reconfigured(before, after)
  }

  forgetErrorText(): Promise<void> {
    return this.#ranges.forgetErrorText()
  }

  /** Makes one attempt at the next replay. The lane holds no memory meanwhile. */
  async run(spec: LaneSpec, interrupt: AbortSignal): Promise<void> {
    try {
      await this.#state.saveIfDirty()
      const replay = (await this.#ranges.hasBegunBatch()) ? null : await this.#nextParked()
      if (replay !== null) await this.#attempt(replay, spec, interrupt)
      else if (!(await this.#ranges.run(spec, interrupt))) await this.#deps.parking.refresh()
    } catch (error) {
      if (!(error instanceof StorageUnavailableError)) throw error
      const unavailable = new DeliveryError('transient', 'storage_unavailable', error.message)
      this.#pause(unavailable, spec)
      this.#ranges.pause(unavailable, spec)
    }
  }

  async #nextParked(): Promise<Replay | null> {
    if (!this.#deps.parking.counts.isReplaying) return null
    const { cursorSeq } = this.#state.row
    const replay = await this.#deps.parking.store.nextReplay(this.#destinationId, cursorSeq)
    this.#waitsAtSeq = replay === null ? cursorSeq : null
    return replay
  }

  async #attempt(replay: Replay, spec: LaneSpec, interrupt: AbortSignal): Promise<void> {
    const { message } = replay
    const memory = this.#deps.budget.of(spec.workspaceId)
    const reservation = await memory.reserve(message.body.length, interrupt)
    if (reservation === null) return
    try {
      const number = await this.#numberOf(replay, spec)
      const { replica } = this.#deps
      // A new primary must not give the number to another replay.
      if (number !== 0 && replica !== null && !(await replica.stored(interrupt))) return
      const batch = replayBatch(replay, number)
      await this.#settle(await this.#attempts.replay(batch, spec, this.#tries + 1), replay, spec)
    } finally {
      reservation.release()
    }
  }

  /** The number that distinguishes the replays of a lane at destinations that store their own progress; 0 at others. */
  async #numberOf({ parkedId, replayNo }: Replay, { type, config }: LaneSpec): Promise<number> {
    if (!descriptorOf(type).isExactlyOnce(config)) return 0
    const { store, owner } = this.#deps.parking
    this.#ranges.numberTaken()
    return replayNo ?? (await store.beginReplay(owner, parkedId))
  }

  async #settle(outcome: AttemptOutcome, replay: Replay, spec: LaneSpec): Promise<void> {
    const { parkedId, firstIndex, message } = replay
    if (outcome.kind === 'delivered' || outcome.storedRecords >= message.recordCount) {
      this.#end()
      const filtered = filteredOf([message], outcome.filtered)
      await this.#state.replayed(parkedId, message.recordCount - filtered, filtered)
      this.#state.log.replayed(parkedId, message)
      return
    }
    if (outcome.kind === 'failed') return await this.#failed(outcome, replay, spec)
    const { store, owner } = this.#deps.parking
    if (outcome.storedRecords > 0)
      await store.replayHalfStored(owner, parkedId, firstIndex + outcome.storedRecords)
  }

  async #failed({ error, storedRecords }: Failed, { parkedId, firstIndex, message }: Replay, spec: LaneSpec) {
    const { store, owner } = this.#deps.parking
    const unstoredFrom = firstIndex + storedRecords
    this.#tries += 1
    this.#state.count({ failedAttempts: 1 })
    this.#attempts.counts[error.class] += 1
    this.#retry.failed()
    const isRejected = error.fault === 'records' || (error.class === 'permanent' && error.fault === undefined)
    const isGivenUp = isRejected || this.#retry.isStalled(spec.maxRetrySeconds)
    if (!isGivenUp) {
      if (storedRecords > 0) await store.replayHalfStored(owner, parkedId, unstoredFrom)
      this.#pause(error, spec)
      return
    }
    const tried = { attempts: this.#tries, firstIndex: unstoredFrom }
    await store.replayFailed(owner, parkedId, causeOf(error), tried)
    this.#end()
    await this.#deps.parking.refresh()
    this.#state.log.replayFailed(parkedId, message, error)
  }

  #pause(error: DeliveryError, spec: LaneSpec): void {
    this.#retry.pause(error, spec.maxRetrySeconds, this.#deps.random)
  }

  #end(): void {
    this.#tries = 0
    this.#retry.clear()
  }
}

function replayBatch({ parkedId, replays, firstIndex, message }: Replay, generation: number): Batch {
  return {
    identity: v5(String(replays), parkedId),
    firstSeq: message.seq,
    lastSeq: message.seq,
    messages: [{ ...message, firstIndex }],
    recordCount: message.recordCount,
    byteCount: message.body.length,
    recordOffset: 0,
    generation,
    isReplay: true,
  }
}

function causeOf({ code, message, rejected }: DeliveryError): Omit<ParkedCause, 'reason'> {
  const { column = null, value = null } = rejected ?? {}
  return { code, message, column, value }
}
