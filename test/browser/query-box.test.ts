/** The query box on the page of a SQLite lane: with the keyboard, for viewers too, at every width; errors are at their field. */
import path from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { cliEnv, makeHome, removeHome, runCli } from '../support/cli.ts'
import { axeFindings, openDashboard } from '../support/dashboard.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
const home = makeHome()
const sink = await startHttpSink()
t.teardown(async () => {
  await dashboard.close()
  await sink.stop()
  removeHome(home)
})

const pipeId = await daemon.createPipe({ pipe_name: 'orders', pipe_add_ingest_ts: false })
await runCli(['ingest', 'orders'], {
  env: cliEnv(daemon, home),
  input: '{"id":1,"name":"tea"}\n{"id":9007199254740995,"name":"<b>cup</b>"}',
})
await runCli(
  ['destinations', 'create', 'orders', '--type', 'sqlite', '--infer', '--create-table', '--dedupe', 'id'],
  {
    env: cliEnv(daemon, home),
  },
)
const { body } = await daemon.api('GET', `/v1/pipes/${pipeId}`)
const id = String(Object(body.destinations)[0].destination_id)
await until('delivered', async () => (await daemon.lane(pipeId, id)).pending_messages === 0)

const lane = `${daemon.url}/dashboard/pipes/${pipeId}/destinations/${id}`
const section = (page: Page) => page.getByRole('region', { name: 'Query' })

for (const { width, colourScheme } of [
  { width: 1440, colourScheme: 'light' },
  { width: 768, colourScheme: 'dark' },
  { width: 390, colourScheme: 'light' },
] as const) {
  t.test(`a query and its rows, ${width} px wide, ${colourScheme}`, async (t) => {
    const { page, problems, close } = await dashboard.visit('viewer', { width, colourScheme })
    await page.goto(lane)
    const sql = section(page).getByLabel('SQL')
    await sql.waitFor()
    t.equal(await sql.inputValue(), 'SELECT * FROM "orders" LIMIT 20')
    await section(page).getByText('orders (id, name)').waitFor()
    await sql.focus()
    await page.keyboard.press('Control+Enter')
    const table = section(page).getByRole('table', { name: 'Result of the query' })
    await table.waitFor()
    t.match(await table.innerText(), /9007199254740995/)
    t.match(await table.innerText(), /<b>cup<\/b>/, 'as text')
    t.match(await section(page).getByRole('status').innerText(), /^2 rows in/)
    t.same(await axeFindings(page), [])
    const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
    t.ok(Number(overflow) <= 0, `nothing beside the screen (${overflow} px)`)
    if (process.env.SCREENSHOTS)
      await page.screenshot({
        path: path.join(process.env.SCREENSHOTS, `query-${width}-${colourScheme}.png`),
        fullPage: true,
      })
    await sql.fill('DELETE FROM orders')
    await section(page).getByRole('button', { name: 'Run', exact: true }).click()
    await section(page)
      .getByText(/a query only reads/)
      .waitFor()
    t.equal(await sql.getAttribute('aria-invalid'), 'true')
    await sql.fill(
      'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 150) SELECT i, i AS i, NULL AS "" FROM r',
    )
    await section(page).getByRole('button', { name: 'Run', exact: true }).click()
    await section(page)
      .getByText(/^100 rows in .* There are more/)
      .waitFor()
    t.same(await axeFindings(page), [])
    t.same(
      problems.filter((one) => !/400/.test(one)),
      [],
    )
    await close()
  })
}

t.test('a lane of another type has no query box', async (t) => {
  const other = await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_name: 'endpoint',
    destination_config: { url: `${sink.url}/` },
  })
  const { page, close } = await dashboard.visit('viewer', { width: 1440 })
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/${other}`)
  await page.getByRole('region', { name: 'Latency and success' }).waitFor()
  t.equal(await section(page).count(), 0)
  await close()
})
