/** A frame in a reader's memory. Its headers are decoded immediately, its messages on demand. */
import type { Backlog } from '../../log/buffer.ts'
import type { FramedMessage } from '../../log/frame.ts'
import { decodeFrame, decodeHead, FrameDamagedError, type FrameHead, seqOf } from './frames.ts'
import type { StreamMessage } from './stream-client.ts'

/** The approximate size of an object in addition to its bytes. */
const objectBytes = 600

export class StoredFrame {
  readonly streamSeq: number
  readonly head: FrameHead
  readonly data: Uint8Array
  /** Totals of the pipe before the frame, once they are known. */
  base: Backlog | null = null
  #messages: FramedMessage[] | 'damaged' | null = null

  constructor(streamSeq: number, head: FrameHead, data: Uint8Array) {
    this.streamSeq = streamSeq
    this.head = head
    this.data = data
  }

  get memoryBytes(): number {
    return objectBytes + this.data.length
  }

  get lastSeq(): number {
    return seqOf(this.streamSeq, this.head.messages - 1)
  }

  /** Null when the frame is damaged. Checksums are not compared. */
  messages(): FramedMessage[] | null {
    if (this.#messages === null) this.#messages = decoded(this.data, this.head.messages)
    return this.#messages === 'damaged' ? null : this.#messages
  }
}

/** Null when the message does not have the headers of a frame. */
export function headOf({ headers }: Pick<StreamMessage, 'headers'>): FrameHead | null {
  try {
    return decodeHead(headers)
  } catch (error) {
    if (error instanceof FrameDamagedError) return null
    throw error
  }
}

/** Null when the message is not a frame of ours. */
export function storedFrame(message: StreamMessage): StoredFrame | null {
  const head = headOf(message)
  // Copied, because a view would keep everything that arrived in the same network read.
  return head && new StoredFrame(message.streamSeq, head, Buffer.from(message.data))
}

function decoded(data: Uint8Array, messages: number): FramedMessage[] | 'damaged' {
  try {
    return decodeFrame(data, messages)
  } catch (error) {
    if (error instanceof FrameDamagedError) return 'damaged'
    throw error
  }
}
