/**
 * Versions of resources that clients read, change and send back (docs/dev/contract.md#concurrent-changes). A version is
 * a hash of the rows that hold the settings of a resource, so no row needs a counter and no write can forget to raise
 * one. Columns that the service itself writes are left out: a pinned server key, and the outcome of alerts.
 */
import { createHash } from 'node:crypto'
import { ApiError } from '../contract/errors.ts'
import type { VersionedResource } from '../contract/operation.ts'
import { normaliseId } from './tables.ts'
import { type Connection, inSnapshot } from './transactions.ts'

/**
 * Allows a change only if the resource has the version that the caller knows. Checked in the transaction of the change.
 */
export interface VersionGuard {
  of: VersionedResource
  /** Null: any version. */
  expected: readonly string[] | null
  /** Called after the change is durable. Null: the resource no longer exists. */
  changed(version: string | null): void
}

export interface VersionStore {
  /** Null: there is no such resource. */
  of(resource: VersionedResource): Promise<string | null>
}

export function versions(db: Connection): VersionStore {
  return { of: (resource) => inSnapshot(db, (trx) => versionOf(trx, resource)) }
}

/**
 * For the write transaction of a change. Throws `changed_meanwhile` with the current version, unless it is an expected
 * one.
 */
export async function requireVersion(trx: Connection, { of, expected }: VersionGuard): Promise<void> {
  if (expected === null) return
  const version = await versionOf(trx, of)
  // If the resource does not exist, the change itself reports that.
  if (version !== null && !expected.includes(version)) {
    throw new ApiError('changed_meanwhile', { headers: { ETag: `"${version}"` } })
  }
}

/** Null: there is no such resource. */
export async function versionOf(trx: Connection, resource: VersionedResource): Promise<string | null> {
  const rows = await rowsOf(trx, resource)
  return rows === null
    ? null
    : createHash('sha256').update(JSON.stringify(rows)).digest('base64url').slice(0, 22)
}

async function rowsOf(trx: Connection, resource: VersionedResource): Promise<unknown[] | null> {
  const workspaceId = normaliseId(resource.workspaceId)
  if (resource.kind === 'alerts') {
    const settings = await trx
      .selectFrom('alert_settings')
      .select(['alert_url', 'alert_secret', 'alert_format', 'alert_events'])
      .where('workspace_id', '=', workspaceId)
      .execute()
    return [settings]
  }
  const pipeId = normaliseId(resource.pipeId)
  const pipe = await trx
    .selectFrom('pipes')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('pipe_id', '=', pipeId)
    .executeTakeFirst()
  if (pipe === undefined) return null
  if (resource.kind === 'pipe') {
    const limits = await trx.selectFrom('pipe_limits').selectAll().where('pipe_id', '=', pipeId).execute()
    const origins = trx.selectFrom('pipe_allowed_origins').selectAll().where('pipe_id', '=', pipeId)
    return [pipe, limits, await origins.orderBy('pipe_allowed_origin_id').execute()]
  }
  const destinationId = normaliseId(resource.destinationId)
  const destination = await trx
    .selectFrom('destinations')
    .selectAll()
    .where('pipe_id', '=', pipeId)
    .where('destination_id', '=', destinationId)
    .executeTakeFirst()
  if (destination === undefined) return null
  const { tls_pin_sha256, tls_pin_first_seen_ms, tls_pin_generation, ...settings } = destination
  const columns = trx
    .selectFrom('destination_columns')
    .selectAll()
    .where('destination_id', '=', destinationId)
  return [settings, await columns.orderBy('position').execute()]
}
