/**
 * Changes of metadata in commit order. A change's number is one more than the newest number that its transaction saw;
 * of two transactions that saw the same number, only the first commits. So a reader of number n can read all earlier
 * ones, and numbers have no gaps. The newest row is always kept.
 */
import { sql } from 'kysely'
import type { AuditedChange, NoteChange } from '../../metadata/audit.ts'
import type { Change } from '../../metadata/changes.ts'
import type { ClusterStore, NumberedChange } from '../../metadata/cluster-store.ts'
import { nextNumber } from '../../metadata/rows.ts'
import { type ChangeRow, normaliseId, toFlag } from '../../metadata/tables.ts'
import type { Connection } from '../../metadata/transactions.ts'
import { WriteConflictError } from '../../metadata/write-errors.ts'
import { type DatabaseClock, inStatements } from './statements.ts'

/** The channel is shared by all schemas of the database; a needless notification costs one read. */
export const notifyChannel = 'pipectl_cluster'

export type ListenForNotifications = (onNotified: () => void) => () => Promise<void>

export function changes(
  db: Connection,
  clock: DatabaseClock,
  listen: ListenForNotifications,
): ClusterStore['changes'] {
  const newest = async () => {
    const row = await db
      .selectFrom('changes')
      .select((eb) => eb.fn.max('change_seq').as('seq'))
      .executeTakeFirst()
    return row?.seq ?? 0
  }
  return {
    newest,
    listen,

    async since(seq, limit) {
      const rows = await db
        .selectFrom('changes')
        .selectAll()
        .where('change_seq', '>=', seq)
        .orderBy('change_seq')
        .limit(limit + 1)
        .execute()
      const first = Number(rows[0]?.change_seq ?? Number.NaN)
      // No rows: there was never a change, or an older copy of the database replaced this one.
      if (rows.length === 0) return seq === 0 ? [] : null
      if (first > seq + 1) return null
      return rows.slice(first === seq ? 1 : 0).map(decodeChange)
    },

    async isAwaited(seq, exceptLeaseId) {
      const behind = await db
        .selectFrom('cluster_nodes')
        .select('lease_id')
        .where('lease_id', '<>', exceptLeaseId)
        .where('seen_change', '<', seq)
        .where('expires_ms', '>', clock())
        .limit(1)
        .execute()
      return behind.length > 0
    },

    async prune(olderThanMs) {
      const last = await newest()
      const { seen } = await db
        .selectFrom('cluster_nodes')
        .select((eb) => eb.fn.min('seen_change').as('seen'))
        .executeTakeFirstOrThrow()
      const through = Math.min(last - 1, seen ?? 0)
      await inStatements(db, (trx) =>
        trx
          .deleteFrom('changes')
          .where('change_seq', '<=', through)
          .where('change_ms', '<', (eb) => eb(clock(), '-', olderThanMs))
          .execute(),
      )
    },
  }
}

function decodeChange(row: ChangeRow): NumberedChange {
  const seq = row.change_seq
  if (row.pipe_id !== null) return { seq, change: { pipeId: row.pipe_id } }
  return { seq, change: { apiKeyId: row.api_key_id ?? '', isRevoked: row.is_revoked === 1 } }
}

export function changeNotes(clock: DatabaseClock, notify: Notify): NoteChange {
  return async (trx, audited) => {
    const found = changesOf(audited)
    for (const change of found) await insertChange(trx, change, clock)
    if (found.length > 0) await notify(trx)
  }
}

/** Sends a notification that listeners get only if the transaction commits. */
export type Notify = (trx: Connection) => Promise<void>

export const notifyPostgres: Notify = async (trx) => {
  await sql`SELECT pg_notify(${notifyChannel}, '')`.execute(trx)
}
/** Users of a shared SQLite file poll instead. */
export const noNotification: Notify = async () => {}

/** The operations whose changes are published. No node caches anything else. */
const ofPipes = new Set([
  ...['createPipe', 'updatePipe', 'deletePipe', 'putLimits', 'deleteLimits'],
  ...['createDestination', 'updateDestination', 'deleteDestination'],
  ...['addAllowedOrigin', 'removeAllowedOrigin'],
])
const ofKeys = new Set(['createApiKey', 'rotateApiKey', 'revokeApiKey'])

export function changesOf({ operation, pipeId, resourceId, after }: AuditedChange): Change[] {
  if (ofPipes.has(operation) && pipeId !== null) return [{ pipeId: normaliseId(pipeId) }]
  if (ofKeys.has(operation) && resourceId !== null) {
    const isRevoked = after?.api_key_status === 'revoked'
    return [{ apiKeyId: normaliseId(resourceId), isRevoked }]
  }
  if (operation === 'createWorkspace' && typeof after?.first_key === 'string') {
    return [{ apiKeyId: after.first_key, isRevoked: false }]
  }
  return []
}

async function insertChange(trx: Connection, change: Change, clock: DatabaseClock): Promise<void> {
  const inserted = await trx
    .insertInto('changes')
    .values({
      change_seq: await nextNumber(trx, 'changes', 'change_seq', {}),
      pipe_id: 'pipeId' in change ? change.pipeId : null,
      api_key_id: 'pipeId' in change ? null : change.apiKeyId,
      is_revoked: toFlag('pipeId' in change ? false : change.isRevoked),
      change_ms: clock(),
    })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  // Another transaction took the number: the transaction is repeated with the next one.
  if (inserted.numInsertedOrUpdatedRows === 0n) throw new WriteConflictError(null)
}
