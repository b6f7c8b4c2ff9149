/**
 * Migrations: numbered steps from an empty database to the tables of `tables.ts`, one file each. The first one is the
 * baseline, which creates all tables of its format. All missing steps run when a database is opened, in one write
 * transaction. If two processes open an old database at once, one migrates it and the other finds nothing left to do. A
 * released step is never changed (a test compares hashes of their SQL); a change is a new step.
 */
import type { Transaction } from 'kysely'
import { ConfigError } from '../platform/config-error.ts'
import { createTables } from './migrations/25-tables.ts'
import { createAttempts } from './migrations/26-attempts.ts'
import { createLatency } from './migrations/27-latency.ts'
import { createReplays } from './migrations/28-replays.ts'
import { createPipeSources } from './migrations/29-pipe-sources.ts'
import { addPipePrivacy } from './migrations/30-pipe-privacy.ts'
import { createPipeSchemas } from './migrations/31-pipe-schemas.ts'
import { createPrivacyJobs } from './migrations/32-privacy-jobs.ts'
import { createAddedColumns } from './migrations/33-added-columns.ts'
import { createPipeParked } from './migrations/34-pipe-parked.ts'
import type { Tables } from './tables.ts'

export interface Migration {
  number: number
  name: string
  up(trx: Transaction<Tables>): Promise<void>
}

/** Formats before the baseline were never released, so there are no steps for them. */
export const migrations: readonly Migration[] = [
  { number: 25, name: 'tables of format 25', up: createTables },
  { number: 26, name: 'delivery attempts', up: createAttempts },
  { number: 27, name: 'latency of lanes', up: createLatency },
  { number: 28, name: 'replays of ranges', up: createReplays },
  { number: 29, name: 'sources of webhooks', up: createPipeSources },
  { number: 30, name: 'client addresses and retention of pipes', up: addPipePrivacy },
  { number: 31, name: 'schemas of pipes', up: createPipeSchemas },
  { number: 32, name: 'jobs on personal data', up: createPrivacyJobs },
  { number: 33, name: 'columns that were added to tables', up: createAddedColumns },
  { number: 34, name: 'records parked at pipes', up: createPipeParked },
]

/** The format of a database that this version has brought up to date. */
export const newestFormat = migrations.at(-1)?.number ?? 0

/** The oldest format that this version opens. */
export const oldestFormat = migrations[0]?.number ?? 0

/** Returns why a database of this format cannot be opened; null: it can be. `format` 0: it has no tables. */
export function formatProblem(format: number, steps: readonly Migration[] = migrations): string | null {
  const [oldest, newest] = [steps[0]?.number ?? 0, steps.at(-1)?.number ?? 0]
  const action = 'install that version or restore a backup'
  if (format > newest)
    return `was written by a newer pipectl (format ${format}, this version supports ${newest}); ${action}`
  if (format > 0 && format < oldest)
    return `was written by an earlier pipectl (format ${format}, this version supports ${oldest} and newer); ${action}`
  return null
}

/**
 * Brings the tables up to date inside `trx`. Returns the newest migration that had run before; 0: there were no tables.
 * Throws ConfigError for a database whose format this version does not read.
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
  const problem = formatProblem(last, steps)
  if (problem !== null) throw new ConfigError(`metadata: ${label} ${problem}`)
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
