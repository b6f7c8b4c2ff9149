/**
 * A push lane's attempts, one at a time: the batch in memory ─▶ driver ─▶ outcome ─▶ what is left of the batch. Owns
 * the lane's driver and its slot in the destination's rate limit; `progress.ts` decides how an outcome changes the row.
 */
import { v5 } from 'uuid'
import { type Batch, DeliveryError, type DestinationDriver } from '../destinations/driver.ts'
import { descriptorOf } from '../destinations/drivers.ts'
import type { MarkedMessage } from '../log/buffer.ts'
import { type LaneSpec, newLaneState } from '../metadata/lane-state.ts'
import type { ParkedCause, Replay } from '../metadata/parked-store-port.ts'
import { StorageUnavailableError } from '../platform/error-code.ts'
import { Attempt, type AttemptCalls, type AttemptOutcome, abortGraceMs, isCutShort } from './attempt.ts'
import { batchOf, filteredOf } from './batch.ts'
import { RateGate, RetryWindow } from './clock.ts'
import type { AttemptCounts } from './delivery.ts'
import type { DurableState } from './durable-state.ts'
import type { LaneDeps } from './lane.ts'
import type { EndedAttempt } from './lane-log.ts'
import { RejectedRecordParking } from './parking.ts'
import { Progress } from './progress.ts'

/** An idle connection is closed after this time. */
const idleDriverMs = 60_000

export class PushAttempts {
  readonly #deps: LaneDeps
  readonly #state: DurableState
  readonly #driver: LaneDriver
  /** The driver for replays. It is separate because their stored position is not the lane's. */
  readonly #replayDriver: LaneDriver
  readonly #progress: Progress
  readonly #rate: RateGate
  readonly #parking: RejectedRecordParking
  #current: Attempt | null = null

  constructor(state: DurableState, retry: RetryWindow, deps: LaneDeps) {
    this.#deps = deps
    this.#state = state
    const { destinationId } = state.row
    this.#driver = new LaneDriver(destinationId, deps)
    this.#replayDriver = new LaneDriver(destinationId, deps)
    this.#parking = new RejectedRecordParking(deps.parking, state)
    this.#progress = new Progress(state, retry, this.#parking, deps)
    this.#rate = new RateGate(deps.clock)
  }

  get counts(): AttemptCounts {
    return this.#progress.attempts
  }

  /** Monotonic time at which the destination's rate limit allows the next request. */
  nextSlotAt(spec: LaneSpec): number {
    return spec.rate === null ? 0 : this.#rate.nextSlotAt
  }

  /**
   * Attempts the row's range, which is the start of `inMemory`; the messages after it are searched for a failing one.
   * When it resolves, the row has the outcome but is not saved. Returns the messages that the next attempt needs again.
   */
  async run(inMemory: readonly MarkedMessage[], spec: LaneSpec): Promise<MarkedMessage[]> {
    const { row } = this.#state
    const messages = inMemory.filter(({ seq }) => seq <= row.batchLastSeq!)
    const rest = inMemory.slice(messages.length)
    const batch = batchOf(spec.destinationId, messages, row.recordOffset, row.generation)
    const park: AttemptCalls['park'] = (rejected, requireCurrent) =>
      this.#parking.park(rejected, messages, row, requireCurrent)
    const parks = spec.onPermanentError === 'park' ? park : null
    const attempted = await this.#attempt(this.#driver, spec, batch, parks)
    const { outcome: ended } = attempted
    const isUnfinished =
      isCutShort(spec, batch) && hasTimedOut(ended) && ended.storedRecords > row.recordOffset
    const outcome: AttemptOutcome = isUnfinished ? { ...ended, kind: 'aborted' } : ended
    this.#observe(spec, batch, row.attempts + 1, { ...attempted, outcome })
    if (outcome.isHung) await this.#driver.close()
    const left = await this.#progress.settle(outcome, messages, rest, spec)
    // Frees the memory for waiting lanes; the remaining messages are read again.
    return isUnfinished ? [] : left
  }

  /** Makes one attempt at parked records. Its outcome is not saved here. */
  async replay(batch: Batch, spec: LaneSpec, attempt: number): Promise<AttemptOutcome> {
    const ended = await this.#attempt(this.#replayDriver, { ...spec, isForReplays: true }, batch, null)
    this.#observe(spec, batch, attempt, ended)
    const { outcome } = ended
    if (outcome.kind === 'delivered') this.counts.delivered += 1
    if (outcome.isHung) await this.#replayDriver.close()
    return outcome
  }

  async #attempt(
    driver: LaneDriver,
    spec: LaneSpec,
    batch: Batch,
    park: AttemptCalls['park'],
  ): Promise<EndedAttempt> {
    const { pipeId, rate } = spec
    const { clock } = this.#deps
    const requestsPerSecond = rate?.requestsPerSecond ?? null
    const calls: AttemptCalls = {
      beforeRequest: (signal) => this.#rate.wait(requestsPerSecond, signal),
      messageIdAt: (seq) => this.#messageIdAt(pipeId, seq),
      park,
    }
    const attempt = new Attempt({ spec, batch, driver: driver.opened(spec) }, calls, this.#deps)
    const startedMs = clock.now()
    const startedAt = clock.monotonicMs()
    const slotAt = this.#rate.take(requestsPerSecond)
    this.#current = attempt
    const outcome = await attempt.run()
    this.#current = null
    if (outcome.wasAsked) driver.used()
    else this.#rate.returnSlot(slotAt)
    return { outcome, startedMs, tookMs: clock.monotonicMs() - startedAt }
  }

  async #messageIdAt(pipeId: string, seq: number): Promise<string | null> {
    const { messages } = await this.#deps.reader.read(pipeId, seq - 1, { maxRecords: 1, maxBytes: 1 })
    return messages[0]?.seq === seq ? messages[0].msgId : null
  }

  /** Logs, measures and records each attempt. */
  #observe(spec: LaneSpec, batch: Batch, attempt: number, ended: EndedAttempt): void {
    const { outcome, startedMs, tookMs } = ended
    this.#state.log.attempted(batch, attempt, outcome, tookMs)
    this.#deps.observed.attempted(spec.type, batch, outcome.kind, tookMs)
    if (outcome.kind !== 'aborted') this.#state.attempted({ batch, attempt, outcome, startedMs, tookMs })
  }

  /** Ends the current attempt, which then does not count as one. */
  abort(): void {
    this.#current?.interrupt()
  }

  /** The current range is no longer the one that timed out. */
  forgetTimeouts(): void {
    this.#progress.forgetTimeouts()
  }

  /** Called before the new transform changes the row. */
  transformChanged(): void {
    this.#parking.transformChanged(this.#state.row)
  }

  /** Time until `closeIdle` has something to close; Infinity when nothing is open. */
  get closesInMs(): number {
    return Math.min(this.#driver.closesInMs, this.#replayDriver.closesInMs)
  }

  async closeIdle(): Promise<void> {
    await this.#driver.closeIdle()
    await this.#replayDriver.closeIdle()
  }

  async close(): Promise<void> {
    await Promise.all([this.#driver.close(), this.#replayDriver.close()])
  }
}

function hasTimedOut(outcome: AttemptOutcome): outcome is Extract<AttemptOutcome, { kind: 'failed' }> {
  return outcome.kind === 'failed' && outcome.error.code === 'attempt_timeout'
}

/** A lane's driver: opened on demand, abandoned when it hangs, closed when idle. */
class LaneDriver {
  readonly #destinationId: string
  readonly #deps: LaneDeps
  #driver: DestinationDriver | null = null
  #usedAt = 0

  constructor(destinationId: string, deps: LaneDeps) {
    this.#destinationId = destinationId
    this.#deps = deps
  }

  opened(spec: LaneSpec): DestinationDriver {
    this.#driver ??= this.#deps.openDriver(spec)
    return this.#driver
  }

  used(): void {
    this.#usedAt = this.#deps.clock.monotonicMs()
  }

  /** Infinity when nothing is open. */
  get closesInMs(): number {
    if (this.#driver === null) return Number.POSITIVE_INFINITY
    return Math.max(0, this.#usedAt + idleDriverMs - this.#deps.clock.monotonicMs())
  }

  async closeIdle(): Promise<void> {
    if (this.closesInMs === 0) await this.close()
  }

  /** A hanging driver can also hang while closing, so closing is limited like an abort. */
  async close(): Promise<void> {
    const driver = this.#driver
    this.#driver = null
    if (driver === null) return
    const { clock, log, steps } = this.#deps
    const closed = steps.guard
      .inLane(this.#destinationId, () => driver.close())
      .catch((error: unknown) => log.warn({ err: error }, 'driver.close_failed'))
    await new Promise<void>((resolve) => {
      const cancel = clock.wake(abortGraceMs, resolve)
      void Promise.all([closed, steps.drift.close(this.#destinationId)]).then(() => {
        cancel()
        resolve()
      })
    })
  }
}

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
    this.#retry = new RetryWindow(newLaneState(destinationId), deps.clock)
  }

  /** Infinity when nothing was requested, or the replay waits for the lane. */
  get dueInMs(): number {
    const isWaiting = this.#waitsAtSeq === this.#state.row.cursorSeq
    if (!this.#deps.parking.counts.isReplaying || isWaiting) return Number.POSITIVE_INFINITY
    return Math.max(0, this.#retry.nextAttemptAt - this.#deps.clock.monotonicMs())
  }

  /** A replay was requested, or the destination was changed. */
  changed(): void {
    this.#waitsAtSeq = null
    this.#retry.tryNow()
  }

  /** Makes one attempt at the next replay. The lane holds no memory meanwhile. */
  async run(spec: LaneSpec, interrupt: AbortSignal): Promise<void> {
    try {
      await this.#state.saveIfDirty()
      const { cursorSeq } = this.#state.row
      const replay = await this.#deps.parking.store.nextReplay(this.#destinationId, cursorSeq)
      if (replay === null) {
        this.#waitsAtSeq = cursorSeq
        await this.#deps.parking.refresh()
      } else await this.#attempt(replay, spec, interrupt)
    } catch (error) {
      if (!(error instanceof StorageUnavailableError)) throw error
      this.#pause(new DeliveryError('transient', 'storage_unavailable', error.message), spec)
    }
  }

  async #attempt(replay: Replay, spec: LaneSpec, interrupt: AbortSignal): Promise<void> {
    const { message } = replay
    const memory = this.#deps.budget.of(spec.workspaceId)
    const reservation = await memory.reserve(message.body.length, interrupt)
    if (reservation === null) return
    try {
      const batch = replayBatch(replay, await this.#numberOf(replay, spec))
      await this.#settle(await this.#attempts.replay(batch, spec, this.#tries + 1), replay, spec)
    } finally {
      reservation.release()
    }
  }

  /** The number that distinguishes the replays of a lane at destinations that store their own progress. */
  async #numberOf({ parkedId, replayNo }: Replay, { type, config }: LaneSpec): Promise<number> {
    if (!descriptorOf(type).isExactlyOnce(config)) return 0
    const { store, owner } = this.#deps.parking
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
