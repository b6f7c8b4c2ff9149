/**
 * A position in a pipe with the pipe's running totals there. The difference of two positions is a count, so a backlog is
 * never scanned. Outside the segments, a position is a Cursor with the totals in its mark. A reader advances a `Place`, the
 * writer a `PipeTable`.
 */
import assert from 'node:assert'
import type { Backlog, Cursor, CursorMark } from '../buffer.ts'

export interface PipePosition {
  /** 0 when the pipe has never had a message. */
  seq: number
  /** Counted over the whole life of the pipe, up to and including `seq`. */
  messages: number
  records: number
  bytes: number
}

export const zeroPosition: PipePosition = { seq: 0, messages: 0, records: 0, bytes: 0 }

export function cursorOf(position: PipePosition): Cursor {
  const { seq, messages, records, bytes } = position
  return { seq, mark: markOf(messages, records, bytes) }
}

/** Built for every message that is read: a template is three times as fast as JSON.stringify. */
export function markOf(messages: number, records: number, bytes: number): CursorMark {
  return `{"messages":${messages},"records":${records},"bytes":${bytes}}`
}

export function countsOf(mark: CursorMark): Backlog {
  return JSON.parse(mark) as Backlog
}

export function difference(to: PipePosition, from: Cursor): Backlog {
  const { messages, records, bytes } = countsOf(from.mark)
  return {
    messages: Math.max(0, to.messages - messages),
    records: Math.max(0, to.records - records),
    bytes: Math.max(0, to.bytes - bytes),
  }
}

/** The position before a message, derived from the totals up to and including it. */
export function justBefore(row: RowTotals): PipePosition {
  const { seq, messages, records, bytes, recordCount, body } = row
  return {
    seq: seq - 1,
    messages: messages - 1,
    records: records - recordCount,
    bytes: bytes - body.length,
  }
}

interface RowTotals extends PipePosition {
  recordCount: number
  body: Uint8Array
}

/**
 * A reader's position while it advances through a pipe. The next message must continue the totals seen so far;
 * otherwise messages are missing in between. It is changed in place, so that each message costs only a comparison.
 */
export class Place {
  #seq: number
  #messages = 0
  #records = 0
  #bytes = 0
  /** False: the totals are not known, and gaps cannot be detected yet. */
  #isKnown: boolean

  constructor(seq: number, mark: CursorMark | null) {
    this.#seq = seq
    this.#isKnown = mark !== null
    if (mark !== null) {
      const { messages, records, bytes } = countsOf(mark)
      this.#messages = messages
      this.#records = records
      this.#bytes = bytes
    }
  }

  get seq(): number {
    return this.#seq
  }

  get messages(): number {
    return this.#messages
  }

  /** Returns true when messages are missing before `base`, a segment's position before its first message of the pipe. */
  misses(base: PipePosition): boolean {
    if (base.seq <= this.#seq) return false
    if (this.#isKnown) return base.messages > this.#messages
    this.#set(base.seq, base.messages, base.records, base.bytes)
    return false
  }

  missesBefore({ messages }: PipePosition): boolean {
    return this.#isKnown && messages - 1 > this.#messages
  }

  pass({ seq, messages, records, bytes }: PipePosition): void {
    this.#set(seq, messages, records, bytes)
  }

  /**
   * Passes a damaged row and returns the mark after it. The row counts as one message, because its own totals can be
   * damaged.
   */
  passDamaged(row: RowTotals): CursorMark {
    const { seq, recordCount, body } = row
    this.#seq = seq
    if (!this.#isKnown) return markOf(row.messages, row.records, row.bytes)
    this.#set(seq, this.#messages + 1, this.#records + recordCount, this.#bytes + body.length)
    return markOf(this.#messages, this.#records, this.#bytes)
  }

  #set(seq: number, messages: number, records: number, bytes: number): void {
    this.#seq = seq
    this.#messages = messages
    this.#records = records
    this.#bytes = bytes
    this.#isKnown = true
  }
}

/**
 * One pipe as recorded by a segment: `base` is its position before the segment, `last` its newest position in or before
 * it.
 */
export interface PipeInSegment {
  no: number
  pipeId: string
  base: PipePosition
  last: PipePosition
}

/**
 * Running totals of every pipe, in the writer's memory. A frame advances them message by message; when its transaction
 * fails they are restored, so they always match the disk.
 */
interface Pipe {
  no: number
  base: PipePosition
  position: PipePosition
  /** The position before the current frame; null until the frame has a message of this pipe. */
  before: PipePosition | null
}

export class PipeTable {
  #pipes = new Map<string, Pipe>()
  #lastNo = 0
  readonly #touched = new Map<string, Pipe>()
  #added: string[] = []

  constructor(known: readonly PipeInSegment[]) {
    for (const { pipeId, no, base, last } of known) {
      this.#pipes.set(pipeId, { no, base, position: last, before: null })
      this.#lastNo = Math.max(this.#lastNo, no)
    }
  }

  /** Counts one message of the current frame. The returned position is valid until the next call. */
  advance(
    pipeId: string,
    seq: number,
    records: number,
    bytes: number,
  ): { no: number; isNew: boolean; position: PipePosition } {
    const addedBefore = this.#added.length
    const pipe = this.#pipeOf(pipeId)
    if (pipe.before === null) {
      pipe.before = pipe.position
      pipe.position = { ...pipe.position }
      this.#touched.set(pipeId, pipe)
    }
    const { position } = pipe
    assert(seq > position.seq, 'seqs of a pipe ascend')
    position.seq = seq
    position.messages += 1
    position.records += records
    position.bytes += bytes
    return { no: pipe.no, isNew: this.#added.length > addedBefore, position }
  }

  /** The frame is committed. Returns its pipes with their newest seq. */
  takeCommitted(): [pipeId: string, seq: number][] {
    const newest: [string, number][] = []
    for (const [pipeId, pipe] of this.#touched) {
      pipe.before = null
      newest.push([pipeId, pipe.position.seq])
    }
    this.#touched.clear()
    this.#added = []
    return newest
  }

  /** The frame failed: restores the totals. */
  undo(): void {
    for (const pipe of this.#touched.values()) {
      pipe.position = pipe.before ?? pipe.position
      pipe.before = null
    }
    for (const pipeId of this.#added) this.#pipes.delete(pipeId)
    this.#lastNo -= this.#added.length
    this.#touched.clear()
    this.#added = []
  }

  /** The pipes as recorded in the segment being written. */
  inSegment(): PipeInSegment[] {
    return [...this.#pipes].map(([pipeId, { no, base, position }]) => ({ no, pipeId, base, last: position }))
  }

  has(pipeId: string): boolean {
    return this.#pipes.has(pipeId)
  }

  /** Totals of everything ever appended, per pipe. */
  appended(): Map<string, Backlog> {
    return new Map(
      [...this.#pipes].map(
        ([
          pipeId,
          {
            position: { messages, records, bytes },
          },
        ]) => {
          return [pipeId, { messages, records, bytes }]
        },
      ),
    )
  }

  /** Starts a new segment with these pipes, numbered 1, 2, … in this order. */
  restart(pipeIds: readonly string[]): void {
    const carried = new Map<string, Pipe>()
    for (const pipeId of pipeIds) {
      const position = this.#pipes.get(pipeId)?.position ?? zeroPosition
      carried.set(pipeId, { no: carried.size + 1, base: position, position, before: null })
    }
    this.#pipes = carried
    this.#lastNo = carried.size
  }

  #pipeOf(pipeId: string): Pipe {
    const found = this.#pipes.get(pipeId)
    if (found !== undefined) return found
    this.#lastNo += 1
    const pipe = { no: this.#lastNo, base: zeroPosition, position: zeroPosition, before: null }
    this.#pipes.set(pipeId, pipe)
    this.#added.push(pipeId)
    return pipe
  }
}
