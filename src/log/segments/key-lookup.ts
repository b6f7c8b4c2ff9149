/**
 * The SQLite file of the idempotency keys. It is derived from the messages; idempotency.ts rebuilds it.
 *
 *   key_N    the keys used in the N-th two hours of the buffer's clock, by a hash of pipe and key: a key of 255
 *            bytes takes no more space than a short one. Old tables are dropped as a whole, so any rate of keys is sustained:
 *            deleting a limited number of rows periodically has a maximum rate, and faster growth would be unbounded.
 *   held     the number of keys per pipe in each of these tables
 *   derived  one row: every key up to this seq was in the file at the last flush
 *
 * A lookup reads every table. With two hours each there are at most 13, and dropping one reads a twelfth of the file.
 *
 * Commits are not synced individually (NORMAL). A power cut can lose the newest entries, which are derived again. Only
 * `flush` makes everything before it durable; then the rows that the entries were derived from can be dropped. Only
 * `flush` writes `held`, so after a crash it lacks the keys of up to a minute.
 */
import assert from 'node:assert'
import { createHash } from 'node:crypto'
import path from 'node:path'
import Database from 'better-sqlite3'
import { parse, stringify } from 'uuid'
import { fsyncDirectory } from '../../platform/fsync.ts'
import type { PipeKey } from '../key-store.ts'
import type { KeyedMessage } from './segment-writer.ts'

/** `usedClockMs` is the time of use, by the buffer's clock. */
export type UsedKey = KeyedMessage & { usedClockMs: number }

const tableMs = 2 * 3_600_000
/** Length of the stored prefix of the SHA-256: among 2^40 keys two are the same with a probability of 2^-49. */
const hashBytes = 16
/** Bytes per key in the file, including unused space in pages. */
export const keyBytes = 150

const schema = `
  CREATE TABLE IF NOT EXISTS held (
    no INTEGER NOT NULL, pipe_id TEXT NOT NULL, keys INTEGER NOT NULL, PRIMARY KEY (no, pipe_id)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS derived (through_seq INTEGER NOT NULL) STRICT;
`

type KeyRow = [
  seq: number,
  msgId: Buffer,
  recordCount: number,
  receivedMs: number,
  bodyHash: string | Buffer,
  usedClockMs: number,
]

interface KeyTable {
  find: Database.Statement
  insert: Database.Statement
  replace: Database.Statement
  /** Per pipe. */
  held: Map<string, number>
}

export class KeyLookup {
  readonly #db: Database.Database
  /** By number, newest first. */
  #tables = new Map<number, KeyTable>()

  constructor(file: string) {
    this.#db = new Database(file)
    try {
      this.#db.pragma('journal_mode = WAL')
      this.#db.exec(schema)
      // The names of the file and of its -wal: see openForWriting.
      fsyncDirectory(path.dirname(file))
      this.#db.pragma('synchronous = NORMAL')
      // Reading the columns detects a file of another program with tables of the same names.
      this.#db.prepare('SELECT no, pipe_id, keys FROM held LIMIT 1').get()
      this.#readTables()
    } catch (error) {
      this.#db.close()
      throw error
    }
  }

  /** Every key up to this seq was in the file at the last flush; 0 when there was none. */
  get throughSeq(): number {
    const found = this.#db.prepare('SELECT max(through_seq) FROM derived').pluck().get() as number | null
    return found ?? 0
  }

  /** Bytes of the keys in the file. The file can be larger: space of dropped keys is reused. */
  get bytes(): number {
    const pragma = (name: string) => Number(this.#db.pragma(name, { simple: true }))
    return (pragma('page_count') - pragma('freelist_count')) * pragma('page_size')
  }

  /** Number of keys per pipe. */
  held(): Map<string, number> {
    const all = new Map<string, number>()
    for (const { held } of this.#tables.values()) {
      for (const [pipeId, keys] of held) all.set(pipeId, (all.get(pipeId) ?? 0) + keys)
    }
    return all
  }

  find(key: PipeKey): UsedKey | null {
    const hash = hashOf(key)
    for (const { find } of this.#tables.values()) {
      const row = find.get(hash) as KeyRow | undefined
      if (row !== undefined) return decode(row, key)
    }
    return null
  }

  write(used: Iterable<UsedKey>): void {
    this.#transaction(() => this.#write(used))
  }

  /** Deletes the keys of missing messages. */
  forgetAfter(seq: number): void {
    for (const no of this.#tables.keys()) this.#db.prepare(`DELETE FROM key_${no} WHERE seq > ?`).run(seq)
  }

  /** Writes the new keys and drops the old ones. Everything is on disk when this returns. */
  flush(used: Iterable<UsedKey>, throughSeq: number, oldestClockMs: number): void {
    this.#db.pragma('synchronous = FULL')
    assert(this.#db.pragma('synchronous', { simple: true }) === 2, 'this commit must be fsynced')
    try {
      this.#transaction(() => {
        this.#write(used)
        this.#dropOlder(oldestClockMs)
        this.#writeHeld()
        this.#db.exec('DELETE FROM derived')
        this.#db.prepare('INSERT INTO derived VALUES (?)').run(throughSeq)
      })
    } finally {
      this.#db.pragma('synchronous = NORMAL')
    }
  }

  /** Keeps the WAL short. */
  checkpoint(): void {
    this.#db.pragma('wal_checkpoint(PASSIVE)')
  }

  close(): void {
    this.#db.close()
  }

  #write(used: Iterable<UsedKey>): void {
    for (const one of used) {
      const { pipeId, seq, msgId, recordCount, receivedMs, bodyHash, usedClockMs } = one
      const { insert, replace, held } = this.#tableOf(usedClockMs)
      const hash = hashOf(one)
      const row = [hash, seq, parse(msgId), recordCount, receivedMs, encodeHash(bodyHash), usedClockMs]
      // A key that is derived a second time is not counted twice.
      if (insert.run(...row).changes > 0) held.set(pipeId, (held.get(pipeId) ?? 0) + 1)
      else replace.run(...row)
    }
  }

  #tableOf(clockMs: number): KeyTable {
    const no = Math.floor(clockMs / tableMs)
    const found = this.#tables.get(no)
    if (found !== undefined) return found
    this.#db.exec(
      `CREATE TABLE IF NOT EXISTS key_${no} (
         hash BLOB PRIMARY KEY, seq INTEGER NOT NULL, msg_id BLOB NOT NULL, record_count INTEGER NOT NULL,
         received_ms REAL NOT NULL, body_hash ANY, used_clock_ms REAL NOT NULL
       ) STRICT, WITHOUT ROWID`,
    )
    const made = this.#prepared(no)
    this.#tables = new Map([...this.#tables, [no, made] as const].sort(([a], [b]) => b - a))
    return made
  }

  #dropOlder(oldestClockMs: number): void {
    for (const no of this.#tables.keys()) {
      if ((no + 1) * tableMs > oldestClockMs) continue
      this.#tables.delete(no)
      this.#db.exec(`DROP TABLE key_${no}`)
    }
  }

  #writeHeld(): void {
    this.#db.exec('DELETE FROM held')
    const insert = this.#db.prepare('INSERT INTO held VALUES (?, ?, ?)')
    for (const [no, { held }] of this.#tables) for (const [pipeId, keys] of held) insert.run(no, pipeId, keys)
  }

  /** Reads the list of tables from the file. */
  #readTables(): void {
    const names = this.#db
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'key_[0-9]*'")
      .pluck()
      .all() as string[]
    const numbers = names.map((name) => Number(name.slice('key_'.length))).sort((a, b) => b - a)
    this.#tables = new Map(numbers.map((no) => [no, this.#prepared(no)]))
    const rows = this.#db.prepare('SELECT no, pipe_id, keys FROM held').raw().all() as [
      number,
      string,
      number,
    ][]
    for (const [no, pipeId, keys] of rows) this.#tables.get(no)?.held.set(pipeId, keys)
  }

  #prepared(no: number): KeyTable {
    const columns = 'seq, msg_id, record_count, received_ms, body_hash, used_clock_ms'
    return {
      find: this.#db.prepare(`SELECT ${columns} FROM key_${no} WHERE hash = ?`).raw(),
      insert: this.#db.prepare(`INSERT OR IGNORE INTO key_${no} VALUES (?, ?, ?, ?, ?, ?, ?)`),
      replace: this.#db.prepare(`REPLACE INTO key_${no} VALUES (?, ?, ?, ?, ?, ?, ?)`),
      held: new Map(),
    }
  }

  #transaction(work: () => void): void {
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      work()
      this.#db.exec('COMMIT')
    } catch (error) {
      if (this.#db.inTransaction) this.#db.exec('ROLLBACK')
      // The transaction was rolled back, so tables it created or dropped have changed back.
      this.#readTables()
      throw error
    }
  }
}

function hashOf({ pipeId, key }: PipeKey): Buffer {
  return createHash('sha256').update(pipeId).update(key).digest().subarray(0, hashBytes)
}

/** Encodes a digest as bytes; other text stays as it is. */
function encodeHash(bodyHash: string): Buffer | string {
  const bytes = Buffer.from(bodyHash, 'base64')
  return bytes.toString('base64') === bodyHash ? bytes : bodyHash
}

function decode(row: KeyRow, { pipeId, key }: PipeKey): UsedKey {
  const [seq, msgId, recordCount, receivedMs, hash, usedClockMs] = row
  const bodyHash = Buffer.isBuffer(hash) ? hash.toString('base64') : hash
  return { pipeId, key, seq, msgId: stringify(msgId), recordCount, receivedMs, bodyHash, usedClockMs }
}
