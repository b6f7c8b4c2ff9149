import type { NoteChange } from '../../metadata/audit.ts'
import type { ClusterStore } from '../../metadata/cluster-store.ts'
import type { MetadataSpec } from '../../metadata/store.ts'
import type { Connection, OpenedDatabase } from '../../metadata/transactions.ts'
import {
  changeNotes,
  changes,
  type ListenForNotifications,
  type Notify,
  noNotification,
  notifyChannel,
  notifyPostgres,
} from './changes.ts'
import { type DatabaseClock, databaseClock } from './database-clock.ts'
import { duties } from './duties.ts'
import { keys } from './keys.ts'
import { nodes } from './nodes.ts'
import { pipeOwners } from './pipe-owners.ts'
import { quotas } from './quotas.ts'

/** The parts of metadata that only processes with a shared database need. `now` is the clock for databases without one. */
export function openSharedMetadata(
  kind: MetadataSpec['kind'],
  { db, leases, listen }: OpenedDatabase,
  now: () => number,
): { store: ClusterStore; noteChange: NoteChange } {
  const clock = databaseClock(kind, now)
  const notify = listen === null ? noNotification : notifyPostgres
  return {
    store: clusterStore(
      { db: leases, work: db },
      clock,
      (onNotified) => listen?.(notifyChannel, onNotified) ?? (async () => {}),
      notify,
    ),
    noteChange: changeNotes(clock, notify),
  }
}

/**
 * Uses the tables of migrations 19, 23 and 24. `db` has the connections of leases; `work` is for everything that can
 * wait.
 */
function clusterStore(
  { db, work }: { db: Connection; work: Connection },
  clock: DatabaseClock,
  listen: ListenForNotifications,
  notify: Notify,
): ClusterStore {
  return {
    async now() {
      const row = await db.selectNoFrom(clock().as('now_ms')).executeTakeFirstOrThrow()
      return row.now_ms
    },
    nodes: nodes(db, clock, notify),
    changes: changes(db, clock, listen),
    pipes: pipeOwners(db, clock),
    duties: duties(db),
    quotas: quotas(work, clock),
    keys: keys(work, clock),
  }
}
