/**
 * The drivers of a worker, each known by its lane: which attempts are under way stands on the board, and whatever runs
 * because of a driver (its sockets, its timers, also long after the attempt) runs in its lane's async context. So when an
 * error that nobody catches ends the worker, the lane whose code threw it is known.
 *
 * The attempts of a lane that has ended the worker before run in a thread of their own, until main releases the lane:
 *
 *   attempt apart ── delivered ─────────▶ main is told; it releases the lane, or keeps it apart for longer
 *        ├── failed ────────────────────▶ as any failure
 *        └── the thread died or hung ───▶ `driver_crashed`: halved like an attempt that timed out; a single message, or
 *                                         one that may be stored, again after 300 s
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { descriptorOf } from '../destinations/descriptors.ts'
import {
  type AttemptProgress,
  type Batch,
  DeliveryError,
  type DestinationDriver,
  noProgress,
} from '../destinations/driver.ts'
import type { LaneSpec } from '../metadata/lane-state.ts'
import { DriverDiedError } from './driver-protocol.ts'
import { driverCrashed, isolatedRetryMs } from './retry.ts'
import type { WorkerBoard } from './worker-board.ts'

export interface ContainedDriversOptions {
  board: WorkerBoard
  open(spec: LaneSpec): DestinationDriver
  /** As `open` and one delivery, in a thread of its own. */
  isolated: {
    deliver(spec: LaneSpec, batch: Batch, signal: AbortSignal, progress: AttemptProgress): Promise<void>
  }
  /** Lanes whose attempts run apart; main and what their rows say add to it. */
  quarantined: Set<string>
  /** Lanes that were under way when the last worker died. */
  suspects: Set<string>
  /** A suspect has finished an attempt. */
  onFinished(destinationId: string): void
  /** A quarantined lane has delivered. */
  onDeliveredApart(destinationId: string): void
}

export class ContainedDrivers {
  readonly #options: ContainedDriversOptions
  readonly #lane = new AsyncLocalStorage<string>()

  constructor(options: ContainedDriversOptions) {
    this.#options = options
  }

  /** The lane because of whose driver this code runs. */
  get current(): string | undefined {
    return this.#lane.getStore()
  }

  openDriver(spec: LaneSpec): DestinationDriver {
    return new ContainedDriver(spec, this.#options, this.#lane)
  }
}

class ContainedDriver implements DestinationDriver {
  readonly #spec: LaneSpec
  readonly #options: ContainedDriversOptions
  readonly #lane: AsyncLocalStorage<string>
  readonly #driver: DestinationDriver
  #endAttempt = () => {}

  constructor(spec: LaneSpec, options: ContainedDriversOptions, lane: AsyncLocalStorage<string>) {
    this.#spec = spec
    this.#options = options
    this.#lane = lane
    this.#driver = this.#inLane(() => options.open(spec))
  }

  async deliver(batch: Batch, signal: AbortSignal, progress: AttemptProgress = noProgress): Promise<void> {
    const { board, suspects, quarantined, onFinished } = this.#options
    if (quarantined.has(this.#spec.destinationId)) return await this.#deliverApart(batch, signal, progress)
    const end = board.begin(this.#spec.destinationId)
    this.#endAttempt = end
    try {
      await this.#inLane(() => this.#driver.deliver(batch, signal, progress))
    } finally {
      end()
      if (suspects.delete(this.#spec.destinationId)) onFinished(this.#spec.destinationId)
    }
  }

  async #deliverApart(batch: Batch, signal: AbortSignal, progress: AttemptProgress): Promise<void> {
    try {
      await this.#options.isolated.deliver(this.#spec, batch, signal, progress)
    } catch (error) {
      throw error instanceof DriverDiedError ? crashed(this.#spec, batch, error) : error
    }
    this.#options.onDeliveredApart(this.#spec.destinationId)
  }

  async close(): Promise<void> {
    // An attempt that hangs may have been given up: its mark must not stay.
    this.#endAttempt()
    await this.#inLane(() => this.#driver.close())
  }

  #inLane<T>(run: () => T): T {
    return this.#lane.run(this.#spec.destinationId, run)
  }
}

/**
 * A transaction whose connection is lost has stored nothing; elsewhere the batch may have been stored. A message that ends the
 * thread alone is at fault itself, as far as can be known.
 */
function crashed({ type }: LaneSpec, { messages }: Batch, { message }: DriverDiedError): DeliveryError {
  const text = `Delivering to this destination ended the thread it ran in (${message}). It is tried apart from all other lanes.`
  const timedOut = descriptorOf(type).isTransactional ? 'rolled_back' : 'unknown'
  const known = { retryAfterMs: isolatedRetryMs, timedOut } as const
  const [first] = messages
  if (messages.length > 1 || first === undefined) {
    return new DeliveryError('transient', driverCrashed, text, known)
  }
  const rejected = { seq: first.seq, recordIndex: null, code: driverCrashed, message: text }
  return new DeliveryError('transient', driverCrashed, text, { ...known, fault: 'records', rejected })
}
