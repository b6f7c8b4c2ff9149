/**
 * The buffer's reading port over an array: what the lanes' own tests read from, so that they can place a damaged
 * message, drop what they like when they like, and number messages as they need. That the real buffer keeps the same
 * port is its own tests' business, and `delivery-thread.test.ts` runs on the real one.
 */
import { randomUUID } from 'node:crypto'
import type { BufferReader, MessageRun, PipePosition, StoredMessage } from '../../src/buffer/buffer.ts'

interface Kept {
  message: StoredMessage
  position: PipePosition
  damaged: boolean
}

const nowhere: PipePosition = { seq: 0, messages: 0, records: 0, bytes: 0 }

export class MemoryBuffer implements BufferReader {
  readonly #pipes = new Map<string, { kept: Kept[]; floor: PipePosition; head: PipePosition }>()
  #seq = 0
  /** Called before every read is answered: the place for what happens just then. */
  beforeRead = () => {}
  reads = 0

  append(pipeId: string, records = 1, receivedMs = 0, recordText = '{"a":1}'): StoredMessage {
    const pipe = this.#pipe(pipeId)
    this.#seq += 1
    const body = Buffer.from(Array.from({ length: records }, () => recordText).join('\n'))
    const message = { seq: this.#seq, pipeId, msgId: randomUUID(), receivedMs, recordCount: records, body }
    const { head } = pipe
    pipe.head = {
      seq: this.#seq,
      messages: head.messages + 1,
      records: head.records + records,
      bytes: head.bytes + body.length,
    }
    pipe.kept.push({ message, position: pipe.head, damaged: false })
    return message
  }

  /** Retention: everything up to this message goes. */
  drop(pipeId: string, throughSeq: number): void {
    const pipe = this.#pipe(pipeId)
    for (const { message, position } of pipe.kept) if (message.seq <= throughSeq) pipe.floor = position
    pipe.kept = pipe.kept.filter(({ message }) => message.seq > throughSeq)
  }

  damage(seq: number): void {
    for (const { kept } of this.#pipes.values()) {
      for (const one of kept) if (one.message.seq === seq) one.damaged = true
    }
  }

  async read(
    pipeId: string,
    afterSeq: number,
    limits: { maxRecords: number; maxBytes: number; throughSeq?: number },
  ): Promise<MessageRun> {
    this.reads += 1
    this.beforeRead()
    const run: MessageRun = { messages: [], more: false, damaged: [] }
    let records = 0
    let bytes = 0
    for (const { message, damaged } of this.#pipe(pipeId).kept) {
      if (message.seq <= afterSeq || message.seq > (limits.throughSeq ?? Number.POSITIVE_INFINITY)) continue
      if (damaged) {
        run.damaged.push({ seq: message.seq, msgId: message.msgId, recordCount: message.recordCount })
        continue
      }
      records += message.recordCount
      bytes += message.body.length
      run.more = run.messages.length > 0 && (records > limits.maxRecords || bytes > limits.maxBytes)
      if (run.more) break
      run.messages.push(message)
    }
    return run
  }

  async head(pipeId: string): Promise<PipePosition> {
    return this.#pipe(pipeId).head
  }

  async floor(pipeId: string): Promise<PipePosition> {
    return this.#pipe(pipeId).floor
  }

  async positionAt(pipeId: string, seq: number): Promise<PipePosition> {
    const pipe = this.#pipe(pipeId)
    return pipe.kept.findLast(({ message }) => message.seq <= seq)?.position ?? pipe.floor
  }

  async cursorAtTime(pipeId: string, timeMs: number): Promise<number> {
    const pipe = this.#pipe(pipeId)
    const first = pipe.kept.findIndex(({ message }) => message.receivedMs >= timeMs)
    if (first === -1) return pipe.head.seq
    return first === 0 ? pipe.floor.seq : pipe.kept[first - 1]!.message.seq
  }

  async close(): Promise<void> {}

  #pipe(pipeId: string) {
    let pipe = this.#pipes.get(pipeId)
    if (pipe === undefined) {
      pipe = { kept: [], floor: nowhere, head: nowhere }
      this.#pipes.set(pipeId, pipe)
    }
    return pipe
  }
}
