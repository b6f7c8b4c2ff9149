/**
 * A push lane's attempts, one at a time: the batch in memory ─▶ driver ─▶ outcome ─▶ what is left of the batch. Owns
 * the lane's driver and its slot in the destination's rate limit; `progress.ts` decides how an outcome changes the row.
 */
import { isUnreplicated } from '../contract/epochs.ts'
import { type Batch, type DestinationDriver, unreplicated } from '../destinations/driver.ts'
import type { MarkedMessage } from '../log/buffer.ts'
import type { LaneSpec, LaneState } from '../metadata/lane-state.ts'
import type { ParkedPosition } from '../metadata/parked-store-port.ts'
import { Attempt, type AttemptCalls, type AttemptOutcome, abortGraceMs, isCutShort } from './attempt.ts'
import { batchOf } from './batch.ts'
import { RateGate, type RetryWindow } from './clock.ts'
import type { AttemptCounts } from './delivery.ts'
import type { DurableState } from './durable-state.ts'
import type { LaneDeps } from './lane.ts'
import type { EndedAttempt } from './lane-log.ts'
import { type ParkingLane, RejectedRecordParking } from './parking.ts'
import { Progress, type ProgressState } from './progress.ts'

/** An idle connection is closed after this time. */
const idleDriverMs = 60_000

/** A position that attempts move through the pipe's messages: the lane's own, or that of a replay. */
export interface Course {
  readonly state: ProgressState & ParkingLane
  readonly driver: LaneDriver
  readonly parking: RejectedRecordParking
  readonly progress: Progress
  readonly isReplay: boolean
  /** The row has the range of these messages. */
  batchOf(messages: readonly MarkedMessage[], row: LaneState): Batch
}

export class PushAttempts {
  readonly #deps: LaneDeps
  readonly #state: DurableState
  /** The lane's own position. */
  readonly #own: Course
  /** The driver for replays. It is separate because their stored position is not the lane's. */
  readonly #replayDriver: LaneDriver
  readonly #rate: RateGate
  readonly counts: AttemptCounts = { delivered: 0, transient: 0, permanent: 0 }
  #current: Attempt | null = null

  constructor(state: DurableState, retry: RetryWindow, deps: LaneDeps) {
    this.#deps = deps
    this.#state = state
    const { destinationId } = state.row
    this.#replayDriver = new LaneDriver(destinationId, deps)
    const parking = new RejectedRecordParking(deps.parking, state, deps.parking.inherited)
    this.#own = {
      state,
      driver: new LaneDriver(destinationId, deps),
      parking,
      progress: new Progress(state, retry, parking, { ...progressDeps(deps), attempts: this.counts }),
      isReplay: false,
      batchOf: (messages, row) => batchOf(destinationId, messages, row.recordOffset, row.generation),
    }
    this.#rate = new RateGate(deps.clock)
  }

  /** The course of a replay. `inherited`: positions that an earlier process has parked in its current batch. */
  replayCourse(
    state: Course['state'],
    retry: RetryWindow,
    inherited: readonly ParkedPosition[],
    batchOfReplay: Course['batchOf'],
  ): Course {
    const parking = new RejectedRecordParking(this.#deps.parking, state, inherited)
    return {
      state,
      driver: this.#replayDriver,
      parking,
      progress: new Progress(state, retry, parking, { ...progressDeps(this.#deps), attempts: this.counts }),
      isReplay: true,
      batchOf: batchOfReplay,
    }
  }

  /** Monotonic time at which the destination's rate limit allows the next request. */
  nextSlotAt(spec: LaneSpec): number {
    return spec.rate === null ? 0 : this.#rate.nextSlotAt
  }

  /**
   * Attempts the row's range, which is the start of `inMemory`; the messages after it are searched for a failing one.
   * When it resolves, the row has the outcome but is not saved. Returns the messages that the next attempt needs again.
   */
  async run(
    inMemory: readonly MarkedMessage[],
    given: LaneSpec,
    { state, driver, parking, progress, isReplay, batchOf }: Course = this.#own,
  ): Promise<MarkedMessage[]> {
    const { row } = state
    const spec = isReplay ? { ...given, isForReplays: true } : given
    const messages = inMemory.filter(({ seq }) => seq <= row.batchLastSeq!)
    const rest = inMemory.slice(messages.length)
    const batch = batchOf(messages, row)
    const park: AttemptCalls['park'] = (rejected, requireCurrent) =>
      parking.park(rejected, messages, row, requireCurrent)
    const parks = spec.onPermanentError === 'park' ? park : null
    const attempted = await this.#attempt(driver, spec, batch, parks)
    const { outcome: ended } = attempted
    const isUnfinished =
      isCutShort(spec, batch) && hasTimedOut(ended) && ended.storedRecords > row.recordOffset
    const outcome: AttemptOutcome = isUnfinished ? { ...ended, kind: 'aborted' } : ended
    this.#observe(spec, batch, row.attempts + 1, { ...attempted, outcome })
    if (outcome.isHung) await driver.close()
    const left = await progress.settle(outcome, messages, rest, spec)
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
    if (messages[0]?.seq === seq) return messages[0].msgId
    return isUnreplicated(this.#deps.epochs, seq) ? unreplicated : null
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
    this.#own.progress.forgetTimeouts()
  }

  /** Called before the new transform changes the row. */
  transformChanged(): void {
    this.#own.parking.transformChanged(this.#state.row)
  }

  /** Time until `closeIdle` has something to close; Infinity when nothing is open. */
  get closesInMs(): number {
    return Math.min(this.#own.driver.closesInMs, this.#replayDriver.closesInMs)
  }

  async closeIdle(): Promise<void> {
    await this.#own.driver.closeIdle()
    await this.#replayDriver.closeIdle()
  }

  async close(): Promise<void> {
    await Promise.all([this.#own.driver.close(), this.#replayDriver.close()])
  }
}

function progressDeps({ clock, random }: LaneDeps) {
  return { clock, random }
}

function hasTimedOut(outcome: AttemptOutcome): outcome is Extract<AttemptOutcome, { kind: 'failed' }> {
  return outcome.kind === 'failed' && outcome.error.code === 'attempt_timeout'
}

/** A lane's driver: opened on demand, abandoned when it hangs, closed when idle. */
export class LaneDriver {
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
