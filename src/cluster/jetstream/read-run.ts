/** Builds one run of a pipe's messages from frames, up to the limits. */
import { crc32 } from 'node:zlib'
import type { Backlog, MarkedMessage, MessageRun, ReadLimits } from '../../log/buffer.ts'
import type { FramedMessage } from '../../log/frame.ts'
import type { DamagedMessage } from './damaged.ts'
import { seqOf } from './frames.ts'
import { markOf, plus } from './position.ts'
import type { StoredFrame } from './stored-frame.ts'

export class ReadRun {
  readonly run: MessageRun = { messages: [], more: false, damaged: [], lost: [] }
  readonly #pipeId: string
  readonly #limits: ReadLimits
  readonly #throughSeq: number
  readonly #onDamaged: (message: DamagedMessage) => void
  #counts: Backlog
  #records = 0
  #bytes = 0

  /** `counts` are the pipe's totals at the cursor. */
  constructor(
    pipeId: string,
    limits: ReadLimits,
    counts: Backlog,
    onDamaged: (message: DamagedMessage) => void,
  ) {
    this.#pipeId = pipeId
    this.#limits = limits
    this.#throughSeq = limits.throughSeq ?? Number.MAX_SAFE_INTEGER
    this.#counts = counts
    this.#onDamaged = onDamaged
  }

  /** The totals just after the messages taken so far. */
  get counts(): Backlog {
    return this.#counts
  }

  /** Takes the frame's messages after `afterSeq`. Returns true when the run is complete. */
  take(frame: StoredFrame, afterSeq: number): boolean {
    const firstSeq = seqOf(frame.streamSeq, 0)
    if (firstSeq > this.#throughSeq) return true
    const messages = frame.messages()
    if (messages === null) return this.#passDamaged(frame, afterSeq)
    // The totals at the end of a frame come from its headers, which do not depend on damaged messages.
    if (afterSeq < firstSeq) frame.base ??= this.#counts
    const isWhole = afterSeq < firstSeq && this.#fitsWhole(frame)
    for (const [index, message] of messages.entries()) {
      const seq = firstSeq + index
      if (seq <= afterSeq) continue
      if (seq > this.#throughSeq) return true
      const { recordCount, body } = message
      const isIntact = this.#isIntact(message)
      if (isIntact && !this.#fits(recordCount, body.length)) return true
      this.#count(frame, index === messages.length - 1, message)
      if (isIntact) this.#push(seq, message, isWhole)
      else this.#damaged(seq, message, message.crc)
    }
    return false
  }

  #count({ base, head }: StoredFrame, isLast: boolean, { recordCount, body }: FramedMessage): void {
    this.#counts =
      isLast && base !== null
        ? plus(base, head)
        : plus(this.#counts, { messages: 1, records: recordCount, bytes: body.length })
  }

  #isIntact({ pipeId, body, crc }: FramedMessage): boolean {
    return pipeId === this.#pipeId && crc32(body) === crc
  }

  #fitsWhole({ head }: StoredFrame): boolean {
    return (
      this.#records + head.records <= this.#limits.maxRecords &&
      this.#bytes + head.bytes <= this.#limits.maxBytes
    )
  }

  #fits(records: number, bytes: number): boolean {
    if (this.run.messages.length === 0) return true
    const { maxRecords, maxBytes } = this.#limits
    this.run.more = this.#records + records > maxRecords || this.#bytes + bytes > maxBytes
    return !this.run.more
  }

  #push(seq: number, message: FramedMessage, isWhole: boolean): void {
    const { msgId, receivedMs, recordCount } = message
    const view = Buffer.from(message.body.buffer, message.body.byteOffset, message.body.length)
    // A view into a partly taken frame would keep the whole frame in memory.
    const body = isWhole ? view : Buffer.from(view)
    this.#records += recordCount
    this.#bytes += body.length
    const mark = markOf(this.#counts)
    const read: MarkedMessage = { seq, pipeId: this.#pipeId, msgId, receivedMs, recordCount, body, mark }
    this.run.messages.push(read)
  }

  #damaged(seq: number, message: Omit<FramedMessage, 'crc'>, crc: number | null): void {
    const { msgId, receivedMs, recordCount, body } = message
    this.run.damaged.push({ seq, msgId, recordCount, mark: markOf(this.#counts) })
    this.#onDamaged({ seq, pipeId: this.#pipeId, msgId, receivedMs, recordCount, crc, body })
  }

  /** Passes a frame that cannot be read. Its headers have the number and the total size of its messages. */
  #passDamaged({ streamSeq, head, data }: StoredFrame, afterSeq: number): boolean {
    for (let index = 0; index < head.messages; index += 1) {
      const seq = seqOf(streamSeq, index)
      if (seq <= afterSeq) continue
      if (seq > this.#throughSeq) return true
      const isFirst = index === 0
      const recordCount = isFirst ? head.records : 0
      this.#counts = plus(this.#counts, {
        messages: 1,
        records: recordCount,
        bytes: isFirst ? head.bytes : 0,
      })
      const ids = { pipeId: this.#pipeId, msgId: '', idempotencyKey: null, bodyHash: null }
      const body = isFirst ? data : data.subarray(0, 0)
      this.#damaged(seq, { ...ids, receivedMs: head.firstMs, recordCount, body }, null)
    }
    return false
  }
}
