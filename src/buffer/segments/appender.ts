/**
 * Main's side of an append: messages gather in a frame, one frame at a time is with the writer.
 *
 *   append ─▶ gathering ──(nothing in flight: at the end of this turn of the event loop)──▶ in flight ─▶ settled
 *                 │                                                                            │
 *                 └── full ─▶ waiting ──────────────(the result came: the next one at once)────┘
 *
 * While a commit runs the next frame gathers, so the group grows with the load and no timer is needed. This is the
 * hottest code of main: an append is one copy, one CRC and one promise.
 */
import { type Appended, type Idempotency, IdempotencyKeyReusedError, type NewMessage } from '../buffer.ts'
import { appendToFrame, type Frame, framedBytes, type OpenFrame, openFrame } from '../frame.ts'
import { type FrameResult, type SkippedResult, type UnavailableReason, unavailable } from './protocol.ts'

const KiB = 1024
const firstCapacityBytes = 256 * KiB
/** A frame takes no more once it is this large; one message larger than this goes alone. */
const frameMaxBytes = 4096 * KiB
/** ArrayBuffers kept for the next frames: one gathering while one is in flight. */
const sparesKept = 2

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

export class FrameAppender {
  readonly findRepeat: FindRepeat
  readonly #send: (frame: Frame) => void
  #unavailableReason: UnavailableReason | null = null
  readonly #spares: ArrayBuffer[] = []
  #gathering: Gathering = { frame: openFrame(firstCapacityBytes), waiters: [] }
  readonly #waiting: Gathering[] = []
  #inFlight: Waiter[] | null = null
  #isScheduled = false
  #drained: (() => void)[] = []

  /** `send` hands a frame to the writer; its buffer is gone then. */
  constructor(send: (frame: Frame) => void, findRepeat: FindRepeat) {
    this.#send = send
    this.findRepeat = findRepeat
  }

  append(message: NewMessage): Promise<Appended> {
    if (this.#unavailableReason !== null) return Promise.reject(unavailable(this.#unavailableReason))
    const { frame } = this.#gathering
    if (frame.count > 0 && frame.length + framedBytes(message) > frameMaxBytes) {
      this.#waiting.push(this.#gathering)
      this.#gathering = this.#nextFrame()
    }
    appendToFrame(this.#gathering.frame, message)
    if (this.#inFlight === null && !this.#isScheduled) {
      this.#isScheduled = true
      // After this turn's sockets: they all go into one frame.
      setImmediate(() => this.#sendGathered())
    }
    const { msgId, recordCount } = message
    const { waiters } = this.#gathering
    return new Promise((resolve, reject) => {
      waiters.push({ msgId, recordCount, resolve, reject })
    })
  }

  drain(): Promise<void> {
    this.#unavailableReason = 'closing'
    const isIdle = this.#inFlight === null && this.#gathering.frame.count === 0 && this.#waiting.length === 0
    return isIdle ? Promise.resolve() : new Promise((resolve) => this.#drained.push(resolve))
  }

  /** Appends are rejected with this reason; null: accepted again. Closing is final. */
  setUnavailable(reason: UnavailableReason | null): void {
    if (this.#unavailableReason !== 'closing') this.#unavailableReason = reason
  }

  /** The writer's result of the frame in flight. */
  settle(result: FrameResult): void {
    const waiters = this.#inFlight ?? []
    this.#inFlight = null
    const { buffer } = result
    if (buffer.byteLength <= frameMaxBytes && this.#spares.length < sparesKept) this.#spares.push(buffer)
    // The writer first: it works while this thread responds to clients.
    this.#sendNext()
    if (result.kind === 'committed') settleAll(waiters, result.firstSeq, result.skipped)
    else for (const { reject } of waiters) reject(unavailable(result.reason))
    if (this.#inFlight === null) for (const resolve of this.#drained.splice(0)) resolve()
  }

  #nextFrame(): Gathering {
    return { frame: openFrame(firstCapacityBytes, this.#spares.pop()), waiters: [] }
  }

  #sendGathered(): void {
    this.#isScheduled = false
    if (this.#inFlight === null) this.#sendNext()
  }

  #sendNext(): void {
    let next = this.#waiting.shift()
    if (next === undefined) {
      if (this.#gathering.frame.count === 0) return
      next = this.#gathering
      this.#gathering = this.#nextFrame()
    }
    const { buffer, length, count } = next.frame
    this.#inFlight = next.waiters
    this.#send({ buffer: wholeArrayBuffer(buffer), length, count })
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
        reject(unavailable('pipe_share'))
        break
    }
  }
}

/** A frame's Buffer never shares its ArrayBuffer (see openFrame). */
function wholeArrayBuffer(buffer: Buffer): ArrayBuffer {
  if (!(buffer.buffer instanceof ArrayBuffer)) throw new TypeError('a frame is an ArrayBuffer')
  return buffer.buffer
}
