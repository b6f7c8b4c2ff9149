/**
 * A thread's side of an append: messages gather in a frame, one or two frames at a time are with the writer.
 *
 *   append ─▶ gathering ──(it is due: at the end of this turn of the event loop)──▶ in flight (2 at most) ─▶ settled
 *     │           ▲                                                                            │
 *     └─ full ─▶ queue: by turns                (a result came, the next one is due: at once) ─┘
 *
 * While a commit runs the next frame gathers, so the group grows with the load and no timer is needed. A small one goes to the
 * writer as soon as it is as large as the one in flight: the writer then never waits for this thread. What does not fit
 * waits in a queue in which the workspaces take turns (append-queue.ts). A message too large to share a frame is taken out
 * of it only when it is sent: until then smaller ones go first. So whoever has nothing else waiting waits for the frames in
 * flight and at most one more, each no larger than `frameMaxBytes` or one message; of the frames in flight one is small.
 *
 * Nothing here is acknowledged before the writer has answered for its frame: what is gathered or queued when the process
 * dies was never answered with 202.
 *
 * This is the hottest code of main: an append is one copy, one CRC and one promise.
 */
import { resourceLimits } from '../../contract/resource-limits.ts'
import { AppendQueue } from '../append-queue.ts'
import { type Appended, type Idempotency, IdempotencyKeyReusedError, type NewMessage } from '../buffer.ts'
import { appendToFrame, type Frame, framedBytes, type OpenFrame, openFrame } from '../frame.ts'
import { type FrameResult, type SkippedResult, type UnavailableReason, unavailable } from './protocol.ts'

const KiB = 1024
const firstCapacityBytes = 256 * KiB
/** A frame takes no more once it is this large; one message larger than this goes alone. */
const frameMaxBytes = resourceLimits.frameBytes
/**
 * While the writer commits a frame another one of up to this size waits in its port: it goes on at once. 64 connections with
 * single records: 39.1k requests/s with one frame, 45.0k with two. Of large frames each is an fsync that fewer messages share:
 * 16 connections with arrays of 100 (50 KB) had 6.2k requests/s with one, 5.3k with two.
 */
const smallFrameBytes = 128 * KiB
/** ArrayBuffers kept for the next frames: one gathering while two are in flight. */
const sparesKept = 3

export type FindRepeat = (pipeId: string, idempotency: Idempotency) => Promise<Appended | 'reused' | null>

interface Waiter {
  msgId: string
  recordCount: number
  resolve(appended: Appended): void
  reject(error: Error): void
}

interface Gathering {
  frame: OpenFrame
  waiters: Waiter[]
}

interface Queued {
  message: NewMessage
  bytes: number
  waiter: Waiter
}

export class FrameAppender {
  readonly findRepeat: FindRepeat
  readonly #send: (frame: Frame) => void
  #unavailableReason: UnavailableReason | null = null
  readonly #spares: ArrayBuffer[] = []
  #gathering: Gathering = { frame: openFrame(firstCapacityBytes), waiters: [] }
  readonly #queue = new AppendQueue<Queued>()
  /** Oldest first: the writer answers in this order. */
  readonly #inFlight: Waiter[][] = []
  #isScheduled = false
  #drained: (() => void)[] = []

  /** `send` hands a frame to the writer; its buffer is gone then. */
  constructor(send: (frame: Frame) => void, findRepeat: FindRepeat) {
    this.#send = send
    this.findRepeat = findRepeat
  }

  append(message: NewMessage): Promise<Appended> {
    if (this.#unavailableReason !== null) return Promise.reject(unavailable(this.#unavailableReason))
    return new Promise((resolve, reject) => {
      const { msgId, recordCount } = message
      this.#take(message, { msgId, recordCount, resolve, reject })
      if (this.#isScheduled || !this.#isDue()) return
      this.#isScheduled = true
      // After this turn's sockets: they all go into one frame.
      setImmediate(() => this.#sendGathered())
    })
  }

  drain(): Promise<void> {
    this.#unavailableReason = 'closing'
    const isIdle = this.#inFlight.length === 0 && this.#gathering.frame.count === 0 && this.#queue.isEmpty
    return isIdle ? Promise.resolve() : new Promise((resolve) => this.#drained.push(resolve))
  }

  /** Appends are rejected with this reason; null: accepted again. Closing is final. */
  setUnavailable(reason: UnavailableReason | null): void {
    if (this.#unavailableReason !== 'closing') this.#unavailableReason = reason
  }

  /** The writer's result of the oldest frame in flight. */
  settle(result: FrameResult): void {
    const waiters = this.#inFlight.shift() ?? []
    const { buffer } = result
    if (buffer.byteLength <= frameMaxBytes && this.#spares.length < sparesKept) this.#spares.push(buffer)
    // The writer first: it works while this thread responds to clients.
    if (this.#isDue()) this.#sendNext()
    if (result.kind === 'committed') settleAll(waiters, result.firstSeq, result.skipped)
    else for (const { reject } of waiters) reject(unavailable(result.reason))
    if (this.#inFlight.length === 0) for (const resolve of this.#drained.splice(0)) resolve()
  }

  #nextFrame(): Gathering {
    return { frame: openFrame(firstCapacityBytes, this.#spares.pop()), waiters: [] }
  }

  #sendGathered(): void {
    this.#isScheduled = false
    if (this.#isDue()) this.#sendNext()
  }

  /**
   * At once when nothing is in flight. Beside a small frame, when as many have gathered as are in it: groups become even, and
   * the writer never has the work of many small ones.
   */
  #isDue(): boolean {
    const [inFlight, ...others] = this.#inFlight
    if (inFlight === undefined) return true
    const { frame, waiters } = this.#gathering
    return others.length === 0 && frame.length <= smallFrameBytes && waiters.length >= inFlight.length
  }

  #sendNext(): void {
    if (this.#gathering.frame.count === 0) {
      // Now it is decided: also for one that goes alone.
      const next = this.#queue.shift()
      if (next === undefined) return
      this.#put(next.message, next.waiter)
      this.#gather()
    }
    const { frame, waiters } = this.#gathering
    const { buffer, length, count } = frame
    this.#inFlight.push(waiters)
    this.#send({ buffer: wholeArrayBuffer(buffer), length, count })
    this.#gathering = this.#nextFrame()
    this.#gather()
  }

  /** Into the gathering frame where nobody waits and it fits; else to the end of its line. */
  #take(message: NewMessage, waiter: Waiter): void {
    const bytes = framedBytes(message)
    if (this.#queue.isEmpty && this.#fits(bytes)) {
      this.#put(message, waiter)
      return
    }
    // A queued message is read later than its lender allows.
    const own = message.isLent ? { ...message, body: Buffer.from(message.body) } : message
    this.#queue.push(message.workspaceId ?? '', bytes, { message: own, bytes, waiter })
    this.#gather()
  }

  /** Moves what waits into the gathering frame, by turns, until the next one does not fit. */
  #gather(): void {
    for (;;) {
      const next = this.#queue.peek()
      if (next === undefined || !this.#fits(next.bytes)) return
      this.#queue.shift()
      this.#put(next.message, next.waiter)
    }
  }

  #fits(bytes: number): boolean {
    return this.#gathering.frame.length + bytes <= frameMaxBytes
  }

  #put(message: NewMessage, waiter: Waiter): void {
    appendToFrame(this.#gathering.frame, message)
    this.#gathering.waiters.push(waiter)
  }
}

function settleAll(waiters: Waiter[], firstSeq: number, skipped: readonly SkippedResult[]): void {
  const byIndex = new Map(skipped.map((append) => [append.index, append]))
  let seq = firstSeq
  for (const [index, { msgId, recordCount, resolve, reject }] of waiters.entries()) {
    const result = byIndex.size === 0 ? undefined : byIndex.get(index)
    switch (result?.kind) {
      case undefined:
        resolve({ seq, msgId, recordCount, repeated: false })
        seq += 1
        break
      case 'repeated':
        resolve({ seq: result.seq, msgId: result.msgId, recordCount: result.recordCount, repeated: true })
        break
      case 'reused':
        reject(new IdempotencyKeyReusedError())
        break
      case 'pipe_share':
      case 'idempotency_full':
        reject(unavailable(result.kind))
        break
    }
  }
}

/** A frame's Buffer never shares its ArrayBuffer (see openFrame). */
function wholeArrayBuffer(buffer: Buffer): ArrayBuffer {
  if (!(buffer.buffer instanceof ArrayBuffer)) throw new TypeError('a frame is an ArrayBuffer')
  return buffer.buffer
}
