/**
 * Posts to receivers, from a thread of its own that is there only while there is something to send: a receiver that finds a
 * fault in how responses are read ends that thread, and neither ingest nor any lane.
 *
 *   none ──post──▶ running ──nothing to send for 10 s──▶ none
 *                     └── it dies, or leaves a post unanswered past its deadline ──▶ every post under way has failed ──▶ none
 */
import { Worker } from 'node:worker_threads'
import type { DriverSettings } from '../../destinations/driver.ts'
import type { Post, PostOutcome } from '../../destinations/http-endpoint/post.ts'
import type { Logger } from '../../platform/log.ts'
import { threadEntry } from '../../platform/threads.ts'

export interface ToPostThread {
  number: number
  post: Post
}
export interface FromPostThread {
  number: number
  outcome: PostOutcome
}

const keptMs = 10_000
/** Beyond the post's own deadline: starting the thread, look-ups, reading what came back. */
const marginMs = 10_000

interface Waiting {
  resolve(outcome: PostOutcome): void
  timer: NodeJS.Timeout
}

export class AlertPoster {
  readonly #settings: DriverSettings
  readonly #log: Logger
  readonly #waiting = new Map<number, Waiting>()
  #worker: Worker | null = null
  #idle: NodeJS.Timeout | null = null
  #lastNumber = 0
  #isClosed = false

  constructor(settings: DriverSettings, log: Logger) {
    this.#settings = settings
    this.#log = log
  }

  /** Never rejects. */
  post(post: Post): Promise<PostOutcome> {
    if (this.#isClosed) return Promise.resolve(unsent('The service is stopping.'))
    if (this.#idle !== null) clearTimeout(this.#idle)
    this.#worker ??= this.#start()
    const worker = this.#worker
    this.#lastNumber += 1
    const number = this.#lastNumber
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#end(worker, 'it did not respond'), post.timeoutMs + marginMs)
      this.#waiting.set(number, { resolve, timer })
      worker.postMessage({ number, post } satisfies ToPostThread)
    })
  }

  /** What is under way has failed. */
  async close(): Promise<void> {
    this.#isClosed = true
    const worker = this.#worker
    if (worker === null) return
    this.#end(worker, null)
    await worker.terminate()
  }

  #start(): Worker {
    const worker = new Worker(threadEntry(import.meta.url, '../../daemon/threads/post-thread'), {
      name: 'alerts',
      resourceLimits: { maxYoungGenerationSizeMb: 8, maxOldGenerationSizeMb: 96 },
      workerData: this.#settings,
    })
    worker.on('message', ({ number, outcome }: FromPostThread) => this.#settle(number, outcome))
    worker.once('error', (error) => this.#end(worker, error instanceof Error ? error.message : 'an error'))
    worker.once('exit', () => this.#end(worker, 'it ended'))
    return worker
  }

  #settle(number: number, outcome: PostOutcome): void {
    const waiting = this.#waiting.get(number)
    if (waiting === undefined) return
    this.#waiting.delete(number)
    clearTimeout(waiting.timer)
    waiting.resolve(outcome)
    if (this.#waiting.size > 0 || this.#worker === null) return
    const worker = this.#worker
    this.#idle = setTimeout(() => this.#end(worker, null), keptMs)
    this.#idle.unref()
  }

  /** `reason` null: it is not needed any more. */
  #end(worker: Worker, reason: string | null): void {
    if (this.#worker !== worker) return
    this.#worker = null
    void worker.terminate()
    if (reason !== null) this.#log.warn({ reason, under_way: this.#waiting.size }, 'alerts.sender_died')
    const outcome = unsent('The thread that sends alerts ended before a response came.')
    for (const number of [...this.#waiting.keys()]) this.#settle(number, outcome)
  }
}

function unsent(message: string): PostOutcome {
  return { ok: false, status: null, code: 'sender_ended', message, retryAfterMs: null }
}
