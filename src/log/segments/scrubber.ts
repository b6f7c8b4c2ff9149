/** Schedules the scrub: first a while after the start, then at a fixed interval after each pass. See scrub-thread.ts. */
import type { Logger } from '../../platform/log.ts'
import { hourMs } from '../../platform/quantities.ts'
import { Thread, threadEntry } from '../../platform/threads.ts'
import type { ScrubberData } from './protocol.ts'
import type { ScrubCalls } from './scrub-thread.ts'

/** Late enough not to compete with the work of a start, early enough for a daemon that is restarted every day. */
const firstAfterMs = 600_000
/** The longest delay that a timer supports. */
const longestMs = 2 ** 31 - 1

export class Scrubber {
  readonly #data: ScrubberData
  readonly #log: Logger
  #timer: NodeJS.Timeout | null = null
  #thread: Thread<ScrubCalls> | null = null

  constructor(data: ScrubberData, log: Logger) {
    this.#data = data
    this.#log = log
  }

  start(): void {
    const everyMs = (this.#data.spec.scrubHours ?? 0) * hourMs
    if (everyMs > 0) this.#runAfter(Math.min(firstAfterMs, everyMs), everyMs)
  }

  async close(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    await this.#thread?.terminate('the buffer is being closed')
  }

  #runAfter(ms: number, everyMs: number): void {
    this.#timer = setTimeout(() => void this.#run(everyMs), Math.min(ms, longestMs))
    this.#timer.unref()
  }

  async #run(everyMs: number): Promise<void> {
    const thread = new Thread<ScrubCalls>({
      name: 'buffer-scrub',
      entry: threadEntry(import.meta.url, './scrub-thread'),
      data: this.#data,
    })
    this.#thread = thread
    try {
      await thread.call('scrub', [])
    } catch (err) {
      // The scrub only reads, so its failure does not end the process.
      if (this.#timer !== null) this.#log.warn({ err }, 'buffer.scrub_failed')
    }
    await thread.terminate('the scrub is done')
    this.#thread = null
    if (this.#timer !== null) this.#runAfter(everyMs, everyMs)
  }
}
