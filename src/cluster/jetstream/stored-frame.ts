/** A frame as a reader keeps it: its head at once, its messages when somebody wants them. */
import type { Backlog } from '../../log/buffer.ts'
import type { FramedMessage } from '../../log/frame.ts'
import { decodeFrame, decodeHead, FrameDamagedError, type FrameHead, seqOf } from './frames.ts'
import type { StreamMessage } from './stream-client.ts'

/** The approximate cost of an object in addition to its bytes. */
const objectBytes = 600

export class StoredFrame {
  readonly streamSeq: number
  readonly head: FrameHead
  readonly data: Uint8Array
  /** Totals of the pipe before it, once somebody who came by knew them. */
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

  /** Null: the frame is not one that was written. Checksums are not compared. */
  messages(): FramedMessage[] | null {
    if (this.#messages === null) this.#messages = decoded(this.data, this.head.messages)
    return this.#messages === 'damaged' ? null : this.#messages
  }
}

/** Null: none of ours, it has no such headers. */
export function headOf({ headers }: Pick<StreamMessage, 'headers'>): FrameHead | null {
  try {
    return decodeHead(headers)
  } catch (error) {
    if (error instanceof FrameDamagedError) return null
    throw error
  }
}

/** Null: none of ours. */
export function storedFrame(message: StreamMessage): StoredFrame | null {
  const head = headOf(message)
  // A view would keep all that came over the wire together with it.
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
