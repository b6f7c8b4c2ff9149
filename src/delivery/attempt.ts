/**
 * One attempt at one batch, bounded even when the driver hangs. Its steps, in this order (`#deliver`):
 *
 *   transform ──▶ filter and map in a thread for transforms (`transformed-batch.ts`); none of the batch left: delivered
 *   park ───────▶ records that the transform cannot be applied to
 *   guard ──────▶ the worker's board knows which lane is under way; a lane that crashed it has its own thread (`containment.ts`)
 *   driver ─────▶ the destination stores the records, and parks what it rejects
 *   drift ──────▶ the keys of some delivered records are counted (`drift.ts`)
 *
 * and its end:
 *
 *   deliver ──resolves──────────────────────────────▶ delivered
 *      │  └──rejects────────────────────────────────▶ failed (the world's error, or ours as `internal`)
 *      ├─ limit reached ─ abort ─ settles within 2 s ▶ delivered, or failed `attempt_timeout`, or, where the batch's
 *      │                                               transform had not ended, `transform_waiting`
 *      ├─ interrupted ─── abort ─ settles within 2 s ▶ delivered, or aborted (not an attempt)
 *      └─ still not settled 2 s after the abort ─────▶ the same, and the driver is given up: `isHung`
 *
 * However it ends, `storedRecords` says how far it came: records from the start of the batch that need not be sent again. What a driver
 * that was given up reports later is ignored: by then the lane repeats the batch. A driver that was given up parks nothing, either: the
 * attempt must still be under way when the rows are written. A write that had begun by then ends, and the repeat parks the same rows.
 */
import { setMaxListeners } from 'node:events'
import { mostConcurrency } from '../contract/delivery-settings.ts'
import { descriptorOf } from '../destinations/descriptors.ts'
import {
  type AttemptProgress,
  type Batch,
  DeliveryError,
  type DestinationDriver,
  type ParkRecords,
  type RejectedRecord,
} from '../destinations/driver.ts'
import { LaneOwnershipLostError, type LaneSpec } from '../metadata/lane-state.ts'
import type { Logger } from '../platform/log.ts'
import type { Clock } from './clock.ts'
import type { Containment } from './containment.ts'
import type { DriftWatch } from './drift.ts'
import type { TransformThreads } from './transform/transform-threads.ts'
import {
  type FilteredRecords,
  isTransformed,
  parkFailed,
  type TransformedBatch,
  transformBatch,
} from './transformed-batch.ts'

interface Ended {
  filtered: FilteredRecords
  /** False: nothing was left for the destination, or the attempt ended before. */
  wasAsked: boolean
  isHung: boolean
}

export type AttemptOutcome = Ended &
  (
    | { kind: 'delivered' }
    | { kind: 'failed'; error: DeliveryError; storedRecords: number }
    | { kind: 'aborted'; storedRecords: number }
  )

type Settled = { delivered: true } | { delivered: false; error: unknown } | 'hung'

/** How long a driver may take to settle after it was aborted. */
export const abortGraceMs = 2_000
const marginMs = 2_000
/** One request per record may take hours: its batch must not hold memory that others wait for. */
const longestAttemptMs = 300_000
/** The limit of a transform, including the wait for its turn: a batch that waits holds memory like any other. */
const longestTransformMs = 300_000

/** Longest time an attempt can take before the watchdog ends it: the driver's own deadline and a margin, 5 minutes at most. */
function attemptLimitMs(spec: LaneSpec, batch: Batch): number {
  return Math.min(neededMs(spec, batch), longestAttemptMs)
}

/** It takes longer than an attempt may: what it stored until then is kept, and the rest goes in the next one. */
export function isCutShort(spec: LaneSpec, batch: Batch): boolean {
  return neededMs(spec, batch) > longestAttemptMs
}

function neededMs(spec: LaneSpec, batch: Batch): number {
  return descriptorOf(spec.type).attemptLimitMs(spec, batch) + rateWaitMs(spec, batch) + marginMs
}

/** Each of several requests waits for its turn in the destination's rate. */
function rateWaitMs(spec: LaneSpec, batch: Batch): number {
  if (spec.rate === null) return 0
  const requests = descriptorOf(spec.type).requestsPerBatch(spec.config, batch.recordCount)
  return requests === 1 ? 0 : (requests * 1000) / spec.rate.requestsPerSecond
}

/** The calls that an attempt makes to its lane; after its end none of them is made. */
export interface AttemptCalls extends Pick<AttemptProgress, 'messageIdAt'> {
  /** Resolves when the destination's rate allows another request. */
  beforeRequest(signal: AbortSignal): Promise<void>
  /** `AttemptProgress.park`, null as there. `requireCurrent` throws once the attempt is over: called before anything is written. */
  park: ((rejected: readonly RejectedRecord[], requireCurrent: () => void) => Promise<void>) | null
}

/** The steps around the driver. All lanes of a thread share them. */
export interface AttemptSteps {
  transforms: Pick<TransformThreads, 'run'>
  guard: Containment
  drift: DriftWatch
}

export interface AttemptDeps {
  readonly clock: Clock
  readonly log: Logger
  readonly steps: AttemptSteps
  /** The epoch of the lane's ownership. */
  readonly epoch: number
}

/** Each of an attempt's requests, and of their steps, may wait for its end: without this, Node.js warns of a leak. */
const mostListeners = 2 * mostConcurrency + 10

export class Attempt {
  readonly #spec: LaneSpec
  readonly #batch: Batch
  readonly #driver: DestinationDriver
  readonly #calls: AttemptCalls
  readonly #deps: AttemptDeps
  readonly #limitMs: number
  readonly #controller = new AbortController()
  #isInterrupted = false
  /** It has an outcome: the lane continues, whatever the driver still does. */
  #isOver = false
  #isTransforming = false
  #wasAsked = false
  #storedRecords = 0
  #filtered: FilteredRecords = new Map()
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
    setMaxListeners(mostListeners, this.#signal)
  }

  /** Once. Never rejects. */
  async run(): Promise<AttemptOutcome> {
    const hung = new Promise<'hung'>((resolve) => {
      this.#onHung = resolve
    })
    const settled = await Promise.race([settle(this.#deliver()), hung])
    this.#isOver = true
    this.#cancelLimit()
    this.#cancelGrace()
    // An attempt that hangs does not end its mark.
    this.#endMark()
    return this.#outcome(settled)
  }

  /** The attempt ends, and does not count as one. */
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
    // After an abort the lane may have given the attempt up, and its repeat is counted.
    if (!this.#signal.aborted) this.#deps.steps.drift.delivered(this.#spec, this.#deps.epoch, batch)
  }

  /** The duration of the transform does not count as the destination's. */
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

  /** In a thread of its own when the lane has ended this one before; here its mark tells main that it is under way. */
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

  /** The limit is reached, or the attempt is interrupted: the driver has a short time to settle. */
  #stop(): void {
    if (this.#isOver || this.#signal.aborted) return
    this.#controller.abort()
    this.#cancelGrace = this.#deps.clock.wake(abortGraceMs, () => this.#onHung('hung'))
  }

  #outcome(settled: Settled): AttemptOutcome {
    const isHung = settled === 'hung'
    const known = { filtered: this.#filtered, wasAsked: this.#wasAsked, isHung }
    if (!isHung && settled.delivered) return { ...known, kind: 'delivered' }
    const storedRecords = this.#storedRecords
    if (this.#isInterrupted) return { ...known, kind: 'aborted', storedRecords }
    const error = isHung ? null : settled.error
    if (isHung || this.#signal.aborted) {
      // A driver may know that nothing of the aborted attempt is stored.
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

/** Nothing was sent. */
function transformWaiting(): DeliveryError {
  const message = `The transform did not finish within ${longestTransformMs / 1000} s: transforms of this workspace take too long.`
  return new DeliveryError('transient', 'transform_waiting', message)
}

/** Anything but a DeliveryError is an internal fault: it is logged with its stack, and the lane goes on trying. */
function asDeliveryError(error: unknown, log: Logger): DeliveryError {
  if (error instanceof DeliveryError) return error
  // The lane finds out by its next save, and ends.
  if (error instanceof LaneOwnershipLostError)
    return new DeliveryError('transient', 'ownership_lost', error.message, { cause: error })
  log.error({ err: error }, 'delivery.internal_error')
  const message = 'Internal error: the pipectl log has the cause. The batch will be retried.'
  return new DeliveryError('transient', 'internal', message, { cause: error })
}
