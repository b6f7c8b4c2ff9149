import type { NoteChange } from '../../metadata/audit.ts'
import type { ClusterStore } from '../../metadata/cluster-store.ts'
import type { MetadataSpec } from '../../metadata/store.ts'
import type { OpenedDatabase } from '../../metadata/transactions.ts'
import { changeNotes, notifyChannel, notifyNobody, notifyPostgres } from './changes.ts'
import { databaseClock } from './database-clock.ts'
import { clusterStore } from './store.ts'

/** The parts of metadata that only processes with a common database need. `now`: the clock where the database has none. */
export function openSharedMetadata(
  kind: MetadataSpec['kind'],
  { db, leases, listen }: OpenedDatabase,
  now: () => number,
): { store: ClusterStore; noteChange: NoteChange } {
  const clock = databaseClock(kind, now)
  const notify = listen === null ? notifyNobody : notifyPostgres
  return {
    store: clusterStore(
      leases,
      db,
      clock,
      (onNotified) => listen?.(notifyChannel, onNotified) ?? (async () => {}),
      notify,
    ),
    noteChange: changeNotes(clock, notify),
  }
}
