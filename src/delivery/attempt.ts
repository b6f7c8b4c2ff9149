/**
 * One attempt at one batch, bounded whatever the driver does.
 *
 *   deliver ──resolves──────────────────────────────▶ delivered
 *      │  └──rejects────────────────────────────────▶ failed (the world's error, or ours as `internal`)
 *      ├─ limit reached ─ abort ─ settles within 2 s ▶ delivered, or failed `attempt_timeout`
 *      ├─ interrupted ─── abort ─ settles within 2 s ▶ delivered, or aborted (not an attempt)
 *      └─ still not settled 2 s after the abort ─────▶ the same, and the driver is given up: `isHung`
 */
import { type Batch, DeliveryError } from '../destinations/driver.ts'
import type { Logger } from '../log.ts'
import type { Clock } from './clock.ts'
import type { LaneSpec } from './delivery.ts'

export type AttemptOutcome =
  | { kind: 'delivered'; isHung: false }
  | { kind: 'failed'; error: DeliveryError; isHung: boolean }
  | { kind: 'aborted'; isHung: boolean }

type Settled = { delivered: true } | { delivered: false; error: unknown } | 'hung'

/** How long a driver may take to settle after it was told to stop. */
export const abortGraceMs = 2_000
const marginMs = 2_000

/** Longest time an attempt may take before the watchdog ends it: the driver's own deadline and a margin. */
export function attemptLimitMs(spec: LaneSpec, batch: Batch): number {
  switch (spec.type) {
    case 'destination_http_endpoint': {
      const timeoutMs = typeof spec.config.timeout_ms === 'number' ? spec.config.timeout_ms : 15_000
      // One request a record: each has the whole deadline for itself.
      const requests = spec.config.body_format === 'json_object' ? batch.recordCount : 1
      return timeoutMs * requests + marginMs
    }
    case 'destination_object_store':
      return 120_000 + marginMs
    default:
      return 60_000 + marginMs
  }
}

/** Never rejects. `deliver` opens the driver where need be. `interrupt` ends the attempt without its counting as one. */
export async function attemptDelivery(
  deliver: (signal: AbortSignal) => Promise<void>,
  limitMs: number,
  interrupt: AbortSignal,
  { clock, log }: { clock: Clock; log: Logger },
): Promise<AttemptOutcome> {
  const controller = new AbortController()
  const cancels: (() => void)[] = []
  let isHung = (_: Settled) => {}
  const hung = new Promise<Settled>((resolve) => {
    isHung = resolve
  })
  const stop = () => {
    if (controller.signal.aborted) return
    controller.abort()
    cancels.push(clock.wake(abortGraceMs, () => isHung('hung')))
  }
  interrupt.addEventListener('abort', stop, { once: true })
  if (interrupt.aborted) stop()
  cancels.push(clock.wake(limitMs, stop))
  const settled = await Promise.race([settle(deliver, controller.signal), hung])
  for (const cancel of cancels) cancel()
  interrupt.removeEventListener('abort', stop)

  if (settled !== 'hung' && settled.delivered) return { kind: 'delivered', isHung: false }
  if (interrupt.aborted) return { kind: 'aborted', isHung: settled === 'hung' }
  if (settled === 'hung' || controller.signal.aborted) {
    const message = `The destination had not answered after ${Math.round(limitMs / 1000)} s; the connection was dropped.`
    return {
      kind: 'failed',
      error: new DeliveryError('transient', 'attempt_timeout', message),
      isHung: settled === 'hung',
    }
  }
  return { kind: 'failed', error: asDeliveryError(settled.error, log), isHung: false }
}

async function settle(
  deliver: (signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): Promise<Settled> {
  try {
    await deliver(signal)
    return { delivered: true }
  } catch (error) {
    return { delivered: false, error }
  }
}

/** Anything but a DeliveryError is a fault of ours: it is logged with its stack, and the lane goes on trying. */
function asDeliveryError(error: unknown, log: Logger): DeliveryError {
  if (error instanceof DeliveryError) return error
  log.error({ err: error }, 'delivery.internal_error')
  const message = 'pipectl itself failed at this batch; its log has the details. It is tried again.'
  return new DeliveryError('transient', 'internal', message, { cause: error })
}
