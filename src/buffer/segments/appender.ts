/**
 * Main's side of an append: messages gather in a frame, one frame at a time is with the writer.
 *
 *   append ─▶ gathering ──(nothing in flight: at the end of this turn of the event loop)──▶ in flight ─▶ answered
 *                 │                                                                            │
 *                 └── full ─▶ waiting ──────────────(the answer came: the next one at once)────┘
 *
 * While a commit runs the next frame gathers, so the group grows with the load and no timer is needed. This is the
 * hottest code of main: an append is one copy, one CRC and one promise.
 */
import type { Appended, Appender, NewMessage } from '../buffer.ts'
import { appendToFrame, type Frame, framedBytes, type OpenFrame, openFrame } from '../frame.ts'
import { type RefusalReason, refusal } from './refusal.ts'
import type { FrameAnswer } from './writer-protocol.ts'

const KiB = 1024
const firstCapacityBytes = 256 * KiB
/** A frame takes no more once it is this large; one message larger than this goes alone. */
const frameMaxBytes = 4096 * KiB
/** ArrayBuffers kept for the next frames: one gathering while one is in flight. */
const sparesKept = 2

export interface FrameAppender extends Appender {
  /** The writer's answer to the frame in flight. */
  answered(answer: FrameAnswer): void
  /** Appends are refused with this reason; null: taken again. */
  refuse(reason: RefusalReason | null): void
}

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

/** `send` hands a frame to the writer; its buffer is gone then. */
export function openAppender(headSeqAtOpen: number, send: (frame: Frame) => void): FrameAppender {
  let headSeq = headSeqAtOpen
  let refusing: RefusalReason | null = null
  let isClosing = false
  const spares: ArrayBuffer[] = []
  let gathering: Gathering = { frame: openFrame(firstCapacityBytes), waiters: [] }
  const waiting: Gathering[] = []
  let inFlight: Waiter[] | null = null
  let isScheduled = false
  let drained: (() => void)[] = []

  function append(message: NewMessage): Promise<Appended> {
    if (isClosing) return Promise.reject(refusal('closing'))
    if (refusing !== null) return Promise.reject(refusal(refusing))
    const { frame } = gathering
    if (frame.count > 0 && frame.length + framedBytes(message) > frameMaxBytes) {
      waiting.push(gathering)
      gathering = nextFrame()
    }
    appendToFrame(gathering.frame, message)
    if (inFlight === null && !isScheduled) {
      isScheduled = true
      // After this turn's sockets: they all go into one frame.
      setImmediate(sendGathered)
    }
    const { msgId, recordCount } = message
    const { waiters } = gathering
    return new Promise((resolve, reject) => {
      waiters.push({ msgId, recordCount, resolve, reject })
    })
  }

  function nextFrame(): Gathering {
    return { frame: openFrame(firstCapacityBytes, spares.pop()), waiters: [] }
  }

  function sendGathered(): void {
    isScheduled = false
    if (inFlight === null) sendNext()
  }

  function sendNext(): void {
    let next = waiting.shift()
    if (next === undefined) {
      if (gathering.frame.count === 0) return
      next = gathering
      gathering = nextFrame()
    }
    const { buffer, length, count } = next.frame
    inFlight = next.waiters
    send({ buffer: wholeArrayBuffer(buffer), length, count })
  }

  function answered(answer: FrameAnswer): void {
    const waiters = inFlight ?? []
    inFlight = null
    if (answer.buffer.byteLength <= frameMaxBytes && spares.length < sparesKept) spares.push(answer.buffer)
    // The writer first: it works while this thread answers clients.
    sendNext()
    if (answer.kind === 'committed') {
      headSeq = answer.headSeq
      resolveAll(waiters, answer)
    } else {
      for (const { reject } of waiters) reject(refusal(answer.reason))
    }
    if (inFlight === null) settleDrained()
  }

  function settleDrained(): void {
    const settled = drained
    drained = []
    for (const resolve of settled) resolve()
  }

  return {
    append,
    answered,
    refuse(reason) {
      refusing = reason
    },
    get headSeq() {
      return headSeq
    },
    drain() {
      isClosing = true
      const isIdle = inFlight === null && gathering.frame.count === 0 && waiting.length === 0
      return isIdle ? Promise.resolve() : new Promise((resolve) => drained.push(resolve))
    },
  }
}

function resolveAll(waiters: Waiter[], answer: Extract<FrameAnswer, { kind: 'committed' }>): void {
  const repeated = new Map(answer.repeated.map((append) => [append.index, append]))
  let seq = answer.firstSeq
  for (const [index, { msgId, recordCount, resolve }] of waiters.entries()) {
    const first = repeated.size === 0 ? undefined : repeated.get(index)
    if (first === undefined) {
      resolve({ seq, msgId, recordCount, repeated: false })
      seq += 1
    } else {
      resolve({ seq: first.seq, msgId: first.msgId, recordCount: first.recordCount, repeated: true })
    }
  }
}

/** A frame's Buffer never shares its ArrayBuffer (see openFrame). */
function wholeArrayBuffer(buffer: Buffer): ArrayBuffer {
  if (!(buffer.buffer instanceof ArrayBuffer)) throw new TypeError('a frame is an ArrayBuffer')
  return buffer.buffer
}
