/**
 * The fence of what is stored of a lane outside its row (parked records, history, drift). The lane's row knows its newest
 * owner. A write changes that row first, to what it is: so it waits for a take-over that is under way, a take-over waits for it,
 * and what an earlier owner writes is either there when `LaneStore.take` resolves, or rejected.
 */
import type { LaneOwner } from './lane-ownership.ts'
import { LaneOwnershipLostError } from './lane-state.ts'
import { normaliseId } from './tables.ts'
import type { Connection } from './transactions.ts'

/** False: the destination is gone. Rejects with LaneOwnershipLostError when there has been a newer owner. */
export async function holdLane(trx: Connection, { destinationId, epoch }: LaneOwner): Promise<boolean> {
  const id = normaliseId(destinationId)
  const { numUpdatedRows } = await trx
    .updateTable('lanes')
    .set((eb) => ({ owner_epoch: eb.ref('owner_epoch') }))
    .where('destination_id', '=', id)
    .where('owner_epoch', '<=', epoch)
    .executeTakeFirstOrThrow()
  if (numUpdatedRows > 0n) return true
  await requireDeleted(trx, [id])
  return false
}

/** A row that was not updated is gone with its destination, or a newer owner has it. */
export async function requireDeleted(trx: Connection, destinationIds: readonly string[]): Promise<void> {
  if (destinationIds.length === 0) return
  const lost = await trx
    .selectFrom('lanes')
    .select('destination_id')
    .where('destination_id', 'in', destinationIds)
    .execute()
  if (lost.length > 0) throw new LaneOwnershipLostError(lost.map((row) => row.destination_id))
}
