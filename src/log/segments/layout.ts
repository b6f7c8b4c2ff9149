/**
 * The buffer's directory: which files there are, how they are named, and what a crash can leave. The rows of messages in
 * the files, and how those of one pipe are found, are at the end.
 *
 *   00000000000000000001.db      a segment: every seq in it is at least its name and less than the next segment's name
 *   00000000000000000001.2.db    the same segment, rewritten twice: compaction, salvage, erasing
 *   …-wal, …-shm                 SQLite's files of the segment being written, and of one that had an open reader
 *                                when it was rolled; a sealed segment has none: see sealing.ts
 *   next-segment.tmp             a segment being created; it is renamed when it is complete and fsynced
 *   compacted-segment.tmp        a segment being compacted, likewise: see compaction.ts
 *   salvaged-segment.tmp         the readable content of a damaged segment, likewise: see salvage.ts
 *   high-water                   newest acknowledged seq and the buffer's clock: see high-water.ts
 *   idempotency.db               derived look-up of idempotency keys
 *   ….set-aside-…                a derived file that could not be read, until the operator removes it
 *   ballast                      disk space to release when the disk is full
 *
 * A new segment is named (last seq of the one before) + 1, so a reader finds it by opening that file.
 *
 * The state after a crash, step by step, and the action of the next start:
 *
 *   rolling to a new segment                        found after a crash right after it
 *   1 write next-segment.tmp, move its WAL into     a .tmp file and its WAL: removed; the old segment continues
 *     it, fsync it, check that it is complete
 *   2 rename it to its name                         both segments; the new one is empty (or, after a power cut, the
 *                                                   rename is undone: as after 1). No message can be in it yet
 *   3 open the new one: its -wal and its -shm       as after 2. After a power cut a -wal can be there without its
 *                                                   segment: it has no frames and is removed
 *   4 fsync the directory                           both segments: the new one is written from here on
 *     where a full disk has no room for 3: unlink     the old one continues with seqs that the new name claims. A
 *     it, fsync the directory, and end here           new one that comes back (a power cut undid the unlink) is empty
 *                                                     and begins within the old one: removed at the start
 *   5 write the old one's end into it, move its     as after 4: the end is estimated, the WAL is moved at the start
 *     WAL into it, leave WAL mode, close it
 *   6 write and fsync high-water                    it is older than the log
 *   7 first commit in the new one                   normal
 *   (while the old one has a reader, or a full disk has no room for the content of its WAL, step 5 waits; the others do not)
 *
 *   dropping a segment
 *   1 record, fsynced, that it is dropped: in       the segment is there, inside a hole or below the oldest kept seq:
 *     high-water when it is the oldest, else as a   it is dropped again. (A full disk can leave 1 out: then a crash
 *     hole in the segment being written             before the next roll makes its range look missing, not dropped)
 *   2 unlink .db                                    -wal and -shm without a .db: removed
 *   3 unlink -wal, 4 unlink -shm                    as above
 *   (a power cut can undo an unlink: the segment is there again, and is dropped again)
 *
 *   compacting a segment: compaction.ts; deleting records from it: erasing.ts
 *
 *   committing a frame
 *   1 COMMIT (fsync of the WAL)                     the messages are there, without a response: they are delivered;
 *                                                   their idempotency keys are derived again from the rows
 *   2 write high-water, 3 derive keys, 4 respond    the messages are there
 *   Killed within 1, the messages can be in a WAL that was never synced: the start makes them durable before anything
 *   reads them. See open-segment-log.ts.
 */
import { randomUUID } from 'node:crypto'
import { existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'
import { crc32 } from 'node:zlib'
import type Database from 'better-sqlite3'

const segmentName = /^(\d{20})(?:\.([1-9]\d{0,8}))?\.db$/
const strayName = /^(\d{20}(?:\.\d+)?\.db)-(?:wal|shm|journal)$/
export const unfinishedName = 'next-segment.tmp'
export const compactedName = 'compacted-segment.tmp'
export const salvagedName = 'salvaged-segment.tmp'

/** SQLite's default, for segments of small messages, for small segments and for rewritten ones. */
export const smallPageBytes = 4096

/**
 * A message of 50 KB takes 12 pages of 4 KiB, and each page is written to the WAL and moved out of it by separate
 * calls: 81 µs of CPU, 44 µs with 16 KiB. Small messages share their pages with others, and a commit writes whole pages.
 * Bytes written per byte of the bodies, with 4 and 16 KiB, 32 messages per commit: 3.2 and 4.9 for 600 bytes, 2.5 and 2.7
 * for 4 KB, 2.1 and 2.4 for 16 KB, 2.1 and 2.1 for 50 KB.
 */
export const largePageBytes = 16_384
const minMeanForLargePages = 32 * 1024

/** A smaller segment would consist of little more than the first page of each of its tables. */
const minBytesForLargePages = 16 * 1024 * 1024

/** The page size of a new segment. `meanBytes` is the mean size of the messages in the one before; 0 if there is none. */
export function pageBytesFor(segmentMaxBytes: number, meanBytes: number): number {
  const isLarge = segmentMaxBytes >= minBytesForLargePages && meanBytes >= minMeanForLargePages
  return isLarge ? largePageBytes : smallPageBytes
}

/** A WAL of this size has no frames. */
const walHeaderBytes = 32

export interface SegmentName {
  firstSeq: number
  /** How often the segment was rewritten. The highest generation is the segment; lower ones are leftovers. */
  generation: number
}

export function segmentFile(dir: string, { firstSeq, generation }: SegmentName): string {
  const suffix = generation === 0 ? '' : `.${generation}`
  return path.join(dir, `${String(firstSeq).padStart(20, '0')}${suffix}.db`)
}

/** All segments in order, each in its newest generation. */
export function listSegments(dir: string): SegmentName[] {
  const newest = new Map<number, SegmentName>()
  for (const name of allSegmentFiles(dir)) {
    const known = newest.get(name.firstSeq)
    if (known === undefined || known.generation < name.generation) newest.set(name.firstSeq, name)
  }
  return [...newest.values()].sort((a, b) => a.firstSeq - b.firstSeq)
}

/** The files of every generation. */
export function allSegmentFiles(dir: string): SegmentName[] {
  return readdirSync(dir).flatMap((file) => {
    const name = parseSegmentName(file)
    return name === null ? [] : [name]
  })
}

/** Null when the file is not a segment. */
function parseSegmentName(file: string): SegmentName | null {
  const match = segmentName.exec(file)
  return match === null ? null : { firstSeq: Number(match[1]), generation: Number(match[2] ?? 0) }
}

/**
 * Segments whose file is missing although their WAL has frames, oldest first. A crash leaves such a WAL only when
 * another generation replaced the file, or when the segment was dropped: see the tables above.
 */
export function lostFiles(dir: string): SegmentName[] {
  const kept = new Set(allSegmentFiles(dir).map(({ firstSeq }) => firstSeq))
  return readdirSync(dir)
    .flatMap((file) => {
      const name = file.endsWith('-wal') ? parseSegmentName(file.slice(0, -'-wal'.length)) : null
      const isLost =
        name !== null && !kept.has(name.firstSeq) && fileBytes(path.join(dir, file)) > walHeaderBytes
      return isLost ? [name] : []
    })
    .sort((a, b) => a.firstSeq - b.firstSeq)
}

/** Removes files that a crash left half created or half dropped. Only the writer calls this, before it opens anything. */
export function removeLeftovers(dir: string): void {
  const kept = new Map(listSegments(dir).map(({ firstSeq, generation }) => [firstSeq, generation]))
  for (const name of allSegmentFiles(dir)) {
    if (kept.get(name.firstSeq) !== name.generation) unlinkSegment(dir, name)
  }
  for (const name of readdirSync(dir)) {
    const ofSegment = strayName.exec(name)?.[1]
    const isStray = ofSegment !== undefined && !existsSync(path.join(dir, ofSegment))
    const isUnfinished = [unfinishedName, compactedName, salvagedName].some((tmp) => name.startsWith(tmp))
    if (isStray || isUnfinished) rmSync(path.join(dir, name))
  }
}

/**
 * Renames a derived file that cannot be read. It is not deleted, because its bad sectors would be assigned to the next
 * file. The operator deletes it.
 */
export function setAsideUnreadable(file: string): void {
  renameSync(file, `${file}.set-aside-${randomUUID()}`)
}

/** Removes the .db first: without it, the other files are recognized as leftovers. */
export function unlinkSegment(dir: string, name: SegmentName): void {
  const file = segmentFile(dir, name)
  for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true })
}

/** Disk space of a segment including its WAL; 0 when it is gone. */
export function segmentBytes(dir: string, name: SegmentName): number {
  const file = segmentFile(dir, name)
  return fileBytes(file) + fileBytes(`${file}-wal`)
}

export function fileBytes(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0
}

/**
 * Reads complete rows of the table `message`, with all columns in the table's order, so that a row can be written to
 * another segment unchanged. For code that reads whole segments; delivery reads by pipe, through segment-connection.ts.
 */
export type MessageRow = [
  ...[seq: number, pipeNo: number, msgId: string, receivedMs: number, recordCount: number, crc: number],
  ...[messages: number, records: number, bytes: number],
  ...[idempotencyKey: string | null, body: Buffer, bodyHash: string | null],
]

export const insertMessage = 'INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'

const columns = `seq, pipe, msg_id, received_ms, record_count, crc, messages, records, bytes, idempotency_key, body, body_hash`

/** `from` is a FROM clause with the columns of the table `message`. */
export function selectMessages(from = 'message'): string {
  return `SELECT ${columns} FROM ${from}`
}

/** `pipeId` is the pipe with the number in the row. */
export function headerOf(row: MessageRow, pipeId: string): RowHeader {
  const [seq, , msgId, receivedMs, recordCount, , messages, records, bytes, idempotencyKey, , bodyHash] = row
  // biome-ignore format: the order of the columns, at a glance.
  return { seq, pipeId, msgId, receivedMs, recordCount, messages, records, bytes, idempotencyKey, bodyHash }
}

/** A row with its stored checksum and the checksum of its columns. */
export interface CheckedRow extends RowHeader {
  pipeNo: number
  crc: number
  foundCrc: number
  body: Buffer
}

/**
 * Yields rows in order, including those in the WAL. The caller must finish or leave the loop before it makes another
 * call.
 */
export function* checkedRows(db: Database.Database, afterSeq = 0): Generator<CheckedRow> {
  // Reads the table instead of its index, which has the same two columns and can be the damaged part.
  const pipes = db.prepare('SELECT no, pipe_id FROM pipe NOT INDEXED').raw().all() as [number, string][]
  const pipeIds = new Map(pipes)
  const rows = db.prepare(`${selectMessages()} WHERE seq > ? ORDER BY seq`).raw().iterate(afterSeq)
  for (const row of rows as IterableIterator<MessageRow>) {
    const [, pipeNo, , , , crc] = row
    const body = bodyOf(row)
    const header = headerOf(row, pipeIds.get(pipeNo) ?? '')
    const foundCrc = rowChecksum(header, crc32(body))
    yield { ...header, pipeNo, crc, foundCrc, body }
  }
}

export function bodyOf(row: MessageRow): Buffer {
  return row[10]
}

/** Everything in a row except its body. */
export interface RowHeader {
  seq: number
  pipeId: string
  msgId: string
  receivedMs: number
  recordCount: number
  /** Running totals of the pipe. */
  messages: number
  records: number
  bytes: number
  idempotencyKey: string | null
  bodyHash: string | null
}

export function rowChecksum(header: RowHeader, bodyCrc: number): number {
  return crc32(headerText(header), bodyCrc)
}

/** One column per line; the only free text is last, so that two different headers never have the same text. */
function headerText(header: RowHeader): string {
  const { seq, pipeId, msgId, receivedMs, recordCount, messages, records, bytes } = header
  const { idempotencyKey, bodyHash } = header
  const key = idempotencyKey === null ? '' : `=${idempotencyKey}`
  return `${seq}\n${pipeId}\n${msgId}\n${receivedMs}\n${recordCount}\n${messages}\n${records}\n${bytes}\n${bodyHash ?? ''}\n${key}`
}

/** Creates the index of a segment that lacks it. */
export const pipeIndex = 'CREATE INDEX IF NOT EXISTS message_by_pipe ON message (pipe)'

export function hasPipeIndex(db: Database.Database): boolean {
  const name = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = 'message_by_pipe'")
  return name.get() !== undefined
}

/**
 * Finds the messages of one pipe in a segment.
 *
 * A segment that is being written has no index by pipe. Such an index is sorted by pipe, so a commit writes one page of
 * it for each pipe in the commit: with 20 pipes and pages of 16 KiB, 320 KiB for 19 KB of records. The index is created
 * after the segment was rolled and before it is sealed (sealing.ts). Until then each reading connection keeps a list
 * of its own: a temporary table of (pipe, seq) in its memory. The connection extends the list, before it reads by pipe,
 * by the rows that were committed since.
 *
 *   segment                                       has the index   found by
 *   being written                                 no              each reader's list; the writer's PipeTable for totals
 *   rolled, its index not created yet             no              each reader's list
 *   rolled, with readers; sealed                  yes             the index
 *   compacted, salvaged                           yes             the index
 *   being written, begun by version 0.2.0         yes             the index, which every commit maintains
 *
 * 1 A list is derived from committed rows of the table only. So it needs no protocol between threads, and a crash leaves
 *   nothing of it.
 * 2 A segment is never without both the index and a WAL: it leaves WAL mode after the index is committed. So a start
 *   recognizes a segment that can lack its index, and creates it before it reads the segment (sealing.ts).
 * 3 Rows are appended in the order of their seqs. So a list is complete up to the seq that it was extended to.
 * 4 A connection decides once, when it is opened, whether it uses the index or a list. Both remain correct: rows are
 *   never changed or removed.
 *
 *   a crash                                       found by the next start
 *   before the roll is complete                   no index: the segment is continued. Totals of pipes are read in one scan
 *   after the roll, before the index is committed no index, in WAL mode: the start creates it (rule 2)
 *   after it, before the segment leaves WAL mode  the index, in WAL mode: the start seals the segment
 *
 * A list takes about 11 bytes per message, and a segment has at most 262,144 messages (buffer-writer.ts): 3 MB per thread
 * that reads. Extending it takes 0.6 µs per message and 2 µs when there is nothing new, so a reader that opens a full
 * segment spends 160 ms once. Creating the index takes 0.4 µs per message.
 */
export class PipeRows {
  /** FROM clause of statements that read whole rows of a pipe, in the order of seqs. */
  readonly rows: string
  /** FROM clause of statements that read only seqs. */
  readonly seqs: string
  /** The column with the number of the pipe, in both clauses. */
  readonly pipe: string
  readonly #newest: Database.Statement
  readonly #extend: Database.Statement | null
  #throughSeq = 0

  constructor(db: Database.Database) {
    const isIndexed = hasPipeIndex(db)
    this.rows = isIndexed ? 'message' : 'listed CROSS JOIN message USING (seq)'
    this.seqs = isIndexed ? 'message' : 'listed'
    this.pipe = isIndexed ? 'pipe' : 'listed_pipe'
    this.#newest = db.prepare('SELECT max(seq) FROM message').pluck()
    this.#extend = isIndexed ? null : createList(db)
  }

  /** Call before statements that read by pipe. */
  catchUp(): void {
    if (this.#extend === null) return
    const newest = (this.#newest.get() as number | null) ?? 0
    if (newest <= this.#throughSeq) return
    this.#extend.run(this.#throughSeq, newest)
    this.#throughSeq = newest
  }
}

/** In a damaged segment a seq can occur twice. The totals of the rows then show what is missing. */
function createList(db: Database.Database): Database.Statement {
  db.exec(`CREATE TEMP TABLE listed (
    listed_pipe INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (listed_pipe, seq)) WITHOUT ROWID`)
  return db.prepare(
    'INSERT OR IGNORE INTO listed SELECT pipe, seq FROM message NOT INDEXED WHERE seq > ? AND seq <= ?',
  )
}

/** Bytes of a message on disk in addition to its body: other columns, index, unused space in pages. */
const rowBytes = 120

export function onDisk({ messages, bytes }: { messages: number; bytes: number }): number {
  return bytes + messages * rowBytes
}
