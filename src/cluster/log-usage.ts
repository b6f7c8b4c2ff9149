/**
 * Usage in a cluster: the owner of a pipe counts the pipe's messages from the log, because a killed node loses its own
 * counts while the log has all messages. The difference between the pipe's totals and the mark of the last count is
 * added. Usage and mark change in one transaction, so nothing is lost or counted twice, whichever node owns the pipe.
 *
 * Messages count in the hour in which they are counted: at most `everyMs` after acceptance, or when the pipe has an
 * owner again. Each node adds its own rejected requests, and the time of its last request.
 */
import type { Backlog } from '../log/buffer.ts'
import type { Metadata } from '../metadata/store.ts'
import type { UsageMark } from '../metadata/usage.ts'
import type { Logger } from '../platform/log.ts'
import { hourMs } from '../platform/quantities.ts'
import { SerialQueue } from '../platform/serial-queue.ts'
import { slices } from '../platform/slices.ts'

export interface LogUsageOptions {
  /** The pipes that this node owns now. */
  pipeIds(): Iterable<string>
  /** The newest message that is known without a query. */
  headSeq(pipeId: string): number
  /** The totals of everything ever appended to the pipe. */
  totals(pipeId: string): Promise<Backlog>
  usage: Pick<Metadata['usage'], 'countUpTo'>
  now(): number
  log: Logger
}

const everyMs = 2_000
const pipesAtOnce = 100

export class LogUsage {
  readonly #options: LogUsageOptions
  /** The head at the last count, by pipe. */
  readonly #counted = new Map<string, number>()
  #timer: NodeJS.Timeout | null = null
  readonly #queue = new SerialQueue()

  constructor(options: LogUsageOptions) {
    this.#options = options
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.count().catch((err) => this.#options.log.warn({ err }, 'usage.count_failed'))
    }, everyMs)
    this.#timer.unref()
  }

  /** Counts everything since the last time, before the pipes go to other nodes. */
  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    await this.count().catch((error) => {
      // The next owner of the pipes counts it.
      this.#options.log.warn({ err: error }, 'usage.count_failed')
    })
  }

  /** Resolves when everything appended before the call is counted. */
  count(): Promise<void> {
    return this.#queue.run(async () => {
      const { pipeIds, headSeq } = this.#options
      const owned = [...pipeIds()]
      const isOwned = new Set(owned)
      for (const pipeId of this.#counted.keys()) if (!isOwned.has(pipeId)) this.#counted.delete(pipeId)
      const grown = owned.filter((pipeId) => headSeq(pipeId) !== (this.#counted.get(pipeId) ?? 0))
      for (const some of slices(grown, pipesAtOnce)) await this.#add(some)
    })
  }

  /** The same for one pipe, without checking whether it has new messages. */
  countPipe(pipeId: string): Promise<void> {
    return this.#queue.run(() => this.#add([pipeId]))
  }

  async #add(pipeIds: readonly string[]): Promise<void> {
    const { headSeq, totals, usage, now } = this.#options
    const marks: UsageMark[] = []
    const heads = new Map<string, number>()
    for (const pipeId of pipeIds) {
      heads.set(pipeId, headSeq(pipeId))
      const { messages, records, bytes } = await totals(pipeId)
      if (messages > 0) marks.push({ pipeId, messages, records, bytes })
    }
    const nowMs = now()
    await usage.countUpTo(marks, nowMs - (nowMs % hourMs))
    for (const [pipeId, seq] of heads) this.#counted.set(pipeId, seq)
  }
}
