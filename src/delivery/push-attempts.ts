/**
 * A push lane's attempts, one at a time: the batch in memory ─▶ driver ─▶ outcome ─▶ what is left of the batch. Owns the
 * lane's driver and its place in the destination's rate; what an outcome does to the row is decided by `progress.ts`.
 */
import type { Batch } from '../destinations/driver.ts'
import type { MarkedMessage } from '../log/buffer.ts'
import type { LaneSpec } from '../metadata/lane-state.ts'
import {
  type AttemptOutcome,
  type AttemptServices,
  attemptDelivery,
  attemptLimitMs,
  isCutShort,
  LaneDriver,
} from './attempt.ts'
import { batchOf } from './batch.ts'
import type { AttemptCounts } from './delivery.ts'
import type { DurableState } from './durable-state.ts'
import { FilteredRecords } from './filtered-records.ts'
import type { LaneDeps } from './lane-deps.ts'
import { Progress } from './progress.ts'
import { RateGate } from './rate-gate.ts'
import { RefusedRecords } from './refused-records.ts'
import type { RetryWindow } from './retry.ts'

export class PushAttempts {
  readonly #deps: LaneDeps
  readonly #state: DurableState
  readonly #driver: LaneDriver
  /** The driver of replays: their stored position is not the lane's. */
  readonly #replayDriver: LaneDriver
  readonly #progress: Progress
  readonly #rate: RateGate
  readonly #refused: RefusedRecords
  readonly #filtered = new FilteredRecords()
  #abort: (() => void) | null = null

  constructor(state: DurableState, retry: RetryWindow, deps: LaneDeps) {
    this.#deps = deps
    this.#state = state
    this.#driver = new LaneDriver(deps.clock, deps.log)
    this.#replayDriver = new LaneDriver(deps.clock, deps.log)
    this.#refused = new RefusedRecords(deps.parking, state)
    this.#progress = new Progress(state, retry, this.#refused, this.#filtered, deps)
    this.#rate = new RateGate(deps.clock)
  }

  get counts(): AttemptCounts {
    return this.#progress.attempts
  }

  /** Monotonic: when the destination's own rate allows the next request. */
  nextSlotAt(spec: LaneSpec): number {
    return spec.rate === null ? 0 : this.#rate.nextSlotAt
  }

  /**
   * Attempts the row's range, whose messages `inMemory` starts with; those after it are being searched for a failing
   * message. The row has the outcome when it resolves, unsaved. Returns the messages that the next attempt needs again.
   */
  async run(inMemory: readonly MarkedMessage[], spec: LaneSpec): Promise<MarkedMessage[]> {
    const { row } = this.#state
    const messages = inMemory.filter(({ seq }) => seq <= row.batchLastSeq!)
    const rest = inMemory.slice(messages.length)
    const batch = batchOf(spec.destinationId, messages, row.recordOffset, row.generation)
    const requestsPerSecond = spec.rate?.requestsPerSecond ?? null
    const { clock, openDriver } = this.#deps
    const interrupt = new AbortController()
    this.#abort = () => interrupt.abort()
    const startedAt = clock.monotonicMs()
    this.#filtered.clear()
    const slotAt = this.#rate.take(requestsPerSecond)
    const ended = await attemptDelivery(
      (signal, progress) => this.#driver.deliver(batch, signal, progress, () => openDriver(spec)),
      attemptLimitMs(spec, batch),
      interrupt.signal,
      {
        ...this.#servicesOf(spec, this.#filtered, slotAt),
        park:
          spec.onPermanentError === 'park'
            ? (rejected, requireCurrent) => this.#refused.park(rejected, messages, row, requireCurrent)
            : null,
      },
    )
    this.#abort = null
    const isUnfinished =
      isCutShort(spec, batch) && hasTimedOut(ended) && ended.storedRecords > row.recordOffset
    const outcome: AttemptOutcome = isUnfinished ? { ...ended, kind: 'aborted' } : ended
    const tookMs = clock.monotonicMs() - startedAt
    this.#state.log.attempted(batch, row.attempts + 1, outcome, tookMs)
    this.#deps.observed.attempted(spec.type, batch, outcome.kind, tookMs)
    if (outcome.isHung) await this.#driver.close()
    const left = await this.#progress.settle(outcome, messages, rest, spec)
    // Its memory is for whoever waits for it: what is left is read again.
    return isUnfinished ? [] : left
  }

  /** One attempt at parked records. Nothing is saved of its outcome here. `filtered`: so many are not for this destination. */
  async replay(
    batch: Batch,
    spec: LaneSpec,
    attempt: number,
  ): Promise<{ outcome: AttemptOutcome; filtered: number }> {
    const requestsPerSecond = spec.rate?.requestsPerSecond ?? null
    const { clock, openDriver } = this.#deps
    const interrupt = new AbortController()
    this.#abort = () => interrupt.abort()
    const startedAt = clock.monotonicMs()
    const filtered = new FilteredRecords()
    const slotAt = this.#rate.take(requestsPerSecond)
    const outcome = await attemptDelivery(
      (signal, progress) =>
        this.#replayDriver.deliver(batch, signal, progress, () =>
          openDriver({ ...spec, isForReplays: true }),
        ),
      attemptLimitMs(spec, batch),
      interrupt.signal,
      this.#servicesOf(spec, filtered, slotAt),
    )
    this.#abort = null
    const tookMs = clock.monotonicMs() - startedAt
    this.#state.log.attempted(batch, attempt, outcome, tookMs)
    this.#deps.observed.attempted(spec.type, batch, outcome.kind, tookMs)
    if (outcome.kind === 'delivered') this.counts.delivered += 1
    if (outcome.isHung) await this.#replayDriver.close()
    return { outcome, filtered: filtered.take(batch.messages) }
  }

  #servicesOf({ pipeId, rate }: LaneSpec, filtered: FilteredRecords, slotAt: number): AttemptServices {
    const { clock, log } = this.#deps
    return {
      clock,
      log,
      beforeRequest: (signal) => this.#rate.wait(rate?.requestsPerSecond ?? null, signal),
      messageIdAt: (seq) => this.#messageIdAt(pipeId, seq),
      park: null,
      filtered: (seq, records) => filtered.note(seq, records),
      notAsked: () => this.#rate.putBack(slotAt),
    }
  }

  async #messageIdAt(pipeId: string, seq: number): Promise<string | null> {
    const { messages } = await this.#deps.reader.read(pipeId, seq - 1, { maxRecords: 1, maxBytes: 1 })
    return messages[0]?.seq === seq ? messages[0].msgId : null
  }

  /** The attempt under way ends without counting as one. */
  abort(): void {
    this.#abort?.()
  }

  /** The range under way is no longer the one that timed out. */
  forgetTimeouts(): void {
    this.#progress.forgetTimeouts()
  }

  /** Before the row is changed by it. */
  transformChanged(): void {
    this.#refused.transformChanged(this.#state.row)
  }

  /** When `closeIdle` will have something to close; Infinity: nothing is open. */
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
