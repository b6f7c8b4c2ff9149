/**
 * Compaction rewrites a sealed segment without delivered messages, so that one idle pipe does not hold the space of
 * what others have delivered. It removes the oldest messages of each pipe, up to the pipe's low watermark. The pipe's
 * base position moves there, so running totals, cursors and marks stay valid.
 *
 * In the same way it removes all messages of a pipe in a segment that are older than the pipe's own limit, delivered or
 * not (pipe-ages.ts). Readers then find the pipe's earliest position behind them, as after a dropped segment: a lane
 * before it counts the messages as dropped and moves its cursor there. The table below holds for both.
 *
 * It runs in slices between frames, on the writer's thread: only one thread changes files, so a segment cannot be
 * dropped and compacted at the same time, and a commit waits for at most one slice. Each slice is an fsynced
 * transaction, so there is no large fsync at the end. (A separate thread would not be faster: both wait for the same
 * disk.) The cost depends on what is kept, which is less than half of the segment.
 *
 * The file gets a new name: readers can have the old file open with its -wal and -shm, which SQLite finds by name and
 * would use for the new file. They continue with the old file, which is complete, until they list the directory again.
 * A compacted segment is never written to, so it has no WAL.
 *
 *   step                                            found after a crash right after it
 *   1 copy slice by slice to compacted-segment.tmp  the old segment and a .tmp file: removed
 *   2 fsync it                                      as above
 *   3 compare it with the old segment               as above
 *   4 rename it to <first seq>.<generation>.db      both: the newer generation is complete, the older is removed (or, after
 *                                                   a power cut, the rename is undone: as after 1)
 *   5 fsync the directory                           both, as above; only now can the old one be removed
 *   6 unlink the old .db, -wal, -shm                the new one; -wal and -shm without a .db are removed
 *                                                   (a power cut can undo an unlink: both, as above)
 *
 * Frames committed between two slices go to the segment being written and do not affect the sealed one. A frame that
 * waits for a slice is neither written nor acknowledged, so a crash loses nothing.
 *
 * A start does not continue a partial copy. The copy is written without a journal, which would double the writes on a
 * slow, full disk. So a crash within a slice can leave any page torn, and verifying every row costs as much as copying
 * it. The copy would also be outdated, because lanes have moved on. At most one segment is copied again, and nothing
 * waits for it (`slicesAtOnce` in space-keeper.ts). A start knows the limits of pipes only when delivery has reported
 * them. Until then messages that are too old stay, and lanes can still deliver them.
 *
 *   a lane of the pipe, when its undelivered messages are removed   found after a crash right after it
 *   before step 4                                                   the messages: delivered, or removed again
 *   4 the new generation has its name                               the lane's saved cursor is before the pipe's earliest
 *                                                                   position: it counts them as dropped when it starts
 *   the lane has read the messages before, and delivers them        saved as delivered, or sent again under the same
 *                                                                   identity if they are still kept; else counted as dropped
 *   the lane has saved cursor and count in one transaction          counted once
 */
import assert from 'node:assert'
import path from 'node:path'
import type Database from 'better-sqlite3'
import {
  bodyOf,
  compactedName,
  insertMessage,
  type MessageRow,
  PipeRows,
  type SegmentName,
  selectMessages,
} from './layout.ts'
import type { PipeInSegment, PipePosition } from './position.ts'
import { RewriteFile } from './rewrite-file.ts'
import { lacksEnd, readSegmentContent } from './segment-facts.ts'
import { insertHoles, insertSegmentRow, isSalvaged, markSalvaged, openReadOnly } from './segment-file.ts'
import { ContradictionError } from './sqlite-errors.ts'

const KiB = 1024
/** A commit waits for at most one slice, about as long as for a frame of this size. */
const sliceBytes = 512 * KiB

export interface CompactionPlan {
  dir: string
  source: SegmentName
  /** The newest seq of the segment. Retention can have dropped the segment that was named after it. */
  lastSeq: number
  lastClockMs: number
  /** Each pipe's position in the next segment, before its first message there. */
  behind: ReadonlyMap<string, PipePosition>
  /** Messages of the pipe up to this seq are removed; Infinity removes the pipe entirely. */
  deliveredThrough(pipeId: string): number
  /** Returns the row as it is in the new file; unchanged by default. Called twice per row. See erasing.ts. */
  rewritten?: ((row: MessageRow, pipeId: string) => MessageRow) | undefined
}

export class Compaction {
  readonly target: SegmentName
  readonly #plan: CompactionPlan
  readonly #source: Database.Database
  readonly #rows: PipeRows
  readonly #copy: RewriteFile
  readonly #pipes: PipeInSegment[]
  readonly #isSalvaged: boolean
  #pipeIndex = 0
  #cursor = 0
  /** The pipe's total number of messages at the cursor. */
  #messages = 0
  #copied = 0
  #compared = 0
  #phase: 'copy' | 'compare' | 'complete' | 'closed' = 'copy'

  /** Creates the new file. Throws errors of SQLite and the file system, after removing what it created. */
  constructor(plan: CompactionPlan) {
    const { firstSeq, generation } = plan.source
    this.#plan = plan
    this.target = { firstSeq, generation: generation + 1 }
    this.#source = openReadOnly(plan.dir, plan.source)
    try {
      this.#isSalvaged = isSalvaged(this.#source)
      this.#rows = new PipeRows(this.#source)
      this.#rows.catchUp()
      this.#copy = new RewriteFile(path.join(plan.dir, compactedName))
    } catch (error) {
      this.#source.close()
      throw error
    }
    try {
      this.#pipes = this.#writeHead()
      this.#cursor = this.#pipes[0]?.base.seq ?? 0
      this.#messages = this.#pipes[0]?.base.messages ?? 0
    } catch (error) {
      this.abandon()
      throw error
    }
  }

  get source(): SegmentName {
    return this.#plan.source
  }

  /** Does one slice. Returns true when only `swap` is left. Throws like the constructor; then call `abandon`. */
  step(): boolean {
    if (this.#phase === 'copy') this.#copySlice()
    else if (this.#phase === 'compare') this.#compareSlice()
    return this.#phase === 'complete'
  }

  /** Puts the new file in place. The caller unlinks the old one. */
  swap(): void {
    assert(this.#phase === 'complete')
    this.#close()
    this.#copy.rename(this.#plan.dir, this.target)
  }

  /** Removes the copy and leaves the segment as it is. */
  abandon(): void {
    this.#close()
    this.#copy.remove()
  }

  #writeHead(): PipeInSegment[] {
    const content = readSegmentContent(this.#source)
    if (lacksEnd(content, this.#plan.behind)) throw this.#contradiction()
    const pipes = this.#keptPipes(content.pipes)
    const { lastClockMs, lastSeq } = this.#plan
    const { db } = this.#copy
    this.#copy.slice(() => {
      // The id stays the same, because the next segment refers to it.
      insertSegmentRow(db, content.identity, { begunClockMs: content.begunClockMs, lastClockMs, lastSeq })
      insertHoles(db, content.holes)
      if (this.#isSalvaged) markSalvaged(db)
      const insert = db.prepare('INSERT INTO pipe VALUES (?, ?, ?, ?, ?, ?)')
      for (const { no, pipeId, base } of pipes) {
        insert.run(no, pipeId, base.seq, base.messages, base.records, base.bytes)
      }
    })
    return pipes
  }

  /** The remaining pipes. Each base is the position up to which messages are removed. */
  #keptPipes(pipes: readonly PipeInSegment[]): PipeInSegment[] {
    const lastDelivered = this.#source.prepare(
      `SELECT seq, messages, records, bytes FROM ${this.#rows.rows}
       WHERE ${this.#rows.pipe} = ? AND seq <= ? ORDER BY seq DESC LIMIT 1`,
    )
    return pipes.flatMap((pipe) => {
      const through = this.#plan.deliveredThrough(pipe.pipeId)
      if (through === Number.POSITIVE_INFINITY) return []
      const moved = lastDelivered.get(pipe.no, through) as PipePosition | undefined
      return [{ ...pipe, base: moved ?? pipe.base }]
    })
  }

  #copySlice(): void {
    this.#copy.slice(() => this.#copyRows())
    if (this.#pipeIndex < this.#pipes.length) return
    this.#copy.readBack()
    this.#cursor = 0
    this.#phase = 'compare'
  }

  #copyRows(): void {
    const { rows, pipe } = this.#rows
    const read = this.#source
      .prepare(`${selectMessages(rows)} WHERE ${pipe} = ? AND seq > ? ORDER BY seq`)
      .raw()
    const insert = this.#copy.db.prepare(insertMessage)
    let bytes = 0
    while (this.#pipeIndex < this.#pipes.length) {
      const { no, pipeId } = this.#pipes[this.#pipeIndex]!
      for (const row of read.iterate(no, this.#cursor) as IterableIterator<MessageRow>) {
        this.#checkFollows(row)
        insert.run(...this.#rewritten(row, pipeId))
        this.#cursor = row[0]
        this.#copied += 1
        bytes += bodyOf(row).length
        if (bytes >= sliceBytes) return
      }
      this.#pipeIndex += 1
      this.#cursor = this.#pipes[this.#pipeIndex]?.base.seq ?? 0
      this.#messages = this.#pipes[this.#pipeIndex]?.base.messages ?? 0
    }
  }

  /** Rows are read through an index. A row that the index lacks must not be lost in the copy. */
  #checkFollows(row: MessageRow): void {
    const messages = row[6]
    if (!this.#isSalvaged && messages !== this.#messages + 1) throw this.#contradiction()
    this.#messages = messages
  }

  #contradiction(): Error {
    return new ContradictionError(`${this.#source.name}: messages are not found: the file is damaged`)
  }

  /** Compares the copy with the old segment row by row, as both are on disk, so that a faulty copy replaces nothing. */
  #compareSlice(): void {
    const { db } = this.#copy
    const pipeIds = new Map(this.#pipes.map(({ no, pipeId }) => [no, pipeId]))
    const read = db.prepare(`${selectMessages()} WHERE seq > ? ORDER BY seq`).raw()
    const original = this.#source.prepare(`${selectMessages()} WHERE seq = ?`).raw()
    let bytes = 0
    for (const row of read.iterate(this.#cursor) as IterableIterator<MessageRow>) {
      const found = original.get(row[0]) as MessageRow | undefined
      const expected = found && this.#rewritten(found, pipeIds.get(found[1]) ?? '')
      assert(expected !== undefined && isSameRow(row, expected), 'a compacted message is the message it was')
      this.#cursor = row[0]
      this.#compared += 1
      bytes += bodyOf(row).length
      if (bytes >= sliceBytes) return
    }
    assert(this.#compared === this.#copied, 'a compacted segment holds every message that was copied')
    this.#phase = 'complete'
  }

  #rewritten(row: MessageRow, pipeId: string): MessageRow {
    return this.#plan.rewritten?.(row, pipeId) ?? row
  }

  #close(): void {
    if (this.#phase === 'closed') return
    this.#phase = 'closed'
    this.#source.close()
    this.#copy.close()
  }
}

function isSameRow(row: MessageRow, expected: MessageRow): boolean {
  return row.every((value, index) =>
    index === 10 ? bodyOf(row).equals(bodyOf(expected)) : value === expected[index],
  )
}
