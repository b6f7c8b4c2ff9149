/**
 * Salvage rewrites a damaged segment with everything in it that can still be read. Readers find a gap where messages
 * are lost; the running totals in the rows show how many messages of which pipe are missing.
 *
 * The damaged files are never deleted: they go to `segments` in the quarantine directory. They are linked there before
 * the original names are removed, so that they exist at all times. A file that is not this segment (of another data
 * directory, another segment, or no segment at all) or has no readable message goes there too, and leaves a gap.
 *
 *   step                                             found after a crash right after it
 *   1 read its head, copy slice by slice to          the damaged segment and a .tmp file: that is removed, and it is
 *     salvaged-segment.tmp                           found damaged again
 *   2 fsync it, read it back, check every row        as above
 *   3 link .db and -wal into the quarantine,         as above; the links in the quarantine stay and are reused
 *     fsync the directories
 *   4 rename it to <first seq>.<generation>.db,      both generations: the newer one is complete, the older is removed
 *     fsync the directory                            (it is in the quarantine as well)
 *   5 unlink the old .db, -wal, -shm                 the new one
 *   If nothing was salvaged, step 4 is omitted: after 5 the segment is missing.
 */
import assert from 'node:assert'
import path from 'node:path'
import type { BufferIdentity } from '../buffer.ts'
import {
  checkedRows,
  insertMessage,
  rowChecksum,
  type SegmentName,
  salvagedName,
  segmentFile,
} from './layout.ts'
import { openPageFile, type PageFile } from './page-file.ts'
import { quarantineSegment } from './quarantined-segment.ts'
import { type FoundHead, type FoundMessage, findHead, findMessages } from './recover-rows.ts'
import { RewriteFile } from './rewrite-file.ts'
import { SalvagedPipes, type SalvageSource } from './salvaged-pipes.ts'
import { insertHoles, insertSegmentRow, markSalvaged, newIdentity } from './segment-file.ts'

/** A commit waits for at most one slice: this many bytes of rows, or a number of pages without rows. */
const sliceBytes = 512 * 1024

export interface SalvagePlan extends SalvageSource {
  dir: string
  quarantineDir: string
  /** The segment's last seq, from which the next segment got its name. Null for the newest segment. */
  lastSeq: number | null
  /** The newest seq known anywhere. The newest segment held messages at least up to it. */
  knownSeq: number
  /** Used when the segment no longer states it. */
  begunClockMs: number
  lastClockMs: number
  identity: BufferIdentity | null
}

export interface SalvageResult {
  /** `foreign`: the file does not belong here. `nothing`: no message could be read. */
  outcome: 'salvaged' | 'foreign' | 'nothing'
  /** The newest seq that it covers, kept or lost. */
  lastSeq: number
  keptMessages: number
  lostMessages: number
  /** The number of pages that the disk could not read. */
  unreadablePages: number
}

export interface SalvagedSegment extends SalvageResult {
  name: SegmentName
}

export class Salvage {
  readonly target: SegmentName
  readonly #plan: SalvagePlan
  readonly #file: PageFile
  readonly #target: RewriteFile
  readonly #work: Generator<void>
  readonly #pipes: SalvagedPipes
  #kept = 0
  #lost: number
  #outcome: SalvageResult['outcome'] = 'nothing'
  #phase: 'working' | 'complete' | 'closed' = 'working'

  /** Throws errors of SQLite and the file system, after removing what it created. */
  constructor(plan: SalvagePlan) {
    const { firstSeq, generation } = plan.source
    this.#plan = plan
    this.#pipes = new SalvagedPipes(plan)
    this.#lost = gapBetween(firstSeq - 1, (plan.lastSeq ?? plan.knownSeq) + 1)
    this.target = { firstSeq, generation: generation + 1 }
    this.#target = new RewriteFile(path.join(plan.dir, salvagedName))
    try {
      this.#file = openPageFile(segmentFile(plan.dir, plan.source))
    } catch (error) {
      this.#target.remove()
      throw error
    }
    this.#work = this.#run()
  }

  get source(): SegmentName {
    return this.#plan.source
  }

  /** Does one slice. Returns true when only `finish` is left. Throws like the constructor; then call `abandon`. */
  step(): boolean {
    if (this.#phase === 'working' && this.#work.next().done === true) this.#phase = 'complete'
    return this.#phase === 'complete'
  }

  /** Replaces the damaged file with the salvaged one. The caller unlinks the old file. */
  finish(): SalvageResult {
    assert(this.#phase === 'complete')
    const { dir, quarantineDir, source } = this.#plan
    this.#close()
    quarantineSegment(dir, source, quarantineDir)
    if (this.#outcome === 'salvaged') this.#target.rename(dir, this.target)
    else this.#target.remove()
    return {
      outcome: this.#outcome,
      lastSeq: this.#lastSeq(),
      keptMessages: this.#kept,
      lostMessages: this.#lost,
      unreadablePages: this.#file.unreadable.size,
    }
  }

  /** Removes the copy and leaves the segment as it is. */
  abandon(): void {
    this.#close()
    this.#target.remove()
  }

  /** All steps up to `finish`. Each yield ends a slice. */
  *#run(): Generator<void> {
    const head = yield* this.#head()
    if (isForeign(head, this.#plan)) {
      this.#outcome = 'foreign'
      return
    }
    yield* this.#copy(head)
    if (this.#kept === 0) return
    this.#target.slice(() => this.#writeHead(head))
    this.#target.readBack()
    yield
    const gaps = yield* this.#check()
    this.#lost = this.#pipes.lostMessages(head.bases) ?? gaps
    this.#outcome = 'salvaged'
  }

  *#head(): Generator<void, FoundHead> {
    const search = findHead(this.#file)
    for (;;) {
      const { done, value } = search.next()
      if (done === true) return value
      yield
    }
  }

  *#copy(head: FoundHead): Generator<void> {
    const { source, before, after } = this.#plan
    const lastSeq = this.#plan.lastSeq ?? Number.MAX_SAFE_INTEGER
    const known = new Set([...before.keys(), ...(after?.keys() ?? [])])
    const messages = findMessages(this.#file, head, { firstSeq: source.firstSeq, lastSeq }, known)
    const insert = this.#target.db.prepare(`${insertMessage} ON CONFLICT DO NOTHING`)
    const insertOne = (message: FoundMessage) => {
      const { seq, pipeId, msgId, receivedMs, recordCount, messages, records, bytes } = message
      const { idempotencyKey, body, bodyHash, bodyCrc } = message
      const pipeNo = this.#pipes.numberOf(pipeId)
      const crc = rowChecksum(message, bodyCrc)
      const totals = [messages, records, bytes]
      const { changes } = insert.run(
        ...[seq, pipeNo, msgId, receivedMs, recordCount, crc, ...totals, idempotencyKey, body, bodyHash],
      )
      if (changes === 0) return
      this.#kept += 1
      this.#pipes.keep(message)
    }
    for (let isDone = false; !isDone; ) {
      this.#target.slice(() => {
        for (let bytes = 0; bytes < sliceBytes; ) {
          const { done, value } = messages.next()
          isDone = done === true
          if (isDone || value === null) return
          insertOne(value)
          bytes += value.body.length
        }
      })
      yield
    }
  }

  #writeHead(head: FoundHead): void {
    const { source, identity } = this.#plan
    const { db } = this.#target
    const insert = db.prepare('INSERT INTO pipe VALUES (?, ?, ?, ?, ?, ?)')
    for (const { no, pipeId, base } of this.#pipes.positions(head.bases)) {
      insert.run(no, pipeId, base.seq, base.messages, base.records, base.bytes)
    }
    insertSegmentRow(db, head.identity ?? newIdentity(identity, source.firstSeq, null), {
      begunClockMs: head.begunClockMs ?? this.#plan.begunClockMs,
      lastClockMs: head.lastClockMs ?? this.#plan.lastClockMs,
      lastSeq: this.#lastSeq(),
    })
    markSalvaged(db)
    // Stale pages can repeat a hole.
    insertHoles(db, [...new Map(head.holes.map((hole) => [hole.firstSeq, hole])).values()])
  }

  #lastSeq(): number {
    const { source, lastSeq, knownSeq } = this.#plan
    if (lastSeq !== null) return lastSeq
    return Math.max(source.firstSeq - 1, knownSeq, this.#pipes.newestSeq())
  }

  /** Reads every row back from disk. Returns how many seqs are missing between them and up to the end. */
  *#check(): Generator<void, number> {
    const { firstSeq } = this.#plan.source
    let cursor = firstSeq - 1
    let checked = 0
    let missing = 0
    for (let isDone = false; !isDone; ) {
      let bytes = 0
      isDone = true
      for (const { seq, crc, foundCrc, body } of checkedRows(this.#target.db, cursor)) {
        assert(crc === foundCrc, 'a salvaged message is the message it was')
        missing += gapBetween(cursor, seq)
        cursor = seq
        checked += 1
        bytes += body.length
        isDone = bytes < sliceBytes
        if (!isDone) break
      }
      yield
    }
    assert(checked === this.#kept, 'a salvaged segment holds every message that was found')
    return missing + gapBetween(cursor, this.#lastSeq() + 1)
  }

  #close(): void {
    if (this.#phase === 'closed') return
    this.#phase = 'closed'
    this.#work.return(undefined)
    this.#file.close()
    this.#target.close()
  }
}

/** True when the file is not part of this log, or belongs to another position in it. */
function isForeign({ identity }: FoundHead, plan: SalvagePlan): boolean {
  if (identity === null) return false
  const isOfOther =
    plan.identity !== null && identity.dataDirId !== null && identity.dataDirId !== plan.identity.dataDirId
  return isOfOther || identity.firstSeq !== plan.source.firstSeq
}

/** Between two epochs there are unassigned seqs, more than any number of messages. */
const minEpochGap = 2 ** 39

function gapBetween(seq: number, next: number): number {
  const gap = Math.max(0, next - seq - 1)
  return gap < minEpochGap ? gap : 0
}
