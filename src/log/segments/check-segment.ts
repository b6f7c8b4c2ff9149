/**
 * Verifies one segment: its structure (by SQLite), the checksum of every row, and the running totals of each pipe. It
 * changes nothing and can run next to a daemon that writes the file: it sees the state at its start.
 */
import type Database from 'better-sqlite3'
import { errorCode } from '../../platform/error-code.ts'
import { counted } from '../../platform/quantities.ts'
import { type CheckedRow, checkedRows, type SegmentName, segmentBytes } from './layout.ts'
import type { PipePosition } from './position.ts'
import { readHoles } from './segment-facts.ts'
import { isSalvaged, openReadOnly, type SeqRange } from './segment-file.ts'
import { isDamage, isGone } from './sqlite-errors.ts'

export interface SegmentCheck {
  name: SegmentName
  /** Disk space, including the WAL. */
  bytes: number
  /** Null when it cannot be read. */
  identity: StatedIdentity | null
  /** The newest seq that the segment is known to have held; null when none is known. */
  lastSeq: number | null
  messages: number
  /** Messages missing according to the totals of their pipes, in a segment that was salvaged or rewritten. */
  lostMessages: number
  pipes: Map<string, PipeRange>
  holes: SeqRange[]
  /** The file is readable but belongs to another log: it has another name or another data directory. */
  isForeign: boolean
  /** Other problems, worded for the operator. */
  problems: string[]
}

/** The identity that a segment states, which can be wrong. Null when it states none. */
export interface StatedIdentity {
  segmentId: string | null
  previousSegmentId: string | null
  dataDirId: string | null
  /** From its own row, not from its name. */
  firstSeq: number | null
}

/** One pipe in one segment: its positions before the segment and at the segment's end. */
export interface PipeRange {
  base: PipePosition
  last: PipePosition
}

/** Bytes of bodies between two progress reports. */
const reportEveryBytes = 4 * 1024 * 1024
/** Inner pages are read repeatedly, bodies once. */
const cacheKiB = 8192
/** The number of damaged rows that are listed. */
const namedRows = 5

/** `onProgress` receives the bytes checked since its last call. Throws when the segment was removed (isGone). */
export function checkSegment(
  dir: string,
  name: SegmentName,
  onProgress: (bytes: number) => void = () => {},
): SegmentCheck {
  return inspect(dir, name, (db, check) => {
    // One transaction, so that commits of a running daemon are not seen.
    db.exec('BEGIN')
    checkStructure(db, check)
    const pipes = readHead(db, check)
    checkRows(db, check, pipes, onProgress)
  })
}

/** Reads only a few pages: whether the segment can be opened, and what it says about itself. Throws like `checkSegment`. */
export function inspectSegment(dir: string, name: SegmentName): SegmentCheck {
  return inspect(dir, name, (db, check) => {
    readHead(db, check)
    const newest = db.prepare<[], number | null>('SELECT max(seq) FROM message').pluck().get() ?? null
    if (newest !== null) check.lastSeq = Math.max(check.lastSeq ?? 0, newest)
  })
}

function inspect(
  dir: string,
  name: SegmentName,
  look: (db: Database.Database, check: SegmentCheck) => void,
): SegmentCheck {
  const check: SegmentCheck = {
    name,
    bytes: segmentBytes(dir, name),
    identity: null,
    lastSeq: null,
    messages: 0,
    lostMessages: 0,
    pipes: new Map(),
    holes: [],
    isForeign: false,
    problems: [],
  }
  let db: Database.Database | null = null
  try {
    db = openReadOnly(dir, name)
    db.pragma(`cache_size = -${cacheKiB}`)
    look(db, check)
  } catch (error) {
    if (!isUnreadable(error)) throw error
    if (check.problems.length === 0) check.problems.push(`cannot be read: ${(error as Error).message}`)
  } finally {
    db?.close()
  }
  return check
}

/** SQLite's check of its pages and indexes. It does not read bodies. */
function checkStructure(db: Database.Database, check: SegmentCheck): void {
  const said = db.prepare('PRAGMA integrity_check(1)').pluck().all() as string[]
  if (said[0] === 'ok') return
  check.problems.push(`its structure is damaged: ${said[0]?.replaceAll(/\s+/g, ' ').trim() ?? 'no answer'}`)
}

interface Pipe extends PipeRange {
  id: string
  /** The number of damaged rows since the last sound one. */
  damaged: number
}

/** Reads everything except the messages. Returns the pipes by their numbers. */
function readHead(db: Database.Database, check: SegmentCheck): Map<number, Pipe> {
  const segment = db.prepare('SELECT * FROM segment').get() as Record<string, unknown> | undefined
  if (segment === undefined)
    throw Object.assign(new Error('it has no description'), { code: 'SQLITE_CORRUPT' })
  const text = (name: string) => (typeof segment[name] === 'string' ? segment[name] : null)
  const number = (name: string) => (typeof segment[name] === 'number' ? segment[name] : null)
  check.identity = {
    segmentId: text('segment_id'),
    previousSegmentId: text('previous_segment_id'),
    dataDirId: text('data_dir_id'),
    firstSeq: number('first_seq'),
  }
  check.lastSeq = number('last_seq')
  check.holes = readHoles(db)
  const rows = db
    .prepare('SELECT no, pipe_id, base_seq, base_messages, base_records, base_bytes FROM pipe')
    .raw()
    .all() as [number, string, number, number, number, number][]
  const pipes = new Map<number, Pipe>()
  for (const [no, id, seq, messages, records, bytes] of rows) {
    const base = { seq, messages, records, bytes }
    const pipe = { id, base, last: base, damaged: 0 }
    pipes.set(no, pipe)
    check.pipes.set(id, pipe)
  }
  return pipes
}

/** The ranges that retention has dropped, as recorded by the newest segment; none when it cannot be read. */
export function holesIn(dir: string, name: SegmentName): SeqRange[] {
  let db: Database.Database | null = null
  try {
    db = openReadOnly(dir, name)
    return readHoles(db)
  } catch (error) {
    if (!isUnreadable(error) && !isGone(error)) throw error
    return []
  } finally {
    db?.close()
  }
}

function checkRows(
  db: Database.Database,
  check: SegmentCheck,
  pipes: ReadonlyMap<number, Pipe>,
  onProgress: (bytes: number) => void,
): void {
  const seen = new RowCheck(pipes, isSalvaged(db))
  let unreported = 0
  try {
    for (const row of checkedRows(db)) {
      seen.row(row)
      unreported += row.body.length
      if (unreported < reportEveryBytes) continue
      onProgress(unreported)
      unreported = 0
    }
  } finally {
    onProgress(unreported)
    seen.writeTo(check)
  }
}

/** Collects findings while the rows of a segment are read in order. */
class RowCheck {
  readonly #pipes: ReadonlyMap<number, Pipe>
  readonly #isSalvaged: boolean
  readonly #damagedSeqs: number[] = []
  #rows = 0
  #lastSeq = 0
  #damaged = 0
  #missing = 0

  constructor(pipes: ReadonlyMap<number, Pipe>, isSalvaged: boolean) {
    this.#pipes = pipes
    this.#isSalvaged = isSalvaged
  }

  row({ seq, pipeNo, messages, records, bytes, crc, foundCrc }: CheckedRow): void {
    const pipe = this.#pipes.get(pipeNo)
    this.#rows += 1
    this.#lastSeq = seq
    if (pipe === undefined || foundCrc !== crc) {
      this.#damaged += 1
      if (this.#damagedSeqs.length < namedRows) this.#damagedSeqs.push(seq)
      if (pipe !== undefined) pipe.damaged += 1
      return
    }
    // The totals of a damaged row are unreliable; the next sound row shows how many messages are missing.
    this.#missing += Math.max(0, messages - pipe.last.messages - 1 - pipe.damaged)
    pipe.damaged = 0
    pipe.last = { seq, messages, records, bytes }
  }

  writeTo(check: SegmentCheck): void {
    check.messages = this.#rows
    if (this.#rows > 0) check.lastSeq = Math.max(check.lastSeq ?? 0, this.#lastSeq)
    if (this.#damaged > 0) {
      const more = this.#damaged > namedRows ? ', …' : ''
      const seqs = `stream_seq ${this.#damagedSeqs.join(', ')}${more}`
      check.problems.push(`${counted(this.#damaged, 'message')} changed since they were written: ${seqs}`)
    }
    // Compaction and salvage rewrite a segment: messages missing there were lost, and counted, before. A copy of the log
    // has the gaps of its source.
    if (check.name.generation > 0 || this.#isSalvaged) check.lostMessages = this.#missing
    else if (this.#missing > 0) {
      check.problems.push(
        `${counted(this.#missing, 'message')} missing between others, by the totals of their pipes`,
      )
    }
  }
}

/** True for damage and read failures; false when the segment was removed. */
function isUnreadable(error: unknown): boolean {
  if (isDamage(error)) return true
  const code = errorCode(error)
  // Missing tables: the file is not a segment.
  return !isGone(error) && (code === 'SQLITE_ERROR' || (code?.startsWith('SQLITE_IOERR') ?? false))
}
