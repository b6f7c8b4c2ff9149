/**
 * Parks the records that a destination rejects permanently, if the lane parks such records (`AttemptProgress.park`).
 *
 *   rejected ─1,000 per call─▶ lane parks them (durable) ──▶ the driver commits the others
 *                               └── fails ──▶ rejects: nothing of the batch is stored, it is repeated
 *
 * The state of a batch in a database after a crash (one transaction; with exactly_once the lane's row moves in it):
 *
 *   before the lane has parked them     nothing stored, nothing parked: the batch is repeated
 *   after it, before the COMMIT         nothing stored; parked, and parked again at the same positions by the next attempt
 *   after the COMMIT, its reply lost    both. Repeated: at least once; with exactly_once the row shows that nothing is left
 *
 * A record that was parked and is accepted by the next attempt, because a user has changed the table in between, is in both.
 */
import { resourceLimits } from '../contract/resource-limits.ts'
import { slices } from '../platform/slices.ts'
import { DeliveryError, type ParkRecords, type RejectedRecord } from './driver.ts'

/** At most as many per call as the lane accepts. Durable when it resolves; rejects as `park` does. */
export async function parkInSlices(park: ParkRecords, rejected: readonly RejectedRecord[]): Promise<void> {
  for (const some of slices(rejected, resourceLimits.parkedAtOnce)) await park(some)
}

/** The same for a driver. Rejects with a transient DeliveryError. */
export async function parkAll(park: ParkRecords, rejected: readonly RejectedRecord[]): Promise<void> {
  try {
    await parkInSlices(park, rejected)
  } catch (cause) {
    if (cause instanceof DeliveryError) throw cause
    const message =
      'The rejected records could not be parked. Nothing was stored; the pipectl log has the cause.'
    throw new DeliveryError('transient', 'not_set_aside', message, { cause })
  }
}

/** The record that the error reports as at fault. */
export function rejectedRecordOf(error: unknown): RejectedRecord | undefined {
  return error instanceof DeliveryError ? error.rejected : undefined
}

/** Returns the error as the rejection of a record: the destination's code and message. */
export function rejectionOf(
  { code, message }: Pick<DeliveryError, 'code' | 'message'>,
  place: Pick<RejectedRecord, 'seq' | 'recordIndex' | 'column' | 'value'>,
): RejectedRecord {
  return { ...place, code, message }
}
