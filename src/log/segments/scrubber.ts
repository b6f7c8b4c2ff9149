/** When the scrub runs: a while after the start, and then each time so long after the last one. See scrub.ts. */
import { Worker } from 'node:worker_threads'
import type { Logger } from '../../platform/log.ts'
import { hourMs } from '../../platform/quantities.ts'
import { threadEntry } from '../../platform/threads.ts'
import type { ScrubberData } from './protocol.ts'

/** A daemon that is started each day is scrubbed too, but not while it has the work of a start to do. */
const firstAfterMs = 600_000
/** Of a timer. */
const longestMs = 2 ** 31 - 1

export class Scrubber {
  readonly #data: ScrubberData
  readonly #log: Logger
  #timer: NodeJS.Timeout | null = null
  #worker: Worker | null = null

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
    await this.#worker?.terminate()
  }

  #runAfter(ms: number, everyMs: number): void {
    this.#timer = setTimeout(() => this.#run(everyMs), Math.min(ms, longestMs))
    this.#timer.unref()
  }

  #run(everyMs: number): void {
    const worker = new Worker(threadEntry(import.meta.url, './scrub-thread'), {
      name: 'buffer-scrub',
      workerData: this.#data,
    })
    this.#worker = worker
    worker.unref()
    // It only looks: what goes wrong with it is no reason to end anything.
    worker.on('error', (error) => this.#log.error({ err: error }, 'buffer.scrub_failed'))
    worker.on('exit', () => {
      this.#worker = null
      if (this.#timer !== null) this.#runAfter(everyMs, everyMs)
    })
  }
}
