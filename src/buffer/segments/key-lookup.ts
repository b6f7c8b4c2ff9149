/**
 * The file behind the idempotency keys: one row per key. Derived from the messages; what makes it again is in
 * idempotency.ts.
 *
 * Its commits are not synced one by one (NORMAL): a power cut may lose the newest entries, which are derived again, and
 * breaks nothing. Only `flush` is durable when it returns, and with it everything before it: the rows that the entries
 * were derived from may be dropped then.
 */
import assert from 'node:assert'
import Database from 'better-sqlite3'
import type { KeyedMessage } from './frame-commit.ts'
import { hasColumn } from './segment-file.ts'

/** `usedClockMs`: when the key was used, by the buffer's clock. */
export type UsedKey = KeyedMessage & { usedClockMs: number }

/** Keys that one flush removes at most: the writer must not stall. */
const pruneBatch = 5_000

const schema = `
  CREATE TABLE IF NOT EXISTS used_key (
    pipe_id TEXT NOT NULL, key TEXT NOT NULL, seq INTEGER NOT NULL, msg_id TEXT NOT NULL,
    record_count INTEGER NOT NULL, received_ms REAL NOT NULL, body_hash TEXT, used_clock_ms REAL,
    PRIMARY KEY (pipe_id, key)
  ) STRICT;
  CREATE TABLE IF NOT EXISTS derived (through_seq INTEGER NOT NULL) STRICT;
`

export class KeyLookup {
  readonly #db: Database.Database
  readonly #select: Database.Statement
  readonly #insert: Database.Statement
  readonly #prune: Database.Statement

  /** `clockMs`: the buffer's clock; keys of a file from before it was kept count from now. */
  constructor(file: string, clockMs: number) {
    this.#db = new Database(file)
    try {
      prepareTables(this.#db, clockMs)
      this.#select = this.#db.prepare(
        `SELECT pipe_id AS pipeId, key, seq, msg_id AS msgId, record_count AS recordCount,
                received_ms AS receivedMs, body_hash AS bodyHash, used_clock_ms AS usedClockMs
         FROM used_key WHERE pipe_id = ? AND key = ?`,
      )
      this.#insert = this.#db.prepare(
        `INSERT OR REPLACE INTO used_key
         (pipe_id, key, seq, msg_id, record_count, received_ms, body_hash, used_clock_ms)
         VALUES (@pipeId, @key, @seq, @msgId, @recordCount, @receivedMs, @bodyHash, @usedClockMs)`,
      )
      this.#prune = this.#db.prepare(
        `DELETE FROM used_key WHERE rowid IN
           (SELECT rowid FROM used_key WHERE used_clock_ms < ? ORDER BY used_clock_ms LIMIT ${pruneBatch})`,
      )
    } catch (error) {
      this.#db.close()
      throw error
    }
  }

  /** Every key up to this seq was written before the last flush; 0 when there was none. */
  get throughSeq(): number {
    const found = this.#db.prepare('SELECT max(through_seq) FROM derived').pluck().get() as number | null
    return found ?? 0
  }

  find(pipeId: string, key: string): UsedKey | null {
    return (this.#select.get(pipeId, key) as UsedKey | undefined) ?? null
  }

  write(used: Iterable<UsedKey>): void {
    this.#transaction(() => {
      for (const one of used) this.#insert.run(one)
    })
  }

  /** Of messages that are missing. */
  forgetAfter(seq: number): void {
    this.#db.prepare('DELETE FROM used_key WHERE seq > ?').run(seq)
  }

  /** Writes what is given, removes what is older; all of it is on disk when this returns. */
  flush(used: Iterable<UsedKey>, throughSeq: number, oldestClockMs: number): void {
    this.#db.pragma('synchronous = FULL')
    assert(this.#db.pragma('synchronous', { simple: true }) === 2, 'this commit must be fsynced')
    try {
      this.#transaction(() => {
        for (const one of used) this.#insert.run(one)
        this.#prune.run(oldestClockMs)
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

  #transaction(work: () => void): void {
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      work()
      this.#db.exec('COMMIT')
    } catch (error) {
      if (this.#db.inTransaction) this.#db.exec('ROLLBACK')
      throw error
    }
  }
}

function prepareTables(db: Database.Database, clockMs: number): void {
  db.pragma('journal_mode = WAL')
  db.exec(schema)
  db.pragma('synchronous = NORMAL')
  // Made by the version before hashes were kept, or by the one before the buffer's clock was.
  if (!hasColumn(db, 'used_key', 'body_hash')) db.exec('ALTER TABLE used_key ADD COLUMN body_hash TEXT')
  if (!hasColumn(db, 'used_key', 'used_clock_ms')) {
    db.exec('ALTER TABLE used_key ADD COLUMN used_clock_ms REAL; DROP INDEX IF EXISTS used_key_by_age')
  }
  db.prepare('UPDATE used_key SET used_clock_ms = ? WHERE used_clock_ms IS NULL').run(clockMs)
  db.exec('CREATE INDEX IF NOT EXISTS used_key_by_clock ON used_key (used_clock_ms)')
}
