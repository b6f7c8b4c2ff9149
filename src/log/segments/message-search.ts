/**
 * Finds messages by id, and lists them by page, for users. Not for delivery; best run in a thread of its own.
 *
 * There is no index of ids, because an id contains its creation time. Within a segment these times ascend, except for
 * requests that overtake each other and where a process started with its clock set back. So each segment is probed at a
 * few rows (once, when it is sealed). Only spans between probes whose times enclose the id's time, with some slack, are
 * read.
 *
 *   probes     10:00     10:07     10:15 │ 09:10     09:20          clock set back at │
 *   09:12                          └─── read ───┴────read────┘
 *
 * Files are opened per lookup and closed immediately: an open file cannot be sealed, and a dropped file takes space
 * while it is open.
 */
import { crc32 } from 'node:zlib'
import type Database from 'better-sqlite3'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { MessageListing, ReadMessage, StoredMessage, SummarizedMessage } from '../buffer.ts'
import {
  bodyOf,
  headerOf,
  listSegments,
  type MessageRow,
  rowChecksum,
  type SegmentName,
  selectMessages,
} from './layout.ts'
import { openReadOnly } from './segment-file.ts'
import { isGone, isUnusable } from './sqlite-errors.ts'

const { listedBytes, listedBodyBytes } = resourceLimits
const probesPerSegment = 64
/** The delay between the creation of an id and its commit, and between threads that create ids. */
const slackMs = 30_000
/** Rows that are read before other work of the thread gets its turn. */
const rowsPerTurn = 20_000

interface Probe {
  seq: number
  ms: number
}

/** Both ends are included. */
interface Span {
  firstSeq: number
  lastSeq: number
}

export class MessageSearch {
  readonly #dir: string
  /** Probes of sealed segments, by name. Sealed segments never change. */
  readonly #probes = new Map<string, readonly Probe[]>()

  constructor(dir: string) {
    this.#dir = dir
  }

  /** Returns null when the message is not kept or is damaged. */
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
  async list(pipeId: string, { limit, ...between }: MessageListing): Promise<SummarizedMessage[]> {
    const listed: SummarizedMessage[] = []
    for (const name of this.#segmentsBetween(between)) {
      const left = limit - listed.length
      listed.push(...(this.#open(name, (db) => listIn(db, pipeId, { ...between, limit: left })) ?? []))
      if (listed.length >= limit) break
      await turn()
    }
    return listed
  }

  /** Newest first. */
  async read(
    pipeId: string,
    { limit, maxBytes, ...between }: MessageListing & { maxBytes: number },
  ): Promise<ReadMessage[]> {
    const read: ReadMessage[] = []
    let bytes = 0
    for (const name of this.#segmentsBetween(between)) {
      const left = { ...between, limit: limit - read.length, maxBytes: maxBytes - bytes }
      for (const message of this.#open(name, (db) => readIn(db, pipeId, left)) ?? []) {
        bytes += message.bytes
        read.push(message)
      }
      if (read.length >= limit || bytes >= maxBytes) break
      await turn()
    }
    return read
  }

  /** Newest first. */
  #segmentsBetween({ beforeSeq, afterSeq }: Omit<MessageListing, 'limit'>): SegmentName[] {
    return this.#segments().filter(({ firstSeq }, index, names) => {
      const newer = names[index - 1]
      return firstSeq < beforeSeq && (newer === undefined || newer.firstSeq > afterSeq + 1)
    })
  }

  /** No file stays open between two lookups. */
  async close(): Promise<void> {}

  /** Newest first; the first one is the one being written. */
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

  /**
   * Returns null when the segment is gone or cannot be read. The readable part of a damaged one returns under another
   * name.
   */
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

/** The creation time of the id, ms since the epoch; null when it is not one of our ids. */
function timeOf(msgId: string): number | null {
  const match = version7.exec(msgId)
  return match === null ? null : Number.parseInt(`${match[1]}${match[2]}`, 16)
}

/** Reads the first, the last and some messages in between, each with the time of its id. */
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

/** The spans that can hold an id of that time; adjacent spans are joined. */
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
  /** Where the next turn continues; null at the end of the span. */
  nextSeq: number | null
}

/** Counts rows, because seqs can have gaps. */
function findIn(db: Database.Database, msgId: string, { firstSeq, lastSeq }: Span): FoundIn {
  const rows = db
    .prepare('SELECT seq, msg_id FROM message WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?')
    .raw()
    .all(firstSeq, lastSeq, rowsPerTurn) as [number, string][]
  const seq = rows.find(([, id]) => id === msgId)?.[0]
  if (seq !== undefined) return { found: messageAt(db, seq), nextSeq: null }
  return { found: null, nextSeq: rows.length < rowsPerTurn ? null : rows.at(-1)![0] + 1 }
}

/** Returns null when the row is damaged. */
function messageAt(db: Database.Database, seq: number): StoredMessage | null {
  const row = db.prepare(`${selectMessages()} WHERE seq = ?`).raw().get(seq) as MessageRow
  const pipeId = db.prepare('SELECT pipe_id FROM pipe WHERE no = ?').pluck().get(row[1])
  if (typeof pipeId !== 'string') return null
  const header = headerOf(row, pipeId)
  const body = bodyOf(row)
  if (rowChecksum(header, crc32(body)) !== row[5]) return null
  const { msgId, receivedMs, recordCount } = header
  return { seq, pipeId, msgId, receivedMs, recordCount, body }
}

type ListedColumns = [
  ...[seq: number, msgId: string, receivedMs: number, recordCount: number, bytes: number],
  beginning: Buffer | null,
]

function listIn(
  db: Database.Database,
  pipeId: string,
  { beforeSeq, afterSeq, limit }: MessageListing,
): SummarizedMessage[] {
  const no = pipeNumber(db, pipeId)
  if (no === null) return []
  const rows = db
    .prepare(
      `SELECT seq, msg_id, received_ms, record_count, length(body),
         CASE WHEN length(body) <= ${listedBodyBytes} THEN substr(body, 1, ${listedBytes}) END
       FROM message WHERE pipe = ? AND seq < ? AND seq > ? ORDER BY seq DESC LIMIT ?`,
    )
    .raw()
    .all(no, beforeSeq, afterSeq, limit) as ListedColumns[]
  return rows.map(([seq, msgId, receivedMs, recordCount, bytes, beginning]) => ({
    ...{ seq, msgId, receivedMs, recordCount, bytes },
    beginning,
  }))
}

function readIn(
  db: Database.Database,
  pipeId: string,
  { beforeSeq, afterSeq, limit, maxBytes }: MessageListing & { maxBytes: number },
): ReadMessage[] {
  const no = pipeNumber(db, pipeId)
  if (no === null) return []
  const read: ReadMessage[] = []
  let left = maxBytes
  const rows = db
    .prepare(`${selectMessages()} WHERE pipe = ? AND seq < ? AND seq > ? ORDER BY seq DESC LIMIT ?`)
    .raw()
    .iterate(no, beforeSeq, afterSeq, limit)
  for (const row of rows as IterableIterator<MessageRow>) {
    const header = headerOf(row, pipeId)
    const body = bodyOf(row)
    const { seq, msgId, receivedMs, recordCount } = header
    const isIntact = rowChecksum(header, crc32(body)) === row[5]
    read.push({ seq, msgId, receivedMs, recordCount, bytes: body.length, body: isIntact ? body : null })
    left -= body.length
    if (left <= 0) break
  }
  return read
}

function pipeNumber(db: Database.Database, pipeId: string): number | null {
  return (
    (db.prepare('SELECT no FROM pipe WHERE pipe_id = ?').pluck().get(pipeId) as number | undefined) ?? null
  )
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
