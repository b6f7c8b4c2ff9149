/**
 * Sources of webhooks in a metadata file while no daemon uses it: sealed with another key, or without the secrets whose
 * key is lost.
 */
import type { Database } from 'better-sqlite3'
import { resealedSource, withoutLostSecrets } from '../pipe-source.ts'
import type { Sealer } from '../secrets.ts'

interface StoredSource {
  pipe_id: string
  pipe_name: string
  pipe_source: string
  workspace_id: string
  workspace_name: string
}

/** A source with secrets that cannot be unsealed, and the text without them. */
export interface LostSource extends StoredSource {
  remaining: string
}

export function lostSources(database: Database, sealer: Sealer): LostSource[] {
  return readSources(database).flatMap((row) => {
    const remaining = withoutLostSecrets(sealer, row.pipe_id, row.pipe_source)
    return remaining === null ? [] : [{ ...row, remaining }]
  })
}

/** Removes the lost secrets. Webhooks are rejected until new ones are set. */
export function forgetSource(database: Database, { pipe_id, remaining }: LostSource, nowMs: number): void {
  database
    .prepare(
      'UPDATE pipes SET pipe_source = ?, pipe_updated_ms = max(?, pipe_updated_ms + 1) WHERE pipe_id = ?',
    )
    .run(remaining, nowMs, pipe_id)
}

/** Throws UnsealError. */
export function resealSources(database: Database, from: Sealer, to: Sealer): void {
  const update = database.prepare('UPDATE pipes SET pipe_source = ? WHERE pipe_id = ?')
  for (const { pipe_id, pipe_source } of readSources(database))
    update.run(resealedSource(from, to, pipe_id, pipe_source), pipe_id)
}

function readSources(database: Database): StoredSource[] {
  // A file of an earlier format has no sources.
  const columns = database.prepare<[], { name: string }>('PRAGMA table_info(pipes)').all()
  if (!columns.some(({ name }) => name === 'pipe_source')) return []
  return database
    .prepare<[], StoredSource>(
      `SELECT pipe_id, pipe_name, pipe_source, workspace_id, workspace_name
       FROM pipes JOIN workspaces USING (workspace_id)
       WHERE pipe_source IS NOT NULL ORDER BY workspace_name, pipe_name`,
    )
    .all()
}
