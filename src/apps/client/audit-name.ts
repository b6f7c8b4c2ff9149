/** The name of an audit entry's subject: `orders/warehouse`, the name of a key, an e-mail address. Pure. */
import type { AuditEntry } from '../../contract/audit.ts'
import type { Overview } from '../../contract/overview.ts'
import { fullName } from './workspace.ts'

/**
 * Uses the current names, or else the entry itself, which is complete for removed resources. The id if neither has a
 * name, `-` for the workspace. `overview` null: not loaded yet, or not allowed.
 */
export function resourceName(
  { resource_id: id, pipe_id: pipeId, audit_ts: atTs, before, after }: AuditEntry,
  overview: Pick<Overview, 'pipes' | 'server_ts'> | null,
): string {
  if (id === null) return '-'
  const pipe = overview?.pipes.find((one) => one.pipe_id === pipeId)
  const lane = pipe?.lanes.find((one) => one.destination_id === id)
  if (pipe !== undefined && lane !== undefined) return fullName(pipe, lane)
  const own = (key: string) => {
    const name = after?.[key] ?? before?.[key]
    return typeof name === 'string' ? name : null
  }
  const destination = own('destination_name')
  if (destination !== null) {
    if (pipe !== undefined) return `${pipe.pipe_name}/${destination}`
    return isNewerThan(overview, atTs) ? `(deleted)/${destination}` : destination
  }
  const names = ['pipe_name', 'api_key_name', 'user_email', 'workspace_name'].map(own)
  return names.find((name) => name !== null) ?? pipe?.pipe_name ?? id
}

/** More than the difference between the clocks of nodes, and than the age of what they know. */
const clearlyMs = 5_000

/** An overview that is not clearly newer than the entry can lack a pipe that was created just before. */
function isNewerThan(overview: Pick<Overview, 'server_ts'> | null, atTs: string): boolean {
  return overview !== null && Date.parse(overview.server_ts) > Date.parse(atTs) + clearlyMs
}

/** The names of the changed fields, or one word for the action. */
export function changeOf({ before, after, operation }: AuditEntry): string {
  if (before !== null && after !== null) return Object.keys(after).join(', ')
  if (after === null) return 'removed'
  if (typeof after.status === 'string') return after.status
  return /^(create|add)/.test(operation) ? 'created' : 'done'
}
