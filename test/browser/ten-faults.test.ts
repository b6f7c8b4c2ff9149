/**
 * Ten faults at once, as a tired operator meets them: each is found from the overview in at most three clicks, and the
 * page says in a sentence what to do. The clicks and the seconds of each are printed, and not compared.
 */
import type { Page } from 'playwright-core'
import t from 'tap'
import { openDashboard } from '../support/dashboard.ts'
import { fakeClock } from '../support/fake-clock.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const clock = fakeClock(t)
const dashboard = await openDashboard({ env: clock.env })
const { daemon } = dashboard
const pg = await startPostgres({ ssl: false })
const sink = await startHttpSink()
const tls = await startHttpSink({ tls: true })
t.teardown(async () => {
  await dashboard.close()
  await Promise.all([pg.stop(), sink.stop(), tls.stop()])
})

sink.respondWith(({ path }) => {
  if (path === '/never') return { fault: 'never' }
  if (path === '/slow') return { delayMs: 5_000 }
  return { status: Number(path.slice(1)) }
})
await pg.query('CREATE TABLE numbers (n int)')
await pg.query('CREATE TABLE full_disk (n int)')
await pg.query(`CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE EXCEPTION 'could not extend file "base/5/16385": No space left on device' USING ERRCODE = '53100';
END $$`)
await pg.query('CREATE TRIGGER no_room BEFORE INSERT ON full_disk FOR EACH ROW EXECUTE FUNCTION no_space()')

const column = { column_name: 'n', column_type: 'number', source_field: 'n' }
const table = (name: string, config: object = {}) => {
  const { host, port, database, user: username, password } = pg
  return {
    destination_type: 'destination_database',
    destination_config: { host, port, database, username, password, table: name, ...config },
    columns: [column],
  }
}
const endpoint = (url: string, config: object = {}) => ({
  destination_type: 'destination_http_endpoint',
  destination_config: { url, ...config },
})

interface Fault {
  destination: object
  /** Default: one record that the destination would take. */
  records?: object[]
  /** What the overview calls it. */
  cause: RegExp
  advice: RegExp
}

const faults: Record<string, Fault> = {
  'wrong-password': {
    destination: table('numbers', { password: 'wrong' }),
    cause: /^sign-in rejected/,
    advice: /Correct the user name, password or key/,
  },
  'missing-table': {
    destination: table('nowhere'),
    cause: /^table missing/,
    advice: /Create the table, or correct its name/,
  },
  'endpoint-422': {
    destination: endpoint(`${sink.url}/422`),
    cause: /^records rejected \(HTTP 422\)/,
    advice: /skip the message, correct its parked records and replay them/,
  },
  'endpoint-500': {
    destination: endpoint(`${sink.url}/500`),
    cause: /^server error \(HTTP 500\)/,
    advice: /Check the log of the endpoint/,
  },
  timeout: {
    destination: endpoint(`${sink.url}/never`, { timeout_ms: 1_000 }),
    cause: /^(no response in time|server not reachable)/,
    advice: /server/,
  },
  dns: {
    destination: endpoint('http://nowhere.invalid/'),
    cause: /^host name not found/,
    advice: /Correct the host name/,
  },
  certificate: {
    destination: endpoint(`${tls.url}/`),
    cause: /^TLS certificate not accepted/,
    advice: /Renew the certificate of the server/,
  },
  'full-disk': {
    destination: table('full_disk'),
    cause: /^disk of the server full/,
    advice: /Free disk space on that server/,
  },
  'slow-endpoint': {
    destination: endpoint(`${sink.url}/slow`, { body_format: 'json_object', timeout_ms: 60_000 }),
    records: Array.from({ length: 200 }, (_, n) => ({ n })),
    cause: /^falling behind/,
    advice: /look at the latency of the lane/,
  },
  'bad-record': {
    destination: { ...table('numbers'), on_permanent_error: 'park' },
    records: [{ n: 1 }, { n: 'not a number' }],
    cause: /parked/,
    advice: /correct and replay/,
  },
}

/** Counts what the operator presses. */
class Walk {
  clicks = 0
  readonly #page: Page
  constructor(page: Page) {
    this.#page = page
  }

  async click(role: 'button' | 'link', name: string | RegExp): Promise<void> {
    this.clicks += 1
    await this.#page.getByRole('main').getByRole(role, { name }).first().click()
  }
}

/** From the overview to the page that explains the fault. Returns the text that the operator reads there. */
async function find(page: Page, walk: Walk, name: string, { cause }: Fault): Promise<string> {
  if (name === 'bad-record') {
    await walk.click('link', '1 parked')
    await page
      .getByRole('table', { name: 'Parked records' })
      .getByText(/invalid|integer|number/)
      .waitFor()
    return await page.getByRole('main').innerText()
  }
  const group = page.getByRole('article', { name: cause })
  const more = page.getByRole('button', { name: /^Show \d+ more causes?$/ })
  await until('its group or the button for more is there', async () => (await group.or(more).count()) > 0)
  if ((await group.count()) === 0) await walk.click('button', /^Show \d+ more causes?$/)
  await group.waitFor()
  await walk.click('link', `${name} / lane`)
  await page.getByRole('heading', { name: 'lane', level: 1 }).waitFor()
  await page.getByText('What to do:').waitFor()
  return await page.getByRole('main').innerText()
}

t.test('ten faults are found from the overview in at most three clicks, and explained', async (t) => {
  const ids = new Map<string, [pipe: string, destination: string]>()
  for (const [name, { destination, records = [{ n: 1 }] }] of Object.entries(faults)) {
    const pipe = await daemon.createPipe({ pipe_name: name })
    const id = await daemon.createDestination(pipe, { ...destination, destination_name: 'lane' })
    ids.set(name, [pipe, id])
    await daemon.ingest(pipe, records)
  }
  const stateOf = async (name: string) => {
    const [pipe, id] = ids.get(name) ?? ['', '']
    return await daemon.lane(pipe, id)
  }
  for (const name of Object.keys(faults)) {
    if (name === 'slow-endpoint') continue
    await until(
      `${name} has happened`,
      async () => {
        const lane = await stateOf(name)
        return name === 'bad-record' ? Number(lane.parked_records) > 0 : lane.last_error !== null
      },
      { timeoutMs: 60_000 },
    )
  }
  // The endpoint is slow, and the records of five minutes ago still wait.
  clock.set(310)
  await until(
    'the slow one is behind',
    async () => Number((await stateOf('slow-endpoint')).oldest_pending_age_seconds) > 300,
  )

  const { page, problems, close } = await dashboard.visit('admin')
  for (const [name, fault] of Object.entries(faults)) {
    await page.goto(`${daemon.url}/dashboard/`)
    const startMs = performance.now()
    const walk = new Walk(page)
    const text = await find(page, walk, name, fault)
    const seconds = ((performance.now() - startMs) / 1000).toFixed(1)
    t.ok(walk.clicks <= 3, `${name}: ${walk.clicks} clicks`)
    t.match(text, fault.advice, `${name}: says what to do`)
    t.comment(`${name}: ${walk.clicks} clicks, ${seconds} s`)
    if (process.env.SCREENSHOTS !== undefined)
      await page.screenshot({ path: `${process.env.SCREENSHOTS}/fault-${name}.png` })
  }
  if (process.env.SCREENSHOTS !== undefined) {
    await page.goto(`${daemon.url}/dashboard/`)
    await page.getByRole('button', { name: /more causes?$/ }).click()
    await page.screenshot({ path: `${process.env.SCREENSHOTS}/faults.png`, fullPage: true })
  }
  t.same(problems, [])
  await close()
})
