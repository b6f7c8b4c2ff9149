/**
 * Identifies the lane whose driver crashes a worker. The board lists the attempts that are under way. Everything that a
 * driver starts (sockets and timers, even long after the attempt) runs in its lane's async context. So when an uncaught
 * error ends the worker, the lane that caused it is known.
 *
 * Attempts of a lane that has crashed a worker before run in a thread of their own until main releases the lane:
 *
 *   attempt apart ── delivered ─────────▶ main is notified; it releases the lane or keeps it isolated longer
 *        ├── failed ────────────────────▶ handled like any failure
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
} from '../destinations/driver.ts'
import type { LaneSpec } from '../metadata/lane-state.ts'
import { DriverDiedError } from './isolated-driver.ts'
import { driverCrashed, isolatedRetryMs } from './retry.ts'
import type { WorkerBoard } from './worker-board.ts'

export interface ContainmentOptions {
  board: WorkerBoard
  /** A driver in a thread of its own. */
  openIsolated(spec: LaneSpec): DestinationDriver
  /** Lanes whose attempts run in a thread of their own. */
  quarantined: Iterable<string>
  /** Lanes that had an attempt under way when the last worker died. */
  suspects: Iterable<string>
  /** A suspect has finished an attempt. */
  onFinished(destinationId: string): void
  /** A quarantined lane has delivered. */
  onDeliveredApart(destinationId: string): void
}

export class Containment {
  readonly #options: ContainmentOptions
  readonly #quarantined: Set<string>
  readonly #suspects: Set<string>
  readonly #lane = new AsyncLocalStorage<string>()

  constructor(options: ContainmentOptions) {
    this.#options = options
    this.#quarantined = new Set(options.quarantined)
    this.#suspects = new Set(options.suspects)
  }

  /** The lane whose driver caused the current code to run. */
  get current(): string | undefined {
    return this.#lane.getStore()
  }

  inLane<T>(destinationId: string, run: () => T): T {
    return this.#lane.run(destinationId, run)
  }

  /** Marks an attempt of this lane as under way. The returned function ends the mark; idempotent. */
  begin(destinationId: string): () => void {
    return this.#options.board.begin(destinationId)
  }

  /** An attempt of this lane has ended without ending the worker. */
  finished(destinationId: string): void {
    if (this.#suspects.delete(destinationId)) this.#options.onFinished(destinationId)
  }

  quarantine(destinationId: string): void {
    this.#quarantined.add(destinationId)
  }

  release(destinationId: string): void {
    this.#quarantined.delete(destinationId)
  }

  isQuarantined(destinationId: string): boolean {
    return this.#quarantined.has(destinationId)
  }

  async deliverApart(
    spec: LaneSpec,
    batch: Batch,
    signal: AbortSignal,
    progress: AttemptProgress,
  ): Promise<void> {
    try {
      await this.#options.openIsolated(spec).deliver(batch, signal, progress)
    } catch (error) {
      throw error instanceof DriverDiedError ? crashed(spec, batch, error) : error
    }
    this.#options.onDeliveredApart(spec.destinationId)
  }
}

/**
 * When the thread dies, a transaction has stored nothing because its connection is lost; other destinations can have
 * stored the batch. A message that crashes the thread in a batch of its own is taken as the cause.
 */
function crashed({ type }: LaneSpec, { messages }: Batch, { message }: DriverDiedError): DeliveryError {
  const text = `Delivery to this destination ended its thread (${message}). It is now retried in a thread of its own.`
  const timedOut = descriptorOf(type).isTransactional ? 'rolled_back' : 'unknown'
  const known = { retryAfterMs: isolatedRetryMs, timedOut } as const
  const [first] = messages
  if (messages.length > 1 || first === undefined) {
    return new DeliveryError('transient', driverCrashed, text, known)
  }
  const rejected = { seq: first.seq, recordIndex: null, code: driverCrashed, message: text }
  return new DeliveryError('transient', driverCrashed, text, { ...known, fault: 'records', rejected })
}
