/**
 * Posts alerts to receivers, from a separate thread that exists only while there is something to send. A receiver that exploits
 * a fault in the parsing of responses ends only that thread, and affects neither ingest nor lanes.
 *
 *   none ──post──▶ running ──nothing to send for 10 s──▶ none
 *                     └── it dies, or a post exceeds its deadline ──▶ every running post fails ──▶ none
 */
import type { DriverSettings } from '../../destinations/driver.ts'
import type { Post, PostOutcome } from '../../destinations/http-endpoint/post.ts'
import type { Logger } from '../../platform/log.ts'
import { beatEveryMs } from '../../platform/thread-calls.ts'
import { Thread, ThreadPool, threadEntry } from '../../platform/threads.ts'

/** The calls that the thread serves. */
export interface PostCalls {
  post(post: Post): PostOutcome
}

const idleMs = 10_000
/** In addition to the post's own deadline: name look-ups, and reading the response. */
const marginMs = 10_000
const maxStartTicks = 60

export class AlertPoster {
  readonly #settings: DriverSettings
  readonly #log: Logger
  readonly #threads = new ThreadPool(() => this.#start(), { callsAtOnce: Number.POSITIVE_INFINITY, idleMs })
  #isClosed = false

  constructor(settings: DriverSettings, log: Logger) {
    this.#settings = settings
    this.#log = log
  }

  /** Never rejects. */
  async post(post: Post): Promise<PostOutcome> {
    if (this.#isClosed) return unsent('The service is stopping.')
    const maxTicks = Math.ceil((post.timeoutMs + marginMs) / beatEveryMs)
    try {
      return await this.#threads.run((thread) => thread.call('post', [post], { maxTicks, endsThread: true }))
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      if (!this.#isClosed) this.#log.warn({ reason }, 'alerts.sender_died')
      return unsent('The thread that sends alerts ended before a response came.')
    }
  }

  /** Running requests fail. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#threads.close()
  }

  #start(): Thread<PostCalls> {
    return new Thread({
      name: 'alerts',
      entry: threadEntry(import.meta.url, '../../daemon/threads/post-thread'),
      data: this.#settings,
      limits: { maxYoungGenerationSizeMb: 8, maxOldGenerationSizeMb: 96 },
      // Detects a start that hangs. Afterwards each post has its own deadline.
      maxStartTicks,
    })
  }
}

function unsent(message: string): PostOutcome {
  return { ok: false, status: null, code: 'sender_ended', message, retryAfterMs: null }
}
