/** PostgreSQL as a destination, in several versions, with TimescaleDB, and behind PgBouncer. */

import { spawnSync } from 'node:child_process'
import t, { type Test } from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { debianProgram } from '../support/debian-programs.ts'
import { startPgBouncer } from '../support/pgbouncer.ts'
import { type PostgresOptions, startPostgres, type TestPostgres } from '../support/postgres.ts'
import { postgresOf } from './builds.ts'
import { tried, versionIn } from './results.ts'
import { storesTables } from './table-scenario.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())

async function started(t: Test, options: PostgresOptions = {}): Promise<TestPostgres> {
  const server = await startPostgres(options)
  t.teardown(() => server.stop())
  return server
}

const tableServer = (server: TestPostgres, port = server.port) => ({
  dialect: 'postgresql' as const,
  config: {
    host: server.host,
    port,
    database: server.database,
    username: server.user,
    password: server.password,
  },
  query: (sql: string) => server.query(sql),
  halt: () => server.halt(),
  start: () => server.start(),
})

async function versionOf(server: TestPostgres): Promise<string> {
  return versionIn(String((await server.query('SHOW server_version'))[0]?.server_version))
}

for (const [id, binaries] of [
  ['postgresql-15', () => ({ binaries: postgresOf('bookworm', 15) })],
  ['postgresql-17', () => ({ binaries: postgresOf('trixie', 17) })],
  ['postgresql-18', () => ({})],
] as const)
  await tried(t, id, async (t) => {
    const server = await started(t, binaries())
    await storesTables(t, daemon, tableServer(server))
    return await versionOf(server)
  })

await tried(t, 'timescaledb-17', async (t) => {
  const server = await started(t, {
    binaries: postgresOf('trixie', 17, ['timescaledb']),
    settings: { shared_preload_libraries: 'timescaledb', 'timescaledb.telemetry_level': 'off' },
  })
  await server.query('CREATE EXTENSION timescaledb')
  await storesTables(t, daemon, {
    ...tableServer(server),
    async asHypertable(table) {
      await server.query(`ALTER TABLE ${table} ALTER COLUMN at SET NOT NULL`)
      await server.query(`SELECT create_hypertable('${table}', by_range('at'))`)
    },
  })
  const rows = await server.query(`SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'`)
  return versionIn(String(rows[0]?.extversion))
})

for (const release of ['bookworm', 'trixie'] as const)
  await tried(t, `pgbouncer-${release}`, async (t) => {
    const server = await started(t)
    const program = debianProgram(release, { packages: ['pgbouncer'], file: 'usr/sbin/pgbouncer' })
    const pool = await startPgBouncer(server, program)
    t.teardown(() => pool.stop())
    await storesTables(t, daemon, {
      ...tableServer(server, pool.port),
      // With PgBouncer alive, an attempt would wait for its timeout of a minute.
      halt: async () => void (await Promise.all([server.halt(), pool.halt()])),
      start: async () => void (await Promise.all([server.start(), pool.start()])),
    })
    return versionIn(spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout)
  })
