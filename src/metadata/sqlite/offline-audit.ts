/**
 * Audit entries of commands that change a metadata file while no daemon uses it. They are rows of the transaction of
 * the change.
 */
import type { Database } from 'better-sqlite3'

/** Who runs the command, and when. `user` is a user of the operating system. */
export interface LocalCommand {
  readonly user: string
  readonly nowMs: number
}

/** A command's change of one workspace. `after` holds no secrets. */
export interface LocalChange {
  operation: 'restoreBackup' | 'forgetSecrets' | 'rotateSealingKey'
  workspaceId: string
  resourceId?: string
  pipeId?: string
  after: Readonly<Record<string, unknown>>
}

/** Records the change, and removes the oldest entry above the limit. */
export function recordLocally(database: Database, { user, nowMs }: LocalCommand, change: LocalChange): void {
  database
    .prepare(
      `INSERT INTO audit_log (workspace_id, audit_id, audit_ms, operation, actor_kind, actor_id, actor_name, address,
         resource_id, pipe_id, before_json, after_json)
       SELECT @workspaceId, ifnull(max(audit_id), 0) + 1, @nowMs, @operation, 'local', NULL, @user, NULL,
         @resourceId, @pipeId, NULL, @after
       FROM audit_log WHERE workspace_id = @workspaceId`,
    )
    .run({ resourceId: null, pipeId: null, nowMs, user, ...change, after: JSON.stringify(change.after) })
}

/** Records the same change for every workspace. */
export function recordForAll(
  database: Database,
  command: LocalCommand,
  change: Pick<LocalChange, 'operation' | 'after'>,
): void {
  const workspaces = database.prepare('SELECT workspace_id FROM workspaces').pluck().all()
  for (const workspaceId of workspaces)
    recordLocally(database, command, { ...change, workspaceId: String(workspaceId) })
}
