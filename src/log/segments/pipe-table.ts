/**
 * Running totals of every pipe, in the writer's memory. A frame advances them message by message; when its transaction
 * fails they are restored, so they always match the disk.
 */
import assert from 'node:assert'
import type { Backlog } from '../buffer.ts'
import { type PipePosition, zeroPosition } from './position.ts'
import type { PipeInSegment } from './segment-facts.ts'

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
