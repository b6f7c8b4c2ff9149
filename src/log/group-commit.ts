/**
 * Group commit: appends gather in a group, and one or two groups at a time are on their way to what makes them durable.
 *
 *   append ─▶ gathering ──(it is due: at the end of this turn of the event loop)──▶ in flight (2 at most) ─▶ released
 *     │           ▲                                                                            │
 *     └─ full ─▶ queue: by turns                     (a group is released, the next one is due) ─┘
 *
 * While a group is in flight the next one gathers, so groups grow with the load and no timer is needed. A small one is sent as
 * soon as it has as many messages as the one in flight: the other side then never waits for this thread. What does not fit waits
 * in a queue in which the workspaces take turns (append-queue.ts). A message too large to share a group is taken out of it only
 * when it is sent: until then smaller ones go first. So a workspace that has nothing else waiting waits for the groups in flight
 * and at most one more, each no larger than `groupMaxBytes` or one message; of the groups in flight one is small.
 *
 * This is the hottest code of a thread that appends: an append is one promise, and one copy and one CRC in the port's `put`.
 */
import { resourceLimits } from '../contract/resource-limits.ts'
import { AppendQueue } from './append-queue.ts'
import type { Appended, NewMessage } from './buffer.ts'
import { framedBytes } from './frame.ts'

/** A group takes no more once it is this large; one message larger than this goes alone. */
const groupMaxBytes = resourceLimits.frameBytes
/**
 * While a group is committed another one of up to this size waits behind it, and follows at once. 64 connections with single
 * records: 39.1k requests/s with one group, 45.0k with two. Of large groups each is an fsync that fewer messages share:
 * 16 connections with arrays of 100 (50 KB) had 6.2k requests/s with one, 5.3k with two.
 */
const smallGroupBytes = 128 * 1024

/** An append that waits for its result. */
export interface Waiter {
  msgId: string
  recordCount: number
  resolve(appended: Appended): void
  reject(error: Error): void
}

/** A group in flight, from `send` until it is released. */
export interface Group {
  readonly messages: number
}

export interface GroupPort {
  /** Adds the message to what gathers. `bytes`: at most what it takes in a frame. The body is read before it returns. */
  put(message: NewMessage, waiter: Waiter, bytes: number): void
  /** Sends the gathered messages, at least one, and starts a new group. The sent one is released when it is settled. */
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

  /** Resolves when nothing gathers, waits or is in flight. */
  async idle(): Promise<void> {
    while (this.#messages > 0 || this.#inFlight.length > 0 || !this.#queue.isEmpty)
      await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  /** The group is settled. The next one is sent with `sendDue` or `schedule`. */
  release(group: Group): void {
    this.#inFlight.splice(this.#inFlight.indexOf(group), 1)
    this.#announceIdle()
  }

  /** Sends the next group after this turn's sockets: they all go into one. */
  schedule(): void {
    if (this.#isScheduled || !this.#isDue()) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.sendDue()
    })
  }

  /** Sends the next group now, if it is due and not empty. */
  sendDue(): void {
    if (!this.#isDue()) return
    if (this.#messages === 0) {
      // Now it is decided: also for one that goes alone.
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

  /** Rejects what is queued, and forgets what has gathered: its waiters are the port's. */
  rejectWaiting(error: Error): void {
    this.#messages = 0
    this.#bytes = 0
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift())
      next.waiter.reject(error)
    this.#announceIdle()
  }

  /**
   * At once when nothing is in flight. Beside a group in flight a small one, when it has as many messages: groups become even,
   * and the other side never has the work of many small ones.
   */
  #isDue(): boolean {
    const [inFlight, ...others] = this.#inFlight
    if (inFlight === undefined) return true
    return others.length === 0 && this.#bytes <= smallGroupBytes && this.#messages >= inFlight.messages
  }

  /** Into the group where no message waits and it fits; else to the end of its line. */
  #take(message: NewMessage, waiter: Waiter): void {
    const bytes = framedBytes(message)
    if (this.#queue.isEmpty && this.#fits(bytes)) {
      this.#put(message, waiter, bytes)
      return
    }
    // A queued message is read later than its lender allows.
    const own = message.isLent ? { ...message, body: Buffer.from(message.body) } : message
    this.#queue.push(message.workspaceId ?? '', bytes, { message: own, bytes, waiter })
    this.#gather()
  }

  /** Moves what waits into the group, by turns, until the next one does not fit. */
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
