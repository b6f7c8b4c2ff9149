/** A table proposed and created in the form of a destination; a key without a column, seen and given one. */
import t from 'tap'
import { openDashboard } from '../support/dashboard.ts'
import { startPostgres } from '../support/postgres.ts'
import { openTableFile } from '../support/table-file.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
const pg = await startPostgres({ ssl: false })
t.teardown(async () => {
  await dashboard.close()
  await pg.stop()
})
const shots = process.env.SCREENSHOTS

t.test('the first table: proposed, created, filled; then a key without a column gets one', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'orders' })
  await daemon.ingest(pipeId, [
    { id: 1, total: 1.5, at: '2026-01-02T03:04:05Z', '<b>odd</b>\u202e': 'x' },
    { id: 2, total: 2, at: '2026-01-02T03:04:06Z', gift: { wrapped: true } },
  ])
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/new`)
  await page.getByRole('button', { name: /^Database/ }).click()
  await page.getByText('Separate fields').click()
  await page.getByLabel('Host', { exact: true }).fill(pg.host)
  await page.getByLabel('Port').fill(String(pg.port))
  await page.getByRole('textbox', { name: 'Database' }).fill(pg.database)
  await page.getByLabel('User', { exact: true }).fill(pg.user)
  await page.getByLabel('Password', { exact: true }).fill('wrong')
  await page.getByLabel('Table', { exact: true }).fill('orders')
  await page.getByRole('button', { name: 'Propose columns' }).click()
  await page.getByText('password authentication failed').waitFor()
  t.equal(await page.getByRole('button', { name: 'Create table' }).count(), 0, 'nobody to create it')

  await page.getByLabel('Password', { exact: true }).fill(pg.password)
  await page.getByRole('button', { name: 'Propose columns' }).click()
  const keys = page.getByRole('table', { name: 'Keys of the records' })
  await keys.waitFor()
  t.match(await keys.innerText(), /id\s+2\s+number\s+id\s+bigint/)
  t.match(await page.getByText('CREATE TABLE "orders"').innerText(), /"_pipectl_id" text PRIMARY KEY/)
  await page.getByLabel('Unique id').selectOption('id')
  await page.getByText('"id" bigint PRIMARY KEY').waitFor()
  if (shots !== undefined) await page.screenshot({ path: `${shots}/propose.png`, fullPage: true })
  t.same(await pg.query("SELECT to_regclass('orders') AS found"), [{ found: null }], 'nothing is created yet')
  await page.getByRole('button', { name: 'Create table' }).click()
  await page.getByText('Done. The columns below are mapped.').waitFor()
  await page.getByRole('button', { name: 'Test and save' }).click()
  await page.getByText('Delivering normally.').waitFor()
  await until('both rows are there', async () => (await pg.query('SELECT 1 FROM orders')).length === 2)

  await daemon.ingest(pipeId, { id: 3, total: 2, coupon: 'SPRING' })
  const add = page.getByRole('button', { name: 'Add a column for coupon' })
  await add.waitFor({ timeout: 60_000 })
  if (shots !== undefined) await page.screenshot({ path: `${shots}/drift.png`, fullPage: true })
  await add.click()
  const dialog = page.getByRole('dialog')
  t.match(
    await dialog.locator('details').textContent(),
    /destinations update .*--add-column coupon:string --alter-table/,
  )
  await dialog.getByRole('button', { name: 'Add column' }).click()
  await dialog.waitFor({ state: 'detached' })
  await daemon.ingest(pipeId, { id: 4, total: 2, coupon: 'SUMMER' })
  await until(
    'the new column is filled',
    async () => (await pg.query("SELECT 1 FROM orders WHERE coupon = 'SUMMER'")).length === 1,
  )
  t.same(problems, [])
  await close()
})

t.test('a SQLite file: a wrong name, then the table is proposed, created and filled', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'local' })
  await daemon.ingest(pipeId, [{ id: 1, total: 1.5 }])
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/new`)
  await page.getByRole('button', { name: 'SQLite file' }).click()
  await page.getByLabel('File', { exact: true }).fill('../shop')
  await page.getByLabel('Table', { exact: true }).fill('orders')
  await page.getByRole('button', { name: 'Propose columns' }).click()
  await page
    .getByText(/must match|letters/)
    .first()
    .waitFor()
  await page.getByLabel('File', { exact: true }).fill('shop')
  await page.getByRole('button', { name: 'Propose columns' }).click()
  await page.getByText('"total" REAL').waitFor()
  await page.getByRole('button', { name: 'Create table' }).click()
  await page.getByText('Done. The columns below are mapped.').waitFor()
  await page.getByRole('button', { name: 'Test and save' }).click()
  await page.getByText('Delivering normally.').waitFor()
  const file = openTableFile(daemon, 'shop')
  await until('the row is there', async () => file.query('SELECT id, total FROM orders').length === 1)
  t.same(problems, [])
  await close()
})

t.test('an error of the database is shown with its code once, and with what waits', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'typed' })
  await pg.query('CREATE TABLE typed (id uuid)')
  const { host, port, database, user: username, password } = pg
  const id = await daemon.createDestination(pipeId, {
    destination_type: 'destination_database',
    destination_config: { host, port, database, username, password, table: 'typed' },
    columns: [{ column_name: 'id', column_type: 'string', source_field: 'id' }],
  })
  await daemon.ingest(pipeId, { id: 'not a uuid' })
  const { page, problems, close } = await dashboard.visit('viewer')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/${id}`)
  const notice = page.getByRole('alert').filter({ hasText: 'Rejected: ' })
  await notice.getByText(/1 message \(\d+ B\) pending, the oldest for \d+s/).waitFor()
  t.equal((await notice.innerText()).match(/22P02/g)?.length, 1)
  t.same(problems, [])
  await close()
})
