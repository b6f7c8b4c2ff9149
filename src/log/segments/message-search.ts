/**
 * Messages by id and by page, for whoever looks: not for delivery, and best in a thread of its own.
 *
 * No index is kept for ids: an id holds the time at which it was made. Along a segment these times ascend but for requests that
 * overtake each other, and fall where a process started with its clock set back. So each segment is probed at a few places
 * (once, when it is sealed), and between two of them is read only where the id's time lies between theirs, with some slack.
 *
 *   probes     10:00     10:07     10:15 │ 09:10     09:20          clock set back at │
 *   09:12                          └─── read ───┴────read────┘
 *
 * Files are opened for one look and closed at once: one that is read cannot be sealed, and one that is dropped takes space.
 */
import { crc32 } from 'node:zlib'
import type Database from 'better-sqlite3'
import type { ListedMessage, MessageListing, StoredMessage } from '../buffer.ts'
import { listSegments, type SegmentName } from './layout.ts'
import { bodyOf, headerOf, type MessageRow, rowChecksum, selectMessages } from './message-row.ts'
import { openReadOnly } from './segment-file.ts'
import { isGone, isUnusable } from './sqlite-errors.ts'

const probesPerSegment = 64
/** Between the making of an id and its commit, and between the threads that make them. */
const slackMs = 30_000
/** Rows that are read before other work of the thread gets its turn. */
const rowsPerTurn = 20_000

interface Probe {
  seq: number
  ms: number
}

/** Both ends belong to it. */
interface Span {
  firstSeq: number
  lastSeq: number
}

export class MessageSearch {
  readonly #dir: string
  /** The probes of sealed segments, which never change; by name. */
  readonly #probes = new Map<string, readonly Probe[]>()

  constructor(dir: string) {
    this.#dir = dir
  }

  /** Null: it is not kept, or not intact. */
  async find(msgId: string): Promise<StoredMessage | null> {
    const ms = timeOf(msgId)
    if (ms === null) return null
    const names = this.#segments()
    for (const [index, name] of names.entries()) {
      const spans = this.#open(name, (db) => spansAt(this.#probesOf(db, name, index > 0), ms)) ?? []
      for (const span of spans) {
        let from: number | null = span.firstSeq
        while (from !== null) {
          const left: Span = { firstSeq: from, lastSeq: span.lastSeq }
          const look: FoundIn | null = this.#open(name, (db) => findIn(db, msgId, left))
          if (look?.found) return look.found
          from = look?.nextSeq ?? null
          await turn()
        }
      }
    }
    return null
  }

  /** Newest first. */
  async list(pipeId: string, { beforeSeq, afterSeq, limit }: MessageListing): Promise<ListedMessage[]> {
    const listed: ListedMessage[] = []
    const names = this.#segments()
    for (const [index, name] of names.entries()) {
      const newer = names[index - 1]
      if (name.firstSeq >= beforeSeq) continue
      if (newer !== undefined && newer.firstSeq <= afterSeq) break
      const left = limit - listed.length
      const rows = this.#open(name, (db) => listIn(db, pipeId, { beforeSeq, afterSeq, limit: left }))
      listed.push(...(rows ?? []))
      if (listed.length >= limit) break
      await turn()
    }
    return listed
  }

  /** Nothing is kept open between two looks. */
  async close(): Promise<void> {}

  /** Newest first: it is the one that is being written. */
  #segments(): SegmentName[] {
    const names = listSegments(this.#dir).reverse()
    const kept = new Set(names.map(keyOf))
    for (const key of this.#probes.keys()) if (!kept.has(key)) this.#probes.delete(key)
    return names
  }

  #probesOf(db: Database.Database, name: SegmentName, isSealed: boolean): readonly Probe[] {
    const known = isSealed ? this.#probes.get(keyOf(name)) : undefined
    if (known !== undefined) return known
    const probes = probe(db)
    if (isSealed) this.#probes.set(keyOf(name), probes)
    return probes
  }

  /** Null: it is gone, or cannot be read; what can be read of a damaged one comes back under another name. */
  #open<T>(name: SegmentName, look: (db: Database.Database) => T): T | null {
    try {
      const db = openReadOnly(this.#dir, name)
      try {
        return look(db)
      } finally {
        db.close()
      }
    } catch (error) {
      if (isGone(error) || isUnusable(error)) return null
      throw error
    }
  }
}

function keyOf({ firstSeq, generation }: SegmentName): string {
  return `${firstSeq}.${generation}`
}

const version7 = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** ms since the epoch at which the id was made; null: it is none of ours. */
function timeOf(msgId: string): number | null {
  const match = version7.exec(msgId)
  return match === null ? null : Number.parseInt(`${match[1]}${match[2]}`, 16)
}

/** The first and the last message, and some in between, each with the time of its id. */
function probe(db: Database.Database): Probe[] {
  const [first, last] = db.prepare('SELECT min(seq), max(seq) FROM message').raw().get() as [
    number | null,
    number | null,
  ]
  if (first === null || last === null) return []
  const at = db.prepare('SELECT seq, msg_id FROM message WHERE seq >= ? ORDER BY seq LIMIT 1').raw()
  const probes: Probe[] = []
  for (let index = 0; index <= probesPerSegment; index += 1) {
    const wanted = first + Math.floor(((last - first) * index) / probesPerSegment)
    const [seq, msgId] = at.get(wanted) as [number, string]
    const ms = timeOf(msgId)
    if (ms !== null && seq !== probes.at(-1)?.seq) probes.push({ seq, ms })
  }
  return probes
}

/** Where an id of that time can be, joined where they touch. */
function spansAt(probes: readonly Probe[], ms: number): Span[] {
  const spans: Span[] = []
  for (const [index, right] of probes.entries()) {
    const left = probes[Math.max(0, index - 1)]!
    if (ms < Math.min(left.ms, right.ms) - slackMs || ms > Math.max(left.ms, right.ms) + slackMs) continue
    const last = spans.at(-1)
    if (last !== undefined && last.lastSeq >= left.seq) last.lastSeq = right.seq
    else spans.push({ firstSeq: left.seq, lastSeq: right.seq })
  }
  return spans
}

interface FoundIn {
  found: StoredMessage | null
  /** Where the next turn goes on; null: the span is at its end. */
  nextSeq: number | null
}

/** Seqs may jump: what counts is rows. */
function findIn(db: Database.Database, msgId: string, { firstSeq, lastSeq }: Span): FoundIn {
  const rows = db
    .prepare('SELECT seq, msg_id FROM message WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?')
    .raw()
    .all(firstSeq, lastSeq, rowsPerTurn) as [number, string][]
  const seq = rows.find(([, id]) => id === msgId)?.[0]
  if (seq !== undefined) return { found: messageAt(db, seq), nextSeq: null }
  return { found: null, nextSeq: rows.length < rowsPerTurn ? null : rows.at(-1)![0] + 1 }
}

/** Null: it is not what was written. */
function messageAt(db: Database.Database, seq: number): StoredMessage | null {
  const row = db.prepare(`${selectMessages} WHERE seq = ?`).raw().get(seq) as MessageRow
  const pipeId = db.prepare('SELECT pipe_id FROM pipe WHERE no = ?').pluck().get(row[1])
  if (typeof pipeId !== 'string') return null
  const header = headerOf(row, pipeId)
  const body = bodyOf(row)
  if (rowChecksum(header, crc32(body)) !== row[5]) return null
  const { msgId, receivedMs, recordCount } = header
  return { seq, pipeId, msgId, receivedMs, recordCount, body }
}

type ListedColumns = [seq: number, msgId: string, receivedMs: number, recordCount: number, bytes: number]

function listIn(
  db: Database.Database,
  pipeId: string,
  { beforeSeq, afterSeq, limit }: MessageListing,
): ListedMessage[] {
  const no = db.prepare('SELECT no FROM pipe WHERE pipe_id = ?').pluck().get(pipeId)
  if (no === undefined) return []
  const rows = db
    .prepare(
      `SELECT seq, msg_id, received_ms, record_count, length(body) FROM message
       WHERE pipe = ? AND seq < ? AND seq > ? ORDER BY seq DESC LIMIT ?`,
    )
    .raw()
    .all(no, beforeSeq, afterSeq, limit) as ListedColumns[]
  return rows.map(([seq, msgId, receivedMs, recordCount, bytes]) => ({
    seq,
    msgId,
    receivedMs,
    recordCount,
    bytes,
  }))
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
