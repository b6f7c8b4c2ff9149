/**
 * The keys that database servers are known by, in the row of their destination. Delivery pins, management resets
 * (`destinations.ts`), and each does so in one write transaction, so that there are two orders:
 *
 *   reset, then pin   the generation has grown: a connection from before the reset pins nothing and is dropped
 *   pin, then reset   the pin is gone; the lane opens its driver again, as after any change, and pins what it finds then
 *
 * A crash before the commit leaves no pin, and nothing has been sent; after it the pin, whether anything was sent or not.
 */
import type { PinStore } from './lane-state.ts'
import { normaliseId } from './tables.ts'
import { type Connection, inWriteTransaction } from './transactions.ts'

export function pinStore(db: Connection, now: () => number): PinStore {
  return {
    async pin(destinationId, generation, sha256) {
      // Without waiting for writers: nearly always the key is pinned already.
      const found = await pinOf(db, destinationId, generation)
      if (found === null || found.sha256 !== null) return found && { sha256: found.sha256!, isNew: false }
      return await inWriteTransaction(db, async (trx) => {
        const current = await pinOf(trx, destinationId, generation)
        if (current === null) return null
        if (current.sha256 !== null) return { sha256: current.sha256, isNew: false }
        await trx
          .updateTable('destinations')
          .set({ tls_pin_sha256: sha256, tls_pin_first_seen_ms: now() })
          .where('destination_id', '=', normaliseId(destinationId))
          .execute()
        return { sha256, isNew: true }
      })
    },
  }
}

/** Null: no such destination, or its pinning has begun anew. */
async function pinOf(
  db: Connection,
  destinationId: string,
  generation: number,
): Promise<{ sha256: string | null } | null> {
  const row = await db
    .selectFrom('destinations')
    .select(['tls_pin_sha256', 'tls_pin_generation'])
    .where('destination_id', '=', normaliseId(destinationId))
    .executeTakeFirst()
  if (row === undefined || Number(row.tls_pin_generation) !== generation) return null
  return { sha256: row.tls_pin_sha256 }
}
