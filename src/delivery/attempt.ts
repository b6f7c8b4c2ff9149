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
 * that was given up reports later is ignored: by then the lane repeats the batch.
 */
import { setMaxListeners } from 'node:events'
import { mostConcurrency } from '../contract/delivery-settings.ts'
import { requestsFor } from '../contract/destinations/http-endpoint.ts'
import { descriptorOf } from '../destinations/descriptors.ts'
import {
  type AttemptProgress,
  type Batch,
  DeliveryError,
  type DestinationDriver,
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
  const requests = requestsOf(spec, batch)
  return requests === 1 ? 0 : (requests * 1000) / spec.rate.requestsPerSecond
}

function requestsOf(spec: LaneSpec, { recordCount }: Batch): number {
  if (spec.type === 'destination_nats') return recordCount
  return spec.type === 'destination_http_endpoint' ? requestsFor(spec.config.body_format, recordCount) : 1
}

export interface AttemptDeps {
  clock: Clock
  log: Logger
  /** Resolves when the destination's rate allows another request. */
  beforeRequest(signal: AbortSignal): Promise<void>
  messageIdAt?: AttemptProgress['messageIdAt']
  setAside?: AttemptProgress['setAside']
  filtered?: AttemptProgress['filtered']
  notAsked?: AttemptProgress['notAsked']
}

/** Each of an attempt's requests, and of their steps, may wait for its end: without this, Node.js warns of a leak. */
const mostListeners = 2 * mostConcurrency + 10

/** Never rejects. `deliver` opens the driver where need be. `interrupt` ends the attempt without its counting as one. */
export async function attemptDelivery(
  deliver: (signal: AbortSignal, progress: AttemptProgress) => Promise<void>,
  limitMs: number,
  interrupt: AbortSignal,
  { clock, log, beforeRequest, messageIdAt, setAside, filtered, notAsked }: AttemptDeps,
): Promise<AttemptOutcome> {
  const controller = new AbortController()
  setMaxListeners(mostListeners, controller.signal)
  const cancels: (() => void)[] = []
  let isHung = (_: Settled) => {}
  const hung = new Promise<Settled>((resolve) => {
    isHung = resolve
  })
  let isOver = false
  let isTransforming = false
  let wasTransforming = false
  const stop = () => {
    if (controller.signal.aborted) return
    wasTransforming = isTransforming
    controller.abort()
    cancels.push(clock.wake(abortGraceMs, () => isHung('hung')))
  }
  interrupt.addEventListener('abort', stop, { once: true })
  if (interrupt.aborted) stop()
  let cancelLimit = clock.wake(limitMs, stop)
  let reported = 0
  const progress: AttemptProgress = {
    beforeRequest: () => beforeRequest(controller.signal),
    stored: (records) => {
      reported = Math.max(reported, records)
    },
    transforming: (isUnderWay) => {
      isTransforming = isUnderWay
      cancelLimit()
      if (!isOver) cancelLimit = clock.wake(isUnderWay ? longestTransformMs : limitMs, stop)
    },
    ...(messageIdAt === undefined ? {} : { messageIdAt }),
    ...(setAside === undefined
      ? {}
      : { setAside: async (rejected) => await (isOver ? Promise.reject(givenUp()) : setAside(rejected)) }),
    filtered: (seq, records) => {
      if (!isOver) filtered?.(seq, records)
    },
    notAsked: () => {
      if (!isOver) notAsked?.()
    },
  }
  const settled = await Promise.race([settle(deliver, controller.signal, progress), hung])
  isOver = true
  cancelLimit()
  for (const cancel of cancels) cancel()
  interrupt.removeEventListener('abort', stop)
  const late = (known?: DeliveryError['timedOut']) =>
    wasTransforming ? transformWaiting() : timedOut(limitMs, known)

  if (settled === 'hung') {
    if (interrupt.aborted) return { kind: 'aborted', storedRecords: reported, isHung: true }
    return { kind: 'failed', error: late(), storedRecords: reported, isHung: true }
  }
  if (settled.delivered) return { kind: 'delivered', isHung: false }
  const { error } = settled
  const storedRecords = Math.max(reported, (error instanceof DeliveryError && error.storedRecords) || 0)
  if (interrupt.aborted) return { kind: 'aborted', storedRecords, isHung: false }
  // A driver may know that nothing of the aborted attempt is stored.
  const known = error instanceof DeliveryError ? error.timedOut : undefined
  const failure = controller.signal.aborted ? late(known) : asDeliveryError(error, log)
  return { kind: 'failed', error: failure, storedRecords, isHung: false }
}

async function settle(
  deliver: (signal: AbortSignal, progress: AttemptProgress) => Promise<void>,
  signal: AbortSignal,
  progress: AttemptProgress,
): Promise<Settled> {
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
      progress.notAsked?.()
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
