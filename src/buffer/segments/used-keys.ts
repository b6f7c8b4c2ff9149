/** The idempotency keys that are remembered, by the seq of their message: for a move of the buffer, which is open. */
import path from 'node:path'
import Database from 'better-sqlite3'
import type { Idempotency } from '../buffer.ts'

export function usedKeysOf(dir: string, pipeId: string): Map<number, Idempotency> {
  const db = new Database(path.join(dir, 'idempotency.db'), { readonly: true, fileMustExist: true })
  try {
    const rows = db
      .prepare<[string], { seq: number; key: string; bodyHash: string | null }>(
        'SELECT seq, key, body_hash AS bodyHash FROM used_key WHERE pipe_id = ? AND body_hash IS NOT NULL',
      )
      .all(pipeId)
    return new Map(rows.map(({ seq, key, bodyHash }) => [seq, { key, bodyHash: bodyHash ?? '' }]))
  } finally {
    db.close()
  }
}
