/**
 * The main thread's side of the history thread. The first look-up starts the thread; it ends after a minute without look-ups.
 * If it dies, running look-ups fail and the next look-up starts another one. Ingest and delivery do not use it.
 *
 *   a look-up without a response for 30 s         it fails, and its result is ignored
 *   a thread without a sign of life for 30 s      all its look-ups fail, and the next one starts another thread;
 *                                                 it ends when the disk responds; at most 2 such threads exist
 */
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { BufferSpec } from '../../log/buffer-spec.ts'
import { StorageUnavailableError } from '../../platform/error-code.ts'
import { type Logger, type LogSettings, openLog } from '../../platform/log.ts'
import { type Args, beatEveryMs, type Result } from '../../platform/thread-calls.ts'
import { Thread, ThreadPool, threadEntry } from '../../platform/threads.ts'
import type { History } from './history.ts'

export interface HistoryThreadData {
  buffer: BufferSpec
  log: LogSettings
}

export interface HistoryHandle extends History {
  /** Waits end without a result, and no further look-up starts. Resolves when the thread has ended. */
  close(): Promise<void>
}

const idleMs = 60_000
/** The number of look-ups that wait for their turn. A follow does not wait for other look-ups. */
const maxWaiting = 32
const maxTicks = 30
/** Each holds memory. It ends when the disk responds again. */
const maxHung = 2

/** Does not start a thread yet. */
export function openHistory(data: HistoryThreadData, tickMs = beatEveryMs): HistoryHandle {
  return new HistoryProxy(data, tickMs)
}

class HistoryProxy implements HistoryHandle {
  readonly #data: HistoryThreadData
  readonly #tickMs: number
  readonly #log: Logger
  readonly #threads = new ThreadPool(() => this.#start(), {
    callsAtOnce: Number.POSITIVE_INFINITY,
    idleMs,
    end: 'close',
  })
  #lookUps = 0

  constructor(data: HistoryThreadData, tickMs: number) {
    this.#data = data
    this.#tickMs = tickMs
    this.#log = openLog(data.log, 'history')
  }

  find: History['find'] = (...args) => this.#lookUp('find', args)
  list: History['list'] = (...args) => this.#lookUp('list', args)
  checkSchema: History['checkSchema'] = (...args) => this.#lookUp('checkSchema', args)
  inferSchema: History['inferSchema'] = (...args) => this.#lookUp('inferSchema', args)
  range: History['range'] = (...args) => this.#lookUp('range', args)
  positionAt: History['positionAt'] = (...args) => this.#lookUp('positionAt', args)
  follow: History['follow'] = (...args) => this.#threads.run((thread) => thread.call('follow', args))

  async close(): Promise<void> {
    await this.#threads.close()
  }

  async #lookUp<Method extends Exclude<keyof History, 'follow'>>(
    method: Method,
    args: Args<History, Method>,
  ): Promise<Result<History, Method>> {
    if (this.#lookUps >= maxWaiting) {
      throw new StorageUnavailableError('history: too many concurrent reads of the buffer')
    }
    this.#lookUps += 1
    try {
      return await this.#threads.run((thread) => thread.call(method, args, { maxTicks }))
    } finally {
      this.#lookUps -= 1
    }
  }

  #start(): Thread<History> {
    if (this.#threads.leftBehind >= maxHung)
      throw new StorageUnavailableError('history: the disk does not respond')
    return new Thread<History>({
      name: 'history',
      entry: threadEntry(import.meta.url, '../../daemon/threads/history-thread'),
      data: this.#data,
      limits: { maxYoungGenerationSizeMb: resourceLimits.driverYoungHeapMiB },
      maxSilentTicks: maxTicks,
      whenSilent: 'abandon',
      tickMs: this.#tickMs,
      onAbandoned: (calls) => this.#log.error({ calls }, 'history.thread_hangs'),
    })
  }
}
