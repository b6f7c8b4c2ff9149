/**
 * The messages of some subjects from a sequence on, one after the other, until the leader has no more; later it goes on from there.
 *
 *   one by one ──the third in a row──▶ pulled ──unused for a while, broken, a large message──▶ one by one
 *
 * So a lane that keeps up costs a request for each frame and no consumer, and one that catches up is as fast as the wire.
 * Consumers are bounded for all of a reader (PullRoom): who gets none reads one by one. Where a stream ends is the leader's word.
 */
import { FramePull } from './frame-pull.ts'
import type { StreamClient, StreamMessage } from './stream-client.ts'

/** The limits of all consumers of a reader together: their number × the bytes of a lot is memory. */
const mostPulls = 24
const lotBytes = 512 * 1024
const lotMessages = 512
/** Headers alone are small, and wanted in bulk. */
const lotHeaders = 2_048
/** A consumer that nobody has asked for so long is closed. */
const idlePullMs = 5_000
/** After a large message so many are read one by one. */
const largeInARow = 8

/** The consumers of one reader: those of streams that are not read any more make room. */
export class PullRoom {
  readonly #streams = new Set<FrameStream>()
  #sweep: NodeJS.Timeout | null = null

  get size(): number {
    return this.#streams.size
  }

  /** False: there is no room. */
  enter(stream: FrameStream): boolean {
    if (this.#streams.size >= mostPulls) this.#closeIdle(idlePullMs / 10)
    if (this.#streams.size >= mostPulls) return false
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
  /** Messages up to this one are not wanted. */
  afterStreamSeq: number
  /** There is probably nothing: the leader is asked first. */
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
  /** Not before this many more messages. */
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

  /** Takes a message that has arrived already; null: wait for `next`. */
  shift(): StreamMessage | null {
    for (let message = this.#pull?.shift() ?? null; message !== null; message = this.#pull?.shift() ?? null) {
      if (message.streamSeq > this.#lastSeq) return this.#passed(message)
    }
    return null
  }

  /** Null: the leader has no more. One call at a time. */
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

  /** Without a consumer until it is read again. */
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
