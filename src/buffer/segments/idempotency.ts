/**
 * Which idempotency keys were used in the last 24 h: a look-up derived from the message rows, which alone are the
 * truth. A key is written in its message's row in the same transaction; this file follows after the commit. What it
 * lacks after a crash (or altogether, when it is gone or damaged) is derived anew from the rows with a key.
 *
 * It outlives the segments: a key counts for its 24 h even when its message was delivered and dropped.
 * NORMAL is enough here: a power cut may lose the newest entries, which are derived again, and breaks nothing.
 */
import { rmSync } from 'node:fs'
import Database from 'better-sqlite3'
import { listSegments } from './layout.ts'
import { openReadOnly } from './segment-facts.ts'
import type { KeyedMessage } from './segment-log.ts'
import { isCorrupt, isDiskFull } from './sqlite-errors.ts'

const lifetimeMs = 24 * 3_600_000
/** Keys that one prune removes at most: the writer must not stall. */
const pruneBatch = 5_000

const schema = `
  CREATE TABLE IF NOT EXISTS used_key (
    pipe_id TEXT NOT NULL, key TEXT NOT NULL, seq INTEGER NOT NULL, msg_id TEXT NOT NULL,
    record_count INTEGER NOT NULL, received_ms REAL NOT NULL, PRIMARY KEY (pipe_id, key)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS used_key_by_age ON used_key (received_ms);
  CREATE TABLE IF NOT EXISTS derived (through_seq INTEGER NOT NULL) STRICT;
`

export interface IdempotencyKeys {
  find(pipeId: string, key: string, atMs: number): KeyedMessage | null
  /** After the commit of these messages. */
  remember(used: readonly KeyedMessage[]): void
  /** Now and then: every key up to `throughSeq` is known here, so the next start need not look before it. */
  settle(throughSeq: number, nowMs: number): void
  close(): void
}

/** `headSeq`: the newest message that is there. Keys of messages that are missing are forgotten. */
export function openIdempotencyKeys(dir: string, file: string, headSeq: number): IdempotencyKeys {
  let db: Database.Database
  try {
    db = openLookup(file)
  } catch (error) {
    if (!isCorrupt(error)) throw error
    for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true })
    db = openLookup(file)
  }
  db.prepare('DELETE FROM used_key WHERE seq > ?').run(headSeq)
  const throughSeq = db.prepare('SELECT max(through_seq) FROM derived').pluck().get() as number | null
  const keys = idempotencyKeys(db)
  for (const used of keysSince(dir, Math.min(throughSeq ?? 0, headSeq))) keys.remember(used)
  return keys
}

function openLookup(file: string): Database.Database {
  const db = new Database(file)
  try {
    db.pragma('journal_mode = WAL')
    db.pragma('synchronous = NORMAL')
    db.exec(schema)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

/** Of one segment at a time; the partial index makes it cost only the rows with a key. */
function* keysSince(dir: string, afterSeq: number): Generator<KeyedMessage[]> {
  const names = listSegments(dir)
  for (const [index, firstSeq] of names.entries()) {
    const next = names[index + 1]
    if (next !== undefined && next <= afterSeq + 1) continue
    const db = openReadOnly(dir, firstSeq)
    try {
      const rows = db
        .prepare(
          `SELECT p.pipe_id AS pipeId, m.idempotency_key AS key, m.seq, m.msg_id AS msgId,
                  m.record_count AS recordCount, m.received_ms AS receivedMs
           FROM message m INDEXED BY message_with_key JOIN pipe p ON p.no = m.pipe
           WHERE m.idempotency_key IS NOT NULL AND m.seq > ? ORDER BY m.seq`,
        )
        .all(afterSeq)
      yield rows as KeyedMessage[]
    } finally {
      db.close()
    }
  }
}

function idempotencyKeys(db: Database.Database): IdempotencyKeys {
  const select = db.prepare(
    `SELECT pipe_id AS pipeId, key, seq, msg_id AS msgId, record_count AS recordCount, received_ms AS receivedMs
     FROM used_key WHERE pipe_id = ? AND key = ?`,
  )
  const insert = db.prepare(
    'INSERT OR REPLACE INTO used_key VALUES (@pipeId, @key, @seq, @msgId, @recordCount, @receivedMs)',
  )
  const prune = db.prepare(
    `DELETE FROM used_key WHERE rowid IN
       (SELECT rowid FROM used_key WHERE received_ms < ? ORDER BY received_ms LIMIT ${pruneBatch})`,
  )
  const clearDerived = db.prepare('DELETE FROM derived')
  const setDerived = db.prepare('INSERT INTO derived VALUES (?)')
  /** Committed, but not in the file yet. Empty unless the disk is full. */
  const unwritten = new Map<string, KeyedMessage>()

  function transaction(work: () => void): void {
    try {
      db.exec('BEGIN IMMEDIATE')
      work()
      db.exec('COMMIT')
    } catch (error) {
      if (db.inTransaction) db.exec('ROLLBACK')
      // The messages are committed and must be answered: the keys wait in memory for space.
      if (!isDiskFull(error)) throw error
      return
    }
    unwritten.clear()
  }

  function writeAll(): void {
    for (const used of unwritten.values()) insert.run(used)
  }

  return {
    find(pipeId, key, atMs) {
      const used = (unwritten.get(pipeId + key) ?? select.get(pipeId, key)) as KeyedMessage | undefined
      return used === undefined || atMs - used.receivedMs > lifetimeMs ? null : used
    },
    remember(used) {
      for (const message of used) unwritten.set(message.pipeId + message.key, message)
      if (unwritten.size > 0) transaction(writeAll)
    },
    settle(throughSeq, nowMs) {
      transaction(() => {
        writeAll()
        prune.run(nowMs - lifetimeMs)
        clearDerived.run()
        setDerived.run(throughSeq)
      })
    },
    close: () => db.close(),
  }
}
