/** The alert settings of a workspace: at most one row per workspace. The address and the secret are stored sealed. */
import { sql } from 'kysely'
import {
  type AlertEvent,
  type AlertFormat,
  alertEventNames,
  redactedAlertUrl,
} from '../contract/alert-words.ts'
import type { AlertsStatus } from '../contract/alerts.ts'
import { redacted } from '../contract/destination-words.ts'
import type { Audited } from './audit.ts'
import { type Sealer, UnsealError } from './secrets.ts'
import { type AlertSettingsRow, isoTime, normaliseId } from './tables.ts'
import type { Connection } from './transactions.ts'

/** The alert settings of a workspace, with address and secret in the clear. */
export interface AlertSettings {
  url: string
  secret: string | null
  format: AlertFormat
  /** Null: all events, including those that later versions add. */
  events: readonly AlertEvent[] | null
}

export interface StoredAlerts extends AlertSettings {
  /** The stored address or secret cannot be unsealed: both are empty, and nothing can be sent. */
  isUnreadable: boolean
  status: AlertsStatus
}

export interface AlertSettingsStore {
  /** Null: the workspace has no alert settings. */
  get(workspaceId: string): Promise<StoredAlerts | null>
  /** Replaces all settings. Pending alerts are kept and sent to the new address. `decide` may throw. */
  put(workspaceId: string, decide: (current: StoredAlerts | null) => AlertSettings): Promise<StoredAlerts>
  /** Deletes the settings and all pending alerts. False: there were no settings. */
  delete(workspaceId: string): Promise<boolean>
}

export function alerts(db: Connection, sealer: Sealer, inAudited: Audited): AlertSettingsStore {
  return {
    get: (workspaceId) => readAlerts(db, sealer, normaliseId(workspaceId)),

    put: (workspaceId, decide) =>
      inAudited(async (trx, record) => {
        const id = normaliseId(workspaceId)
        const before = await readAlerts(trx, sealer, id)
        const settings = decide(before)
        const values = {
          ...sealedAlerts(sealer, id, settings),
          alert_format: settings.format,
          alert_events: settings.events?.join(',') ?? null,
        }
        await trx
          .insertInto('alert_settings')
          .values({ workspace_id: id, ...values, has_begun: 0 })
          .onConflict((conflict) => conflict.column('workspace_id').doUpdateSet(values))
          .execute()
        await record({
          workspaceId,
          operation: 'putAlerts',
          resourceId: null,
          pipeId: null,
          before: before === null ? null : audited(before),
          after: audited(settings, before),
        })
        const after = await readAlerts(trx, sealer, id)
        if (after === null) throw new Error('alert settings were not stored')
        return after
      }),

    delete: (workspaceId) =>
      inAudited(async (trx, record) => {
        const id = normaliseId(workspaceId)
        const before = await readAlerts(trx, sealer, id)
        if (before === null) return false
        await trx.deleteFrom('alert_settings').where('workspace_id', '=', id).execute()
        const removed = { operation: 'deleteAlerts', resourceId: null, pipeId: null, after: null }
        await record({ ...removed, workspaceId, before: audited(before) })
        return true
      }),
  }
}

/** A column of `alert_settings`: the number of alerts that are not sent yet. */
export const pendingAlerts = sql<number>`(SELECT count(*) FROM alert_queue
  WHERE alert_queue.workspace_id = alert_settings.workspace_id)`.as('pending')

/** Expects `workspaceId` in lower case. */
export async function readAlerts(
  db: Connection,
  sealer: Sealer,
  workspaceId: string,
): Promise<StoredAlerts | null> {
  const row = await db
    .selectFrom('alert_settings')
    .selectAll()
    .select(pendingAlerts)
    .where('workspace_id', '=', workspaceId)
    .executeTakeFirst()
  if (row === undefined) return null
  return {
    ...openedAlerts(sealer, row),
    format: row.alert_format,
    events: eventsOf(row.alert_events),
    status: {
      pending_alerts: row.pending,
      last_sent_ts: row.last_sent_ms === null ? null : isoTime(row.last_sent_ms),
      last_failure:
        row.failed_ms === null
          ? null
          : {
              failure_ts: isoTime(row.failed_ms),
              code: row.failure_code ?? '',
              message: row.failure_message ?? '',
            },
    },
  }
}

/** Leaves out events that this version does not know. */
export function eventsOf(text: string | null): AlertEvent[] | null {
  if (text === null) return null
  const stored = text.split(',')
  return alertEventNames.filter((event) => stored.includes(event))
}

type SealedAlerts = Pick<AlertSettingsRow, 'alert_url' | 'alert_secret'>

export function sealedAlerts(
  sealer: Sealer,
  workspaceId: string,
  { url, secret }: Pick<AlertSettings, 'url' | 'secret'>,
): SealedAlerts {
  return {
    alert_url: sealer.seal(url, belongsTo(workspaceId, 'url')),
    alert_secret: secret === null ? null : sealer.seal(secret, belongsTo(workspaceId, 'secret')),
  }
}

/** Values that cannot be unsealed, because the file was altered or its key is lost, are empty. */
export function openedAlerts(
  sealer: Sealer,
  { workspace_id, alert_url, alert_secret }: SealedAlerts & Pick<AlertSettingsRow, 'workspace_id'>,
): Pick<StoredAlerts, 'url' | 'secret' | 'isUnreadable'> {
  try {
    const url = sealer.open(alert_url, belongsTo(workspace_id, 'url'))
    const secret = alert_secret === null ? null : sealer.open(alert_secret, belongsTo(workspace_id, 'secret'))
    return { url, secret, isUnreadable: false }
  } catch (error) {
    if (!(error instanceof UnsealError)) throw error
    return { url: '', secret: alert_secret === null ? null : '', isUnreadable: true }
  }
}

function belongsTo(workspaceId: string, place: string): string {
  return `alerts ${workspaceId} ${place}`
}

/** Leaves out the secrets. `before`: the state to compare with, to name the secrets that changed. */
function audited(
  { url, secret, format, events }: AlertSettings,
  before: AlertSettings | null = null,
): Record<string, unknown> {
  const shown = {
    url: redactedAlertUrl(url, format),
    secret: secret === null ? null : redacted,
    format,
    events: events ?? alertEventNames,
  }
  if (before === null) return shown
  const changed = [...(before.url === url ? [] : ['url']), ...(before.secret === secret ? [] : ['secret'])]
  return changed.length === 0 ? shown : { ...shown, secrets_changed: changed }
}
