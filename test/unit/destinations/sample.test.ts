/** POST destinations/test on databases: mappings whose types do not fit, and a sample that is inserted and rolled back. */
import t from 'tap'
import type { DestinationCheck, Sample } from '../../../src/destinations/driver.ts'
import { mysql } from '../../../src/destinations/mysql/driver.ts'
import { postgresql } from '../../../src/destinations/postgresql/driver.ts'
import { sqlite } from '../../../src/destinations/sqlite/driver.ts'
import { makeBatch, makeSpec, openSettings } from '../../support/batches.ts'
import { startMariadb } from '../../support/mariadb.ts'
import { startPostgres } from '../../support/postgres.ts'
import { startTableFile, workspaceId } from '../../support/table-file.ts'

const pg = await startPostgres()
t.teardown(() => pg.stop())
const maria = await startMariadb()
t.teardown(() => maria.stop())

const target = ({ host, port, database, user, password }: typeof pg | typeof maria) => ({
  ...{ host, port, database, username: user, password },
})
const failing = (checks: DestinationCheck[]) => checks.filter(({ ok }) => !ok).map(({ name }) => name)
const recent = makeBatch([['{"id":"a","n":1,"at":"2026-01-02T03:04:05Z"}', '{"id":5}']]).messages[0]!

const columns = [
  { column_name: 'id', semantic_role: 'dedupe_id' as const, source_field: 'id' },
  { column_name: 'n', column_type: 'number' as const },
  { column_name: 'at' },
]
const file = startTableFile()
t.teardown(() => file.stop())
type Check = (sample?: Sample) => Promise<DestinationCheck[]>
const inTime = () => AbortSignal.timeout(20_000)
const ofServer =
  (driver: typeof postgresql, server: object): Check =>
  (sample) =>
    driver.check(
      makeSpec('destination_database', { ...server, table: 'sampled' }, columns),
      openSettings,
      inTime(),
      sample,
    )
const ofFile: Check = (sample) => {
  const spec = makeSpec('destination_sqlite', { file: file.file, table: 'sampled' }, columns)
  return sqlite.check({ ...spec, workspaceId }, file.settings, inTime(), sample)
}
const servers: [string, Check, (sql: string) => Promise<unknown[]>, string][] = [
  ['PostgreSQL', ofServer(postgresql, target(pg)), (sql) => pg.query(sql), 'timestamptz'],
  ['MariaDB', ofServer(mysql, { ...target(maria), dialect: 'mysql' }), (sql) => maria.query(sql), 'datetime'],
  ['SQLite', ofFile, async (sql) => file.query(sql), 'datetime'],
]

for (const [name, checkWith, query, time] of servers) {
  t.test(`${name}: a sample of the pipe, or a made-up one, is inserted and rolled back`, async (t) => {
    await query(`CREATE TABLE sampled (id varchar(4) PRIMARY KEY, n int NOT NULL, at ${time}, CHECK (n < 9))`)
    const check = (body: string | null) => {
      const message = body === null ? null : { ...recent, body: Buffer.from(body) }
      return checkWith({ recent: message })
    }
    t.same(failing(await check(recent.body.toString())), [])
    t.same(failing(await check(null)), [])
    const clashing = await check('{"id":"a","n":9}')
    t.same(failing(clashing), ['sample'])
    t.match(clashing.at(-1)?.message, /newest record could not be inserted/)
    t.same(failing(await check('{"id":"a","n":"x"}')), ['sample'])
    t.same(await query('SELECT * FROM sampled'), [], 'nothing is stored')
    const plain = await checkWith()
    t.notOk(
      plain.some((one) => one.name === 'sample'),
      'only when asked for',
    )
  })
}

t.test(
  'PostgreSQL: text for an integer and a number for text are told before the first record',
  async (t) => {
    await pg.query('CREATE TABLE typed (i int, f float8, d numeric, s text, u uuid, j jsonb)')
    const problems = async (column_name: string, column_type: 'string' | 'number') => {
      const spec = makeSpec('destination_database', { ...target(pg), table: 'typed' }, [
        { column_name, column_type },
      ])
      return failing(await postgresql.check(spec, openSettings, AbortSignal.timeout(20_000)))
    }
    for (const name of ['i', 'f']) t.same(await problems(name, 'string'), ['columns'], `string → ${name}`)
    for (const name of ['s', 'u']) t.same(await problems(name, 'number'), ['columns'], `number → ${name}`)
    for (const name of ['d', 's', 'u', 'j']) t.same(await problems(name, 'string'), [], `string → ${name}`)
    for (const name of ['i', 'f', 'd', 'j']) t.same(await problems(name, 'number'), [], `number → ${name}`)
  },
)
