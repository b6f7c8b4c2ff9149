/**
 * The history thread as main holds it: started by the first look, ended when nobody has looked for a minute. One that dies fails
 * the looks under way, and the next look starts another: nothing of what is accepted or delivered goes through it.
 */
import { Worker } from 'node:worker_threads'
import { resourceLimits } from '../contract/resource-limits.ts'
import { StorageUnavailableError } from '../error-code.ts'
import { receivedError } from '../thread-error.ts'
import type { History } from './history.ts'
import type { FromHistory, HistoryMethod, HistoryThreadData, ToHistory } from './history-protocol.ts'

export interface HistoryHandle extends History {
  /** Waits end empty, and no look is begun any more. Resolves when the thread has ended. */
  close(): Promise<void>
}

const idleMs = 60_000
/** Looks that wait for their turn; a follow waits for nobody. */
const mostWaiting = 32

interface Pending {
  isLook: boolean
  resolve(value: unknown): void
  reject(error: Error): void
}

interface Running {
  worker: Worker
  pending: Map<number, Pending>
  ended: Promise<void>
}

/** Starts nothing yet. */
export function openHistory(data: HistoryThreadData): HistoryHandle {
  return new HistoryProxy(data)
}

class HistoryProxy implements HistoryHandle {
  readonly #data: HistoryThreadData
  #running: Running | null = null
  #idle: NodeJS.Timeout | null = null
  #lastId = 0
  #isClosed = false

  constructor(data: HistoryThreadData) {
    this.#data = data
  }

  readonly find = this.#forward('find')
  readonly list = this.#forward('list')
  readonly placeAt = this.#forward('placeAt')
  readonly follow = this.#forward('follow')

  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#idle !== null) clearTimeout(this.#idle)
    await this.#end()
  }

  #forward<Method extends HistoryMethod>(method: Method): History[Method] {
    const run = (...args: unknown[]) => this.#call(method, args)
    return run as History[Method]
  }

  async #call(method: HistoryMethod, args: unknown[]): Promise<unknown> {
    if (this.#isClosed) throw new StorageUnavailableError('history: the service is stopping')
    if (this.#idle !== null) clearTimeout(this.#idle)
    this.#idle = null
    this.#running ??= this.#start()
    const { worker, pending } = this.#running
    const isLook = method !== 'follow'
    if (isLook && [...pending.values()].filter((one) => one.isLook).length >= mostWaiting) {
      throw new StorageUnavailableError('history: too many looks at the buffer at a time')
    }
    this.#lastId += 1
    const id = this.#lastId
    const settled = new Promise((resolve, reject) => pending.set(id, { isLook, resolve, reject }))
    worker.postMessage({ kind: 'call', id, method, args } satisfies ToHistory)
    try {
      return await settled
    } finally {
      if (pending.size === 0 && !this.#isClosed) this.#endLater()
    }
  }

  #start(): Running {
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const worker = new Worker(new URL(`./history-thread.${extension}`, import.meta.url), {
      name: 'history',
      resourceLimits: { maxYoungGenerationSizeMb: resourceLimits.driverYoungHeapMiB },
      workerData: this.#data,
    })
    const pending = new Map<number, Pending>()
    let error: Error | null = null
    worker.on('message', (message: FromHistory) => {
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
        for (const { reject } of pending.values())
          reject(new StorageUnavailableError('history: the thread has ended', error))
        pending.clear()
        resolve()
      })
    })
    const running = { worker, pending, ended }
    return running
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
