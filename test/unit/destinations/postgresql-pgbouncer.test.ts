/** PostgreSQL behind a PgBouncer in transaction mode: every way of writing rows works there. */
import t, { type Test } from 'tap'
import {
  type Batch,
  type DriverSettings,
  noProgress,
  type RejectedRecord,
} from '../../../src/destinations/driver.ts'
import { postgresql } from '../../../src/destinations/postgresql/driver.ts'
import { anyKey, makeBatch, makeSpec, never, openSettings } from '../../support/batches.ts'
import { startPgBouncer } from '../../support/pgbouncer.ts'
import { startPostgres } from '../../support/postgres.ts'

const pg = await startPostgres()
const pool = await startPgBouncer(pg)
t.teardown(async () => {
  await pool.stop()
  await pg.stop()
})
const settings: DriverSettings = { ...openSettings, timeline: 'directory/1/1' }
type Columns = NonNullable<Parameters<typeof makeSpec>[2]>

function specFor(table: string, columns: Columns, exactly_once: boolean) {
  const { host, database, user: username, password } = pg
  const target = { host, port: pool.port, database, username, password, table, exactly_once }
  return makeSpec('destination_database', target, columns)
}

function open(t: Test, table: string, columns: Columns, exactly_once: boolean) {
  const driver = postgresql.open(specFor(table, columns, exactly_once), settings, anyKey)
  t.teardown(() => driver.close())
  return driver
}

const value: Columns[number] = { column_name: 'v', column_type: 'number' }
const kinds: [string, Columns][] = [
  ['plain', [{ column_name: 'id' }, value]],
  ['upsert', [{ column_name: 'id', source_field: 'id', semantic_role: 'dedupe_id' }, value]],
  ['generated', [{ column_name: 'id', semantic_role: 'dedupe_id' }, value]],
]
const records = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => ({ id: `r${from + index}`, v: from + index }))

for (const [kind, columns] of kinds) {
  for (const exactly_once of [false, true]) {
    t.test(`${kind}${exactly_once ? ', exactly once' : ''}`, async (t) => {
      const table = `${kind}_${exactly_once}`
      await pg.query(`CREATE TABLE ${table} (id text PRIMARY KEY, v int)`)
      const checks = await postgresql.check(specFor(table, columns, exactly_once), settings, never)
      t.same(
        checks.filter(({ ok }) => !ok),
        [],
      )
      const repeats = kind !== 'plain' || exactly_once
      const driver = open(t, table, columns, exactly_once)
      // By COPY and by the statement; more of them than the pool has connections to the server.
      const sizes = [200, 5, 200, 200, 5, 200, 5]
      let next = 0
      const batches: Batch[] = sizes.map((size, at) => {
        next += size
        return makeBatch([records(next - size, size)], at + 1)
      })
      for (const batch of batches) {
        await driver.deliver(batch, never)
        if (repeats) await open(t, table, columns, exactly_once).deliver(batch, never)
      }
      const stored = async () => await pg.query(`SELECT count(*)::int AS n, sum(v)::int AS sum FROM ${table}`)
      t.same(await stored(), [{ n: next, sum: (next * (next - 1)) / 2 }])
      const parked: (number | null)[] = []
      const park = async (rejected: readonly RejectedRecord[]) =>
        void parked.push(...rejected.map(({ recordIndex }) => recordIndex))
      const bad = makeBatch([[...records(next, 150), { id: 'bad', v: 'x' }]], sizes.length + 1)
      await driver.deliver(bad, never, { ...noProgress, park })
      t.same(parked, [150])
      t.match(await stored(), [{ n: next + 150 }])
    })
  }
}

t.test('the transactions used several connections to the server', async (t) => {
  const [{ used }] = (await pg.query(
    `SELECT count(*)::int AS used FROM pg_stat_activity WHERE application_name = 'pipectl' AND client_port IS NOT NULL`,
  )) as [{ used: number }]
  t.ok(used > 1, `${used}`)
})
