/**
 * Writes a log from the batches of another machine (row-batch.ts): the same rows under the same seqs, with the same totals,
 * checksums and keys, in the same segments. The daemon can open the directory after `close`, and after a crash.
 *
 *   sealed segments of the source ──copied files──┐
 *                                                 ├──▶ directory ──▶ openBufferWriter
 *   batches of the source ──────────append────────┘
 *
 * A segment begins where one of the source began, with the same totals of its pipes (`SegmentHead`). So a reader of the
 * copy gets the same answers, and a gap has the same reason: dropped by retention, removed by compaction, or lost. The
 * copy begins a segment of its own in two cases: compaction removed messages of the source after a part of its segment
 * was copied, or the segment would become much larger than `segmentMaxBytes`. It repeats the id of the one it continues.
 *
 * `append` is one transaction for each segment that the batch belongs to. Rows up to the newest one here are passed over,
 * so a batch can be applied again after a crash, also when only a part of it was applied.
 *
 *   step                                              found after a crash right after it, by the next `openLogCopy`
 *   1 insert rows, COMMIT (fsync of the WAL)          the rows, or (killed within it) nothing of this transaction
 *   2 write the high-water mark                       an older mark than the log, as in layout.ts
 *     the batch has rows of the next segment:
 *   3 COMMIT with the end of the old segment          an ended segment with a WAL: it is sealed, and the next row begins
 *                                                     a segment under the same name as in 4
 *   4 create and rename the new segment               an empty segment: it is used, or replaced by the repeated batch
 *   5 create the old one's index, leave WAL mode      as above; the old one is sealed
 *   6 insert rows of the new segment, COMMIT          as 1
 *     dropping (`keepFrom`):
 *   7 write keys to idempotency.db, fsync it          the segments, and the keys twice: they count once
 *   8 high-water mark with the oldest kept seq, fsync the segments: they are dropped again
 *   9 unlink them, oldest first, fsync the directory  the rest: dropped again
 *
 * The copy has one owner. Nothing else may write the directory until `close`; the lock of the data directory sees to that.
 */
import assert from 'node:assert'
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { crc32 } from 'node:zlib'
import { fsyncDirectory } from '../../platform/fsync.ts'
import type { BufferIdentity } from '../buffer.ts'
import { begunSegment, type CopiedSegment, openCopiedSegment } from './copied-segment.ts'
import { dropCopied } from './drop-copied.ts'
import { type HighWater, openHighWater } from './high-water.ts'
import { listSegments, pageBytesFor, removeLeftovers, rowChecksum, unlinkSegment } from './layout.ts'
import {
  decodeRowBatch,
  type EncodedRow,
  type RowBatch,
  RowBatchError,
  type SegmentHead,
} from './row-batch.ts'
import { Sealing } from './sealing.ts'
import { type BasePosition, newIdentity, type SegmentIdentity, type SeqRange } from './segment-file.ts'
import { beginSegment } from './segment-writer.ts'

export interface LogCopy {
  /** The newest row; 0 when there is none. */
  readonly lastSeq: number
  /**
   * Applies a batch. It is durable when this returns. Rows up to `lastSeq` are passed over. Throws RowBatchError when the
   * batch is damaged; then nothing has changed. After any other error the copy must be opened again.
   */
  append(rows: Buffer): void
  /** Drops whole segments that end before `seq`. Their idempotency keys stay for as long as they count. */
  keepFrom(seq: number): void
  /** After this the daemon can open the directory. */
  close(): void
}

export interface LogCopySpec {
  /** The owner of the source. */
  identity: BufferIdentity
  segmentMaxBytes: number
  /** The source has dropped everything before it. */
  keptFromSeq: number
}

/** The directory is missing, or has sealed segments of the source, or is an earlier copy. Throws when a file is damaged. */
export function openLogCopy(dir: string, spec: LogCopySpec): LogCopy {
  if (mkdirSync(dir, { recursive: true, mode: 0o700 }) !== undefined) fsyncDirectory(path.dirname(dir))
  removeLeftovers(dir)
  fsyncDirectory(dir)
  const sealing = new Sealing(dir)
  const newest = openCopiedSegment(dir, spec.identity, sealing)
  const mark = openHighWater(path.join(dir, 'high-water'), spec.identity)
  return new SegmentCopy({ dir, spec, sealing, mark, newest })
}

/** A segment may become this much larger than `segmentMaxBytes`, because the source decides where it ends. */
const maxGrowth = 1.5
/** Moved into the database after a batch. */
const largestWalBytes = 16 * 1024 * 1024

interface CopyParts {
  dir: string
  spec: LogCopySpec
  sealing: Sealing
  mark: HighWater
  newest: CopiedSegment | null
}

/** The segment that the next row begins. */
interface Beginning {
  firstSeq: number
  identity: SegmentIdentity
  begunClockMs: number
  isSalvaged: boolean
  bases: BasePosition[]
  holes: SeqRange[]
  /** The end of the segment before it: it had no seq after this one. */
  previousLastSeq: number
}

class SegmentCopy implements LogCopy {
  readonly #dir: string
  readonly #spec: LogCopySpec
  readonly #sealing: Sealing
  readonly #mark: HighWater
  #segment: CopiedSegment | null
  #lastSeq: number
  #clockMs: number
  #beginning: Beginning | null = null
  /** Compaction removed messages of the current segment of the source, and no row after them has come. */
  #isEmptied = false
  #state: 'open' | 'failed' | 'closed' = 'open'

  constructor({ dir, spec, sealing, mark, newest }: CopyParts) {
    this.#dir = dir
    this.#spec = spec
    this.#sealing = sealing
    this.#mark = mark
    this.#segment = newest
    this.#lastSeq = newest?.lastSeq ?? 0
    this.#clockMs = Math.max(mark.found.clockMs, newest?.clockMs ?? 0)
    this.#markOldest()
  }

  get lastSeq(): number {
    return this.#lastSeq
  }

  append(rows: Buffer): void {
    this.#assertOpen()
    const batch = decodeRowBatch(rows)
    const items = verified(batch)
    this.#change(() => {
      this.#clockMs = Math.max(this.#clockMs, batch.clockMs)
      for (const item of items) {
        if (item.kind === 'head') this.#onHead(item.head, batch)
        else if (item.row.seq > this.#lastSeq) this.#insert(item.row, batch)
      }
      // Rows of it come with a later batch, which says so again.
      this.#beginning = null
      this.#isEmptied = false
      this.#segment?.commit(largestWalBytes)
      this.#mark.write(this.#lastSeq, this.#clockMs)
    })
  }

  keepFrom(seq: number): void {
    this.#assertOpen()
    this.#change(() =>
      dropCopied(this.#dir, seq, { mark: this.#mark, clockMs: this.#clockMs, lastSeq: this.#lastSeq }),
    )
  }

  close(): void {
    if (this.#state === 'closed') return
    const hasFailed = this.#state === 'failed'
    this.#state = 'closed'
    if (hasFailed) {
      this.#segment?.abandon()
      this.#sealing.abandon()
      this.#mark.abandon()
      return
    }
    this.#sealing.close()
    this.#segment?.close()
    this.#mark.write(this.#lastSeq, this.#clockMs)
    this.#mark.close()
  }

  #assertOpen(): void {
    assert(this.#state === 'open', `the copy of the log is ${this.#state}`)
  }

  #change(work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#state = 'failed'
      throw error
    }
  }

  /** Nothing is created before the first row of a segment. */
  #onHead(head: SegmentHead, batch: RowBatch): void {
    if (head.firstSeq > this.#lastSeq) this.#beginning = this.#next(head, batch)
    else this.#onMoved(head)
  }

  #next(head: SegmentHead, { oldestKeptSeq }: RowBatch): Beginning {
    const { firstSeq, segmentId, previousSegmentId, epoch, begunClockMs, isSalvaged, bases } = head
    const { dataDirId } = this.#spec.identity
    const identity = { segmentId, dataDirId, epoch, firstSeq, previousSegmentId }
    // The range that is gone from the source: by retention from the old end, or by compaction.
    const removedSeq = this.#isEmptied ? head.previousLastSeq || firstSeq - 1 : 0
    const dropped = {
      firstSeq: this.#lastSeq + 1,
      lastSeq: Math.min(firstSeq - 1, Math.max(removedSeq, oldestKeptSeq - 1)),
    }
    // The source's segment ended where this one begins, if nothing was dropped between them.
    const isNext =
      !this.#isEmptied && previousSegmentId !== null && previousSegmentId === this.#segment?.segmentId
    const isGap = this.#segment !== null && !isNext && dropped.lastSeq >= dropped.firstSeq
    const holes = merged([...(this.#segment?.holes ?? []), ...head.holes, ...(isGap ? [dropped] : [])])
    const previousLastSeq = isNext
      ? firstSeq - 1
      : Math.max(this.#lastSeq, this.#isEmptied ? 0 : head.previousLastSeq)
    return { firstSeq, identity, begunClockMs, isSalvaged, bases, holes, previousLastSeq }
  }

  /** Messages of these pipes are gone from the source. The rows that follow them begin a segment with their totals. */
  #onMoved(head: SegmentHead): void {
    const segment = this.#segment
    const isAhead = ({ pipeId, position }: BasePosition) =>
      position.seq > this.#lastSeq && position.messages > (segment?.positionOf(pipeId).messages ?? 0)
    const moved = head.bases.filter(isAhead)
    if (segment === null || moved.length === 0) return
    this.#isEmptied = true
    this.#beginning = this.#continuing(segment, moved)
  }

  /** A further segment of the copy for the same segment of the source. */
  #continuing(segment: CopiedSegment, moved: readonly BasePosition[] = []): Beginning {
    const firstSeq = this.#lastSeq + 1
    const bases = new Map(segment.positions())
    for (const { pipeId, position } of moved) bases.set(pipeId, position)
    const { segmentId, epoch, begunClockMs, holes } = segment
    const identity = newIdentity(this.#spec.identity, firstSeq, segmentId)
    return {
      firstSeq,
      identity: { ...identity, epoch, segmentId: segmentId ?? identity.segmentId },
      begunClockMs,
      isSalvaged: false,
      bases: [...bases].map(([pipeId, position]) => ({ pipeId, position })),
      holes: [...holes],
      previousLastSeq: this.#lastSeq,
    }
  }

  #insert(row: EncodedRow, batch: RowBatch): void {
    const segment = this.#segmentFor(batch)
    segment.insert(row)
    this.#lastSeq = row.seq
  }

  #segmentFor({ afterSeq }: RowBatch): CopiedSegment {
    const segment = this.#segment
    if (this.#beginning !== null) return this.#begin(this.#beginning)
    if (segment === null) return this.#begin(this.#unknown(afterSeq + 1))
    if (segment.isEnded || segment.bytes >= this.#spec.segmentMaxBytes * maxGrowth)
      return this.#begin(this.#continuing(segment))
    return segment
  }

  /** The first batch begins within a segment: nothing before it is known. */
  #unknown(firstSeq: number): Beginning {
    const identity = newIdentity(this.#spec.identity, firstSeq, null)
    const known = { bases: [], holes: [], isSalvaged: false, previousLastSeq: firstSeq - 1 }
    return { firstSeq, identity, begunClockMs: this.#clockMs, ...known }
  }

  #begin(beginning: Beginning): CopiedSegment {
    const { identity, begunClockMs, bases, holes, isSalvaged } = beginning
    this.#beginning = null
    this.#isEmptied = false
    const previous = this.#segment
    previous?.end({ clockMs: begunClockMs, lastSeq: beginning.previousLastSeq }, bases)
    // A crash left it without a row, perhaps under the name of the new one.
    if (previous?.isEmpty === true) this.#remove(previous)
    const pageBytes = pageBytesFor(this.#spec.segmentMaxBytes, previous?.meanMessageBytes ?? 0)
    const writer = beginSegment(this.#dir, { pageBytes, identity, begunClockMs, bases, holes })
    previous?.seal(this.#sealing)
    this.#segment = begunSegment(writer, { identity, begunClockMs, bases, holes })
    if (isSalvaged) this.#segment.markSalvaged()
    this.#mark.write(this.#lastSeq, this.#clockMs)
    this.#markOldest()
    this.#mark.sync()
    return this.#segment
  }

  #remove(empty: CopiedSegment): void {
    empty.abandon()
    unlinkSegment(this.#dir, empty.name)
    fsyncDirectory(this.#dir)
  }

  /** Messages that the source has dropped are not missing here. */
  #markOldest(): void {
    const oldest = listSegments(this.#dir)[0]
    if (oldest === undefined || this.#mark.oldestKeptSeq > 0) return
    this.#mark.raiseOldestKept(Math.min(oldest.firstSeq, this.#spec.keptFromSeq))
  }
}

type Item = ReturnType<RowBatch['items']> extends Generator<infer T> ? T : never

/** All items, so that a damaged batch changes nothing. */
function verified(batch: RowBatch): Item[] {
  let { afterSeq: seq } = batch
  return [...batch.items()].map((item) => {
    if (item.kind === 'head') return item
    const { row } = item
    if (!(row.seq > seq))
      throw new RowBatchError(`the rows of the batch are not in order: ${row.seq} after ${seq}`)
    if (rowChecksum(row, crc32(row.body)) !== row.crc)
      throw new RowBatchError(`the row with stream_seq ${row.seq} does not match its checksum`)
    seq = row.seq
    return item
  })
}

/** Ranges without overlaps, in order. */
function merged(ranges: readonly SeqRange[]): SeqRange[] {
  const all: SeqRange[] = []
  for (const range of [...ranges].sort((a, b) => a.firstSeq - b.firstSeq)) {
    const last = all.at(-1)
    if (last !== undefined && range.firstSeq <= last.lastSeq + 1)
      all[all.length - 1] = { firstSeq: last.firstSeq, lastSeq: Math.max(last.lastSeq, range.lastSeq) }
    else all.push(range)
  }
  return all
}
