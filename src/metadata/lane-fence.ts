/**
 * Fences writes to data of a lane outside its row (parked records, history, drift). The lane's row knows its newest
 * owner. A write first updates that row without changing it, so it and a takeover wait for each other. A write of the
 * previous owner is either stored when `LaneStore.take` resolves, or rejected.
 */
import type { LaneOwner } from './lane-ownership.ts'
import { LaneOwnershipLostError } from './lane-state.ts'
import { normaliseId } from './tables.ts'
import type { Connection } from './transactions.ts'

/** False: the destination was deleted. Rejects with LaneOwnershipLostError if there has been a newer owner. */
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

/**
 * A row was not updated either because its destination was deleted, which is allowed, or because a newer owner has it.
 */
export async function requireDeleted(trx: Connection, destinationIds: readonly string[]): Promise<void> {
  if (destinationIds.length === 0) return
  const lost = await trx
    .selectFrom('lanes')
    .select('destination_id')
    .where('destination_id', 'in', destinationIds)
    .execute()
  if (lost.length > 0) throw new LaneOwnershipLostError(lost.map((row) => row.destination_id))
}
