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
import { Buffer } from 'node:buffer'
import { stringify } from 'uuid'
import {
  type AttemptProgress,
  type Batch,
  DeliveryError,
  type DestinationDriver,
} from '../destinations/driver.ts'
import { descriptorOf } from '../destinations/drivers.ts'
import type { LaneSpec } from '../metadata/lane-state.ts'
import { driverCrashed, isolatedRetryMs } from './clock.ts'
import { DriverDiedError } from './isolated-driver.ts'

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

/**
 * The state of a delivery worker in shared memory, which main can read even when the worker hangs or has died. The
 * worker writes, main reads. Marking an attempt costs two stores, no message and no save.
 *
 *   Int32  0      1: it ended because storage failed
 *          1      1: the next four are the lane whose code ended the worker
 *          2..5   that lane's destination_id
 *          6..    slots of 5: 1 while an attempt is under way, and its lane's destination_id
 *
 * The marks exist as long as the process. When the whole process dies (kill -9, out of memory, a fault in native code),
 * nothing is known about the lane that caused it; `serve --safe` is for that case.
 */
const storageAt = 0
const hasBlameAt = 1
const blameAt = 2
const slotsAt = 6
const idWords = 4
const slotWords = 1 + idWords
/** Attempts above this number are not marked. */
const slots = 4096

/** All zeros is an empty board. */
export function newBoardMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer((slotsAt + slots * slotWords) * Int32Array.BYTES_PER_ELEMENT)
}

export class WorkerBoard {
  readonly #words: Int32Array
  readonly #bytes: Uint8Array
  /** Used by the worker: released slots, and the first slot that was never used. */
  readonly #free: number[] = []
  #unused = 0

  constructor(memory: SharedArrayBuffer) {
    this.#words = new Int32Array(memory)
    this.#bytes = new Uint8Array(memory)
  }

  /** Called by the worker when an attempt of this lane starts. The returned function ends the mark; idempotent. */
  begin(destinationId: string): () => void {
    const slot = this.#free.pop() ?? (this.#unused < slots ? this.#unused++ : null)
    if (slot === null) return () => {}
    const at = slotsAt + slot * slotWords
    this.#writeId(at + 1, destinationId)
    Atomics.store(this.#words, at, 1)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      Atomics.store(this.#words, at, 0)
      this.#free.push(slot)
    }
  }

  /** Called by a worker that is about to end because of this lane. */
  blame(destinationId: string): void {
    this.#writeId(blameAt, destinationId)
    Atomics.store(this.#words, hasBlameAt, 1)
  }

  /** Called by a worker that is about to end because its files cannot be read or written. */
  storageFailed(): void {
    Atomics.store(this.#words, storageAt, 1)
  }

  get isStorageFailure(): boolean {
    return Atomics.load(this.#words, storageAt) === 1
  }

  get blamed(): string | null {
    return Atomics.load(this.#words, hasBlameAt) === 1 ? this.#readId(blameAt) : null
  }

  /** The lanes with an attempt under way, each once. */
  underWay(): string[] {
    const found = new Set<string>()
    for (let at = slotsAt; at < this.#words.length; at += slotWords) {
      if (Atomics.load(this.#words, at) === 1) found.add(this.#readId(at + 1))
    }
    return [...found]
  }

  #writeId(word: number, destinationId: string): void {
    this.#bytes.set(Buffer.from(destinationId.replaceAll('-', ''), 'hex'), word * 4)
  }

  #readId(word: number): string {
    return stringify(this.#bytes.slice(word * 4, (word + idWords) * 4))
  }
}
