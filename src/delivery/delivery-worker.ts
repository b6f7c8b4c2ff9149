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
import { Worker } from 'node:worker_threads'
import { resourceLimits } from '../contract/resource-limits.ts'
import {
  DeliveryUnavailableError,
  LaneElsewhereError,
  StorageUnavailableError,
} from '../platform/error-code.ts'
import { threadEntry } from '../platform/threads.ts'
import {
  beatEveryMs,
  type DeliveryMethod,
  type DeliveryThreadData,
  type FromDeliveryWorker,
  type ToDeliveryWorker,
} from './delivery-protocol.ts'
import { newBoardMemory, WorkerBoard } from './worker-board.ts'
import type { Death } from './worker-deaths.ts'

export interface WorkerEnd extends Death {
  error: Error
  /** After a failed read or write nothing that the process holds of its files can be trusted. */
  isStorageFailure: boolean
  /** It was terminated and goes on nevertheless: no other may run its lanes. */
  isStuck: boolean
}

interface Pending {
  isRead: boolean
  resolve(value: unknown): void
  reject(error: Error): void
}

const looksToBeSilent = 2
const looksToBeTerminated = 5
/** Until it is ready it may load and open for so long without a beat. */
const looksWhileStarting = 60
/** A thread ends when its native calls have returned. */
const terminateLimitMs = 30_000

export class DeliveryWorker {
  /** Rejects when it ended before. */
  readonly ready: Promise<void>
  /** Never rejects. */
  readonly ended: Promise<WorkerEnd>
  onFinished: (destinationId: string) => void = () => {}
  onDeliveredApart: (destinationId: string) => void = () => {}
  readonly #worker: Worker
  readonly #board: WorkerBoard
  readonly #pending = new Map<number, Pending>()
  readonly #watch: NodeJS.Timeout
  #lastId = 0
  #isReady = false
  #seenBeats = 0
  #looksWithoutBeat = 0
  #error: Error | null = null
  #end: WorkerEnd | null = null
  #settleReady = { resolve: () => {}, reject: (_: Error) => {} }
  #settleEnded: (end: WorkerEnd) => void = () => {}

  constructor(data: Omit<DeliveryThreadData, 'board'>) {
    const board = newBoardMemory()
    this.#board = new WorkerBoard(board)
    this.#worker = new Worker(threadEntry(import.meta.url, '../daemon/threads/delivery-thread'), {
      name: 'delivery',
      resourceLimits: { maxYoungGenerationSizeMb: resourceLimits.deliveryYoungHeapMiB },
      workerData: { ...data, board } satisfies DeliveryThreadData,
    })
    this.ready = new Promise((resolve, reject) => {
      this.#settleReady = { resolve, reject }
    })
    this.ended = new Promise((resolve) => {
      this.#settleEnded = resolve
    })
    this.#worker.on('message', (message: FromDeliveryWorker) => this.#receive(message))
    this.#worker.once('error', (error: Error) => {
      this.#error ??= error
    })
    this.#worker.once('exit', (code) => {
      this.#ended(this.#error ?? new Error(`the delivery thread ended with code ${code}`))
    })
    this.#watch = setInterval(() => this.#look(), beatEveryMs)
    this.#watch.unref()
  }

  get isSilent(): boolean {
    return this.#isReady && this.#looksWithoutBeat >= looksToBeSilent
  }

  /** How long it has given no sign of life. */
  get silentMs(): number {
    return this.#looksWithoutBeat * beatEveryMs
  }

  /**
   * Rejects with DeliveryUnavailableError when the worker ends before it has responded; one that only reads also when the
   * worker is silent.
   */
  call(method: DeliveryMethod, args: unknown[], { isRead = false } = {}): Promise<unknown> {
    if (this.#end !== null) return Promise.reject(interrupted(this.#end.error))
    if (isRead && this.isSilent) return Promise.reject(interrupted())
    this.#lastId += 1
    const id = this.#lastId
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { isRead, resolve, reject })
      this.#worker.postMessage({ kind: 'call', id, method, args } satisfies ToDeliveryWorker)
    })
  }

  release(destinationId: string): void {
    this.#worker.postMessage({ kind: 'release', destinationId } satisfies ToDeliveryWorker)
  }

  terminate(reason: string): void {
    this.#error ??= new Error(reason)
    const giveUp = () => this.#ended(new Error(`${reason}, and it cannot be terminated`), true)
    setTimeout(giveUp, terminateLimitMs).unref()
    void this.#worker.terminate()
  }

  #receive(message: FromDeliveryWorker): void {
    switch (message.kind) {
      case 'ready':
        this.#isReady = true
        this.#settleReady.resolve()
        break
      case 'finished':
        this.onFinished(message.destinationId)
        break
      case 'delivered_apart':
        this.onDeliveredApart(message.destinationId)
        break
      case 'result':
        this.#take(message.id)?.resolve(message.value)
        break
      case 'failure': {
        const { id, reason, message: text } = message
        const isUnavailable = reason === 'unavailable'
        this.#take(id)?.reject(
          isUnavailable ? new StorageUnavailableError(text) : new Error(`delivery: ${text}`),
        )
        break
      }
      case 'elsewhere':
        this.#take(message.id)?.reject(new LaneElsewhereError(message.destinationId))
    }
  }

  #take(id: number): Pending | undefined {
    const caller = this.#pending.get(id)
    this.#pending.delete(id)
    return caller
  }

  #look(): void {
    const { beats } = this.#board
    const wasSilent = this.isSilent
    this.#looksWithoutBeat = beats === this.#seenBeats ? this.#looksWithoutBeat + 1 : 0
    this.#seenBeats = beats
    if (this.isSilent && !wasSilent) this.#interruptReads()
    const limit = this.#isReady ? looksToBeTerminated : looksWhileStarting
    if (this.#looksWithoutBeat === limit) {
      this.terminate(`the delivery thread gave no sign of life for ${limit} s`)
    }
  }

  #interruptReads(): void {
    for (const [id, { isRead, reject }] of this.#pending) {
      if (!isRead) continue
      this.#pending.delete(id)
      reject(interrupted())
    }
  }

  #ended(error: Error, isStuck = false): void {
    if (this.#end !== null) return
    clearInterval(this.#watch)
    const { blamed, isStorageFailure } = this.#board
    this.#end = { error, isStuck, isStorageFailure, blamed, underWay: this.#board.underWay() }
    this.#settleReady.reject(error)
    // Callers that wait for `ready` got the error; a worker that was up has no such callers.
    this.ready.catch(() => {})
    for (const { reject } of this.#pending.values()) reject(interrupted(error))
    this.#pending.clear()
    this.#settleEnded(this.#end)
  }
}

function interrupted(cause?: Error): DeliveryUnavailableError {
  const what = cause === undefined ? 'gives no sign of life' : 'has ended'
  return new DeliveryUnavailableError(`the delivery thread ${what}`, cause)
}
