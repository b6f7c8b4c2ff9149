/**
 * Pages of a pipe's messages, newest first, for people who search.
 *
 *   since ─ until         a range of seqs: times ascend, except for requests that overtake each other
 *   ranges of a lane      where the messages with a state can be, from metadata
 *   key=value             bodies are read and compared, in steps
 *
 * One request reads a limited number of bytes for a limited time. Then the page ends, and the next one continues there.
 * Steps run one at a time for all requests of the thread, each followed by a pause of the same length. So searches use
 * at most half of a core, and other look-ups of the thread have their turn in between.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { BufferReader, ListedMessage, MessageLookup } from '../../log/buffer.ts'
import type { SeqRange } from '../../metadata/lane-state.ts'
import type { Semaphore } from '../../platform/semaphore.ts'
import type { MessageExcerpt, MessagePage, MessageQuery, Searched } from './history.ts'
import { firstExcerpt, matcherOf } from './record-search.ts'

const { searchMs, searchedBytes, searchStepBytes, searchStepMessages } = resourceLimits
/** Requests overtake each other by less. */
const overtakenMs = 60_000
const maxPauseMs = 100

/** Both ends are excluded. */
interface Between {
  afterSeq: number
  beforeSeq: number
}

/** A message that was looked at. `hit` is null if it does not meet the condition. */
interface Looked extends ListedMessage {
  hit: MessageExcerpt | null
}

/** One step. `isLast`: there are no more messages in between. */
type Look = (between: Between, limit: number) => Promise<{ looked: Looked[]; isLast: boolean }>

export class MessagePages {
  readonly #reader: BufferReader
  readonly #lookup: MessageLookup
  readonly #steps: Semaphore

  constructor(reader: BufferReader, lookup: MessageLookup, steps: Semaphore) {
    this.#steps = steps
    this.#reader = reader
    this.#lookup = lookup
  }

  async page(pipeId: string, query: MessageQuery): Promise<MessagePage> {
    const { where, ranges } = query
    const look = where === null ? this.#lister(pipeId) : this.#searcher(pipeId, matcherOf(where))
    const all = await this.#betweenTimes(pipeId, query)
    const page = new Page(query, all.afterSeq)
    const endMs = performance.now() + searchMs
    for (const { afterSeq, beforeSeq } of partsOf(all, ranges)) {
      let before = beforeSeq
      while (before > afterSeq + 1) {
        // One more than is shown, to detect whether there is another page.
        const { looked, isLast } = await look({ afterSeq, beforeSeq: before }, page.missing + 1)
        before = page.take(looked, before)
        if (page.isFull) return page.until(before)
        if (isLast) break
        if (page.searched.bytes >= searchedBytes || performance.now() >= endMs)
          return page.until(before, true)
      }
    }
    return page.until(null)
  }

  #lister(pipeId: string): Look {
    return async (between, limit) => {
      const listed = await this.#lookup.list(pipeId, { ...between, limit })
      const looked = listed.map(({ beginning, ...message }) => {
        const excerpt = beginning === null ? null : firstExcerpt(beginning, beginning.length < message.bytes)
        return { ...message, hit: { ...message, excerpt } }
      })
      return { looked, isLast: listed.length < limit }
    }
  }

  #searcher(pipeId: string, matches: ReturnType<typeof matcherOf>): Look {
    return (between) =>
      this.#steps.run(async () => {
        const beganMs = performance.now()
        const limits = { limit: searchStepMessages, maxBytes: searchStepBytes }
        const read = await this.#lookup.read(pipeId, { ...between, ...limits })
        const looked = read.map(({ body, ...message }) => {
          const excerpt = body === null ? null : matches(body)
          return { ...message, hit: excerpt === null ? null : { ...message, excerpt } }
        })
        const bytes = read.reduce((sum, one) => sum + one.bytes, 0)
        await pause(Math.min(maxPauseMs, performance.now() - beganMs))
        return { looked, isLast: read.length < searchStepMessages && bytes < searchStepBytes }
      })
  }

  async #betweenTimes(pipeId: string, { beforeSeq, sinceMs, untilMs }: MessageQuery): Promise<Between> {
    const afterSeq = sinceMs === null ? 0 : await this.#reader.cursorAtTime(pipeId, sinceMs)
    if (untilMs === null) return { afterSeq, beforeSeq }
    const lastSeq = await this.#reader.cursorAtTime(pipeId, untilMs + overtakenMs)
    return { afterSeq, beforeSeq: Math.min(beforeSeq, lastSeq + 1) }
  }
}

/** The page while it is being filled. */
class Page {
  readonly searched: Searched = { messages: 0, bytes: 0, lastMs: null }
  /** True once a message was left out because there was no room for it. */
  isFull = false
  readonly #query: MessageQuery
  readonly #afterSeq: number
  readonly #messages: MessageExcerpt[] = []

  constructor(query: MessageQuery, afterSeq: number) {
    this.#query = query
    this.#afterSeq = afterSeq
  }

  get missing(): number {
    return this.#query.limit - this.#messages.length
  }

  /** Returns the seq of the last message that was taken or rejected; `before` if there is none. */
  take(looked: readonly Looked[], before: number): number {
    let lastSeq = before
    for (const one of looked) {
      this.isFull = this.missing === 0
      if (this.isFull) return lastSeq
      lastSeq = one.seq
      this.#note(one)
    }
    return lastSeq
  }

  until(next: number | null, isBounded = false): MessagePage {
    return { messages: this.#messages, next, searched: this.searched, afterSeq: this.#afterSeq, isBounded }
  }

  #note({ bytes, receivedMs, hit }: Looked): void {
    const { sinceMs, untilMs, where } = this.#query
    if (where !== null) this.searched.bytes += bytes
    if ((sinceMs !== null && receivedMs < sinceMs) || (untilMs !== null && receivedMs >= untilMs)) return
    this.searched.messages += 1
    this.searched.lastMs = receivedMs
    if (hit !== null) this.#messages.push(hit)
  }
}

/** The parts in which the messages can be, newest first. */
function partsOf({ afterSeq, beforeSeq }: Between, ranges: readonly SeqRange[] | null): Between[] {
  if (ranges === null) return [{ afterSeq, beforeSeq }]
  return ranges.map(([firstSeq, lastSeq]) => ({
    afterSeq: Math.max(afterSeq, firstSeq - 1),
    beforeSeq: Math.min(beforeSeq, lastSeq + 1),
  }))
}
