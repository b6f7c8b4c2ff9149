/**
 * The buffer's reading port over an array: what the lanes' own tests read from, so that they can place a damaged
 * message, drop what they like when they like, and number messages as they need. That the real buffer keeps the same
 * port is its own tests' business, and `delivery-thread.test.ts` runs on the real one.
 */
import { randomUUID } from 'node:crypto'
import {
  type Backlog,
  type BufferReader,
  BufferReadUnavailableError,
  type Cursor,
  type Heads,
  type MarkedMessage,
  type MessageRun,
  type ReadLimits,
  type StoredMessage,
} from '../../src/log/buffer.ts'
import { eraseRecords } from '../../src/log/erased-body.ts'

interface PipePosition extends Backlog {
  seq: number
}

interface Kept {
  message: MarkedMessage
  position: PipePosition
  damaged: boolean
}

const zeroPosition: PipePosition = { seq: 0, messages: 0, records: 0, bytes: 0 }

export class MemoryBuffer implements BufferReader {
  readonly #pipes = new Map<string, { kept: Kept[]; earliest: PipePosition; head: PipePosition }>()
  #seq = 0
  /** Called before every read is answered: the place for what happens just then. */
  beforeRead = () => {}
  /** Nothing is answered: the buffer is elsewhere, and cannot be reached. */
  isUnavailable = false
  /** Counts the requests that were rejected. */
  refused = 0
  reads = 0
  backlogs = 0
  /** Readers see none of the messages after this one yet, whatever they were told of. */
  visibleSeq = Number.POSITIVE_INFINITY

  /** `recordText`: of every record, or of each by its position. */
  append(
    pipeId: string,
    records = 1,
    receivedMs = 0,
    recordText: string | ((index: number) => string) = '{"a":1}',
  ): StoredMessage {
    const pipe = this.#pipe(pipeId)
    this.#seq += 1
    const textAt = typeof recordText === 'string' ? () => recordText : recordText
    const body = Buffer.from(Array.from({ length: records }, (_, index) => textAt(index)).join('\n'))
    const { head } = pipe
    pipe.head = {
      seq: this.#seq,
      messages: head.messages + 1,
      records: head.records + records,
      bytes: head.bytes + body.length,
    }
    const ids = { seq: this.#seq, pipeId, msgId: randomUUID() }
    const message = { ...ids, receivedMs, recordCount: records, body, mark: cursorOf(pipe.head).mark }
    pipe.kept.push({ message, position: pipe.head, damaged: false })
    return message
  }

  /** The next message that is appended has at least this seq. */
  nextSeq(seq: number): void {
    this.#seq = Math.max(this.#seq, seq - 1)
  }

  /** Deletes the records with this text from a message. What was read before keeps them. */
  erase(pipeId: string, seq: number, text: string): void {
    const kept = this.#pipe(pipeId).kept.find(({ message }) => message.seq === seq)
    const erased = kept && eraseRecords(kept.message.body, (record) => record.toString() === text)
    if (kept && erased) kept.message = { ...kept.message, body: erased.body }
  }

  /** Retention: everything up to this message goes. */
  drop(pipeId: string, throughSeq: number): void {
    const pipe = this.#pipe(pipeId)
    for (const { message, position } of pipe.kept) if (message.seq <= throughSeq) pipe.earliest = position
    pipe.kept = pipe.kept.filter(({ message }) => message.seq > throughSeq)
  }

  /** A part of the disk is gone: these messages are, and nobody said so. */
  lose(firstSeq: number, lastSeq: number): void {
    for (const pipe of this.#pipes.values()) {
      pipe.kept = pipe.kept.filter(({ message }) => message.seq < firstSeq || message.seq > lastSeq)
    }
  }

  damage(seq: number): void {
    for (const { kept } of this.#pipes.values()) {
      for (const one of kept) if (one.message.seq === seq) one.damaged = true
    }
  }

  async read(pipeId: string, afterSeq: number, limits: ReadLimits): Promise<MessageRun> {
    this.#answer()
    this.reads += 1
    this.beforeRead()
    const run: MessageRun = { messages: [], more: false, damaged: [], lost: [] }
    const throughSeq = limits.throughSeq ?? Number.POSITIVE_INFINITY
    const pipe = this.#pipe(pipeId)
    const kept = pipe.kept.filter(({ message }) => message.seq <= this.visibleSeq)
    const head = this.#positionAt(pipeId, Math.min(pipe.head.seq, this.visibleSeq))
    let records = 0
    let bytes = 0
    let last = limits.afterMark ? { ...(JSON.parse(limits.afterMark) as Backlog), seq: afterSeq } : null
    const noteLost = (to: PipePosition) => {
      const messages = to.messages - (last?.messages ?? to.messages)
      if (last === null || messages <= 0) return
      run.lost.push({ firstSeq: last.seq + 1, to: cursorOf(to), messages })
    }
    for (const { message, position, damaged } of kept) {
      if (message.seq <= afterSeq || message.seq > throughSeq) continue
      noteLost({
        seq: message.seq - 1,
        messages: position.messages - 1,
        records: position.records - message.recordCount,
        bytes: position.bytes - message.body.length,
      })
      last = position
      if (damaged) {
        const { seq, msgId, recordCount, mark } = message
        run.damaged.push({ seq, msgId, recordCount, mark })
        continue
      }
      records += message.recordCount
      bytes += message.body.length
      run.more = run.messages.length > 0 && (records > limits.maxRecords || bytes > limits.maxBytes)
      if (run.more) break
      run.messages.push(message)
    }
    if (!run.more && head.seq <= throughSeq) noteLost(head)
    return run
  }

  async head(pipeId: string): Promise<Cursor> {
    this.#answer()
    return cursorOf(this.#pipe(pipeId).head)
  }

  async heads(afterSeq: number): Promise<Heads | null> {
    this.#answer()
    if (this.#seq <= afterSeq) return null
    const pipes = new Map([...this.#pipes].map(([pipeId, { head }]) => [pipeId, head.seq]))
    return { newestSeq: this.#seq, pipes }
  }

  async earliest(pipeId: string): Promise<Cursor> {
    this.#answer()
    return cursorOf(this.#pipe(pipeId).earliest)
  }

  async cursorAt(pipeId: string, seq: number): Promise<Cursor> {
    this.#answer()
    return cursorOf(this.#positionAt(pipeId, seq))
  }

  async backlog(pipeId: string, after: Cursor, throughSeq?: number): Promise<Backlog> {
    this.#answer()
    this.backlogs += 1
    const to = this.#positionAt(pipeId, Math.min(throughSeq ?? this.visibleSeq, this.visibleSeq))
    const from: Backlog = JSON.parse(after.mark)
    return {
      messages: Math.max(0, to.messages - from.messages),
      records: Math.max(0, to.records - from.records),
      bytes: Math.max(0, to.bytes - from.bytes),
    }
  }

  async relocate(pipeId: string, cursor: Cursor): Promise<{ cursor: Cursor; missing: number }> {
    this.#answer()
    const counted = (JSON.parse(cursor.mark) as Backlog).messages
    const { kept, head } = this.#pipe(pipeId)
    const next = kept.find(({ message }) => message.seq > cursor.seq)
    const missing = counted - (next === undefined ? head.messages : next.position.messages - 1)
    if (missing <= 0) return { cursor, missing: 0 }
    return { cursor: { ...cursor, mark: cursorOf(this.#positionAt(pipeId, cursor.seq)).mark }, missing }
  }

  /** The log's end is gone with all that knew of it: what is appended from now on counts on from before. */
  loseEnd(lastSeq: number): void {
    for (const pipe of this.#pipes.values()) {
      pipe.kept = pipe.kept.filter(({ message }) => message.seq <= lastSeq)
      pipe.head = pipe.kept.at(-1)?.position ?? pipe.earliest
    }
  }

  async pipeIds(): Promise<string[]> {
    this.#answer()
    return [...this.#pipes.keys()]
  }

  async cursorAtTime(pipeId: string, timeMs: number): Promise<number> {
    this.#answer()
    const pipe = this.#pipe(pipeId)
    const first = pipe.kept.findIndex(({ message }) => message.receivedMs >= timeMs)
    if (first === -1) return pipe.head.seq
    return first === 0 ? pipe.earliest.seq : pipe.kept[first - 1]!.message.seq
  }

  async close(): Promise<void> {}

  #answer(): void {
    if (!this.isUnavailable) return
    this.refused += 1
    throw new BufferReadUnavailableError('nobody answers')
  }

  #positionAt(pipeId: string, seq: number): PipePosition {
    const pipe = this.#pipe(pipeId)
    if (seq >= pipe.head.seq) return pipe.head
    return pipe.kept.findLast(({ message }) => message.seq <= seq)?.position ?? pipe.earliest
  }

  #pipe(pipeId: string) {
    let pipe = this.#pipes.get(pipeId)
    if (pipe === undefined) {
      pipe = { kept: [], earliest: zeroPosition, head: zeroPosition }
      this.#pipes.set(pipeId, pipe)
    }
    return pipe
  }
}

function cursorOf({ seq, messages, records, bytes }: PipePosition): Cursor {
  return { seq, mark: JSON.stringify({ messages, records, bytes }) }
}
