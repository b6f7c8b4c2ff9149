/** `ClusterStore` over the tables of migrations 19, 23 and 24. */
import type { ClusterStore } from '../../metadata/cluster-store.ts'
import type { Connection } from '../../metadata/transactions.ts'
import { changes, type ListenForNotifications, type Notify } from './changes.ts'
import type { DatabaseClock } from './database-clock.ts'
import { duties } from './duties.ts'
import { keys } from './keys.ts'
import { nodes } from './nodes.ts'
import { pipeOwners } from './pipe-owners.ts'
import { quotas } from './quotas.ts'

/** `db`: the connections of leases; `work`: for all that can wait. */
export function clusterStore(
  db: Connection,
  work: Connection,
  clock: DatabaseClock,
  listen: ListenForNotifications,
  notify: Notify,
): ClusterStore {
  return {
    async now() {
      const row = await db.selectNoFrom(clock().as('now_ms')).executeTakeFirstOrThrow()
      return Number(row.now_ms)
    },
    nodes: nodes(db, clock, notify),
    changes: changes(db, clock, listen),
    pipes: pipeOwners(db, clock),
    duties: duties(db),
    quotas: quotas(work, clock),
    keys: keys(work, clock),
  }
}
