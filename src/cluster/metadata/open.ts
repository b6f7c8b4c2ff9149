import type { NoteChange } from '../../metadata/audit.ts'
import type { ClusterStore } from '../../metadata/cluster-store.ts'
import type { MetadataSpec } from '../../metadata/store.ts'
import type { OpenedDatabase } from '../../metadata/transactions.ts'
import { changeNotes, changes, noNotification, notifyChannel, notifyPostgres } from './changes.ts'
import { duties } from './duties.ts'
import { keys } from './keys.ts'
import { nodes } from './nodes.ts'
import { pipeOwners } from './pipe-owners.ts'
import { quotas } from './quotas.ts'
import { databaseClock } from './statements.ts'

/**
 * The parts of metadata that only processes with a shared database need: the tables of migrations 19, 23 and 24. `now` is
 * the clock for databases without one.
 */
export function openSharedMetadata(
  kind: MetadataSpec['kind'],
  { db, leases, listen }: OpenedDatabase,
  now: () => number,
): { store: ClusterStore; noteChange: NoteChange } {
  const clock = databaseClock(kind, now)
  const notify = listen === null ? noNotification : notifyPostgres
  const store: ClusterStore = {
    async now() {
      const row = await leases.selectNoFrom(clock().as('now_ms')).executeTakeFirstOrThrow()
      return row.now_ms
    },
    nodes: nodes(leases, clock, notify),
    changes: changes(leases, clock, (onNotified) => listen?.(notifyChannel, onNotified) ?? (async () => {})),
    pipes: pipeOwners(leases, clock),
    duties: duties(leases),
    // These can wait, and use no connection of leases.
    quotas: quotas(db, clock),
    keys: keys(db, clock),
  }
  return { store, noteChange: changeNotes(clock, notify) }
}
