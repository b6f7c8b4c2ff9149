/**
 * The owner of each pipe. A row names the delivery thread that took the pipe last, and the epoch; the lease shows
 * whether the thread still holds it. A lease that is gone never returns, so a take-over only has to compare the
 * `lease_id` that it read.
 */
import { sql } from 'kysely'
import {
  type BufferContact,
  type ClusterStore,
  type FreePipe,
  type LiveWorker,
  leaseMs,
  type OwnedPipe,
} from '../../metadata/cluster-store.ts'
import { normaliseId, toFlag } from '../../metadata/tables.ts'
import type { Connection } from '../../metadata/transactions.ts'
import { type DatabaseClock, inStatements } from './statements.ts'

export function pipeOwners(db: Connection, clock: DatabaseClock): ClusterStore['pipes'] {
  return {
    async join({ nodeId, leaseId }, buffer = null) {
      await inStatements(db, async (trx) => {
        await trx.deleteFrom('cluster_workers').where('node_id', '=', nodeId).execute()
        await trx
          .insertInto('cluster_workers')
          .values((eb) => ({
            lease_id: leaseId,
            node_id: nodeId,
            expires_ms: eb(clock(), '+', leaseMs),
            ...contactColumns(clock, buffer),
          }))
          .execute()
      })
    },

    async renew(leaseId, buffer = null) {
      const { numUpdatedRows } = await inStatements(db, (trx) =>
        trx
          .updateTable('cluster_workers')
          .set((eb) => ({ expires_ms: eb(clock(), '+', leaseMs), ...contactColumns(clock, buffer) }))
          .where('lease_id', '=', leaseId)
          .where('expires_ms', '>', clock())
          .executeTakeFirstOrThrow(),
      )
      if (numUpdatedRows === 0n) return null
      const row = await db
        .selectFrom('pipe_owners')
        .select((eb) => eb.fn.countAll<number>().as('pipes'))
        .where('lease_id', '=', leaseId)
        .executeTakeFirst()
      return row?.pipes ?? 0
    },

    async leave(leaseId) {
      await inStatements(db, (trx) =>
        trx.deleteFrom('cluster_workers').where('lease_id', '=', leaseId).execute(),
      )
    },

    async removeExpired() {
      await inStatements(db, (trx) =>
        trx.deleteFrom('cluster_workers').where('expires_ms', '<=', clock()).execute(),
      )
    },

    workers: () => liveWorkers(db, clock),

    free: (pipeId) => freePipes(db, pipeId),

    claim: (leaseId, pipes) => claim(db, leaseId, pipes),

    async held(leaseId) {
      return await db
        .selectFrom('pipe_owners')
        .select(['pipe_id as pipeId', 'epoch'])
        .where('lease_id', '=', leaseId)
        .execute()
    },

    async release(leaseId, { pipeId, epoch }) {
      await inStatements(db, (trx) =>
        trx
          .updateTable('pipe_owners')
          .set({ lease_id: null })
          .where('pipe_id', '=', pipeId)
          .where('lease_id', '=', leaseId)
          .where('epoch', '=', epoch)
          .execute(),
      )
    },

    owners: () => holders(db, clock),
  }
}

async function liveWorkers(db: Connection, clock: DatabaseClock): Promise<LiveWorker[]> {
  const rows = await db
    .selectFrom('cluster_workers as worker')
    .leftJoin('cluster_nodes as node', 'node.node_id', 'worker.node_id')
    .select(['worker.lease_id', 'worker.node_id', 'node.is_draining'])
    .select(['worker.buffer_from_ms', 'worker.buffer_until_ms', 'worker.is_buffer_lost'])
    .where('worker.expires_ms', '>', clock())
    .orderBy('worker.lease_id')
    .execute()
  return rows.map((row) => ({
    leaseId: row.lease_id,
    nodeId: row.node_id,
    // A delivery thread can be listed slightly before its node.
    isDraining: row.is_draining === 1,
    buffer:
      row.buffer_until_ms === null
        ? null
        : {
            fromMs: row.buffer_from_ms ?? 0,
            untilMs: row.buffer_until_ms,
            isLost: row.is_buffer_lost === 1,
          },
  }))
}

async function freePipes(db: Connection, pipeId?: string): Promise<FreePipe[]> {
  let query = db
    .selectFrom('pipes as pipe')
    .leftJoin('pipe_owners as owner', 'owner.pipe_id', 'pipe.pipe_id')
    .leftJoin('cluster_workers as worker', 'worker.lease_id', 'owner.lease_id')
    .select(['pipe.pipe_id as pipeId', 'owner.lease_id as heldBy'])
    .where('worker.lease_id', 'is', null)
  if (pipeId !== undefined) query = query.where('pipe.pipe_id', '=', normaliseId(pipeId))
  return await query.execute()
}

/** The node of each pipe that is held. */
async function holders(db: Connection, clock: DatabaseClock): Promise<Map<string, string>> {
  const rows = await db
    .selectFrom('pipe_owners as owner')
    .innerJoin('cluster_workers as worker', 'worker.lease_id', 'owner.lease_id')
    .select(['owner.pipe_id', 'worker.node_id'])
    .where('worker.expires_ms', '>', clock())
    .execute()
  return new Map(rows.map((row) => [row.pipe_id, row.node_id]))
}

/** Converts ages into times of the database's clock. */
function contactColumns(clock: DatabaseClock, buffer: BufferContact | null) {
  if (buffer === null) return {}
  const { answeredAgoMs, answeringForMs, isLost } = buffer
  const ago = (ms: number) => sql<number>`${clock()} - ${sql.lit(ms)}`
  return {
    buffer_from_ms: ago(answeredAgoMs + answeringForMs),
    buffer_until_ms: ago(answeredAgoMs),
    is_buffer_lost: toFlag(isLost),
  }
}

async function claim(db: Connection, leaseId: string, pipes: readonly FreePipe[]): Promise<OwnedPipe[]> {
  return await inStatements(db, async (trx) => {
    await insertRows(
      trx,
      pipes.map(({ pipeId }) => pipeId),
    )
    const byHolder = new Map<string | null, string[]>()
    for (const { pipeId, heldBy } of pipes) byHolder.set(heldBy, [...(byHolder.get(heldBy) ?? []), pipeId])
    const claimed: OwnedPipe[] = []
    for (const [heldBy, ids] of byHolder) {
      const rows = await trx
        .updateTable('pipe_owners')
        .set((eb) => ({ lease_id: leaseId, epoch: eb('epoch', '+', 1) }))
        .where('pipe_id', 'in', ids)
        .where('lease_id', heldBy === null ? 'is' : '=', heldBy)
        // A thread whose lease expired during the request takes nothing.
        .where((eb) =>
          eb.exists(
            eb
              .selectFrom('cluster_workers')
              .select('lease_id')
              .where('cluster_workers.lease_id', '=', leaseId),
          ),
        )
        .returning(['pipe_id as pipeId', 'epoch'])
        .execute()
      claimed.push(...rows)
    }
    return claimed
  })
}

/**
 * Inserts rows for pipes that never had an owner. Their first epoch is the greatest with which one of their lanes was
 * saved: a pipe that comes from a single machine has lane rows of epoch 1.
 */
async function insertRows(trx: Connection, pipeIds: readonly string[]): Promise<void> {
  await trx
    .insertInto('pipe_owners')
    .columns(['pipe_id', 'lease_id', 'epoch'])
    .expression((eb) =>
      eb
        .selectFrom('pipes as pipe')
        .leftJoin('pipe_owners as owner', 'owner.pipe_id', 'pipe.pipe_id')
        .leftJoin('destinations as destination', 'destination.pipe_id', 'pipe.pipe_id')
        .leftJoin('lanes as lane', 'lane.destination_id', 'destination.destination_id')
        .select((sub) => [
          'pipe.pipe_id',
          sub.cast<string | null>(sub.val(null), 'text').as('lease_id'),
          sub.fn.coalesce(sub.fn.max('lane.owner_epoch'), sub.lit(0)).as('epoch'),
        ])
        .where('pipe.pipe_id', 'in', [...pipeIds])
        .where('owner.pipe_id', 'is', null)
        .groupBy('pipe.pipe_id'),
    )
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}
