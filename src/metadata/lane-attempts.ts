/**
 * The delivery attempts of each lane, for people who look for the cause of a failure. An attempt is written in the
 * transaction that saves its outcome (`lane-store.ts`): a crash leaves both or neither, and a stale owner writes none.
 *
 * The slots of a lane are two rings, one for each outcome. The newest attempt takes the slot of the oldest one of its
 * outcome, so that the table needs no deletions to stay within its bounds, and deliveries displace no failures.
 *
 *   slots 0 …           deliveredAttemptsPerLane of those that delivered
 *   the others          failedAttemptsPerLane of those that failed
 */
import { CompiledQuery, sql } from 'kysely'
import type { DeliveryAttempt } from '../contract/attempts.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { hourMs } from '../platform/quantities.ts'
import { type DestinationRef, normaliseId } from './tables.ts'
import type { Connection } from './transactions.ts'

/** An attempt, and its number among the attempts of its lane with the same outcome, from 1. */
export interface NumberedAttempt {
  numberOfOutcome: number
  attempt: DeliveryAttempt
}

export interface AttemptQuery {
  limit: number
  /** Only those with a smaller `attempt_no`. */
  before: number | null
  outcome: DeliveryAttempt['outcome'] | null
  /** ms since the epoch. */
  sinceMs: number | null
}

/**
 * The newest first, each as the JSON text of a `DeliveryAttempt`. `next`: `before` of the next page. Nothing of a
 * destination of another workspace.
 */
export type AttemptLog = (
  destination: DestinationRef,
  query: AttemptQuery,
) => Promise<{ texts: string[]; next: number | null }>

const { deliveredAttemptsPerLane, failedAttemptsPerLane, deliveredAttemptHours, failedAttemptHours } =
  resourceLimits

interface Attempted {
  destinationId: string
  attempts?: readonly NumberedAttempt[]
}

/**
 * Records the attempts of lanes, whose destinations must exist. The cost is 25 to 50 µs of CPU per attempt: 0.3 % of a
 * batch of 1,000 records to an HTTP endpoint, 1 to 2 % of a batch of 10.
 */
export function attemptRecorder(
  db: Connection,
): (trx: Connection, lanes: readonly Attempted[]) => Promise<void> {
  const insert = sql`
    INSERT INTO lane_attempts (destination_id, slot, attempt_no, at_ms, outcome, attempt_json)
    VALUES (${sql.join(Array.from({ length: 6 }, () => sql`${null}`))})
    ON CONFLICT (destination_id, slot) DO UPDATE SET
      attempt_no = excluded.attempt_no, at_ms = excluded.at_ms, outcome = excluded.outcome,
      attempt_json = excluded.attempt_json`.compile(db).sql
  return async (trx, lanes) => {
    for (const { destinationId, attempts = [] } of lanes) {
      for (const { numberOfOutcome, attempt } of attempts) {
        const { attempt_no, attempt_ts, outcome } = attempt
        const slot = slotOf(outcome, numberOfOutcome)
        const values = [slot, attempt_no, Date.parse(attempt_ts), outcome, JSON.stringify(attempt)]
        await trx.executeQuery(CompiledQuery.raw(insert, [normaliseId(destinationId), ...values]))
      }
    }
  }
}

function slotOf(outcome: DeliveryAttempt['outcome'], number: number): number {
  return outcome === 'delivered'
    ? number % deliveredAttemptsPerLane
    : deliveredAttemptsPerLane + (number % failedAttemptsPerLane)
}

export function attemptLog(db: Connection, now: () => number): AttemptLog {
  return async ({ workspaceId, destinationId }, { limit, before, outcome, sinceMs }) => {
    const oldest = oldestKept(now())
    const rows = await db
      .selectFrom('lane_attempts as attempt')
      .innerJoin('destinations', 'destinations.destination_id', 'attempt.destination_id')
      .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
      .select(['attempt.attempt_no', 'attempt.attempt_json'])
      .where('attempt.destination_id', '=', normaliseId(destinationId))
      .where('pipes.workspace_id', '=', normaliseId(workspaceId))
      .where((of) =>
        of.or([
          of.and([of('outcome', '=', 'delivered'), of('at_ms', '>=', oldest.delivered)]),
          of.and([of('outcome', '=', 'failed'), of('at_ms', '>=', oldest.failed)]),
        ]),
      )
      .$if(outcome !== null, (query) => query.where('outcome', '=', outcome!))
      .$if(sinceMs !== null, (query) => query.where('at_ms', '>=', sinceMs!))
      .$if(before !== null, (query) => query.where('attempt_no', '<', before!))
      .orderBy('attempt_no', 'desc')
      .limit(limit + 1)
      .execute()
    const page = rows.slice(0, limit)
    return {
      texts: page.map(({ attempt_json }) => attempt_json),
      next: rows.length > limit ? page.at(-1)!.attempt_no : null,
    }
  }
}

/** Removes the lane's attempts that are too old to be listed. */
export async function pruneAttempts(trx: Connection, destinationId: string, now: number): Promise<void> {
  const oldest = oldestKept(now)
  await trx
    .deleteFrom('lane_attempts')
    .where('destination_id', '=', normaliseId(destinationId))
    .where('at_ms', '<', oldest.delivered)
    .where((of) => of.or([of('outcome', '=', 'delivered'), of('at_ms', '<', oldest.failed)]))
    .execute()
}

function oldestKept(now: number): Record<DeliveryAttempt['outcome'], number> {
  return { delivered: now - deliveredAttemptHours * hourMs, failed: now - failedAttemptHours * hourMs }
}
