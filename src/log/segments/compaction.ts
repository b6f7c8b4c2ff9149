/**
 * Compaction: a sealed segment is written again without the messages that nobody needs, so that one idle pipe does not
 * keep the space of what others have long delivered. What of each pipe goes is always the oldest part, up to its low
 * watermark; the pipe's base position moves there, so running totals, cursors and marks count on as before.
 *
 * It runs in slices between two frames, on the writer's own thread: one thread decides about files, so a segment can
 * not be dropped and compacted at once, and a commit waits for one slice at most. A slice is a transaction of its own,
 * fsynced, so there is no large fsync at the end. (A thread of its own would not be faster where it matters: both wait
 * for the same disk.) It costs what is kept, which is under half of the segment, not what goes.
 *
 * The file gets a new name, not the old one's: readers may have the old one open with its -wal and -shm, which SQLite
 * finds by name, and would take for the new file's. They go on in the old file, which lacks nothing, until they look at
 * the directory again. A compacted segment is never written, so it has no WAL of its own.
 *
 *   step                                            found after a crash right after it
 *   1 copy slice by slice to compacted-segment.tmp  the old segment and a .tmp file: removed
 *   2 fsync it                                      as above
 *   3 compare it with the old segment               as above
 *   4 rename it to <first seq>.<generation>.db      both: the newer generation is whole, the older is removed (or, after
 *                                                   a power cut, the rename is undone: as after 1)
 *   5 fsync the directory                           both, as above; only now may the old one go
 *   6 unlink the old .db, -wal, -shm                the new one; -wal and -shm without a .db are removed
 *                                                   (a power cut can undo an unlink: both, as above)
 *
 * Between two slices frames are committed, to the segment being written: the one that is compacted is sealed, and nothing of
 * them concerns it. A frame that waits for slices is not written yet, and not acknowledged: a crash then loses nothing of it.
 *
 * A start does not continue a half-made copy. It is written without a journal, which would double what a slow, full disk has
 * to write; so a crash within a slice can leave any page half written, and checking every row of it costs as much as copying
 * it. Nor would the copy still be wanted as it is: lanes have moved on, and each pipe's base is its first row. What is
 * repeated is at most one segment's half, and nothing waits for it (`slicesAtOnce` in space-keeper.ts).
 */
import assert from 'node:assert'
import path from 'node:path'
import type Database from 'better-sqlite3'
import { compactedName, type SegmentName } from './layout.ts'
import { bodyOf, insertMessage, type MessageRow, selectMessages } from './message-row.ts'
import type { PipePosition } from './position.ts'
import { RewriteFile } from './rewrite-file.ts'
import { lacksEnd, type PipeInSegment, readSegmentContent } from './segment-facts.ts'
import { insertHoles, insertSegmentRow, isSalvaged, markSalvaged, openReadOnly } from './segment-file.ts'
import { ContradictionError } from './sqlite-errors.ts'

const KiB = 1024
/** A commit waits for one slice at most: about as long as for a frame of this size before it. */
const sliceBytes = 512 * KiB

export interface CompactionPlan {
  dir: string
  source: SegmentName
  /** The next segment is named after it. */
  lastSeq: number
  lastClockMs: number
  /** Where each pipe stands in the next segment before its first message there. */
  behind: ReadonlyMap<string, PipePosition>
  /** Messages of the pipe up to here go; Infinity: nothing of the pipe stays. */
  deliveredThrough(pipeId: string): number
}

export class Compaction {
  readonly target: SegmentName
  readonly #plan: CompactionPlan
  readonly #source: Database.Database
  readonly #copy: RewriteFile
  readonly #pipes: PipeInSegment[]
  readonly #isSalvaged: boolean
  #pipeIndex = 0
  #cursor = 0
  /** The pipe's total at the cursor. */
  #messages = 0
  #copied = 0
  #compared = 0
  #phase: 'copy' | 'compare' | 'complete' | 'closed' = 'copy'

  /** Begins the new file. Throws what SQLite and the file system throw, and leaves nothing then. */
  constructor(plan: CompactionPlan) {
    const { firstSeq, generation } = plan.source
    this.#plan = plan
    this.target = { firstSeq, generation: generation + 1 }
    this.#source = openReadOnly(plan.dir, plan.source)
    try {
      this.#isSalvaged = isSalvaged(this.#source)
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

  /** One slice of the work. True when nothing is left but `swap`. Throws as the constructor does; then `abandon`. */
  step(): boolean {
    if (this.#phase === 'copy') this.#copySlice()
    else if (this.#phase === 'compare') this.#compareSlice()
    return this.#phase === 'complete'
  }

  /** The new file takes the old one's place; the caller unlinks that. */
  swap(): void {
    assert(this.#phase === 'complete')
    this.#close()
    this.#copy.rename(this.#plan.dir, this.target)
  }

  /** Leaves the segment as it is. */
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
      // The same segment: the next one refers to it by its id.
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

  /** Each with its base where what goes of it ends. */
  #keptPipes(pipes: readonly PipeInSegment[]): PipeInSegment[] {
    const lastDelivered = this.#source.prepare(
      'SELECT seq, messages, records, bytes FROM message WHERE pipe = ? AND seq <= ? ORDER BY seq DESC LIMIT 1',
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
    const read = this.#source.prepare(`${selectMessages} WHERE pipe = ? AND seq > ? ORDER BY seq`).raw()
    const insert = this.#copy.db.prepare(insertMessage)
    let bytes = 0
    while (this.#pipeIndex < this.#pipes.length) {
      const { no } = this.#pipes[this.#pipeIndex]!
      for (const row of read.iterate(no, this.#cursor) as IterableIterator<MessageRow>) {
        this.#checkFollows(row)
        insert.run(...row)
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

  /** The rows are found through an index: one that it lacks must not be left out of what replaces them. */
  #checkFollows(row: MessageRow): void {
    const messages = row[6]
    if (!this.#isSalvaged && messages !== this.#messages + 1) throw this.#contradiction()
    this.#messages = messages
  }

  #contradiction(): Error {
    return new ContradictionError(`${this.#source.name}: messages are not found: the file is damaged`)
  }

  /** Row by row with the old segment, as they are on disk: a copy that went wrong must not replace anything. */
  #compareSlice(): void {
    const { db } = this.#copy
    const read = db.prepare(`${selectMessages} WHERE seq > ? ORDER BY seq`).raw()
    const original = this.#source.prepare(`${selectMessages} WHERE seq = ?`).raw()
    let bytes = 0
    for (const row of read.iterate(this.#cursor) as IterableIterator<MessageRow>) {
      const expected = original.get(row[0]) as MessageRow | undefined
      assert(expected !== undefined && isSameRow(row, expected), 'a compacted message is the message it was')
      this.#cursor = row[0]
      this.#compared += 1
      bytes += bodyOf(row).length
      if (bytes >= sliceBytes) return
    }
    assert(this.#compared === this.#copied, 'a compacted segment holds every message that was copied')
    this.#phase = 'complete'
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
