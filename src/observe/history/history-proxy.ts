/**
 * The history thread as main holds it: started by the first look, ended when there was none for a minute. One that dies fails
 * the looks under way, and the next look starts another: nothing of what is accepted or delivered goes through it.
 *
 *   a look without a response for 30 s            it fails, and what comes of it is ignored
 *   a thread without a sign of life for 30 s      all its looks fail, and the next look starts another
 *                                                 it ends when the disk responds; until then there are at most 2 of these
 */
import { Worker } from 'node:worker_threads'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { StorageUnavailableError } from '../../platform/error-code.ts'
import { type Logger, openLog } from '../../platform/log.ts'
import { receivedError } from '../../platform/thread-error.ts'
import type { History } from './history.ts'
import type { FromHistory, HistoryMethod, HistoryThreadData, ToHistory } from './history-protocol.ts'

export interface HistoryHandle extends History {
  /** Waits end empty, and no look is begun any more. Resolves when the thread has ended. */
  close(): Promise<void>
}

const idleMs = 60_000
/** Looks that wait for their turn; a follow waits for no other. */
const mostWaiting = 32
/** Counted in ticks, not on a clock: a process that was stopped has not waited. */
const tickMs = 1_000
const mostTicks = 30
/** Each holds memory, and a disk that answers again ends it. */
const mostHung = 2

interface Pending {
  isLook: boolean
  ticks: number
  resolve(value: unknown): void
  reject(error: Error): void
}

interface Running {
  worker: Worker
  pending: Map<number, Pending>
  silentTicks: number
  ended: Promise<void>
}

/** Starts nothing yet. */
export function openHistory(data: HistoryThreadData, everyMs = tickMs): HistoryHandle {
  return new HistoryProxy(data, everyMs)
}

class HistoryProxy implements HistoryHandle {
  readonly #data: HistoryThreadData
  readonly #tickMs: number
  readonly #log: Logger
  #running: Running | null = null
  readonly #hung = new Set<Worker>()
  #watch: NodeJS.Timeout | null = null
  #idle: NodeJS.Timeout | null = null
  #lastId = 0
  #isClosed = false

  constructor(data: HistoryThreadData, everyMs: number) {
    this.#data = data
    this.#tickMs = everyMs
    this.#log = openLog(data.log, 'history')
  }

  readonly find = this.#forward('find')
  readonly list = this.#forward('list')
  readonly placeAt = this.#forward('placeAt')
  readonly follow = this.#forward('follow')

  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#idle !== null) clearTimeout(this.#idle)
    await this.#end()
    this.#stopWatch()
  }

  #forward<Method extends HistoryMethod>(method: Method): History[Method] {
    const run = (...args: unknown[]) => this.#call(method, args)
    return run as History[Method]
  }

  async #call(method: HistoryMethod, args: unknown[]): Promise<unknown> {
    if (this.#isClosed) throw new StorageUnavailableError('history: the service is stopping')
    if (this.#idle !== null) clearTimeout(this.#idle)
    this.#idle = null
    if (this.#hung.size >= mostHung) throw new StorageUnavailableError('history: the disk does not respond')
    this.#running ??= this.#start()
    const { worker, pending } = this.#running
    const isLook = method !== 'follow'
    if (isLook && [...pending.values()].filter((one) => one.isLook).length >= mostWaiting) {
      throw new StorageUnavailableError('history: too many looks at the buffer at a time')
    }
    this.#lastId += 1
    const id = this.#lastId
    const settled = new Promise((resolve, reject) => pending.set(id, { isLook, ticks: 0, resolve, reject }))
    worker.postMessage({ kind: 'call', id, method, args } satisfies ToHistory)
    try {
      return await settled
    } finally {
      if (pending.size === 0 && !this.#isClosed) this.#endLater()
    }
  }

  #start(): Running {
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const worker = new Worker(new URL(`../../daemon/threads/history-thread.${extension}`, import.meta.url), {
      name: 'history',
      resourceLimits: { maxYoungGenerationSizeMb: resourceLimits.driverYoungHeapMiB },
      workerData: this.#data,
    })
    const pending = new Map<number, Pending>()
    let error: Error | null = null
    worker.on('message', (message: FromHistory) => {
      running.silentTicks = 0
      if (message.kind === 'beat') return
      const caller = pending.get(message.id)
      pending.delete(message.id)
      if (message.kind === 'result') caller?.resolve(message.value)
      else caller?.reject(receivedError({ ...message, message: `history: ${message.message}` }))
    })
    worker.once('error', (cause: Error) => {
      error = cause
    })
    const ended = new Promise<void>((resolve) => {
      worker.once('exit', () => {
        if (this.#running === running) this.#running = null
        this.#hung.delete(worker)
        failAll(pending, new StorageUnavailableError('history: the thread has ended', error))
        resolve()
      })
    })
    const running: Running = { worker, pending, silentTicks: 0, ended }
    this.#watch ??= setInterval(() => this.#tick(), this.#tickMs).unref()
    return running
  }

  #tick(): void {
    const running = this.#running
    if (running === null) {
      this.#stopWatch()
      return
    }
    running.silentTicks += 1
    if (running.silentTicks >= mostTicks) this.#leaveBehind(running)
    for (const [id, look] of running.pending) {
      look.ticks += 1
      if (!look.isLook || look.ticks < mostTicks) continue
      running.pending.delete(id)
      look.reject(new StorageUnavailableError('history: a look at the buffer takes too long'))
    }
  }

  /**
   * It is asked to end, which it does when its system call returns. Not `terminate`: a call of SQLite that fails in a thread which
   * is being terminated aborts the process (better-sqlite3 12).
   */
  #leaveBehind({ worker, pending }: Running): void {
    this.#log.error({ calls: pending.size }, 'history.thread_hangs')
    this.#running = null
    this.#hung.add(worker)
    worker.unref()
    worker.postMessage({ kind: 'close' } satisfies ToHistory)
    failAll(pending, new StorageUnavailableError('history: the thread does not respond'))
  }

  #stopWatch(): void {
    if (this.#watch !== null) clearInterval(this.#watch)
    this.#watch = null
  }

  #endLater(): void {
    if (this.#idle !== null) clearTimeout(this.#idle)
    this.#idle = setTimeout(() => void this.#end(), idleMs)
    this.#idle.unref()
  }

  async #end(): Promise<void> {
    const running = this.#running
    this.#running = null
    if (running === null) return
    running.worker.postMessage({ kind: 'close' } satisfies ToHistory)
    await running.ended
  }
}

function failAll(pending: Map<number, Pending>, error: Error): void {
  for (const { reject } of pending.values()) reject(error)
  pending.clear()
}
