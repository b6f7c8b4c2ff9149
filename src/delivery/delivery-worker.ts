/**
 * One delivery worker, from its start to its death, as main holds it.
 *
 *   starting ──ready──▶ up ──no beat for 2 s──▶ silent ──no beat for 5 s──▶ terminated ─┐
 *      │                 │◀──────beat────────────┘                                      ▼
 *      └─────────────────┴── an error nobody caught, out of memory, its own end ──▶ ended: calls under way reject
 *
 * Silence is counted in looks, not on a clock: a main thread that was held up itself, or a machine that slept, has looked
 * no more often than the worker could beat.
 */
import { resourceLimits } from '../contract/resource-limits.ts'
import type { DriverSettings } from '../destinations/driver.ts'
import type { BufferSpec } from '../log/buffer-spec.ts'
import type { MetadataSpec } from '../metadata/store.ts'
import { DeliveryUnavailableError, StorageUnavailableError } from '../platform/error-code.ts'
import type { LogSettings } from '../platform/log.ts'
import { beatEveryMs, Thread, threadEntry } from '../platform/threads.ts'
import type { Delivery } from './delivery.ts'
import { newBoardMemory, WorkerBoard } from './worker-board.ts'
import type { Death } from './worker-deaths.ts'

export interface DeliveryThreadData {
  buffer: BufferSpec
  metadata: MetadataSpec
  sealingKey: Uint8Array
  /**
   * The id of this node in its cluster: it delivers the pipes that it gets a lease for. Null: it delivers everything.
   */
  nodeId: string | null
  driverSettings: DriverSettings
  maxInFlightBytes: number
  maxParkedBytes: number
  log: LogSettings
  /** The memory of a WorkerBoard; each worker has its own. */
  board: SharedArrayBuffer
  /** Lanes that were under way when the last worker died: main wants to know when they have finished an attempt. */
  suspects: readonly string[]
  /** Lanes whose attempts run in a thread of their own. */
  quarantined: readonly string[]
  /** Every destination counts as blocked. */
  isSafe: boolean
  /** The process stops: pulls do not wait. */
  endsPulls: boolean
}

export interface DeliveryCalls extends Delivery {
  close(graceMs: number): Promise<void>
  /** A quarantined lane is like any other from now on. */
  release(destinationId: string): void
}
export type DeliveryMethod = keyof DeliveryCalls

/** A worker's reports to main. */
export interface DeliveryReports {
  /** A suspect has finished an attempt. */
  finished(destinationId: string): void
  /** A quarantined lane has delivered in a thread of its own. */
  deliveredApart(destinationId: string): void
}

export interface WorkerEnd extends Death {
  error: Error
  /** After a failed read or write nothing that the process holds of its files can be trusted. */
  isStorageFailure: boolean
  /** It was terminated and goes on nevertheless: no other may run its lanes. */
  isStuck: boolean
}

/** Calls that only read are interrupted then: what is stored answers them. */
const mostSilentTicksOfReads = 2
const mostSilentTicks = 5
/** Until it is ready, a worker can load and open for this long without a beat. */
const mostStartTicks = 60

export class DeliveryWorker {
  /** Rejects when it ended before. */
  readonly ready: Promise<void>
  /** Never rejects. */
  readonly ended: Promise<WorkerEnd>
  onFinished: (destinationId: string) => void = () => {}
  onDeliveredApart: (destinationId: string) => void = () => {}
  readonly #thread: Thread<DeliveryCalls, DeliveryReports>

  constructor(data: Omit<DeliveryThreadData, 'board'>) {
    const memory = newBoardMemory()
    const board = new WorkerBoard(memory)
    this.#thread = new Thread<DeliveryCalls, DeliveryReports>({
      name: 'delivery',
      entry: threadEntry(import.meta.url, '../daemon/threads/delivery-thread'),
      data: { ...data, board: memory } satisfies DeliveryThreadData,
      limits: { maxYoungGenerationSizeMb: resourceLimits.deliveryYoungHeapMiB },
      host: {
        finished: (destinationId) => this.onFinished(destinationId),
        deliveredApart: (destinationId) => this.onDeliveredApart(destinationId),
      },
      // Management knows only that nothing can be saved for now.
      errors: { LaneStoreUnavailableError: StorageUnavailableError },
      mostSilentTicks,
      mostStartTicks,
      interrupted: (reason, cause) => new DeliveryUnavailableError(reason, cause),
    })
    this.ready = this.#thread.ready
    this.ended = this.#thread.ended.then((end) => {
      const { blamed, isStorageFailure } = board
      return { ...end, isStorageFailure, blamed, underWay: board.underWay() }
    })
  }

  /** How long it has given no sign of life. */
  get silentMs(): number {
    return this.#thread.silentTicks * beatEveryMs
  }

  /**
   * Rejects with DeliveryUnavailableError when the worker ends before it has responded; one that only reads also when the
   * worker is silent.
   */
  call(method: DeliveryMethod, args: unknown[], { isRead = false } = {}): Promise<unknown> {
    const options = isRead ? { mostSilentTicks: mostSilentTicksOfReads } : {}
    return this.#thread.call(method, args as never, options)
  }

  release(destinationId: string): void {
    this.#thread.tell('release', [destinationId])
  }

  terminate(reason: string): void {
    void this.#thread.terminate(reason)
  }
}
