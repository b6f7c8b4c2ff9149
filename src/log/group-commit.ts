/**
 * Group commit: appends gather in a group; at most two groups are in flight to the storage that makes them durable.
 *
 *   append ─▶ gathering ──(it is due: at the end of this turn of the event loop)──▶ in flight (2 at most) ─▶ released
 *     │           ▲                                                                            │
 *     └─ full ─▶ queue: by turns                     (a group is released, the next one is due) ─┘
 *
 * While a group is in flight the next one gathers, so groups grow with the load and no timer is needed. A small one is
 * sent as soon as it has as many messages as the one in flight: the other side then never waits for this thread.
 * Messages that do not fit wait in a queue that is fair between workspaces (`AppendQueue`). A message too large to
 * share a group leaves the queue only when it is sent: until then smaller messages go first. So a workspace with
 * nothing else in the queue waits for the groups in flight and at most one more. Each is at most `groupMaxBytes` or one
 * message, and one of those in flight is small.
 *
 * This is the hot path of every thread that appends. An append costs one promise here, and one copy and one CRC in the
 * port's `put`.
 */
import { resourceLimits } from '../contract/resource-limits.ts'
import { FirstFit } from '../platform/first-fit.ts'
import { bytesBounds, countBounds, Histogram, secondsBounds, sumOfCounts } from '../platform/histogram.ts'
import type { Appended, NewMessage, WriterHistograms } from './buffer.ts'
import { framedBytes } from './frame.ts'

/** A group of this size takes no more messages. A larger message is sent in a group of its own. */
const groupMaxBytes = resourceLimits.frameBytes
/**
 * While one group is being committed, a second one of up to this size can already be in flight and follows immediately.
 * 64 connections with single records: 39.1k requests/s with one group, 45.0k with two. With large groups a second one
 * only means that fewer messages share an fsync: 16 connections with arrays of 100 (50 KB) had 6.2k requests/s with
 * one, 5.3k with two.
 */
const smallGroupBytes = 128 * 1024

/** An append that waits for its result. */
export interface Waiter {
  msgId: string
  recordCount: number
  resolve(appended: Appended): void
  reject(error: Error): void
}

/** A group in flight, from `send` to `release`. */
export interface Group {
  readonly messages: number
}

export interface GroupPort {
  /**
   * Adds the message to the gathering group. `bytes` is an upper bound of its size in a frame. Reads the body before
   * returning.
   */
  put(message: NewMessage, waiter: Waiter, bytes: number): void
  /**
   * Sends the gathered messages, at least one, and starts a new group. `release` is called when the sent group is
   * settled.
   */
  send(group: Group): void
}

interface Queued {
  message: NewMessage
  bytes: number
  waiter: Waiter
}

export class GroupCommit {
  readonly #port: GroupPort
  readonly #queue = new AppendQueue<Queued>()
  readonly #inFlight: Group[] = []
  #messages = 0
  #bytes = 0
  #isScheduled = false
  #idle: (() => void)[] = []

  constructor(port: GroupPort) {
    this.#port = port
  }

  append(message: NewMessage): Promise<Appended> {
    return new Promise((resolve, reject) => {
      const { msgId, recordCount } = message
      this.#take(message, { msgId, recordCount, resolve, reject })
      this.schedule()
    })
  }

  /** Resolves when no append is gathering, queued or in flight. */
  async idle(): Promise<void> {
    while (this.#messages > 0 || this.#inFlight.length > 0 || !this.#queue.isEmpty)
      await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  /** Marks the group as settled. The caller then sends the next one with `sendDue` or `schedule`. */
  release(group: Group): void {
    this.#inFlight.splice(this.#inFlight.indexOf(group), 1)
    this.#announceIdle()
  }

  /** Sends the next group at the end of this turn of the event loop, so that all requests of this turn join it. */
  schedule(): void {
    if (this.#isScheduled || !this.#isDue()) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.sendDue()
    })
  }

  /** Sends the next group now if it is due and not empty. */
  sendDue(): void {
    if (!this.#isDue()) return
    if (this.#messages === 0) {
      // A message that needs its own group leaves the queue only here.
      const next = this.#queue.shift()
      if (next === undefined) return
      this.#put(next.message, next.waiter, next.bytes)
      this.#gather()
    }
    const group = { messages: this.#messages }
    this.#inFlight.push(group)
    this.#messages = 0
    this.#bytes = 0
    this.#port.send(group)
    this.#gather()
  }

  /** Rejects queued appends and discards the gathering group, whose waiters belong to the port. */
  rejectWaiting(error: Error): void {
    this.#messages = 0
    this.#bytes = 0
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift())
      next.waiter.reject(error)
    this.#announceIdle()
  }

  /**
   * A group is due when nothing is in flight. Next to one group in flight, a small group is due when it has as many
   * messages. So groups become equal in size and the other side never handles many tiny ones.
   */
  #isDue(): boolean {
    const [inFlight, ...others] = this.#inFlight
    if (inFlight === undefined) return true
    return others.length === 0 && this.#bytes <= smallGroupBytes && this.#messages >= inFlight.messages
  }

  /** Adds the message to the group if no message waits and it fits; otherwise to the end of its queue. */
  #take(message: NewMessage, waiter: Waiter): void {
    const bytes = framedBytes(message)
    if (this.#queue.isEmpty && this.#fits(bytes)) {
      this.#put(message, waiter, bytes)
      return
    }
    // The caller reuses a borrowed body after this call, so a queued message needs a copy.
    const own = message.isBorrowed ? { ...message, body: Buffer.from(message.body) } : message
    this.#queue.push(message.workspaceId ?? '', bytes, { message: own, bytes, waiter })
    this.#gather()
  }

  /** Moves queued messages into the group, in fair order, until the next one does not fit. */
  #gather(): void {
    for (;;) {
      const next = this.#queue.peek()
      if (next === undefined || !this.#fits(next.bytes)) return
      this.#queue.shift()
      this.#put(next.message, next.waiter, next.bytes)
    }
  }

  #fits(bytes: number): boolean {
    return this.#bytes + bytes <= groupMaxBytes
  }

  #put(message: NewMessage, waiter: Waiter, bytes: number): void {
    this.#port.put(message, waiter, bytes)
    this.#messages += 1
    this.#bytes += bytes
  }

  #announceIdle(): void {
    for (const resolve of this.#idle.splice(0)) resolve()
  }
}

/**
 * Queues appends that wait for a frame. Waiting workspaces get equal shares of the log's bytes, however much one of
 * them sends.
 *
 * The algorithm is self-clocked fair queueing. A message's mark is its size plus the mark of the message before it in
 * its workspace's queue, or, at the head of an empty queue, plus the mark that was served last. The lowest mark is
 * served next. So a small message overtakes large ones of other workspaces, and each other workspace overtakes a large
 * message with at most as many bytes as that message has.
 *
 *   a: |████████ 8│████████ 16│        served: b1 b2 b3 a8 a16; a `b` that arrives after a8
 *   b: |█ 1│█ 2│█ 3│                           has the mark 9 and is served before a16
 *
 * Within a workspace, and so within a pipe, the order is the order of arrival.
 */
interface Waiting<Item> {
  mark: number
  item: Item
}

interface Line<Item> {
  workspaceId: string
  waiting: Waiting<Item>[]
}

export class AppendQueue<Item> {
  /** By workspace. No queue in it is empty. */
  readonly #lines = new Map<string, Line<Item>>()
  /** By the mark of their heads. Of equal marks, the workspace that has waited longest comes first. */
  readonly #heads = new FirstFit<Line<Item>>()
  /** The mark of the item that was served last. */
  #takenMark = 0

  get isEmpty(): boolean {
    return this.#lines.size === 0
  }

  push(workspaceId: string, bytes: number, item: Item): void {
    const line = this.#lines.get(workspaceId)
    if (line !== undefined) {
      line.waiting.push({ mark: line.waiting.at(-1)!.mark + bytes, item })
      return
    }
    const first = { mark: this.#takenMark + bytes, item }
    const begun = { workspaceId, waiting: [first] }
    this.#lines.set(workspaceId, begun)
    this.#heads.push(begun, first.mark)
  }

  /** Returns the next item without removing it. */
  peek(): Item | undefined {
    return this.#next()?.waiting[0]?.item
  }

  /** Removes and returns the next item. */
  shift(): Item | undefined {
    const line = this.#next()
    const first = line?.waiting.shift()
    if (line === undefined || first === undefined) return undefined
    const [head] = line.waiting
    if (head === undefined) {
      this.#lines.delete(line.workspaceId)
      this.#heads.delete(line)
    } else this.#heads.resize(line, head.mark)
    // Marks restart at 0 when the queue is empty.
    this.#takenMark = this.isEmpty ? 0 : first.mark
    return first.item
  }

  #next(): Line<Item> | undefined {
    return this.#heads.first(this.#heads.smallestSize)
  }
}

/** The part that is sent to the writer thread. */
export interface ObservedCommits {
  syncSeconds: SharedArrayBuffer
  frameBytes: SharedArrayBuffer
  frameMessages: SharedArrayBuffer
}

/** Measures the writer's commits for `/metrics`. The writer thread updates shared histograms, which main reads. */
export class WriterObserved {
  readonly #syncSeconds: Histogram
  readonly #frameBytes: Histogram
  readonly #frameMessages: Histogram

  constructor(memory?: ObservedCommits) {
    this.#syncSeconds = new Histogram(secondsBounds, { memory: memory?.syncSeconds })
    this.#frameBytes = new Histogram(bytesBounds, { memory: memory?.frameBytes })
    this.#frameMessages = new Histogram(countBounds, { memory: memory?.frameMessages })
  }

  get memory(): ObservedCommits {
    return {
      syncSeconds: this.#syncSeconds.memory,
      frameBytes: this.#frameBytes.memory,
      frameMessages: this.#frameMessages.memory,
    }
  }

  /** Bound: it is handed to the writer as a listener. */
  readonly committed = (frame: { length: number; count: number }, commitMs: number): void => {
    this.#syncSeconds.observe(commitMs / 1000)
    this.#frameBytes.observe(frame.length)
    this.#frameMessages.observe(frame.count)
  }

  histograms(): WriterHistograms {
    return {
      syncSeconds: this.#syncSeconds.countsOf(0),
      frameBytes: this.#frameBytes.countsOf(0),
      frameMessages: this.#frameMessages.countsOf(0),
    }
  }
}

/** The sums of several writers. At least one. */
export function sumOfHistograms(all: readonly WriterHistograms[]): WriterHistograms {
  return {
    syncSeconds: sumOfCounts(all.map(({ syncSeconds }) => syncSeconds)),
    frameBytes: sumOfCounts(all.map(({ frameBytes }) => frameBytes)),
    frameMessages: sumOfCounts(all.map(({ frameMessages }) => frameMessages)),
  }
}
