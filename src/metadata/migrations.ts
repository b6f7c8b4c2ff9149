/**
 * Migrations: numbered steps from an empty database to the tables of `database.ts`, one file each. They run on open, all
 * missing ones in one write transaction: of two processes opening an old database at once, one migrates and the other
 * finds nothing left to do. A step that has been released is never changed (a test compares hashes of their SQL); a
 * change is a new step.
 */
import type { Transaction } from 'kysely'
import { ConfigError } from '../platform/config-error.ts'
import type { Tables } from './database.ts'
import { firstTables } from './migrations/1-first-tables.ts'
import { progressAndDeliverySettings } from './migrations/2-progress-and-delivery-settings.ts'
import { identityAndChecks } from './migrations/3-identity-and-checks.ts'
import { serverKeyPins } from './migrations/4-server-key-pins.ts'
import { revokedKeys } from './migrations/5-revoked-keys.ts'
import { deletedPipesOfWorkspace } from './migrations/6-deleted-pipes-of-workspace.ts'
import { people } from './migrations/7-people.ts'
import { nextRange } from './migrations/8-next-range.ts'
import { keyRights } from './migrations/9-key-rights.ts'
import { laneHours } from './migrations/10-lane-hours.ts'
import { laneGenerations } from './migrations/11-lane-generations.ts'
import { auditLog } from './migrations/12-audit-log.ts'
import { laneHistory } from './migrations/13-lane-history.ts'
import { destinationNames } from './migrations/14-destination-names.ts'
import { laneErrorRecord } from './migrations/15-lane-error-record.ts'
import { parked } from './migrations/16-parked.ts'
import { alerts } from './migrations/17-alerts.ts'
import { destinationDrift } from './migrations/18-destination-drift.ts'
import { cluster } from './migrations/19-cluster.ts'
import { transforms } from './migrations/20-transforms.ts'
import { filteredHours } from './migrations/21-filtered-hours.ts'
import { bufferContact } from './migrations/22-buffer-contact.ts'
import { clusterQuotas } from './migrations/23-cluster-quotas.ts'
import { clusterKeys } from './migrations/24-cluster-keys.ts'
import { laneStates } from './migrations/25-lane-states.ts'

export interface Migration {
  number: number
  name: string
  up(trx: Transaction<Tables>): Promise<void>
}

export const migrations: readonly Migration[] = [
  { number: 1, name: 'first tables', up: firstTables },
  { number: 2, name: 'progress and delivery settings', up: progressAndDeliverySettings },
  { number: 3, name: 'identity and checks', up: identityAndChecks },
  { number: 4, name: 'server key pins', up: serverKeyPins },
  { number: 5, name: 'revoked keys', up: revokedKeys },
  { number: 6, name: 'deleted pipes of a workspace', up: deletedPipesOfWorkspace },
  { number: 7, name: 'people', up: people },
  { number: 8, name: 'next range', up: nextRange },
  { number: 9, name: 'key rights', up: keyRights },
  { number: 10, name: 'lane hours', up: laneHours },
  { number: 11, name: 'lane generations', up: laneGenerations },
  { number: 12, name: 'audit log', up: auditLog },
  { number: 13, name: 'lane history', up: laneHistory },
  { number: 14, name: 'destination names', up: destinationNames },
  { number: 15, name: 'lane error record', up: laneErrorRecord },
  { number: 16, name: 'parked records', up: parked },
  { number: 17, name: 'alerts', up: alerts },
  { number: 18, name: 'destination drift', up: destinationDrift },
  { number: 19, name: 'cluster', up: cluster },
  { number: 20, name: 'transforms', up: transforms },
  { number: 21, name: 'filtered hours', up: filteredHours },
  { number: 22, name: 'buffer contact', up: bufferContact },
  { number: 23, name: 'quotas of a cluster', up: clusterQuotas },
  { number: 24, name: 'idempotency keys of a cluster', up: clusterKeys },
  { number: 25, name: 'lane states', up: laneStates },
]

/** Of a database that this version has brought up to date. */
export const newestFormat = migrations.at(-1)?.number ?? 0

/**
 * Brings the tables up to date inside `trx`. Returns the newest migration of before; 0: there were no tables. Throws ConfigError for a database that a newer version has
 * written.
 */
export async function migrate(
  trx: Transaction<Tables>,
  label: string,
  now: number,
  steps: readonly Migration[] = migrations,
): Promise<number> {
  await trx.schema
    .createTable('metadata_migrations')
    .ifNotExists()
    .addColumn('number', 'integer', (column) => column.primaryKey())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('applied_ms', 'bigint', (column) => column.notNull())
    .execute()
  const applied = await trx.selectFrom('metadata_migrations').select('number').orderBy('number').execute()
  const last = applied.at(-1)?.number ?? 0
  const newest = steps.at(-1)?.number ?? 0
  if (last > newest) {
    throw new ConfigError(
      `metadata: ${label} was written by a newer pipectl (format ${last}, this one knows ${newest}); install that version or restore a backup`,
    )
  }
  for (const migration of steps) {
    if (migration.number <= last) continue
    await migration.up(trx)
    await trx
      .insertInto('metadata_migrations')
      .values({ number: migration.number, name: migration.name, applied_ms: now })
      .execute()
  }
  return last
}
