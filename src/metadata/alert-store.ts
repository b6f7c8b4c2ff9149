/**
 * Stores raised alerts and the queue of alerts to send, for the check of the lanes and the sender of alerts. The result
 * of one check is stored in one transaction:
 *
 *   record   stores marks and the alerts they are about, in one transaction
 *   next     returns the oldest unsent alert
 *   settle   removes it from the queue, or stores its failure
 *
 * After a crash before `record` the next check raises the alert. After a crash behind it the queue is sent. After a
 * crash between a receiver's response and `settle` the alert is sent again with the same `webhook-id`.
 */
import type { AlertEvent } from '../contract/alert-words.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { slices } from '../platform/slices.ts'
import { eventsOf, pendingAlerts, readAlerts, type StoredAlerts } from './alerts.ts'
import { nextNumber } from './rows.ts'
import type { Sealer } from './secrets.ts'
import { normaliseId } from './tables.ts'
import { type Connection, inWriteTransaction } from './transactions.ts'

/** The alert state of one lane or pipe and one event: `observe/alerts/marks.ts`. */
export interface AlertMark {
  /** The id of the destination or of the pipe; empty for the service itself. */
  subject: string
  event: AlertEvent
  /**
   * `held`: the condition is true, but was not reported because the last alert was too recent. `raised`: it was reported and
   * is still true.
   */
  state: 'none' | 'held' | 'raised'
  /** The time at which the condition became true. */
  sinceMs: number | null
  /** The time at which the last alert was queued. */
  alertedMs: number | null
  /** Number of occurrences that have not been reported. */
  heldBack: number
  /** For an event with a count: the count that was last reported. */
  counted: number
}

/** A workspace with alerts, as the check of the lanes sees it. */
export interface WatchedWorkspace {
  workspaceId: string
  events: readonly AlertEvent[] | null
  hasBegun: boolean
  pending: number
}

export interface QueuedAlert {
  alertId: string
  atMs: number
  /** The alert as JSON text, as it is sent. */
  json: string
}

export type AlertOutcome =
  | { kind: 'sent'; atMs: number }
  /** `isFinal`: the alert is not sent again. */
  | { kind: 'failed'; atMs: number; code: string; message: string; isFinal: boolean }

export interface AlertStore {
  /** Returns every workspace with alerts. */
  workspaces(): Promise<WatchedWorkspace[]>
  marks(workspaceId: string): Promise<AlertMark[]>
  /**
   * Stores the result of one check of the lanes in one transaction. False: the workspace no longer has alerts, and
   * nothing was stored. `gone`: marks that are no longer needed.
   */
  record(
    workspaceId: string,
    found: { marks: readonly AlertMark[]; gone: readonly AlertMark[]; alerts: readonly QueuedAlert[] },
  ): Promise<boolean>
  /** Returns the oldest unsent alert and the settings to send it with. Null: the queue is empty. */
  next(workspaceId: string): Promise<{ alert: QueuedAlert; settings: StoredAlerts } | null>
  settle(alert: { workspaceId: string; alertId: string }, outcome: AlertOutcome): Promise<void>
}

/** Rows per statement. A row has 8 values, so this is far below the databases' limits of parameters. */
const marksAtOnce = 100

export function alertStore(db: Connection, sealer: Sealer): AlertStore {
  return {
    async workspaces() {
      const rows = await db
        .selectFrom('alert_settings')
        .select(['workspace_id', 'alert_events', 'has_begun'])
        .select(pendingAlerts)
        .orderBy('workspace_id')
        .execute()
      return rows.map((row) => ({
        workspaceId: row.workspace_id,
        events: eventsOf(row.alert_events),
        hasBegun: row.has_begun === 1,
        pending: row.pending,
      }))
    },

    async marks(workspaceId) {
      const marks = db.selectFrom('alert_marks').where('workspace_id', '=', normaliseId(workspaceId))
      return await marks
        .select((eb) => [
          ...(['subject', 'mark_state as state', 'since_ms as sinceMs', 'told_ms as alertedMs'] as const),
          ...(['held_back as heldBack', 'counted'] as const),
          eb.ref('event').$castTo<AlertEvent>().as('event'),
        ])
        .execute()
    },

    record: (workspaceId, found) =>
      inWriteTransaction(db, (trx) => recordFound(trx, normaliseId(workspaceId), found)),

    async next(givenId) {
      const workspaceId = normaliseId(givenId)
      const row = await db
        .selectFrom('alert_queue')
        .selectAll()
        .where('workspace_id', '=', workspaceId)
        .orderBy('alert_order')
        .limit(1)
        .executeTakeFirst()
      const settings = row && (await readAlerts(db, sealer, workspaceId))
      if (!row || !settings) return null
      const { alert_id, alert_ms, alert_json } = row
      return { alert: { alertId: alert_id, atMs: alert_ms, json: alert_json }, settings }
    },

    async settle({ workspaceId: givenId, alertId }, outcome) {
      const workspaceId = normaliseId(givenId)
      await inWriteTransaction(db, async (trx) => {
        if (outcome.kind === 'sent' || outcome.isFinal) {
          await trx
            .deleteFrom('alert_queue')
            .where('workspace_id', '=', workspaceId)
            .where('alert_id', '=', alertId)
            .execute()
        }
        const became =
          outcome.kind === 'sent'
            ? { last_sent_ms: outcome.atMs }
            : { failed_ms: outcome.atMs, failure_code: outcome.code, failure_message: outcome.message }
        await trx.updateTable('alert_settings').set(became).where('workspace_id', '=', workspaceId).execute()
      })
    },
  }
}

async function recordFound(
  trx: Connection,
  workspaceId: string,
  { marks, gone, alerts }: Parameters<AlertStore['record']>[1],
): Promise<boolean> {
  const updated = await trx
    .updateTable('alert_settings')
    .set({ has_begun: 1 })
    .where('workspace_id', '=', workspaceId)
    .executeTakeFirst()
  if (updated.numUpdatedRows === 0n) return false
  for (const { subject, event } of gone) {
    await trx
      .deleteFrom('alert_marks')
      .where('workspace_id', '=', workspaceId)
      .where('subject', '=', subject)
      .where('event', '=', event)
      .execute()
  }
  await putMarks(trx, workspaceId, marks)
  const first = await nextNumber(trx, 'alert_queue', 'alert_order', { workspace_id: workspaceId })
  for (const [index, { alertId, atMs, json }] of alerts.entries()) {
    const alert = { alert_order: first + index, alert_id: alertId, alert_ms: atMs, alert_json: json }
    await trx
      .insertInto('alert_queue')
      .values({ workspace_id: workspaceId, ...alert })
      .execute()
  }
  await trx
    .deleteFrom('alert_queue')
    .where('workspace_id', '=', workspaceId)
    .where('alert_order', '<', first + alerts.length - resourceLimits.alertsPerWorkspace)
    .execute()
  return true
}

/** There are thousands of marks if all lanes of a workspace fail at once. */
async function putMarks(trx: Connection, workspaceId: string, marks: readonly AlertMark[]): Promise<void> {
  for (const some of slices(marks, marksAtOnce)) {
    const rows = some.map((mark) => ({
      workspace_id: workspaceId,
      subject: mark.subject,
      event: mark.event,
      mark_state: mark.state,
      since_ms: mark.sinceMs,
      told_ms: mark.alertedMs,
      held_back: mark.heldBack,
      counted: mark.counted,
    }))
    await trx
      .insertInto('alert_marks')
      .values(rows)
      .onConflict((conflict) =>
        conflict.columns(['workspace_id', 'subject', 'event']).doUpdateSet((eb) => ({
          mark_state: eb.ref('excluded.mark_state'),
          since_ms: eb.ref('excluded.since_ms'),
          told_ms: eb.ref('excluded.told_ms'),
          held_back: eb.ref('excluded.held_back'),
          counted: eb.ref('excluded.counted'),
        })),
      )
      .execute()
  }
}
