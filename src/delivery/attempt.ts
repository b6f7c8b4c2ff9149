/**
 * One attempt at one batch, bounded even when the driver hangs.
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
  type RejectedRecord,
} from '../destinations/driver.ts'
import { LaneOwnershipLostError, type LaneSpec } from '../metadata/lane-state.ts'
import type { Logger } from '../platform/log.ts'
import type { Clock } from './clock.ts'

export type AttemptOutcome =
  | { kind: 'delivered'; isHung: false }
  | { kind: 'failed'; error: DeliveryError; storedRecords: number; isHung: boolean }
  | { kind: 'aborted'; storedRecords: number; isHung: boolean }

type Settled = { delivered: true } | { delivered: false; error: unknown } | 'hung'

/** How long a driver may take to settle after it was aborted. */
const abortGraceMs = 2_000
const marginMs = 2_000
/** One request per record may take hours: its batch must not hold memory that others wait for. */
const longestAttemptMs = 300_000
/** The limit of a transform, including the wait for its turn: a batch that waits holds memory like any other. */
const longestTransformMs = 300_000
/** A connection that nothing was sent over for so long is closed. */
const idleDriverMs = 60_000

/** Longest time an attempt may take before the watchdog ends it: the driver's own deadline and a margin, 5 minutes at most. */
export function attemptLimitMs(spec: LaneSpec, batch: Batch): number {
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
export interface AttemptServices extends Pick<AttemptProgress, 'messageIdAt' | 'filtered' | 'notAsked'> {
  clock: Clock
  log: Logger
  /** Resolves when the destination's rate allows another request. */
  beforeRequest(signal: AbortSignal): Promise<void>
  /** `AttemptProgress.park`, null as there. `requireCurrent` throws once the attempt is over: called before anything is written. */
  park: ((rejected: readonly RejectedRecord[], requireCurrent: () => void) => Promise<void>) | null
}

/** Each of an attempt's requests, and of their steps, may wait for its end: without this, Node.js warns of a leak. */
const mostListeners = 2 * mostConcurrency + 10

type Deliver = (signal: AbortSignal, progress: AttemptProgress) => Promise<void>

/** Never rejects. `deliver` opens the driver where need be. `interrupt` ends the attempt without its counting as one. */
export async function attemptDelivery(
  deliver: Deliver,
  limitMs: number,
  interrupt: AbortSignal,
  services: AttemptServices,
): Promise<AttemptOutcome> {
  return await new Attempt(limitMs, interrupt, services).run(deliver)
}

class Attempt {
  readonly #limitMs: number
  readonly #interrupt: AbortSignal
  readonly #services: AttemptServices
  readonly #controller = new AbortController()
  /** It has an outcome: the lane continues, whatever the driver still does. */
  #isOver = false
  #isTransforming = false
  #wasTransforming = false
  #storedRecords = 0
  #cancelLimit = () => {}
  #cancelGrace = () => {}
  #onHung: (settled: 'hung') => void = () => {}

  constructor(limitMs: number, interrupt: AbortSignal, services: AttemptServices) {
    this.#limitMs = limitMs
    this.#interrupt = interrupt
    this.#services = services
    setMaxListeners(mostListeners, this.#controller.signal)
  }

  async run(deliver: Deliver): Promise<AttemptOutcome> {
    const hung = new Promise<'hung'>((resolve) => {
      this.#onHung = resolve
    })
    const stop = () => this.#stop()
    this.#interrupt.addEventListener('abort', stop, { once: true })
    if (this.#interrupt.aborted) stop()
    this.#limit(this.#limitMs)
    const settled = await Promise.race([settle(deliver, this.#controller.signal, this.#progress()), hung])
    this.#isOver = true
    this.#cancelLimit()
    this.#cancelGrace()
    this.#interrupt.removeEventListener('abort', stop)
    return this.#outcome(settled)
  }

  #limit(limitMs: number): void {
    this.#cancelLimit()
    if (!this.#isOver) this.#cancelLimit = this.#services.clock.wake(limitMs, () => this.#stop())
  }

  /** The limit is reached, or the attempt is interrupted: the driver has a short time to settle. */
  #stop(): void {
    if (this.#controller.signal.aborted) return
    this.#wasTransforming = this.#isTransforming
    this.#controller.abort()
    this.#cancelGrace = this.#services.clock.wake(abortGraceMs, () => this.#onHung('hung'))
  }

  #progress(): AttemptProgress {
    const { beforeRequest, messageIdAt, park, filtered, notAsked } = this.#services
    const requireCurrent = () => {
      if (this.#isOver) throw givenUp()
    }
    return {
      beforeRequest: async () => {
        if (!this.#isOver) await beforeRequest(this.#controller.signal)
      },
      messageIdAt: async (seq) => {
        requireCurrent()
        return await messageIdAt(seq)
      },
      park:
        park &&
        (async (rejected) => {
          requireCurrent()
          await park(rejected, requireCurrent)
        }),
      stored: (records) => {
        this.#storedRecords = Math.max(this.#storedRecords, records)
      },
      filtered: (seq, records) => {
        if (!this.#isOver) filtered(seq, records)
      },
      notAsked: () => {
        if (!this.#isOver) notAsked()
      },
      transforming: (isUnderWay) => {
        this.#isTransforming = isUnderWay
        this.#limit(isUnderWay ? longestTransformMs : this.#limitMs)
      },
    }
  }

  #outcome(settled: Settled): AttemptOutcome {
    const isHung = settled === 'hung'
    if (!isHung && settled.delivered) return { kind: 'delivered', isHung }
    const error = isHung ? null : settled.error
    const known = error instanceof DeliveryError ? error : null
    const storedRecords = Math.max(this.#storedRecords, known?.storedRecords ?? 0)
    if (this.#interrupt.aborted) return { kind: 'aborted', storedRecords, isHung }
    if (isHung || this.#controller.signal.aborted) {
      // A driver may know that nothing of the aborted attempt is stored.
      const late = this.#wasTransforming ? transformWaiting() : timedOut(this.#limitMs, known?.timedOut)
      return { kind: 'failed', error: late, storedRecords, isHung }
    }
    return { kind: 'failed', error: asDeliveryError(error, this.#services.log), storedRecords, isHung }
  }
}

async function settle(
  deliver: Deliver,
  signal: AbortSignal,
  progress: AttemptProgress,
): Promise<Exclude<Settled, 'hung'>> {
  try {
    await deliver(signal, progress)
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

function givenUp(): DeliveryError {
  return new DeliveryError('transient', 'aborted', 'The attempt was given up.')
}

/** Anything but a DeliveryError is an internal fault: it is logged with its stack, and the lane goes on trying. */
function asDeliveryError(error: unknown, log: Logger): DeliveryError {
  if (error instanceof DeliveryError) return error
  // The lane finds out by its next save, and ends.
  if (error instanceof LaneOwnershipLostError)
    return new DeliveryError('transient', 'ownership_lost', error.message, { cause: error })
  log.error({ err: error }, 'delivery.internal_error')
  const message = 'Internal error; see the pipectl log. The batch will be retried.'
  return new DeliveryError('transient', 'internal', message, { cause: error })
}

/** A lane's one driver: opened when first needed, given up when it hangs, closed when it is idle. */
export class LaneDriver {
  readonly #clock: Clock
  readonly #log: Logger
  #driver: DestinationDriver | null = null
  #usedAt = 0

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock
    this.#log = log
  }

  async deliver(
    batch: Batch,
    signal: AbortSignal,
    progress: AttemptProgress,
    open: () => DestinationDriver,
  ): Promise<void> {
    this.#driver ??= open()
    let isAsked = true
    const notAsked = () => {
      isAsked = false
      progress.notAsked()
    }
    try {
      await this.#driver.deliver(batch, signal, { ...progress, notAsked })
    } finally {
      if (isAsked) this.#usedAt = this.#clock.monotonicMs()
    }
  }

  /** Infinity: nothing is open. */
  get closesInMs(): number {
    if (this.#driver === null) return Number.POSITIVE_INFINITY
    return Math.max(0, this.#usedAt + idleDriverMs - this.#clock.monotonicMs())
  }

  async closeIdle(): Promise<void> {
    if (this.closesInMs === 0) await this.close()
  }

  /** A driver that hangs may hang in closing too: it is not waited for longer than an abort. */
  async close(): Promise<void> {
    const driver = this.#driver
    this.#driver = null
    if (driver === null) return
    await new Promise<void>((resolve) => {
      const cancel = this.#clock.wake(abortGraceMs, resolve)
      driver
        .close()
        .catch((error: unknown) => this.#log.warn({ err: error }, 'driver.close_failed'))
        .finally(() => {
          cancel()
          resolve()
        })
    })
  }
}
