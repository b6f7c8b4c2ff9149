/** The newest segment of a copy of the log (log-copy.ts). It is written row by row, and ends where the caller says. */
import assert from 'node:assert'
import { fsyncFile } from '../../platform/fsync.ts'
import type { BufferIdentity } from '../buffer.ts'
import { listSegments, onDisk, type SegmentName, segmentFile } from './layout.ts'
import { justBefore, type PipeInSegment, type PipePosition, zeroPosition } from './position.ts'
import type { EncodedRow } from './row-batch.ts'
import type { SealedEnd, Sealing } from './sealing.ts'
import { meanMessageBytes, readContentIfUsable, type SegmentContent } from './segment-facts.ts'
import type { NewSegment, SeqRange } from './segment-file.ts'
import { openSegmentWriter, type SegmentWriter } from './segment-writer.ts'

/** The state of a segment that was begun or opened. */
interface SegmentState {
  name: SegmentName
  /** While this segment is empty, the id of the one before it. */
  segmentId: string | null
  epoch: number
  begunClockMs: number
  clockMs: number
  holes: SeqRange[]
  lastSeq: number
  isEmpty: boolean
  isSalvaged: boolean
  pipes: PipeInSegment[]
}

/** A new segment that `beginSegment` has created. */
export function begunSegment(writer: SegmentWriter, segment: Omit<NewSegment, 'pageBytes'>): CopiedSegment {
  const { identity, begunClockMs, bases, holes } = segment
  return new CopiedSegment(writer, {
    name: { firstSeq: identity.firstSeq, generation: 0 },
    segmentId: identity.segmentId,
    epoch: identity.epoch,
    begunClockMs,
    clockMs: begunClockMs,
    holes: [...holes],
    lastSeq: identity.firstSeq - 1,
    isEmpty: true,
    isSalvaged: false,
    pipes: bases.map(({ pipeId, position }, index) => ({
      no: index + 1,
      pipeId,
      base: position,
      last: position,
    })),
  })
}

/**
 * Opens the newest segment of a copy, and completes what a crash has left of older ones. Null: there is none. Throws when a
 * file cannot be read or belongs to another log.
 */
export function openCopiedSegment(
  dir: string,
  owner: BufferIdentity,
  sealing: Sealing,
): CopiedSegment | null {
  const names = listSegments(dir)
  const newest = names.at(-1)
  if (newest === undefined) return null
  const contents = names.map((name) => contentOf(dir, name, owner))
  const content = contents.at(-1)!
  const isEnded = content.sealedClockMs !== null || newest.generation > 0
  for (const name of isEnded ? names : names.slice(0, -1)) sealing.sealFound(name)
  const writer = isEnded ? null : openSegmentWriter(dir, newest)
  // A kill can have left commits that were never synced.
  if (writer?.moveWal() === false) fsyncFile(`${segmentFile(dir, newest)}-wal`)
  return new CopiedSegment(writer, stateOf(newest, content))
}

function contentOf(dir: string, name: SegmentName, owner: BufferIdentity): SegmentContent {
  const content = readContentIfUsable(dir, name, owner)
  if (content !== null) return content
  throw new Error(`${segmentFile(dir, name)}: the segment is damaged or belongs to another log`)
}

function stateOf(name: SegmentName, content: SegmentContent): SegmentState {
  const { identity, begunClockMs, sealedClockMs, holes, pipes, isSalvaged } = content
  const isEmpty = content.lastSeq === null
  return {
    name,
    segmentId: isEmpty ? identity.previousSegmentId : identity.segmentId,
    epoch: identity.epoch,
    begunClockMs,
    clockMs: sealedClockMs ?? begunClockMs,
    holes,
    lastSeq: content.lastSeq ?? name.firstSeq - 1,
    isEmpty,
    isSalvaged,
    pipes,
  }
}

export class CopiedSegment {
  readonly name: SegmentName
  readonly segmentId: string | null
  readonly epoch: number
  readonly begunClockMs: number
  readonly clockMs: number
  readonly holes: readonly SeqRange[]
  /** Null: nothing can be written to it any more. */
  #writer: SegmentWriter | null
  readonly #pipes: Map<string, PipeInSegment>
  #lastNo: number
  #lastSeq: number
  #isEmpty: boolean
  #isSalvaged: boolean
  #isEnded: boolean
  #bytes: number
  #hasBegun = false
  #end: SealedEnd

  constructor(writer: SegmentWriter | null, state: SegmentState) {
    this.name = state.name
    this.segmentId = state.segmentId
    this.epoch = state.epoch
    this.begunClockMs = state.begunClockMs
    this.clockMs = state.clockMs
    this.holes = state.holes
    this.#writer = writer
    this.#pipes = new Map(state.pipes.map((pipe) => [pipe.pipeId, { ...pipe }]))
    this.#lastNo = state.pipes.reduce((last, { no }) => Math.max(last, no), 0)
    this.#lastSeq = state.lastSeq
    this.#isEmpty = state.isEmpty
    this.#isSalvaged = state.isSalvaged
    this.#isEnded = writer === null
    this.#bytes = writer?.bytes() ?? 0
    this.#end = { clockMs: state.clockMs, lastSeq: state.lastSeq }
  }

  get lastSeq(): number {
    return this.#lastSeq
  }

  get isEmpty(): boolean {
    return this.#isEmpty
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  /** About its size on disk. */
  get bytes(): number {
    return this.#bytes
  }

  get meanMessageBytes(): number {
    return meanMessageBytes([...this.#pipes.values()])
  }

  /** The newest position of each pipe. */
  positions(): [pipeId: string, position: PipePosition][] {
    return [...this.#pipes].map(([pipeId, { last }]) => [pipeId, last])
  }

  positionOf(pipeId: string): PipePosition {
    return this.#pipes.get(pipeId)?.last ?? zeroPosition
  }

  /** It becomes durable with the next `commit` or `end`. */
  insert(row: EncodedRow): void {
    const writer = this.#begun()
    const { seq, pipeId, msgId, receivedMs, recordCount, crc, messages, records, bytes } = row
    const pipe = this.#pipes.get(pipeId) ?? this.#addPipe(writer, row)
    if (messages > pipe.last.messages + 1) this.markSalvaged()
    writer.insertRow([
      ...([seq, pipe.no, msgId, receivedMs, recordCount, crc, messages, records, bytes] as const),
      ...([row.idempotencyKey, row.body, row.bodyHash] as const),
    ])
    pipe.last = { seq, messages, records, bytes }
    this.#lastSeq = seq
    this.#isEmpty = false
    this.#bytes += onDisk({ messages: 1, bytes: row.body.length })
  }

  /** The missing messages were lost in the source: readers report them as lost, and do not take the gap for damage. */
  markSalvaged(): void {
    if (this.#isSalvaged) return
    this.#begun().markSalvaged()
    this.#isSalvaged = true
  }

  commit(largestWalBytes: number): void {
    if (!this.#hasBegun) return
    this.#writer?.commit()
    this.#hasBegun = false
    if ((this.#writer?.wal().bytes ?? 0) > largestWalBytes) this.#writer?.checkpoint()
  }

  /**
   * Nothing is inserted any more. `bases` are the positions in the next segment; a message that is counted there and is
   * not here is lost.
   */
  end(end: SealedEnd, bases: readonly { pipeId: string; position: PipePosition }[]): void {
    if (this.#isEnded || this.#isEmpty) return
    const isLost = ({ pipeId, position }: (typeof bases)[number]) =>
      position.seq <= end.lastSeq && position.messages > this.positionOf(pipeId).messages
    if (bases.some(isLost)) this.markSalvaged()
    this.#begun().markSealed(end.clockMs, end.lastSeq)
    this.#writer?.commit()
    this.#hasBegun = false
    this.#isEnded = true
    this.#lastSeq = end.lastSeq
    this.#end = end
  }

  /** After `end`, and after the next segment exists. */
  seal(sealing: Sealing): void {
    if (this.#writer === null) return
    sealing.seal(this.name, this.#writer, this.#end)
    this.#writer = null
  }

  close(): void {
    this.#writer?.close()
    this.#writer = null
  }

  /** Closes it without writing. */
  abandon(): void {
    this.#writer?.abandon()
    this.#writer = null
  }

  #begun(): SegmentWriter {
    assert(this.#writer !== null, 'the segment can be written')
    if (!this.#hasBegun) this.#writer.begin()
    this.#hasBegun = true
    return this.#writer
  }

  #addPipe(writer: SegmentWriter, row: EncodedRow): PipeInSegment {
    const { pipeId } = row
    // Either this is the pipe's first message, or the messages before it are unknown here.
    const base = row.messages === 1 ? zeroPosition : justBefore(row)
    this.#lastNo += 1
    const pipe = { no: this.#lastNo, pipeId, base, last: base }
    this.#pipes.set(pipeId, pipe)
    writer.insertPipe(pipe.no, pipeId, base)
    return pipe
  }
}
