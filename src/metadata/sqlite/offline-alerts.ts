/**
 * Alert settings in a metadata file while no daemon uses it: sealed with another key, or removed if their key is lost.
 */
import type { Database } from 'better-sqlite3'
import { openedAlerts, sealedAlerts } from '../alerts.ts'
import { type Sealer, UnsealError } from '../secrets.ts'
import type { AlertSettingsRow } from '../tables.ts'
import { readSqliteFile } from './file.ts'

type StoredAlerts = Pick<AlertSettingsRow, 'workspace_id' | 'alert_url' | 'alert_secret'> & {
  workspace_name: string
}

/** Returns the alert settings whose address or secret cannot be unsealed. */
export function lostAlerts(database: Database, sealer: Sealer): StoredAlerts[] {
  return readAlerts(database).filter((row) => openedAlerts(sealer, row).isUnreadable)
}

/** Removes the settings with their marks and pending alerts, whose receiver is unknown now. */
export function removeAlerts(database: Database, { workspace_id }: StoredAlerts): void {
  for (const table of ['alert_queue', 'alert_marks', 'alert_settings'])
    database.prepare(`DELETE FROM ${table} WHERE workspace_id = ?`).run(workspace_id)
}

/** Throws UnsealError. */
export function resealAlerts(database: Database, from: Sealer, to: Sealer): void {
  for (const row of readAlerts(database)) {
    const opened = openedAlerts(from, row)
    if (opened.isUnreadable)
      throw new UnsealError(`the alert settings of workspace ${row.workspace_name} cannot be unsealed`)
    const sealed = sealedAlerts(to, row.workspace_id, opened)
    database
      .prepare('UPDATE alert_settings SET alert_url = ?, alert_secret = ? WHERE workspace_id = ?')
      .run(sealed.alert_url, sealed.alert_secret, row.workspace_id)
  }
}

/** Counts the workspaces of a metadata file, and those with alerts. Changes nothing. */
export function countAlerts(file: string): { workspaces: number; withAlerts: number } {
  return readSqliteFile(file, (database) => {
    const count = (table: string) => Number(database.prepare(`SELECT count(*) FROM ${table}`).pluck().get())
    return { workspaces: count('workspaces'), withAlerts: count('alert_settings') }
  })
}

/** For a restored backup: its pending alerts are out of date. */
export function dropPendingAlerts(database: Database): void {
  database.exec('DELETE FROM alert_queue')
}

function readAlerts(database: Database): StoredAlerts[] {
  return database
    .prepare<[], StoredAlerts>(
      `SELECT workspace_id, workspace_name, alert_url, alert_secret
       FROM alert_settings JOIN workspaces USING (workspace_id) ORDER BY workspace_name`,
    )
    .all()
}
