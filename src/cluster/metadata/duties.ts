/** Duties that one node does for all nodes, held by the lease of its heartbeat. */
import type { ClusterStore } from '../../metadata/cluster-store.ts'
import type { Connection } from '../../metadata/transactions.ts'
import { inStatements } from './statements.ts'

export function duties(db: Connection): ClusterStore['duties'] {
  return {
    claim: (duty, leaseId) =>
      inStatements(db, async (trx) => {
        await trx
          .insertInto('cluster_duties')
          .values({ duty, lease_id: null })
          .onConflict((conflict) => conflict.doNothing())
          .execute()
        const row = await trx
          .selectFrom('cluster_duties as duty')
          .leftJoin('cluster_nodes as node', 'node.lease_id', 'duty.lease_id')
          .select(['duty.lease_id', 'node.lease_id as valid_id'])
          .where('duty.duty', '=', duty)
          .executeTakeFirstOrThrow()
        if (row.lease_id === leaseId) return true
        if (row.valid_id !== null) return false
        const { numUpdatedRows } = await trx
          .updateTable('cluster_duties')
          .set({ lease_id: leaseId })
          .where('duty', '=', duty)
          .where('lease_id', row.lease_id === null ? 'is' : '=', row.lease_id)
          .executeTakeFirstOrThrow()
        return numUpdatedRows > 0n
      }),

    async release(duty, leaseId) {
      await inStatements(db, (trx) =>
        trx
          .updateTable('cluster_duties')
          .set({ lease_id: null })
          .where('duty', '=', duty)
          .where('lease_id', '=', leaseId)
          .execute(),
      )
    },
  }
}
