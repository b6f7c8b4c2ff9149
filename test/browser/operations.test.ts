/** Every operation of the management API, done through the page and looked at through the API. */
import type { Page } from 'playwright-core'
import t from 'tap'
import { alertEventNames } from '../../src/contract/alert-words.ts'
import type { UsageByHour, UsageHour } from '../../src/contract/usage.ts'
import { openDashboard } from '../support/dashboard.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { startPostgres } from '../support/postgres.ts'
import { startS3 } from '../support/s3.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
const sink = await startHttpSink()
t.teardown(async () => {
  await dashboard.close()
  await sink.stop()
})

interface Lane {
  lane_state: string
  blocking_msg_id: string | null
  skipped_messages: number
  cursor_seq: number
  delivered_records: number
}
interface Stored {
  pipe: Record<string, unknown>
  destinations: (Record<string, unknown> & { destination_id: string; lane: Lane })[]
  limits: Record<string, unknown> | null
  allowed_origins: { origin_domain: string }[]
}

async function stored(pipeId: string): Promise<Stored> {
  return (await daemon.api<Stored>('GET', `/v1/pipes/${pipeId}`)).body
}

/** Opens what asks, and presses the button of its dialog. */
async function confirm(page: Page, ask: string, deed: RegExp): Promise<string> {
  await page.getByRole('button', { name: ask, exact: true }).click()
  const dialog = page.getByRole('dialog')
  const words = await dialog.innerText()
  await dialog.getByRole('button', { name: deed }).click()
  await dialog.waitFor({ state: 'detached' })
  return words
}

t.test('a pipe: created, described, paused and resumed, limited, opened to an origin, deleted', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  await page.getByRole('link', { name: 'Create the first pipe' }).click()
  await page.getByLabel('Name').fill('two words')
  await page.getByRole('button', { name: 'Create pipe' }).click()
  t.match(await page.locator('[aria-invalid="true"] ~ div').last().innerText(), /letters/, 'at its field')
  await page.getByLabel('Name').fill('orders')
  await page.getByLabel('IP address of the sender').check()
  t.match(
    await page.locator('details', { hasText: 'Copy as CLI' }).textContent(),
    /pipectl pipes create orders --ingest-ip/,
  )
  await page.getByRole('button', { name: 'Create pipe' }).click()
  await page.getByRole('heading', { name: 'orders', level: 1 }).waitFor()
  const pipeId = page.url().split('/').at(-1) ?? ''
  t.match((await stored(pipeId)).pipe, { pipe_name: 'orders', pipe_add_ingest_ip: true })

  await page.getByText('Waiting for the first record').waitFor()
  t.match(
    await page.getByRole('tabpanel').innerText(),
    new RegExp(`curl ${daemon.dataUrl}/v1/ingest/${pipeId}`),
  )
  await daemon.ingest(pipeId, { id: 1 })
  await page.getByText('Waiting for the first record').waitFor({ state: 'detached' })
  // The hours are asked for once a minute: the first record of all does not wait for that.
  await page.getByRole('img', { name: /^Records per hour.*Records in 1,/ }).waitFor({ timeout: 45_000 })

  t.match(await confirm(page, 'Pause', /^Pause$/), /get 404/)
  t.equal((await stored(pipeId)).pipe.pipe_status, 'paused')
  await page.getByRole('button', { name: 'Resume' }).waitFor()
  await confirm(page, 'Resume', /^Resume$/)
  t.equal((await stored(pipeId)).pipe.pipe_status, 'active')

  await page.getByRole('link', { name: 'Settings' }).click()
  await page.getByLabel('Description').fill('all shops')
  await page.getByLabel('Country code').check()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await until('the pipe is changed', async () => (await stored(pipeId)).pipe.pipe_description === 'all shops')
  t.equal((await stored(pipeId)).pipe.pipe_ingest_geo_country_field, 'ingest_country_code')

  await page.getByRole('button', { name: 'Set limits' }).click()
  await page.getByLabel('Records per second').fill('0')
  await page.getByRole('button', { name: 'Save limits' }).click()
  await page.locator('[aria-invalid="true"]').waitFor()
  await page.getByLabel('Records per second').fill('500')
  await page.getByRole('button', { name: 'Save limits' }).click()
  await until(
    'limits are set',
    async () => (await stored(pipeId)).limits?.pl_ingest_max_records_per_second === 500,
  )
  await confirm(page, 'Remove limits …', /^Remove$/)
  t.equal((await stored(pipeId)).limits, null)

  await page.getByLabel('Add an origin').fill('https://shop.example')
  await page.getByRole('button', { name: 'Allow', exact: true }).click()
  await page.getByRole('button', { name: 'Remove https://shop.example' }).waitFor()
  await page.getByLabel('Add an origin').fill('https://shop.example')
  await page.getByRole('button', { name: 'Allow', exact: true }).click()
  await page.getByText('This origin is already allowed').waitFor()
  await confirm(page, 'Remove https://shop.example', /^Remove$/)
  t.same((await stored(pipeId)).allowed_origins, [])

  await page.getByRole('button', { name: 'Delete pipe …' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: /^Delete the pipe/ }).click()
  t.match(await dialog.getByRole('alert').innerText(), /name of the pipe/, 'not before it is named')
  await dialog.getByLabel('Type orders to confirm').fill('orders')
  await dialog.getByRole('button', { name: /^Delete the pipe/ }).click()
  await page.getByRole('heading', { name: 'Pipes', level: 1 }).waitFor()
  t.equal((await daemon.api('GET', `/v1/pipes/${pipeId}`)).status, 404)
  t.same(problems, [])
  await close()
})

t.test('a database: tested, its checks listed, saved with its columns', async (t) => {
  const postgres = await startPostgres({ ssl: false })
  t.teardown(() => postgres.stop())
  await postgres.query(
    'CREATE TABLE events (id bigint PRIMARY KEY, name text, ts text, arrived timestamptz DEFAULT now())',
  )
  const pipeId = await daemon.createPipe({ pipe_name: 'rows' })
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/new`)
  await page.getByRole('button', { name: /^Database/ }).click()
  await page.getByText('Separate fields').click()
  await page.getByLabel('Host', { exact: true }).fill(postgres.host)
  await page.getByLabel('Port').fill(String(postgres.port))
  await page.getByRole('textbox', { name: 'Database' }).fill(postgres.database)
  await page.getByLabel('User', { exact: true }).fill(postgres.user)
  await page.getByLabel('Password', { exact: true }).fill('wrong')
  await page.getByLabel('Table', { exact: true }).fill('events')
  await page.getByRole('button', { name: 'Map a column' }).click()
  const column = page.getByRole('group', { name: 'Column 1' })
  await column.getByRole('textbox', { name: 'Column' }).fill('id')
  await column.getByLabel('JSON type').selectOption('number')
  await column.getByLabel('Key of the record').fill('id')
  await column.getByLabel('Role').selectOption('dedupe_id')
  await page.getByRole('button', { name: 'Test and save' }).click()
  await page.getByText('Some checks failed').waitFor()
  t.equal((await stored(pipeId)).destinations.length, 0, 'nothing is stored')
  await page.getByLabel('Password', { exact: true }).fill(postgres.password)
  await page.getByRole('button', { name: 'Test only' }).click()
  await page.getByText('Every check passed').waitFor()
  t.ok((await page.getByRole('list', { name: 'Checks' }).getByRole('listitem').count()) > 3)
  const inTable = (name: string) => page.getByRole('group', { name: `Table column ${name}`, exact: true })
  const keyOf = (name: string) => inTable(name).getByLabel('Key')
  t.equal(await inTable('id').count(), 0, 'what is mapped is not offered')
  t.same(
    await Promise.all(['name', 'ts', 'arrived'].map((name) => keyOf(name).inputValue())),
    ['name', 'ingest_ts', ''],
    'its own name, a key that the pipe adds, nothing where there is a default',
  )
  t.match(await inTable('arrived').innerText(), /timestamp with time zone, has a default/)
  await keyOf('name').fill('title')
  await page.getByRole('button', { name: 'Map 2 columns' }).click()
  t.equal(
    await page.getByRole('group', { name: 'Column 2' }).getByLabel('Key of the record').inputValue(),
    'title',
  )
  t.match(await column.innerText(), /In the table: bigint/)
  await page.getByRole('textbox', { name: 'Table' }).fill('others')
  await inTable('arrived').waitFor({ state: 'detached' })
  await page.getByRole('textbox', { name: 'Table' }).fill('events')
  const twin = await page.locator('details', { hasText: 'Copy as CLI' }).last().textContent()
  t.match(twin, /destinations create rows --type database .*--column id:number:dedupe_id/)
  t.notMatch(twin, postgres.password, 'the password is in no command')
  await page.getByRole('button', { name: 'Test and save' }).click()
  await page.getByText('Delivering normally').waitFor()
  const [made] = (await stored(pipeId)).destinations
  t.match(made, {
    destination_type: 'destination_database',
    columns: [
      { column_name: 'id', source_field: 'id' },
      { column_name: 'name', source_field: 'title', column_type: 'string' },
      { column_name: 'ts', source_field: 'ingest_ts' },
    ],
  })
  await daemon.ingest(pipeId, { id: 12345678901, title: 'first' })
  await until('the row is there', async () => (await postgres.query('SELECT 1 FROM events')).length === 1)
  const [row] = await postgres.query('SELECT name, ts, arrived IS NOT NULL AS has_arrived FROM events')
  t.match(row, { name: 'first', ts: /^20/, has_arrived: true })

  await page.getByRole('link', { name: 'Edit' }).click()
  await page.getByLabel('Name (optional)').fill('warehouse')
  await page.getByRole('button', { name: 'Test only' }).click()
  t.equal(await page.getByRole('button', { name: 'Map 0 columns' }).isDisabled(), true)
  await keyOf('arrived').fill('sent')
  await page.getByRole('button', { name: 'Map 1 column' }).click()
  await page.getByRole('button', { name: 'Test and save' }).click()
  await page.getByRole('heading', { name: 'warehouse', level: 1 }).waitFor()
  t.match((await stored(pipeId)).destinations[0], {
    destination_name: 'warehouse',
    columns: [{}, {}, {}, { column_name: 'arrived', source_field: 'sent' }],
  })
  t.same(problems, [])
  await close()
})

t.test('the pinned key of a database server: shown, and reset when a person says so', async (t) => {
  const postgres = await startPostgres()
  t.teardown(() => postgres.stop())
  await postgres.query('CREATE TABLE events (id int)')
  const pipeId = await daemon.createPipe({ pipe_name: 'pinned' })
  const { port, database, user: username, password } = postgres
  const id = await daemon.createDestination(pipeId, {
    destination_type: 'destination_database',
    // Neither localhost nor 127.0.0.1: over TLS.
    destination_config: { host: '127.0.0.2', port, database, username, password, table: 'events' },
  })
  const pin = async () => (await stored(pipeId)).destinations[0]?.tls_pin as { sha256: string } | null
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/${id}`)
  await page.getByRole('button', { name: 'Rewind …' }).waitFor()
  const reset = page.getByRole('button', { name: 'Reset server key …' })
  t.equal(await reset.count(), 0, 'not before a key is pinned')

  await daemon.ingest(pipeId, { id: 1 })
  await until('the key is pinned', async () => (await pin()) !== null)
  await until('the row is there', async () => (await postgres.query('SELECT 1 FROM events')).length === 1)
  const pinned = await pin()
  await page.reload()
  await page.getByText(pinned?.sha256.slice(0, 16) ?? 'no pin').waitFor()
  await reset.click()
  t.match(await page.getByRole('dialog').textContent(), /destinations reset-pin pinned\/database/)
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  t.same(await pin(), pinned, 'nothing is reset by asking')

  const words = await confirm(page, 'Reset server key …', /^Reset server key$/)
  t.match(words, /trusts the key that the server presents/)
  await reset.waitFor({ state: 'detached' })
  t.equal(await pin(), null)
  await daemon.ingest(pipeId, { id: 2 })
  await until('the next connection pins again', async () => (await pin())?.sha256 === pinned?.sha256)
  t.same(problems, [])
  await close()
})

t.test('a bucket and a pull lane', async (t) => {
  const s3 = await startS3('archive')
  t.teardown(() => s3.stop())
  const pipeId = await daemon.createPipe({ pipe_name: 'files' })
  const { page, problems, close } = await dashboard.visit('admin')
  const add = async (kind: RegExp) => {
    await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/new`)
    await page.getByRole('button', { name: kind }).click()
  }
  await add(/^Object store/)
  await page.getByLabel('Bucket', { exact: true }).fill('archive')
  await page.getByLabel('Endpoint').fill(s3.endpoint)
  await page.getByLabel('Access key').fill('S3RVER')
  await page.getByLabel('Secret key').fill('S3RVER')
  await page.getByRole('button', { name: 'Test and save' }).click()
  await page.getByText('Delivering normally').waitFor()
  await add(/^Pull/)
  await page.getByLabel('Acknowledgement', { exact: true }).selectOption('explicit')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('Delivering normally').waitFor()
  t.match(
    (await stored(pipeId)).destinations.map((one) => [one.destination_type, one.destination_config]).sort(),
    [
      ['destination_object_store', { bucket: 'archive', secret_key: '[redacted]' }],
      ['destination_pull', { ack_mode: 'explicit' }],
    ],
  )
  t.same(problems, [])
  await close()
})

t.test(
  'an endpoint that rejects: what blocks is shown, retried, skipped, rewound, blocked, deleted',
  async (t) => {
    const pipeId = await daemon.createPipe({ pipe_name: 'sensors' })
    sink.respondWith(({ text }) =>
      text.includes('"unit":null') ? { status: 422, body: '{"problem":"unit is required"}' } : {},
    )
    const { page, problems, close } = await dashboard.visit('admin')
    await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/new`)
    await page.getByRole('button', { name: /^HTTP endpoint/ }).click()
    await page.getByLabel('URL', { exact: true }).fill('not a url')
    await page.getByRole('button', { name: 'Test and save' }).click()
    await page.locator('[aria-invalid="true"]:focus').waitFor()
    t.equal(
      await page.locator(':focus').getAttribute('aria-invalid'),
      'true',
      'the first field with an error has the focus, where it can be seen',
    )
    const focused = await page.locator(':focus').boundingBox()
    const height = page.viewportSize()?.height ?? 0
    t.ok(focused !== null && focused.y >= 0 && focused.y + focused.height <= height, 'on the screen')
    await page.getByLabel('URL', { exact: true }).fill(`${sink.url}/readings?token=S3CR3T`)
    await page.getByLabel('Authorization header').fill('Bearer S3CR3T')
    await page.getByRole('button', { name: 'Test and save' }).click()
    await page.getByText('Delivering normally').waitFor()
    const id = (await stored(pipeId)).destinations[0]?.destination_id ?? ''
    const lane = async () => (await daemon.lane(pipeId, id)) as unknown as Lane
    t.notMatch(await page.content(), /S3CR3T/, 'no secret comes back')

    await daemon.ingest(pipeId, '{"sensor": "bed-4", "reading": 12345678901234567890.10, "unit":null}')
    await daemon.ingest(pipeId, { sensor: 'bed-5', unit: 'C' })
    await page.getByText(/Rejected: .*unit is required/).waitFor()
    const record = page.locator('pre', { hasText: 'bed-4' })
    t.match(await record.innerText(), /"reading": 12345678901234567890\.10/, 'with every digit')
    t.match(
      await record.locator('mark').innerText(),
      /"unit": ?null/,
      'the key that the error names is marked',
    )
    const names = (await page.getByRole('main').getByRole('button').allInnerTexts()).slice(0, 4)
    t.match(names, [/^Retry/, /^Skip/, /^Rewind/, /^Block/], 'the gentlest first')

    const attempts = sink.deliveries.length
    await page.getByRole('button', { name: 'Retry now' }).click()
    await until('it was tried again', () => sink.deliveries.length > attempts)
    t.match(await confirm(page, 'Skip the message …', /^Skip and park 1 record$/), /correct and replay it/)
    await page.getByRole('link', { name: 'Open parked records' }).waitFor()
    await page.getByText('Delivering normally').waitFor()
    await until('the lane went on', async () => (await lane()).delivered_records === 1)
    t.equal((await lane()).skipped_messages, 1)

    sink.respondWith(() => ({}))
    await page.getByRole('button', { name: 'Rewind …' }).click()
    await page.getByLabel('Rewind to').selectOption('earliest')
    await page.getByRole('button', { name: 'Rewind and deliver again' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await until('both are delivered again', async () => (await lane()).delivered_records === 3)

    sink.respondWith(() => ({ status: 401 }))
    await daemon.ingest(pipeId, { sensor: 'bed-6' })
    await page.getByText('No record is at fault, so skipping does not help').waitFor()
    t.equal(await page.getByRole('button', { name: 'Skip the message …' }).count(), 0, 'it is not offered')
    sink.respondWith(() => ({}))
    await page.getByRole('button', { name: 'Retry now' }).click()
    await page.getByText('Delivering normally').waitFor()
    await page.getByRole('button', { name: 'Skip the message …' }).waitFor()

    await confirm(page, 'Block …', /^Block$/)
    t.equal((await lane()).lane_state, 'blocked')
    await page.getByRole('button', { name: 'Unblock …' }).waitFor()
    await confirm(page, 'Unblock …', /^Unblock$/)
    t.not((await lane()).lane_state, 'blocked')
    await confirm(page, 'Delete …', /^Delete/)
    await page.getByRole('heading', { name: 'sensors', level: 1 }).waitFor()
    t.same((await stored(pipeId)).destinations, [])
    t.same(problems, [])
    await close()
  },
)

t.test('the last 24 hours: what was sent, drawn and in a table, looked at once a minute', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'counted' })
  await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/` },
  })
  sink.respondWith(() => ({}))
  await daemon.ingest(pipeId, [{ n: 1 }, { n: 2 }, { n: 3 }])
  await daemon.ingest(pipeId, [{ n: 4 }, { n: 5 }])
  const total = async (place: string) => {
    const { hours } = (await daemon.api<UsageByHour>('GET', place)).body
    const sum = (of: (hour: UsageHour) => number) => hours.reduce((all, hour) => all + of(hour), 0)
    return [sum((hour) => hour.ingest_records), sum((hour) => hour.delivered_records)] as const
  }
  await until('all is delivered', async () => (await total(`/v1/pipes/${pipeId}/usage`))[1] === 5)
  const { page, problems, close } = await dashboard.visit('viewer')
  const asked: { path: string; atMs: number }[] = []
  page.on('request', (request) => asked.push({ path: new URL(request.url()).pathname, atMs: Date.now() }))
  const seen = async () => {
    const words = await page.getByRole('img', { name: /^Records per hour/ }).getAttribute('aria-label')
    await page
      .getByRole('img', { name: /^Records per hour/ })
      .locator('canvas')
      .waitFor()
    await page.getByText('As a table', { exact: true }).click()
    const rows = page
      .getByRole('table', { name: 'Records per hour of the last 24 hours' })
      .locator('tbody tr')
    await rows.first().waitFor()
    t.equal(await rows.count(), 24)
    // The cells of a row: hour, records in, records delivered, records filtered out.
    const cells = await rows.locator('td').allInnerTexts()
    const sumOf = (column: number) =>
      cells.reduce(
        (sum, text, index) => sum + (index % 4 === column ? Number(text.replaceAll(',', '')) : 0),
        0,
      )
    return { words, sums: [sumOf(1), sumOf(2), sumOf(3)] }
  }
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}`)
  const own = await seen()
  t.match(own.words, 'Total: Records in 5, Records delivered 5, Records filtered out 0.')
  t.same(own.sums, [5, 5, 0], 'the table has the same')

  asked.length = 0
  await page.goto(`${daemon.url}/dashboard/`)
  const all = await seen()
  const [ingested, delivered] = await total('/v1/usage')
  t.ok(ingested > 5, 'control: the workspace has more than that pipe')
  t.match(all.words, `Total: Records in ${ingested}, Records delivered ${delivered}, Records filtered out 0.`)
  t.same(all.sums, [ingested, delivered, 0])

  const times = (end: string) => asked.filter(({ path }) => path.endsWith(end)).map(({ atMs }) => atMs)
  await page.getByRole('link', { name: 'counted' }).first().click()
  await page.getByRole('heading', { name: 'counted', level: 1 }).waitFor()
  await page.getByRole('link', { name: 'Overview' }).first().click()
  await until('the overview was refreshed', () => times('/overview').length >= 3)
  for (const place of ['/v1/usage', `/v1/pipes/${pipeId}/usage`]) {
    const at = times(place)
    t.ok(
      at.every((one, index) => index === 0 || one - (at[index - 1] ?? 0) >= 59_000),
      `${place} was asked for ${at.length} times`,
    )
  }
  t.same(problems, [])
  await close()
})

t.test('a pipe hands out keys that can only send to it, in its snippets', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  const pipeId = await daemon.createPipe({ pipe_name: 'handed-out' })
  const other = await daemon.createPipe({ pipe_name: 'not-handed-out' })
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}`)
  const snippet = page.getByRole('tabpanel')
  t.match(await snippet.innerText(), /Bearer YOUR_API_KEY/)
  await page.getByRole('button', { name: 'New key for this pipe' }).click()
  await page.getByLabel('Name').fill('shop front')
  await page.getByRole('button', { name: 'Create key' }).click()
  const key = await page.getByRole('dialog', { name: 'Copy the key now' }).locator('pre').innerText()
  await page.getByRole('button', { name: 'I have copied it' }).click()
  t.match(await snippet.innerText(), `Authorization: Bearer ${key}'`)
  for (const label of ['Node.js', 'Python', 'Go', 'PHP']) {
    await page.getByRole('tab', { name: label }).click()
    await snippet.getByText(`Bearer ${key}`).waitFor()
    t.match(await snippet.innerText(), `${daemon.dataUrl}/v1/ingest/${pipeId}`, label)
  }
  const send = async (id: string) => (await daemon.api('POST', `/v1/ingest/${id}`, { n: 1 }, { key })).status
  t.same([await send(pipeId), await send(other)], [202, 403])
  t.equal((await daemon.api('GET', `/v1/pipes/${pipeId}`, undefined, { key })).status, 403)
  await page.goto(`${daemon.url}/dashboard/pipes/${other}`)
  t.match(
    await snippet.innerText(),
    /Bearer YOUR_API_KEY/,
    'the key of one pipe is not in the snippets of another',
  )
  t.same(problems, [])
  await close()
})

t.test('a key is shown once, works, and is revoked', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  await page.getByRole('link', { name: 'API keys' }).click()
  await page.getByRole('button', { name: 'New key' }).click()
  await page.getByLabel('Name').fill('shop backend')
  await page.getByLabel('Send records').uncheck()
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByText('must').first().waitFor()
  await page.getByLabel('Read').check()
  await page.getByLabel('Expires').selectOption('after 90 days')
  t.match(
    await page.getByRole('dialog').locator('details', { hasText: 'Copy as CLI' }).textContent(),
    /pipectl keys create 'shop backend' --scope read --expires 90d/,
  )
  await page.getByRole('button', { name: 'Create key' }).click()
  const shown = page.getByRole('dialog', { name: 'Copy the key now' })
  const key = await shown.locator('pre').innerText()
  t.equal((await daemon.api('GET', '/v1/pipes', undefined, { key })).status, 200)
  t.equal(
    (await daemon.api('POST', '/v1/pipes', { pipe_name: 'x' }, { key })).status,
    403,
    'no more than that',
  )
  await page.getByRole('button', { name: 'I have copied it' }).click()
  t.match(await page.getByRole('row', { name: /shop backend/ }).innerText(), /read\s[\s\S]*in (89d 23h|90d)/)
  t.notMatch(await page.content(), key)
  await page.getByRole('button', { name: 'New key' }).click()
  await page.getByLabel('Name').fill('shop backend')
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByText('An active API key with this name already exists').waitFor()
  await page.getByRole('button', { name: 'Cancel' }).click()
  const rotated = async (overlap: string) => {
    await page
      .getByRole('button', { name: /^Rotate shop backend/ })
      .first()
      .click()
    await page.getByLabel('The old key still works').selectOption(overlap)
    const made = `next ${overlap}`
    await page.getByLabel('Name of the new key').fill(made)
    await page.getByRole('button', { name: 'Create the new key' }).click()
    const words = await shown.innerText()
    const next = await shown.locator('pre').innerText()
    await page.getByRole('button', { name: 'I have copied it' }).click()
    return { words, next }
  }
  const status = async (of: string) => (await daemon.api('GET', '/v1/pipes', undefined, { key: of })).status
  const first = await rotated('for a day')
  t.match(first.words, /shop backend works until /)
  t.strictSame([await status(key), await status(first.next)], [200, 200], 'both work meanwhile')
  const second = await rotated('not at all: it was leaked')
  t.match(second.words, /shop backend is revoked/)
  t.strictSame([await status(key), await status(second.next)], [401, 200])
  t.notMatch(await page.content(), second.next)
  const buttons = page.getByRole('button', { name: /^(Rotate|Revoke) next for a day$/ })
  const boxes = await Promise.all((await buttons.all()).map((button) => button.boundingBox()))
  t.equal(boxes.length, 2)
  t.equal(boxes[0]?.y, boxes[1]?.y, 'the buttons of a key stand on one line')
  t.match(await confirm(page, 'Revoke next for a day', /^Revoke the key$/), /401/)
  t.equal(await status(first.next), 401)
  t.same(problems, [])
  await close()
})

t.test('the audit log says who changed what, before and after', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  const pipeId = await daemon.createPipe({ pipe_name: 'watched' })
  await daemon.api('PATCH', `/v1/pipes/${pipeId}`, { pipe_description: 'seen' })
  await page.getByRole('link', { name: 'Audit' }).click()
  const row = page.getByRole('row', { name: /update pipe/ }).first()
  t.match(await row.innerText(), /key default[\s\S]*127\.0\.0\.1[\s\S]*pipe_description/)
  await row.getByRole('button', { name: /^Show change/ }).click()
  const dialog = page.getByRole('dialog', { name: /^Change \d+/ })
  t.match(await dialog.innerText(), /"pipe_description": ""[\s\S]*"pipe_description": "seen"/)
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  t.match(await page.locator('details', { hasText: 'Copy as CLI' }).first().textContent(), /pipectl audit/)
  t.same(problems, [])
  await close()
})

t.test('a long name in the audit log breaks; its other cells stay on one line', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin', { width: 1100 })
  const name = 'n'.repeat(95)
  const pipeId = await daemon.createPipe({ pipe_name: name })
  await daemon.createDestination(pipeId, {
    ...{ destination_type: 'destination_pull', destination_config: { ack_mode: 'auto' } },
  })
  await page.getByRole('link', { name: 'Audit' }).click()
  // Its name is known from the next overview on.
  await page.getByRole('row', { name: `create destination ${name}/pull` }).waitFor()
  /** The number of lines in each cell: the distinct heights at which its text is drawn. */
  const lines = () =>
    page.evaluate<number[]>(`(() => {
      const row = [...document.querySelectorAll('tbody tr')].find((one) => one.innerText.includes('/pull'))
      return [...row.cells].map((cell) => {
        const tops = new Set()
        const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT)
        while (texts.nextNode()) {
          const range = document.createRange()
          range.selectNode(texts.currentNode)
          for (const { top } of range.getClientRects()) tops.add(Math.round(top))
        }
        return tops.size
      })
    })()`)
  const [when, , , operation, resource, , button] = await lines()
  t.strictSame([when, operation, button], [1, 1, 1])
  t.ok(Number(resource) > 1, 'control: the name needs more than one line')
  t.equal(
    await page.evaluate('document.documentElement.scrollWidth <= document.documentElement.clientWidth'),
    true,
  )
  t.same(problems, [])
  await close()
})

t.test('alerts: set up, tested, changed, removed', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  const alerts = async () =>
    (await daemon.api<{ alerts: Record<string, unknown> | null }>('GET', '/v1/alerts')).body.alerts
  await page.getByRole('link', { name: 'Alerts' }).click()
  await page.getByLabel('Address').fill('ftp://example.com')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.locator('[aria-invalid="true"] ~ div', { hasText: 'must begin with http' }).waitFor()
  await page.getByLabel('Address').fill(`${sink.url}/alerts?token=hidden`)
  await page.getByLabel('Signing secret').fill('short')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.locator('[aria-invalid="true"] ~ div', { hasText: 'must be whsec_' }).waitFor()
  await page.getByLabel('Signing secret').fill(`whsec_${Buffer.alloc(32, 1).toString('base64')}`)
  await page.getByRole('checkbox', { name: /^retention.near/ }).uncheck()
  const twin = await page.locator('details', { hasText: 'Copy as CLI' }).last().textContent()
  t.match(twin, /pipectl alerts set --format standard --url-file FILE --ask-secret --events lane\.failing,/)
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByRole('heading', { name: 'State' }).waitFor()
  const events = alertEventNames.filter((event) => event !== 'retention.near')
  t.match(await alerts(), { url: `${sink.url}/alerts?token=[redacted]`, secret: '[redacted]', events })
  await page.getByRole('button', { name: 'Send a test alert' }).click()
  await page.getByText('The test alert arrived.').waitFor()
  t.equal(sink.deliveries.at(-1)?.path, '/alerts?token=hidden')
  sink.respondWith(() => ({ status: 500, body: 'not <b>today</b>' }))
  await page.getByRole('button', { name: 'Send a test alert' }).click()
  await page.getByText(/was not accepted.*responded 500/).waitFor()
  sink.respondWith(() => ({}))
  await page.getByRole('checkbox', { name: /^retention.near/ }).check()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await until('it is stored', async () => String(Object(await alerts()).events).includes('retention.near'))
  t.match(await alerts(), { secret: '[redacted]' }, 'the secret stays')
  const viewer = await dashboard.visit('viewer')
  await viewer.page.getByRole('link', { name: 'Alerts' }).click()
  await viewer.page.getByRole('heading', { name: 'Events' }).waitFor()
  t.equal(await viewer.page.getByRole('button', { name: 'Send a test alert' }).isDisabled(), true)
  t.equal(await viewer.page.getByLabel('Address').count(), 0, 'no form')
  await viewer.close()
  await daemon.api('PUT', '/v1/alerts', { url: 'https://example.com/theirs' })
  await page.getByRole('checkbox', { name: /^lane.stuck/ }).uncheck()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByRole('button', { name: 'Use the stored values' }).click()
  await until('theirs is shown', async () =>
    (await page.getByLabel('Address').inputValue()).endsWith('/theirs'),
  )
  t.match(await confirm(page, 'Remove …', /^Remove$/), /are deleted/)
  t.equal(await alerts(), null)
  t.same(problems, [])
  await close()
})

t.test('users: made, changed, deleted', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  const users = async () =>
    (await daemon.api<{ users: { user_email: string; user_role: string }[] }>('GET', '/v1/users')).body.users
  await page.getByRole('link', { name: 'Users' }).click()
  await page.getByRole('button', { name: 'New user' }).click()
  await page.getByLabel('E-mail').fill('carol@example.com')
  await page.getByLabel('Password', { exact: true }).fill('a sentence is good')
  await page.getByRole('button', { name: 'Create user' }).click()
  await page.getByRole('button', { name: 'Change carol@example.com' }).click()
  await page.getByLabel('Role', { exact: true }).selectOption('admin')
  t.match(
    await page.getByRole('dialog').locator('details', { hasText: 'Copy as CLI' }).textContent(),
    /pipectl users role carol@example.com admin/,
  )
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  t.match(
    (await users()).find((one) => one.user_email === 'carol@example.com'),
    { user_role: 'admin' },
  )
  await confirm(page, 'Delete carol@example.com', /^Delete the user$/)
  t.notOk((await users()).some((one) => one.user_email === 'carol@example.com'))
  t.same(problems, [])
  await close()
})
