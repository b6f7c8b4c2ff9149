/**
 * Keys in records that match no column, as delivery saw them: one row per destination, which the delivery thread writes
 * from time to time.
 */
import type { SavedDrift } from '../contract/drift.ts'
import { holdLane } from './lane-fence.ts'
import type { DriftStore } from './lane-state.ts'
import type { Metadata } from './store.ts'
import { normaliseId } from './tables.ts'
import { type Connection, inWriteTransaction } from './transactions.ts'

export function driftStore(db: Connection): DriftStore {
  return {
    load: async (destinationId) => asSaved(await ofDestination(db, destinationId).executeTakeFirst()),
    async save(owner, { mappingHash, state }) {
      const row = {
        destination_id: normaliseId(owner.destinationId),
        mapping_hash: mappingHash,
        state_json: JSON.stringify(state),
      }
      const { destination_id: _, ...values } = row
      await inWriteTransaction(db, async (trx) => {
        // The destination has been deleted.
        if (!(await holdLane(trx, owner))) return
        await trx
          .insertInto('destination_drift')
          .values(row)
          .onConflict((conflict) => conflict.column('destination_id').doUpdateSet(values))
          .execute()
      })
    },
  }
}

/** `Metadata['drift']` */
export function drift(db: Connection): Metadata['drift'] {
  return async ({ workspaceId, destinationId }) =>
    asSaved(
      await ofDestination(db, destinationId)
        .innerJoin('destinations', 'destinations.destination_id', 'drift.destination_id')
        .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
        .where('pipes.workspace_id', '=', normaliseId(workspaceId))
        .executeTakeFirst(),
    )
}

function ofDestination(db: Connection, destinationId: string) {
  return db
    .selectFrom('destination_drift as drift')
    .select(['mapping_hash', 'state_json'])
    .where('drift.destination_id', '=', normaliseId(destinationId))
}

function asSaved(row: { mapping_hash: string; state_json: string } | undefined): SavedDrift | null {
  if (row === undefined) return null
  return { mappingHash: row.mapping_hash, state: JSON.parse(row.state_json) as SavedDrift['state'] }
}
