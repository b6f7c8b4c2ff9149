/** Opens a PostgreSQL database for the metadata repositories. Loaded only when one is configured. */
import { CompiledQuery, Kysely } from 'kysely'
import type { Tables } from '../../metadata/tables.ts'
import type { Connection, OpenedDatabase } from '../../metadata/transactions.ts'
import { ConfigError } from '../../platform/config-error.ts'
import { postgresDialect } from './dialect.ts'
import { PostgresDriver } from './driver.ts'
import { openingError, storageError } from './errors.ts'
import { listenOn } from './listen.ts'
import { SessionPool } from './pool.ts'
import { Session, type SessionLimits } from './session.ts'
import { type PostgresTarget, parsePostgresUrl } from './url.ts'
import { forgetWriters, Writers, writersTable } from './writers.ts'

/** Connections per thread. */
const maxSessions = 4
const limits: SessionLimits = { statementMs: 10_000, lockMs: 5_000 }
/** Leases have sessions and short limits of their own: a statement that outlasts its lease is useless. */
const maxLeaseSessions = 2
const leaseLimits: SessionLimits = { statementMs: 1_500, lockMs: 1_000 }
/** The connection waits for another node's migration, and runs its own without a time limit. */
const migrationLimits: SessionLimits = { statementMs: 0, lockMs: 60_000 }

/** An arbitrary number, the same in every version. Its holder is allowed to change tables. */
const migrationLock = 0x7069_7065

/**
 * The newest finished transaction, the running transactions, and the start time of the server: any change in any
 * database of the server changes this. It takes 0.1 ms, whatever is stored.
 */
const stateOfServer = CompiledQuery.raw(
  `SELECT pg_current_snapshot()::text || ' ' || extract(epoch FROM pg_postmaster_start_time())::text AS version`,
)

/** Throws ConfigError when the URL is wrong, the server is not ours or too old, or the user lacks permissions. */
export async function openPostgresDatabase(url: string): Promise<OpenedDatabase> {
  const target = parsePostgresUrl(url)
  const { label } = target
  await checkServer(target)
  const writers = new Writers(() => Session.open(target, limits))
  const db = kyselyOf(target, limits, maxSessions, writers)
  const leases = kyselyOf(target, leaseLimits, maxLeaseSessions)
  return {
    db,
    leases,
    listen: (channel, onNotified) => listenOn(() => Session.open(target, leaseLimits), channel, onNotified),
    label,
    async version() {
      const { rows } = await db.executeQuery<{ version: string }>(stateOfServer)
      return rows[0]?.version ?? ''
    },
    // Checked before anything is stored.
    assertDurable: () => {},
    prepare: (work) => alone(target, work),
    // The operator backs up the database: docs/upgrading.md.
    keepCopy: () => null,
    file: null,
    openingError: (error) => openingError(error, label),
  }
}

function kyselyOf(
  target: PostgresTarget,
  sessionLimits: SessionLimits,
  most: number,
  writers: Writers | null = null,
): Connection {
  const pool = new SessionPool(() => Session.open(target, sessionLimits), most)
  return new Kysely<Tables>({ dialect: postgresDialect(new PostgresDriver(pool, writers, target.label)) })
}

/** Runs `work` while no other node prepares the same database. Closing its connection releases the lock. */
async function alone<T>(target: PostgresTarget, work: (db: Connection) => Promise<T>): Promise<T> {
  const db = kyselyOf(target, migrationLimits, 1)
  try {
    return await db.connection().execute(async (connection) => {
      await connection.executeQuery(CompiledQuery.raw(`SELECT pg_advisory_lock(${migrationLock})`))
      await connection.executeQuery(CompiledQuery.raw(writersTable))
      const result = await work(connection)
      await connection.executeQuery(CompiledQuery.raw(forgetWriters))
      return result
    })
  } finally {
    await db.destroy()
  }
}

interface ServerSettings {
  server_version_num: number
  server_encoding: string
  synchronous_commit: string
  is_standby: boolean
  /** The schema in which tables without a schema are created; null for none. */
  schema: string | null
}

const oldest = 15

async function checkServer(target: PostgresTarget): Promise<void> {
  const { label } = target
  const settings = await settingsOf(target).catch((error: unknown) => {
    throw openingError(storageError(error, label), label)
  })
  const refuse = (what: string) => new ConfigError(`metadata: ${label}: ${what}`)
  const version = Math.floor(settings.server_version_num / 10_000)
  if (!(version >= oldest)) throw refuse(`the server is PostgreSQL ${version}; ${oldest} or newer is needed`)
  if (settings.server_encoding !== 'UTF8') {
    throw refuse(`its encoding is ${settings.server_encoding}: create the database with ENCODING 'UTF8'`)
  }
  if (settings.is_standby) throw refuse('the server is a standby: set the primary in metadata.url')
  if (settings.schema === null)
    throw refuse('no schema of search_path exists, or the user has no right to use it')
  if (settings.synchronous_commit === 'off') {
    throw refuse(
      'synchronous_commit is off, so changes would not be durable: set it to on for this user or database',
    )
  }
}

async function settingsOf(target: PostgresTarget): Promise<ServerSettings> {
  const session = await Session.open(target, limits)
  try {
    const { rows } = await session.query(
      `SELECT current_setting('server_version_num')::int AS server_version_num,
        current_setting('server_encoding') AS server_encoding,
        current_setting('synchronous_commit') AS synchronous_commit,
        pg_is_in_recovery() AS is_standby, current_schema()::text AS schema`,
    )
    return rows[0] as ServerSettings
  } finally {
    await session.close()
  }
}
