/**
 * The pinned keys of database servers, stored in the rows of their destinations. Delivery pins and management resets
 * (`destinations.ts`), each in one write transaction. There are two orders:
 *
 *   reset, then pin   the generation has grown: a connection from before the reset pins nothing and is dropped
 *   pin, then reset   the pin is removed; the lane reopens its driver, as after any change, and pins the key that it then sees
 *
 * A crash before the commit leaves no pin, and nothing has been sent. A crash after it leaves the pin.
 */
import type { PinStore } from './lane-state.ts'
import { normaliseId } from './tables.ts'
import { type Connection, inWriteTransaction } from './transactions.ts'

export function pinStore(db: Connection, now: () => number): PinStore {
  return {
    async pin(destinationId, generation, sha256) {
      // A read that does not wait for writers: nearly always the key is pinned already.
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

/** Null: there is no such destination, or its pin was reset. */
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
  if (row === undefined || row.tls_pin_generation !== generation) return null
  return { sha256: row.tls_pin_sha256 }
}
