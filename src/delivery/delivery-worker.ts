/**
 * One delivery worker from its start to its end, as seen from the main thread.
 *
 *   starting ──ready──▶ up ──no beat for 2 s──▶ silent ──no beat for 5 s──▶ terminated ─┐
 *      │                 │◀──────beat────────────┘                                      ▼
 *      └─────────────────┴── an uncaught error, out of memory, its own exit ──▶ ended: calls under way reject
 *
 * Silence is counted in checks, not by a clock: while the main thread was blocked or the machine slept, there were no
 * checks either.
 */
import { resourceLimits } from '../contract/resource-limits.ts'
import type { DriverSettings } from '../destinations/driver.ts'
import type { BufferSpec } from '../log/buffer-spec.ts'
import type { MetadataSpec } from '../metadata/store.ts'
import { DeliveryUnavailableError, StorageUnavailableError } from '../platform/error-code.ts'
import type { LogSettings } from '../platform/log.ts'
import { beatEveryMs } from '../platform/thread-calls.ts'
import { Thread, threadEntry } from '../platform/threads.ts'
import { newBoardMemory, WorkerBoard } from './containment.ts'
import type { Delivery, Rereads } from './delivery.ts'
import type { Death } from './worker-deaths.ts'

export interface DeliveryThreadData {
  buffer: BufferSpec
  metadata: MetadataSpec
  sealingKey: Uint8Array
  /** The id of this node in its cluster: it delivers the pipes for which it gets a lease. Null: it delivers every pipe. */
  nodeId: string | null
  driverSettings: DriverSettings
  maxInFlightBytes: number
  maxParkedBytes: number
  log: LogSettings
  /** The memory of a WorkerBoard. Each worker has its own. */
  board: SharedArrayBuffer
  /** Lanes that had an attempt under way when the last worker died. Main waits for each to finish an attempt. */
  suspects: readonly string[]
  /** Lanes whose attempts run in a thread of their own. */
  quarantined: readonly string[]
  /** Treats every destination as blocked. */
  isSafe: boolean
  /** The process is stopping: pulls do not wait. */
  endsPulls: boolean
  /** Null: there is no replica. */
  replica: DeliveryReplica | null
}

export interface DeliveryReplica {
  /** The name of its place, as in `Epoch.continues`. */
  target: string
  /** A range is in the replica before it is sent. */
  isSync: boolean
}

export interface DeliveryCalls extends Delivery, Rereads {
  close(graceMs: number): Promise<void>
  /** Ends the quarantine of a lane. */
  release(destinationId: string): void
  /** Everything that was durable before this moment (`sharedMs`) is in the replica. */
  replicated(beforeMs: number): void
}
export type DeliveryMethod = keyof DeliveryCalls

/** A worker's reports to main. */
export interface DeliveryReports {
  /** A suspect has finished an attempt. */
  finished(destinationId: string): void
  /** A quarantined lane has delivered in a thread of its own. */
  deliveredApart(destinationId: string): void
  /** Columns were added for a destination of this pipe: its metadata has changed. */
  columnsAdded(pipeId: string): void
  /** A lane waits until its range is in the replica. */
  replicaAwaited(): void
}

export interface WorkerEnd extends Death {
  error: Error
  /** A read or write has failed: the process cannot trust its view of its files any more. */
  isStorageFailure: boolean
  /** The worker was terminated but still runs: no other worker can run its lanes. */
  isStuck: boolean
}

/** Ticks of silence after which calls that only read are interrupted; the stored lanes are used instead. */
const maxSilentTicksOfReads = 2
const maxSilentTicks = 5
/** Ticks without a beat that a worker can take for loading and opening, before it is ready. */
const maxStartTicks = 60

export class DeliveryWorker {
  /** Rejects when the worker ends before it is ready. */
  readonly ready: Promise<void>
  /** Never rejects. */
  readonly ended: Promise<WorkerEnd>
  onFinished: (destinationId: string) => void = () => {}
  onDeliveredApart: (destinationId: string) => void = () => {}
  onColumnsAdded: (pipeId: string) => void = () => {}
  onReplicaAwaited: () => void = () => {}
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
        columnsAdded: (pipeId) => this.onColumnsAdded(pipeId),
        replicaAwaited: () => this.onReplicaAwaited(),
      },
      // Management only needs to know that nothing can be saved for now.
      errors: { LaneStoreUnavailableError: StorageUnavailableError },
      maxSilentTicks,
      maxStartTicks,
      interrupted: (reason, cause) => new DeliveryUnavailableError(reason, cause),
    })
    this.ready = this.#thread.ready
    this.ended = this.#thread.ended.then((end) => {
      const { blamed, isStorageFailure } = board
      return { ...end, isStorageFailure, blamed, underWay: board.underWay() }
    })
  }

  /** Time since its last sign of life. */
  get silentMs(): number {
    return this.#thread.silentTicks * beatEveryMs
  }

  /** Rejects with DeliveryUnavailableError when the worker ends before it responds; reads also when the worker is silent. */
  call(method: DeliveryMethod, args: unknown[], { isRead = false } = {}): Promise<unknown> {
    const options = isRead ? { maxSilentTicks: maxSilentTicksOfReads } : {}
    return this.#thread.call(method, args as never, options)
  }

  release(destinationId: string): void {
    this.#thread.tell('release', [destinationId])
  }

  replicated(beforeMs: number): void {
    this.#thread.tell('replicated', [beforeMs])
  }

  terminate(reason: string): void {
    void this.#thread.terminate(reason)
  }
}
