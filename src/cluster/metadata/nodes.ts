/** The current nodes, each with the lease that its heartbeat renews. */
import { type ClusterStore, leaseMs, type NodeRecord } from '../../metadata/cluster-store.ts'
import { toFlag } from '../../metadata/tables.ts'
import type { Connection } from '../../metadata/transactions.ts'
import type { Notify } from './changes.ts'
import { forgetLostNodes, lostNodes, noteLostNodes } from './lost-nodes.ts'
import { type DatabaseClock, inStatements } from './statements.ts'

export function nodes(db: Connection, clock: DatabaseClock, notify: Notify): ClusterStore['nodes'] {
  return {
    async join({ nodeId, name, version, address }, leaseId, seenChange, isDraining) {
      await inStatements(db, async (trx) => {
        await trx.deleteFrom('cluster_nodes').where('node_id', '=', nodeId).execute()
        await forgetLostNodes(trx, (one) => one.nodeId === nodeId || one.name === name)
        await trx
          .insertInto('cluster_nodes')
          .values((eb) => ({
            lease_id: leaseId,
            node_id: nodeId,
            node_name: name,
            node_version: version,
            node_address: address,
            started_ms: clock(),
            expires_ms: eb(clock(), '+', leaseMs),
            seen_change: seenChange,
            is_draining: toFlag(isDraining),
          }))
          .execute()
      })
    },

    async renew(leaseId, forMs) {
      const row = await inStatements(db, (trx) =>
        trx
          .updateTable('cluster_nodes')
          .set((eb) => ({ expires_ms: eb(clock(), '+', forMs) }))
          .where('lease_id', '=', leaseId)
          .where('expires_ms', '>', clock())
          .returning('is_draining')
          .executeTakeFirst(),
      )
      return row === undefined ? null : { isDraining: row.is_draining === 1 }
    },

    async seen(leaseId, seenChange) {
      await inStatements(db, async (trx) => {
        await trx
          .updateTable('cluster_nodes')
          .set({ seen_change: seenChange })
          .where('lease_id', '=', leaseId)
          .where('seen_change', '<', seenChange)
          .execute()
        await notify(trx)
      })
    },

    leave: (leaseId) => inStatements(db, (trx) => leave(trx, leaseId)),

    list: () => listNodes(db, clock),

    async setDraining(nodeId, isDraining) {
      const { numUpdatedRows } = await inStatements(db, (trx) =>
        trx
          .updateTable('cluster_nodes')
          .set({ is_draining: toFlag(isDraining) })
          .where('node_id', '=', nodeId)
          .executeTakeFirstOrThrow(),
      )
      return numUpdatedRows > 0n
    },

    removeExpired: () => inStatements(db, (trx) => removeExpired(trx, clock)),

    lost: () => lostNodes(db, clock),
  }
}

async function leave(trx: Connection, leaseId: string): Promise<void> {
  const left = await trx
    .deleteFrom('cluster_nodes')
    .where('lease_id', '=', leaseId)
    .returning('node_name')
    .executeTakeFirst()
  // It can have joined before the lease of its killed predecessor expired.
  if (left !== undefined) await forgetLostNodes(trx, ({ name }) => name === left.node_name)
}

async function removeExpired(trx: Connection, clock: DatabaseClock): Promise<void> {
  const removed = await trx
    .deleteFrom('cluster_nodes')
    .where('expires_ms', '<=', clock())
    .returning(['node_id', 'node_name', 'expires_ms'])
    .execute()
  await noteLostNodes(trx, removed)
}

async function listNodes(db: Connection, clock: DatabaseClock): Promise<NodeRecord[]> {
  const rows = await db
    .selectFrom('cluster_nodes as node')
    .selectAll()
    .select((eb) => [
      clock().as('now_ms'),
      eb
        .selectFrom('cluster_workers as worker')
        .select((sub) => sub.fn.countAll<number>().as('workers'))
        .whereRef('worker.node_id', '=', 'node.node_id')
        .where('worker.expires_ms', '>', clock())
        .as('workers'),
      eb
        .selectFrom('pipe_owners as owner')
        .innerJoin('cluster_workers as holder', 'holder.lease_id', 'owner.lease_id')
        .select((sub) => sub.fn.countAll<number>().as('pipes'))
        .whereRef('holder.node_id', '=', 'node.node_id')
        .as('pipes'),
    ])
    .orderBy('node_name')
    .orderBy('node_id')
    .execute()
  return rows.map(
    (row): NodeRecord => ({
      nodeId: row.node_id,
      name: row.node_name,
      version: row.node_version,
      address: row.node_address,
      startedMs: row.started_ms,
      leftMs: Math.max(0, row.expires_ms - row.now_ms),
      expiresMs: row.expires_ms,
      seenChange: row.seen_change,
      isDraining: row.is_draining === 1,
      isDelivering: (row.workers ?? 0) > 0,
      ownedPipes: row.pipes ?? 0,
    }),
  )
}
