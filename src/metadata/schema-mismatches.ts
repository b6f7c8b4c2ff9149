/**
 * The records that did not match the schema of their pipe, per pipe, hour and result. They belong to the hourly
 * roll-ups of `usage.ts`.
 */
import { sql } from 'kysely'
import { isMismatchResult, type Mismatches } from '../contract/schema-words.ts'
import { normaliseId } from './tables.ts'
import type { Connection } from './transactions.ts'

interface Counted {
  pipeId: string
  /** Start of the UTC hour, ms. */
  hourMs: number
  mismatches?: Mismatches
}

/** Counts of a deleted pipe are dropped. */
export async function addMismatchedRecords(
  trx: Connection,
  { pipeId, hourMs, mismatches = {} }: Counted,
): Promise<void> {
  for (const [result, records] of Object.entries(mismatches)) {
    if (records === 0) continue
    await sql`
      INSERT INTO schema_mismatches (pipe_id, hour_ms, result, records)
      SELECT pipe_id, CAST(${hourMs} AS bigint), CAST(${result} AS text), CAST(${records} AS bigint)
      FROM pipes WHERE pipe_id = ${normaliseId(pipeId)}
      ON CONFLICT (pipe_id, hour_ms, result) DO UPDATE SET
        records = schema_mismatches.records + excluded.records`.execute(trx)
  }
}

/** Returns the records of each pipe of the workspace that has any, in whole hours. */
export async function mismatchesByPipe(
  db: Connection,
  workspaceId: string,
  { fromMs, toMs, pipeId }: { fromMs: number; toMs: number | null; pipeId?: string },
): Promise<Map<string, Mismatches>> {
  let query = db
    .selectFrom('pipes')
    .innerJoin('schema_mismatches as hour', 'hour.pipe_id', 'pipes.pipe_id')
    .select(['pipes.pipe_id', 'hour.result'])
    .select((eb) => eb.fn.sum<number>('hour.records').as('records'))
    .where('pipes.workspace_id', '=', normaliseId(workspaceId))
    .where('hour.hour_ms', '>=', fromMs)
    .groupBy(['pipes.pipe_id', 'hour.result'])
  if (toMs !== null) query = query.where('hour.hour_ms', '<=', toMs)
  if (pipeId !== undefined) query = query.where('pipes.pipe_id', '=', normaliseId(pipeId))
  const found = new Map<string, Mismatches>()
  for (const { pipe_id, result, records } of await query.execute()) {
    const mismatches = found.get(pipe_id) ?? {}
    found.set(pipe_id, mismatches)
    if (isMismatchResult(result)) mismatches[result] = records
  }
  return found
}
