/** `destinations create --infer` and `update --add-column --alter-table` on real databases. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { cliEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'
import { startPostgres } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'

const [daemon, pg] = await Promise.all([startDaemon(), startPostgres()])
const home = makeHome()
t.teardown(async () => {
  await Promise.all([daemon.close(), pg.stop()])
  removeHome(home)
})
const env = { ...cliEnv(daemon, home), PIPECTL_DESTINATION_PASSWORD: pg.password }
const url = (table: string) => `postgres://${pg.user}@${pg.host}:${pg.port}/${pg.database}?table=${table}`
const create = (pipe: string, table: string, ...args: string[]) =>
  runCli(['destinations', 'create', pipe, '--url', url(table), ...args], { env })

const pipeIdOf = async (name: string) => {
  const { stdout } = await runCli(['pipes', 'get', name, '-o', 'json'], { env })
  return String(JSON.parse(stdout).pipe.pipe_id)
}

t.test('from records to rows: the proposal, then the table', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'orders' })
  const early = await create('orders', 'orders', '--infer')
  t.match(early, { code: 1, stderr: /no records to read.*\n.*next:.*--sample-file/ })
  await daemon.ingest(pipeId, [
    { id: 1, total: 1.5 },
    { id: 2, 'the\u001b[31m note': 'x' },
  ])
  const look = await create('orders', 'orders', '--infer', '-o', 'json')
  t.match(look, { code: 6, stderr: /there is no table orders yet\n.*--create-table/ })
  t.match(JSON.parse(look.stdout), {
    destination_id: null,
    table_exists: false,
    ddl: [/CREATE TABLE "orders"/],
  })
  const shown = await create('orders', 'orders', '--infer', '-o', 'table')
  t.match(shown.stdout, /KEY +SEEN +NULL +JSON +COLUMN +TYPE\nid +2 +0 +number +id +bigint/)
  t.match(shown.stderr, /CREATE TABLE "orders" \(\n {2}"_pipectl_id" text PRIMARY KEY/)
  t.match(shown.stderr, /--dedupe id makes it the primary key/)

  const done = await create(
    ...(['orders', 'orders', '--infer', '--create-table', '--dedupe', 'id', '-o', 'json'] as const),
  )
  t.match(done, { code: 0, stderr: /Created table orders\. Added orders\/.*every record that is kept/ })
  t.match(JSON.parse(done.stdout), { destination_id: /^[0-9a-f-]{36}$/, executed: [/CREATE TABLE/] })
  await until('both rows are there', async () => (await pg.query('SELECT 1 FROM orders')).length === 2)

  await daemon.ingest(pipeId, { id: 3, total: 2, gift: true })
  const added = await runCli(
    ['destinations', 'update', 'orders', '--add-column', 'gift:boolean', '--alter-table'],
    { env },
  )
  t.match(added, { code: 0, stderr: /ALTER TABLE "orders"\n {2}ADD COLUMN "gift" boolean/ })
  await daemon.ingest(pipeId, { id: 4, total: 2, gift: true })
  await until(
    'the new column is filled',
    async () => (await pg.query('SELECT 1 FROM orders WHERE gift')).length === 1,
  )
  const unknown = await runCli(
    ['destinations', 'update', 'orders', '--add-column', 'no:string', '--alter-table'],
    { env },
  )
  t.match(unknown, { code: 1, stderr: /no column "no".*\n.*No record has the key "no"/ })
  const alone = await runCli(['destinations', 'update', 'orders', '--alter-table', '--name', 'x'], { env })
  t.match(alone, { code: 2, stderr: /needs --add-column/ })
})

t.test('drift names the keys without a column, and how to store them', async (t) => {
  await daemon.ingest(await pipeIdOf('orders'), { id: 9, 'odd \u001b[31m': 1, plain: 'x' })
  const drift = (...args: string[]) => runCli(['destinations', 'drift', 'orders', ...args], { env })
  await until(
    'both keys are seen',
    async () => JSON.parse((await drift('-o', 'json')).stdout).drift.keys.length >= 2,
  )
  t.match(await drift('-o', 'table'), {
    code: 0,
    stdout: /KEY +RECORDS +TYPE +EXAMPLE[\s\S]*plain +1 +string +"x"/,
    stderr: /In a sample of \d+ records?[\s\S]*--add-column \S+:\w+ --alter-table/,
  })
  t.notMatch((await drift('-o', 'table')).stdout, '\u001b[31m')
})

t.test('--remove-column takes one mapping away', async (t) => {
  const update = (...args: string[]) =>
    runCli(['destinations', 'update', 'orders', ...args, '-o', 'json'], { env })
  const columns = ({ stdout }: { stdout: string }) =>
    JSON.parse(stdout).destination.columns.map((one: { column_name: string }) => one.column_name)
  const without = await update('--remove-column', 'gift')
  t.equal(without.code, 0, without.stderr)
  t.notOk(columns(without).includes('gift'))
  t.match(await update('--remove-column', 'gift'), {
    code: 2,
    stderr: /no mapping has this name\n.*it has id, total/,
  })
  t.match(await update('--remove-column', 'id', '--no-columns'), {
    code: 2,
    stderr: /cannot be used together/,
  })
  const all = columns(without).flatMap((name: string) => ['--remove-column', name])
  t.match(await update(...all), { code: 2, stderr: /last column mapping/ })
})

t.test(
  'a sample from a file: NDJSON or JSON, by --sample-file or -f, and in the digits that it has',
  async (t) => {
    await daemon.createPipe({ pipe_name: 'sampled' })
    const file = path.join(home, 'sample.ndjson')
    writeFileSync(file, '{"n":12345678901234567890}\n{"n":1}\n')
    const typeIn = ({ stdout }: { stdout: string }) => JSON.parse(stdout).observations[0].proposed_type
    t.equal(typeIn(await create('sampled', 'sampled', '--infer', '-f', file, '-o', 'json')), 'numeric')
    t.equal(
      typeIn(await create('sampled', 'sampled', '--infer', '--sample-file', file, '-o', 'json')),
      'numeric',
    )
    const array = path.join(home, 'sample.json')
    writeFileSync(array, '[\n {"n":\n "2026-01-02"}, {"n":null}]')
    t.equal(
      typeIn(await create('sampled', 'sampled', '--infer', '--sample-file', array, '-o', 'json')),
      'date',
    )
    writeFileSync(file, '{"n":1}\n{"n":x}\n')
    t.match(await create('sampled', 'sampled', '--infer', '--sample-file', file, '-o', 'json'), {
      code: 2,
      stderr: /line 2: .*not valid/,
    })
    t.match(await create('sampled', 'sampled', '--infer', '--sample-file', 'missing'), {
      code: 2,
      stderr: /no such file/,
    })
    t.match(await create('sampled', 'sampled', '--create-table'), { code: 2, stderr: /need --infer/ })
    t.match(await create('sampled', 'sampled', '--infer', '--column', 'a:string'), {
      code: 2,
      stderr: /cannot be used together/,
    })
  },
)

t.test('a table that exists, and a user who may not create one', async (t) => {
  await pg.query('CREATE TABLE present (a int)')
  const pipeId = await daemon.createPipe({ pipe_name: 'present', pipe_add_ingest_ts: false })
  await daemon.ingest(pipeId, { a: 1, b: 'x' })
  const partly = await create('present', 'present', '--infer', '-o', 'table')
  t.match(partly, {
    code: 0,
    stdout: /b +1 +0 +string +b \(missing\) +text/,
    stderr: /ALTER TABLE "present"/,
  })
  const whole = await create(
    'present',
    'present',
    '--infer',
    '--add-columns',
    '--name',
    'whole',
    '-o',
    'name',
  )
  t.match(whole, {
    code: 0,
    stdout: /^[0-9a-f-]{36}\n$/,
    stderr: /Added columns to present\. Added present\/whole/,
  })
  await pg.query("CREATE ROLE loader LOGIN PASSWORD 'p'; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
  const denied = await runCli(
    [
      'destinations',
      'create',
      'present',
      '--url',
      url('denied').replace('postgres@', 'loader@'),
      '--infer',
      '--create-table',
      '-o',
      'json',
    ],
    { env: { ...env, PIPECTL_DESTINATION_PASSWORD: 'p' } },
  )
  t.match(denied, { code: 1, stderr: /permission denied.*Let an administrator/ })
  t.match(JSON.parse(denied.stdout), { destination_id: null, ddl: [/CREATE TABLE/] })
})
