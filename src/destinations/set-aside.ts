/**
 * Collects permanently rejected records while the lane sets such records aside (`AttemptProgress.setAside`).
 *
 *   refused ──1,000 a call──▶ lane keeps them (durable) ──▶ the driver commits the others
 *                               └── cannot ──▶ rejects: nothing of the batch is stored, it is repeated
 *
 * The state of a batch in a database after a crash (one transaction; with exactly_once the lane's row moves in it):
 *
 *   before the lane has kept them       nothing stored, nothing kept: the batch is repeated
 *   after it, before the COMMIT         nothing stored; kept, and kept again at the same positions by the next attempt
 *   after the COMMIT, its reply lost    both. Repeated: at least once; with exactly_once the row says that nothing is left
 *
 * A record that was kept and is accepted by the next attempt, because a user has changed the table meanwhile, is in
 * both.
 */
import assert from 'node:assert'
import { resourceLimits } from '../contract/resource-limits.ts'
import { type AttemptProgress, DeliveryError, type RejectedRecord } from './driver.ts'

export type SetAside = NonNullable<AttemptProgress['setAside']>

/** Durable when it resolves. Rejects with a transient DeliveryError. */
export async function setAsideAll(
  setAside: SetAside | undefined,
  rejected: readonly RejectedRecord[],
): Promise<void> {
  assert(setAside !== undefined)
  const { setAsideAtOnce } = resourceLimits
  try {
    for (let at = 0; at < rejected.length; at += setAsideAtOnce) {
      await setAside(rejected.slice(at, at + setAsideAtOnce))
    }
  } catch (cause) {
    if (cause instanceof DeliveryError) throw cause
    const message =
      'Records that the destination refuses could not be set aside. Nothing was stored; see the pipectl log.'
    throw new DeliveryError('transient', 'not_set_aside', message, { cause })
  }
}

/** As a rejected record's: what the destination said of it. */
export function refusalOf(
  { code, message }: Pick<DeliveryError, 'code' | 'message'>,
  place: Pick<RejectedRecord, 'seq' | 'recordIndex' | 'column' | 'value'>,
): RejectedRecord {
  return { ...place, code, message }
}
