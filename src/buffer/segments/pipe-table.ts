/**
 * Every pipe's running totals, in the writer's memory. A frame advances them message by message; when its
 * transaction fails they go back to what they were, so they always equal what is on disk.
 */
import assert from 'node:assert'
import type { PipePosition } from '../buffer.ts'
import type { PipeInSegment } from './segment-facts.ts'

export interface PipeTable {
  /** Counts one message of the frame under way. The position is only valid until the next call. */
  advance(
    pipeId: string,
    seq: number,
    records: number,
    bytes: number,
  ): { no: number; isNew: boolean; position: PipePosition }
  /** The frame is committed: its pipes with their newest seq. */
  settle(): [pipeId: string, seq: number][]
  /** The frame failed. */
  undo(): void
  /** As the segment being written knows them. */
  inSegment(): PipeInSegment[]
  positions(): Map<string, PipePosition>
  /** A new segment: these pipes, numbered 1, 2, … as given, are the ones it begins with. */
  restart(pipeIds: readonly string[]): void
}

interface Pipe {
  no: number
  base: PipePosition
  position: PipePosition
  /** The position before the frame under way; null while it has not touched this pipe. */
  before: PipePosition | null
}

const nowhere: PipePosition = { seq: 0, messages: 0, records: 0, bytes: 0 }

export function openPipeTable(known: readonly PipeInSegment[]): PipeTable {
  let pipes = new Map<string, Pipe>()
  let lastNo = 0
  for (const { pipeId, no, base, last } of known) {
    pipes.set(pipeId, { no, base, position: last, before: null })
    lastNo = Math.max(lastNo, no)
  }
  const touched = new Map<string, Pipe>()
  let added: string[] = []

  function pipeOf(pipeId: string): Pipe {
    const found = pipes.get(pipeId)
    if (found !== undefined) return found
    lastNo += 1
    const pipe = { no: lastNo, base: nowhere, position: nowhere, before: null }
    pipes.set(pipeId, pipe)
    added.push(pipeId)
    return pipe
  }

  return {
    advance(pipeId, seq, records, bytes) {
      const addedBefore = added.length
      const pipe = pipeOf(pipeId)
      if (pipe.before === null) {
        pipe.before = pipe.position
        pipe.position = { ...pipe.position }
        touched.set(pipeId, pipe)
      }
      const { position } = pipe
      assert(seq > position.seq, 'seqs of a pipe ascend')
      position.seq = seq
      position.messages += 1
      position.records += records
      position.bytes += bytes
      return { no: pipe.no, isNew: added.length > addedBefore, position }
    },
    settle() {
      const newest: [string, number][] = []
      for (const [pipeId, pipe] of touched) {
        pipe.before = null
        newest.push([pipeId, pipe.position.seq])
      }
      touched.clear()
      added = []
      return newest
    },
    undo() {
      for (const pipe of touched.values()) {
        pipe.position = pipe.before ?? pipe.position
        pipe.before = null
      }
      for (const pipeId of added) pipes.delete(pipeId)
      lastNo -= added.length
      touched.clear()
      added = []
    },
    inSegment: () =>
      [...pipes].map(([pipeId, { no, base, position }]) => ({ no, pipeId, base, last: position })),
    positions: () => new Map([...pipes].map(([pipeId, { position }]) => [pipeId, { ...position }])),
    restart(pipeIds) {
      const carried = new Map<string, Pipe>()
      for (const pipeId of pipeIds) {
        const position = pipes.get(pipeId)?.position ?? nowhere
        carried.set(pipeId, { no: carried.size + 1, base: position, position, before: null })
      }
      pipes = carried
      lastNo = carried.size
    },
  }
}
