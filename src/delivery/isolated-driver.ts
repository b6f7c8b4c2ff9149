/**
 * Runs a driver for one attempt in a thread of its own, whose death affects no other lane. Used for lanes that crashed
 * the shared worker, and for checks of new destinations.
 *
 *   deliver ─▶ a slot is free ─▶ thread starts ─▶ driver delivers ─▶ outcome, thread is terminated
 *                                     └── dies, or gives no sign of life for 5 s ─▶ DriverDiedError
 *
 * Only the driver runs elsewhere. The lane stays in the worker, so its row, its cursor and its commands have one owner.
 */
import { resourceLimits } from '../contract/resource-limits.ts'
import type { TableProposal } from '../contract/table-proposal.ts'
import {
  type AttemptExchange,
  type AttemptProgress,
  type Batch,
  DeliveryError,
  type DestinationCheck,
  type DestinationDriver,
  type DestinationSpec,
  type DriverSettings,
  type InferRequest,
  noProgress,
  type PinServerKey,
  type RejectedRecord,
  type Sample,
} from '../destinations/driver.ts'
import { Semaphore } from '../platform/semaphore.ts'
import type { Handlers } from '../platform/thread-calls.ts'
import { Thread, threadEntry } from '../platform/threads.ts'

export interface DriverThreadData {
  spec: DestinationSpec
  settings: DriverSettings
}

/** A thread gets one of the first four calls, once. */
export interface DriverCalls {
  deliver(batch: Batch, parks: boolean): void
  check(sample: Sample | null): DestinationCheck[]
  infer(request: InferRequest): TableProposal
  forget(): void
  abort(): void
}

/** Calls to the lane, which owns the metadata, the buffer and the destination's rate limit. */
export interface LaneCalls {
  stored: AttemptProgress['stored']
  beforeRequest: AttemptProgress['beforeRequest']
  pin: PinServerKey
  messageIdAt(seq: number): string | null
  exchanged(isFailed: boolean, exchange: AttemptExchange): void
  park(rejected: readonly RejectedRecord[]): void
}

/** The driver ended its thread, or blocked it. */
export class DriverDiedError extends Error {
  constructor(reason: string) {
    super(reason)
    this.name = 'DriverDiedError'
  }
}

/** All methods, and `deliver` of the opened driver, can also reject with DriverDiedError. */
export interface IsolatedDrivers {
  /** The driver uses a new thread for each attempt. */
  open(spec: DestinationSpec, pin: PinServerKey): DestinationDriver
  /** See `DriverModule.check`. */
  check(spec: DestinationSpec, signal: AbortSignal, sample: Sample | null): Promise<DestinationCheck[]>
  /** See `DriverModule.infer`. */
  infer(spec: DestinationSpec, signal: AbortSignal, request: InferRequest): Promise<TableProposal>
  /** See `forgetDestination`. */
  forget(spec: DestinationSpec, signal: AbortSignal): Promise<void>
}

const threadsAtOnce = 2
/** Each thread takes at least 20 MiB for its code. */
const checksAtOnce = 2
const maxSilentTicks = 5
/** A thread gives no sign of life until its code is loaded. */
const maxStartTicks = 60
/** The time in which an aborted attempt can still report its outcome. */
const abortGraceMs = 2_000

export function isolatedDrivers(settings: DriverSettings): IsolatedDrivers {
  const attempts = new Semaphore(threadsAtOnce)
  const checks = new Semaphore(checksAtOnce)
  const runCheck = <T>(spec: DestinationSpec, signal: AbortSignal, work: Work<T>) =>
    inTurn(checks, signal, () => runApart({ spec, settings }, signal, work))
  return {
    open: (spec, pin) => ({
      deliver: (batch, signal, progress = noProgress) =>
        inTurn(attempts, signal, () =>
          runApart(
            { spec, settings },
            signal,
            (thread) => thread.call('deliver', [sentBatch(batch), progress.park !== null]),
            laneCalls(progress, pin),
          ),
        ),
      close: async () => {},
    }),
    check: (spec, signal, sample) =>
      runCheck(spec, signal, (thread) => thread.call('check', [sentSample(sample)])),
    infer(spec, signal, request) {
      const bodies = request.bodies.map((body) => Uint8Array.from(body) as Buffer)
      return runCheck(spec, signal, (thread) => thread.call('infer', [{ ...request, bodies }]))
    },
    forget: (spec, signal) => runCheck(spec, signal, (thread) => thread.call('forget', [])),
  }
}

type Work<T> = (thread: Thread<DriverCalls, LaneCalls>) => Promise<T>

/** Runs `work` when a slot is free. Rejects with a DeliveryError (`aborted`) when the signal is aborted before. */
async function inTurn<T>(semaphore: Semaphore, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  let hasBegun = false
  const begin = () => {
    hasBegun = true
    return work()
  }
  try {
    return await semaphore.run(begin, { signal })
  } catch (error) {
    if (hasBegun) throw error
    throw new DeliveryError('transient', 'aborted', 'The attempt was cancelled while it waited.', {
      cause: error,
    })
  }
}

/** Resolves when the thread has ended. */
async function runApart<T>(
  data: DriverThreadData,
  signal: AbortSignal,
  work: Work<T>,
  host?: Handlers<LaneCalls>,
): Promise<T> {
  const thread = new Thread<DriverCalls, LaneCalls>({
    name: 'driver',
    entry: threadEntry(import.meta.url, '../daemon/threads/driver-thread'),
    data,
    limits: { maxYoungGenerationSizeMb: resourceLimits.driverYoungHeapMiB },
    host,
    errors: { DeliveryError },
    maxSilentTicks,
    maxStartTicks,
    interrupted: (reason, cause) => new DriverDiedError(cause?.message ?? reason),
  })
  let grace: NodeJS.Timeout | undefined
  const abort = () => {
    thread.tell('abort', [])
    grace = setTimeout(() => void thread.terminate('it did not end when it was aborted'), abortGraceMs)
  }
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await work(thread)
  } finally {
    clearTimeout(grace)
    signal.removeEventListener('abort', abort)
    await thread.terminate('its work is done')
  }
}

/** The calls that a driver makes to its lane during a delivery. A check makes none. */
function laneCalls(progress: AttemptProgress, pin: PinServerKey): Handlers<LaneCalls> {
  return {
    stored: (records) => progress.stored(records),
    beforeRequest: () => progress.beforeRequest(),
    pin,
    messageIdAt: (seq) => progress.messageIdAt(seq),
    exchanged: (isFailed, exchange) => progress.exchanged({ isFailed, describe: () => exchange }),
    park: (rejected) => progress.park?.(rejected),
  }
}

/** Copies the bodies: a Buffer that is a view would be sent with the whole memory it is a view of. */
function sentBatch(batch: Batch): Batch {
  return { ...batch, messages: batch.messages.map(sentMessage) }
}

function sentSample(sample: Sample | null): Sample | null {
  return sample === null || sample.recent === null
    ? sample
    : { ...sample, recent: sentMessage(sample.recent) }
}

function sentMessage<M extends { body: Uint8Array }>(message: M): M {
  return { ...message, body: Uint8Array.from(message.body) }
}
