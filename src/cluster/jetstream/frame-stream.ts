/**
 * Reads the messages of some subjects from a sequence on, until the leader has no more. A later read continues from
 * there.
 *
 *   one by one ──the third in a row──▶ pulled ──unused for a while, broken, a large message──▶ one by one
 *
 * So a lane that keeps up costs one request per frame and no consumer, and one that catches up reads at full speed. The
 * number of consumers per reader is limited (PullRoom); without one, frames are read one by one. Only the leader knows
 * where a stream ends.
 */
import { FramePull } from './frame-pull.ts'
import type { StreamClient, StreamMessage } from './stream-client.ts'

/** The limit of consumers per reader: their number × the bytes of a batch is the memory used. */
const maxPulls = 24
const lotBytes = 512 * 1024
const lotMessages = 512
/** Messages without bodies are small and are read in bulk. */
const lotHeaders = 2_048
/** An unused consumer is closed after this time. */
const idlePullMs = 5_000
/** The number of messages that are read one by one after a large one. */
const largeInARow = 8

/** The consumers of one reader. Consumers of idle streams make room for new ones. */
export class PullRoom {
  readonly #streams = new Set<FrameStream>()
  #sweep: NodeJS.Timeout | null = null

  get size(): number {
    return this.#streams.size
  }

  /** Returns false when there is no room. */
  enter(stream: FrameStream): boolean {
    if (this.#streams.size >= maxPulls) this.#closeIdle(idlePullMs / 10)
    if (this.#streams.size >= maxPulls) return false
    this.#streams.add(stream)
    this.#sweep ??= setInterval(() => this.#closeIdle(idlePullMs), idlePullMs / 2).unref()
    return true
  }

  leave(stream: FrameStream): void {
    this.#streams.delete(stream)
    if (this.#streams.size > 0 || this.#sweep === null) return
    clearInterval(this.#sweep)
    this.#sweep = null
  }

  close(): void {
    for (const stream of [...this.#streams]) stream.rest()
  }

  #closeIdle(idleMs: number): void {
    const before = performance.now() - idleMs
    for (const stream of [...this.#streams]) if (stream.usedAt < before) stream.rest()
  }
}

export interface FrameStreamPlan {
  filter: string
  headersOnly?: boolean
  /** The sequence after which messages are wanted. */
  afterStreamSeq: number
  /** There are probably no messages: the leader is asked first. */
  isEndLikely?: boolean
}

export class FrameStream {
  readonly #client: StreamClient
  readonly #room: PullRoom
  readonly #filter: string
  readonly #headersOnly: boolean
  #pull: FramePull | null = null
  #lastSeq: number
  #inARow = 0
  #isEndLikely: boolean
  /** A consumer is not opened before this many more messages. */
  #singles = 0
  #isReading = false
  usedAt = performance.now()

  constructor(client: StreamClient, room: PullRoom, plan: FrameStreamPlan) {
    const { filter, headersOnly, afterStreamSeq, isEndLikely } = plan
    this.#isEndLikely = isEndLikely ?? false
    this.#client = client
    this.#room = room
    this.#filter = filter
    this.#headersOnly = headersOnly ?? false
    this.#lastSeq = afterStreamSeq
  }

  /** The sequence of the newest message that was read. */
  get lastSeq(): number {
    return this.#lastSeq
  }

  /** Takes a message that has already arrived; null: call `next`. */
  shift(): StreamMessage | null {
    for (let message = this.#pull?.shift() ?? null; message !== null; message = this.#pull?.shift() ?? null) {
      if (message.streamSeq > this.#lastSeq) return this.#passed(message)
    }
    return null
  }

  /** Null when the leader has no more. One call at a time. */
  async next(): Promise<StreamMessage | null> {
    this.usedAt = Number.POSITIVE_INFINITY
    this.#isReading = true
    try {
      return (await this.#pulled()) ?? (await this.#single())
    } finally {
      this.#isReading = false
      this.usedAt = performance.now()
    }
  }

  /** Closes the consumer until the next read. */
  rest(): void {
    if (this.#pull === null) return
    this.#pull.close()
    this.#pull = null
    this.#inARow = 0
    this.#room.leave(this)
  }

  async #pulled(): Promise<StreamMessage | null> {
    while (this.#pull !== null) {
      const message = await this.#pull.next()
      // Closed meanwhile.
      if (this.#pull === null) return null
      if (message !== null) {
        if (message.streamSeq > this.#lastSeq) return this.#passed(message)
        continue
      }
      const { isBroken, isTooLarge } = this.#pull
      if (isTooLarge) this.#singles = largeInARow
      if (isBroken || isTooLarge) this.rest()
      else break
    }
    return null
  }

  async #single(): Promise<StreamMessage | null> {
    if (this.#pull === null && this.#inARow >= 2 && this.#singles === 0 && (await this.#openPull())) {
      const message = await this.#pulled()
      if (message !== null) return message
    }
    const isEndLikely = this.#isEndLikely || this.#pull !== null || this.#inARow > 0
    const message = await (isEndLikely
      ? this.#client.nextOfLeader(this.#filter, this.#lastSeq + 1)
      : this.#client.next(this.#filter, this.#lastSeq + 1))
    if (message === null) {
      this.#inARow = 0
      return null
    }
    this.#inARow += 1
    this.#singles = Math.max(0, this.#singles - 1)
    this.#pull?.expect()
    return this.#passed(message)
  }

  async #openPull(): Promise<boolean> {
    if (!this.#room.enter(this)) return false
    const headersOnly = this.#headersOnly
    const plan = { filter: this.#filter, headersOnly, start: { streamSeq: this.#lastSeq + 1 } }
    const size = { bytes: lotBytes, messages: headersOnly ? lotHeaders : lotMessages }
    try {
      this.#pull = await FramePull.open(this.#client, plan, size)
      return true
    } catch (error) {
      this.#room.leave(this)
      throw error
    }
  }

  #passed(message: StreamMessage): StreamMessage {
    this.#lastSeq = message.streamSeq
    if (!this.#isReading) this.usedAt = performance.now()
    return message
  }
}
