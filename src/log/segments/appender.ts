/**
 * The appending thread's side: messages gather in a frame (group-commit.ts), the frame goes to the writer, and the
 * writer's results arrive in the order of the frames.
 *
 * A message is acknowledged only after the writer has responded for its frame. Messages that are gathering or queued
 * when the process dies got no 202.
 */
import assert from 'node:assert'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { type Appended, type Idempotency, IdempotencyKeyReusedError, type NewMessage } from '../buffer.ts'
import { appendToFrame, type Frame, openFrame } from '../frame.ts'
import { type Group, GroupCommit, type Waiter } from '../group-commit.ts'
import { type FrameResult, type SkippedResult, type UnavailableReason, unavailable } from './protocol.ts'

const firstCapacityBytes = 256 * 1024
/** ArrayBuffers kept for reuse: one gathers while two are in flight. */
const sparesKept = 3

export type FindRepeat = (pipeId: string, idempotency: Idempotency) => Promise<Appended | 'reused' | null>

export class FrameAppender {
  readonly findRepeat: FindRepeat
  readonly #send: (frame: Frame) => void
  readonly #groups = new GroupCommit({
    put: (message, waiter) => {
      appendToFrame(this.#frame, message)
      this.#waiters.push(waiter)
    },
    send: (group) => this.#sendFrame(group),
  })
  readonly #spares: ArrayBuffer[] = []
  #frame = openFrame(firstCapacityBytes)
  #waiters: Waiter[] = []
  /** Oldest first: the writer responds in this order. */
  readonly #inFlight: { group: Group; waiters: Waiter[] }[] = []
  #unavailableReason: UnavailableReason | null = null

  /** `send` transfers a frame to the writer; its buffer cannot be used afterwards. */
  constructor(send: (frame: Frame) => void, findRepeat: FindRepeat) {
    this.#send = send
    this.findRepeat = findRepeat
  }

  append(message: NewMessage): Promise<Appended> {
    if (this.#unavailableReason !== null) return Promise.reject(unavailable(this.#unavailableReason))
    return this.#groups.append(message)
  }

  drain(): Promise<void> {
    this.#unavailableReason = 'closing'
    return this.#groups.idle()
  }

  /** Rejects appends with this reason; null accepts them again. `closing` is final. */
  setUnavailable(reason: UnavailableReason | null): void {
    if (this.#unavailableReason !== 'closing') this.#unavailableReason = reason
  }

  /** Handles the writer's result for the oldest frame in flight. */
  settle(result: FrameResult): void {
    const settled = this.#inFlight.shift()
    assert(settled !== undefined, 'the writer has a result for each frame once')
    const { group, waiters } = settled
    const { buffer } = result
    if (buffer.byteLength <= resourceLimits.frameBytes && this.#spares.length < sparesKept)
      this.#spares.push(buffer)
    this.#groups.release(group)
    // The next frame is sent first, so that the writer works while this thread responds to clients.
    this.#groups.sendDue()
    if (result.kind === 'committed') settleAll(waiters, result.firstSeq, result.skipped)
    else for (const { reject } of waiters) reject(unavailable(result.reason))
  }

  #sendFrame(group: Group): void {
    const { buffer, length, count } = this.#frame
    this.#inFlight.push({ group, waiters: this.#waiters })
    this.#send({ buffer: wholeArrayBuffer(buffer), length, count })
    this.#frame = openFrame(firstCapacityBytes, this.#spares.pop())
    this.#waiters = []
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
