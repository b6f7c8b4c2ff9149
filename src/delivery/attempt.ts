/**
 * One attempt at one batch, bounded even when the driver hangs. Its steps, in this order (`#deliver`):
 *
 *   transform ──▶ filter and map in a thread for transforms (`transformBatch`); none of the batch left: delivered
 *   park ───────▶ records that the transform cannot be applied to
 *   guard ──────▶ the worker's board marks the lane as under way; a lane that crashed a worker has its own thread (`containment.ts`)
 *   driver ─────▶ the destination stores the records, and parks what it rejects
 *   drift ──────▶ the keys of some delivered records are counted (`drift.ts`), and can get a column (`column-adder.ts`)
 *
 * The outcome of an attempt:
 *
 *   deliver ──resolves──────────────────────────────▶ delivered
 *      │  └──rejects────────────────────────────────▶ failed (error of the destination, or ours as `internal`)
 *      ├─ limit reached ─ abort ─ settles within 2 s ▶ delivered, or failed `attempt_timeout`, or, where the batch's
 *      │                                               transform had not ended, `transform_waiting`
 *      ├─ interrupted ─── abort ─ settles within 2 s ▶ delivered, or aborted (not an attempt)
 *      └─ still not settled 2 s after the abort ─────▶ the same, and the driver is abandoned: `isHung`
 *
 * In every case `storedRecords` is the number of records, from the start of the batch, that need not be sent again.
 * Later reports of an abandoned driver are ignored, because the lane already repeats the batch. An abandoned driver
 * parks nothing either: the attempt must still be under way when the rows are written. A write that started before
 * completes, and the repeat parks the same rows.
 */
import { setMaxListeners } from 'node:events'
import { maxConcurrency } from '../contract/delivery-settings.ts'
import {
  type AttemptExchange,
  type AttemptProgress,
  type Batch,
  DeliveryError,
  type DestinationDriver,
  type Exchanged,
  type ParkRecords,
  type RejectedRecord,
} from '../destinations/driver.ts'
import { descriptorOf } from '../destinations/drivers.ts'
import { LaneOwnershipLostError, type LaneSpec } from '../metadata/lane-state.ts'
import type { Logger } from '../platform/log.ts'
import {
  type FilteredRecords,
  isTransformed,
  parkFailed,
  type TransformedBatch,
  transformBatch,
} from './batch.ts'
import type { Clock } from './clock.ts'
import type { ColumnAdder } from './column-adder.ts'
import type { Containment } from './containment.ts'
import type { DriftWatch } from './drift.ts'
import type { TransformThreads } from './transform/transform-threads.ts'

interface Ended {
  filtered: FilteredRecords
  /** False: no record was left for the destination, or the attempt ended before the driver was called. */
  wasAsked: boolean
  isHung: boolean
  /** The first request that failed, otherwise the last one. Null: the driver reports none. */
  exchange: AttemptExchange | null
}

export type AttemptOutcome = Ended &
  (
    | { kind: 'delivered' }
    | { kind: 'failed'; error: DeliveryError; storedRecords: number }
    | { kind: 'aborted'; storedRecords: number }
  )

type Settled = { delivered: true } | { delivered: false; error: unknown } | 'hung'

/** The time in which an aborted driver must settle. */
export const abortGraceMs = 2_000
const marginMs = 2_000
/** A batch sent record by record could take hours, but must not hold memory that other lanes wait for. */
const longestAttemptMs = 300_000
/** The limit of a transform, including the wait for its turn: a waiting batch holds memory too. */
const longestTransformMs = 300_000

/** The watchdog's limit: the driver's own deadline plus a margin, at most 5 minutes. */
function attemptLimitMs(spec: LaneSpec, batch: Batch): number {
  return Math.min(neededMs(spec, batch), longestAttemptMs)
}

/**
 * True when the batch takes longer than an attempt can. The records stored by then are kept; the next attempt sends the
 * others.
 */
export function isCutShort(spec: LaneSpec, batch: Batch): boolean {
  return neededMs(spec, batch) > longestAttemptMs
}

function neededMs(spec: LaneSpec, batch: Batch): number {
  return descriptorOf(spec.type).attemptLimitMs(spec, batch) + rateWaitMs(spec, batch) + marginMs
}

/** The wait of several requests for the destination's rate limit. */
function rateWaitMs(spec: LaneSpec, batch: Batch): number {
  if (spec.rate === null) return 0
  const requests = descriptorOf(spec.type).requestsPerBatch(spec.config, batch.recordCount)
  return requests === 1 ? 0 : (requests * 1000) / spec.rate.requestsPerSecond
}

/** The calls that an attempt makes to its lane. None is made after its end. */
export interface AttemptCalls extends Pick<AttemptProgress, 'messageIdAt'> {
  /** Resolves when the destination's rate limit allows another request. */
  beforeRequest(signal: AbortSignal): Promise<void>
  /**
   * See `AttemptProgress.park`; null as there. `requireCurrent` throws once the attempt is over and is called before
   * each write.
   */
  park: ((rejected: readonly RejectedRecord[], requireCurrent: () => void) => Promise<void>) | null
}

/** The steps around the driver, shared by all lanes of a thread. */
export interface AttemptSteps {
  transforms: Pick<TransformThreads, 'run'>
  guard: Containment
  drift: DriftWatch
  /** Undefined: no table gets columns. */
  columns?: ColumnAdder
}

export interface AttemptDeps {
  readonly clock: Clock
  readonly log: Logger
  readonly steps: AttemptSteps
  /** The epoch of the lane's ownership. */
  readonly epoch: number
}

/** Every request of an attempt, and its steps, can listen for the abort. A lower limit makes Node.js warn of a leak. */
const maxListeners = 2 * maxConcurrency + 10

export class Attempt {
  readonly #spec: LaneSpec
  readonly #batch: Batch
  readonly #driver: DestinationDriver
  readonly #calls: AttemptCalls
  readonly #deps: AttemptDeps
  readonly #limitMs: number
  readonly #controller = new AbortController()
  #isInterrupted = false
  /** The outcome is decided: the lane continues, whatever the driver does. */
  #isOver = false
  #isTransforming = false
  #wasAsked = false
  #storedRecords = 0
  #filtered: FilteredRecords = new Map()
  #exchange: Exchanged | null = null
  #cancelLimit = () => {}
  #cancelGrace = () => {}
  #endMark = () => {}
  #onHung: (settled: 'hung') => void = () => {}

  constructor(
    { spec, batch, driver }: { spec: LaneSpec; batch: Batch; driver: DestinationDriver },
    calls: AttemptCalls,
    deps: AttemptDeps,
  ) {
    this.#spec = spec
    this.#batch = batch
    this.#driver = driver
    this.#calls = calls
    this.#deps = deps
    this.#limitMs = attemptLimitMs(spec, batch)
    setMaxListeners(maxListeners, this.#signal)
  }

  /** Runs the attempt. Call it once; it never rejects. */
  async run(): Promise<AttemptOutcome> {
    const hung = new Promise<'hung'>((resolve) => {
      this.#onHung = resolve
    })
    const settled = await Promise.race([settle(this.#deliver()), hung])
    this.#isOver = true
    this.#cancelLimit()
    this.#cancelGrace()
    // A hanging attempt does not end its mark itself.
    this.#endMark()
    return this.#outcome(settled)
  }

  /** Ends the attempt, which then does not count as one. */
  interrupt(): void {
    this.#isInterrupted = true
    this.#stop()
  }

  async #deliver(): Promise<void> {
    const transformed = await this.#transform()
    this.#filtered = transformed.filtered
    await parkFailed(transformed.failed, this.#park)
    const { batch } = transformed
    if (batch.recordOffset >= batch.recordCount) return
    this.#wasAsked = true
    await this.#send(transformed)
    // After an abort the lane can have abandoned this attempt; then its repeat is counted instead.
    if (this.#signal.aborted) return
    const { steps, epoch } = this.#deps
    if (this.#spec.columns.length > 0) steps.drift.delivered(this.#spec, epoch, batch)
    steps.columns?.delivered(this.#spec, epoch, batch)
  }

  /** The duration of the transform is not part of the destination's time. */
  async #transform(): Promise<TransformedBatch> {
    this.#isTransforming = isTransformed(this.#spec)
    this.#limit(this.#isTransforming ? longestTransformMs : this.#limitMs)
    const { transforms } = this.#deps.steps
    const transformed = await transformBatch(transforms, this.#spec, this.#batch, this.#signal)
    if (this.#isTransforming) this.#limit(this.#limitMs)
    this.#isTransforming = false
    return transformed
  }

  async #send({ batch, given }: TransformedBatch): Promise<void> {
    const stored = (records: number) => {
      this.#storedRecords = Math.max(this.#storedRecords, given(records))
    }
    try {
      await this.#guarded(batch, { ...this.#progress(), stored })
    } catch (error) {
      if (error instanceof DeliveryError && error.storedRecords !== undefined) stored(error.storedRecords)
      throw error
    }
  }

  /**
   * Runs in a thread of its own when the lane has crashed a worker before. Otherwise the mark on the board shows main
   * that it is under way.
   */
  async #guarded(batch: Batch, progress: AttemptProgress): Promise<void> {
    const { guard } = this.#deps.steps
    const { destinationId } = this.#spec
    if (guard.isQuarantined(destinationId)) {
      await guard.deliverApart(this.#spec, batch, this.#signal, progress)
      return
    }
    this.#endMark = guard.begin(destinationId)
    try {
      await guard.inLane(destinationId, () => this.#driver.deliver(batch, this.#signal, progress))
    } finally {
      this.#endMark()
      guard.finished(destinationId)
    }
  }

  #progress(): Omit<AttemptProgress, 'stored'> {
    const { beforeRequest, messageIdAt } = this.#calls
    return {
      beforeRequest: async () => {
        if (!this.#isOver) await beforeRequest(this.#signal)
      },
      messageIdAt: async (seq) => {
        this.#requireCurrent()
        return await messageIdAt(seq)
      },
      park: this.#park,
      exchanged: (exchange) => {
        if (!this.#isOver && this.#exchange?.isFailed !== true) this.#exchange = exchange
      },
    }
  }

  get #park(): ParkRecords | null {
    const { park } = this.#calls
    const requireCurrent = () => this.#requireCurrent()
    return (
      park &&
      (async (rejected) => {
        requireCurrent()
        await park(rejected, requireCurrent)
      })
    )
  }

  get #signal(): AbortSignal {
    return this.#controller.signal
  }

  #requireCurrent(): void {
    if (this.#isOver) throw new DeliveryError('transient', 'aborted', 'The attempt was cancelled.')
  }

  #limit(limitMs: number): void {
    this.#cancelLimit()
    this.#cancelLimit = this.#deps.clock.wake(limitMs, () => this.#stop())
  }

  /** The time limit is reached or the attempt is interrupted: gives the driver a short time to settle. */
  #stop(): void {
    if (this.#isOver || this.#signal.aborted) return
    this.#controller.abort()
    this.#cancelGrace = this.#deps.clock.wake(abortGraceMs, () => this.#onHung('hung'))
  }

  #outcome(settled: Settled): AttemptOutcome {
    const isHung = settled === 'hung'
    const exchange = this.#exchange?.describe() ?? null
    const known = { filtered: this.#filtered, wasAsked: this.#wasAsked, isHung, exchange }
    if (!isHung && settled.delivered) return { ...known, kind: 'delivered' }
    const storedRecords = this.#storedRecords
    if (this.#isInterrupted) return { ...known, kind: 'aborted', storedRecords }
    const error = isHung ? null : settled.error
    if (isHung || this.#signal.aborted) {
      // A driver can know that nothing of the aborted attempt was stored.
      const timedOutAs = error instanceof DeliveryError ? error.timedOut : undefined
      const late = this.#isTransforming ? transformWaiting() : timedOut(this.#limitMs, timedOutAs)
      return { ...known, kind: 'failed', error: late, storedRecords }
    }
    return { ...known, kind: 'failed', error: asDeliveryError(error, this.#deps.log), storedRecords }
  }
}

async function settle(delivering: Promise<void>): Promise<Exclude<Settled, 'hung'>> {
  try {
    await delivering
    return { delivered: true }
  } catch (error) {
    return { delivered: false, error }
  }
}

function timedOut(limitMs: number, known?: DeliveryError['timedOut']): DeliveryError {
  const message = `The destination had not responded after ${Math.round(limitMs / 1000)} s; the connection was dropped.`
  return new DeliveryError('transient', 'attempt_timeout', message, { timedOut: known ?? 'unknown' })
}

/** The error when the time ran out before anything was sent. */
function transformWaiting(): DeliveryError {
  const message = `The transform did not finish within ${longestTransformMs / 1000} s: transforms of this workspace take too long.`
  return new DeliveryError('transient', 'transform_waiting', message)
}

/** Any other error is an internal fault: it is logged with its stack, and the lane retries. */
function asDeliveryError(error: unknown, log: Logger): DeliveryError {
  if (error instanceof DeliveryError) return error
  // The lane's next save detects the lost ownership and ends the lane.
  if (error instanceof LaneOwnershipLostError)
    return new DeliveryError('transient', 'ownership_lost', error.message, { cause: error })
  log.error({ err: error }, 'delivery.internal_error')
  const message = 'Internal error: the pipectl log has the cause. The batch will be retried.'
  return new DeliveryError('transient', 'internal', message, { cause: error })
}
