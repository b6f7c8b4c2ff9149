/** /v1/pipectl.js on a page of another origin: each record that was sent arrives, once. */
import t from 'tap'
import { sampleRecord, snippets } from '../../src/apps/client/snippets.ts'
import { allOnce, dropped, kept, numbers, openShop, type SenderWindow, send } from '../support/shop.ts'
import { until } from '../support/until.ts'

const shop = await openShop()
t.teardown(() => shop.close())
declare const window: SenderWindow
declare const document: { addEventListener(name: string, run: () => void): void }

t.test('500 records arrive, in order and once', async (t) => {
  const { url, arrived } = await shop.makePipe()
  const context = await shop.browser.newContext()
  const page = await shop.openPage(context, url)
  const problems: string[] = []
  page.on('console', (message) => problems.push(message.text()))
  const methods: string[] = []
  page.on('request', (request) => methods.push(request.method()))
  await send(page, 0, 500)
  await allOnce(t, page, arrived, numbers(0, 500))
  t.same(
    (await arrived()).map(({ n }) => n),
    numbers(0, 500),
    'in order',
  )
  t.same([...new Set(methods)], ['POST'], 'no preflight')
  t.ok(methods.length < 12, `${methods.length} requests`)
  t.same([await dropped(page), problems], [[], []])
  await context.close()
})

t.test('offline: what is sent waits, and arrives once the network is back', async (t) => {
  const { url, arrived } = await shop.makePipe()
  const context = await shop.browser.newContext()
  const page = await shop.openPage(context, url)
  await context.setOffline(true)
  await send(page, 0, 150)
  await page.evaluate(() => window.sender.flush())
  const failed = page.waitForEvent('requestfailed')
  await page.evaluate(() => window.sender.flush())
  await failed
  t.equal(await kept(page), 2, 'two batches')
  t.same(await arrived(), [])
  await context.setOffline(false)
  await allOnce(t, page, arrived, numbers(0, 150))
  await context.close()
})

t.test(
  'a tab that is closed: its records arrive without another page, and are not sent twice by the next',
  async (t) => {
    const { url, arrived } = await shop.makePipe()
    const context = await shop.browser.newContext()
    const page = await shop.openPage(context, url)
    await send(page, 0, 120)
    await page.close({ runBeforeUnload: true })
    await until('they have arrived', async () => (await arrived()).length === 120)
    const next = await shop.openPage(context, url)
    await send(next, 120, 121)
    await allOnce(t, next, arrived, numbers(0, 121))
    await context.close()
  },
)

t.test('what another listener sends while the page ends arrives too', async (t) => {
  const { url, arrived } = await shop.makePipe()
  const context = await shop.browser.newContext()
  const page = await shop.openPage(context, url)
  await page.evaluate(() => {
    document.addEventListener('visibilitychange', () => {
      window.sender.send({ n: 1 })
    })
  })
  await page.goto('about:blank')
  await until('it has arrived', async () => (await arrived()).length === 1)
  const next = await shop.openPage(context, url)
  await allOnce(t, next, arrived, [1])
  await context.close()
})

t.test(
  'a page with Referrer-Policy no-referrer sends beacons from null: they are rejected, the next page sends',
  async (t) => {
    const { url, arrived } = await shop.makePipe()
    const context = await shop.browser.newContext()
    const page = await shop.openPage(context, url, { path: '/?referrer=none' })
    await send(page, 0, 3)
    await page.goto('about:blank')
    const next = await shop.openPage(context, url)
    await allOnce(t, next, arrived, [0, 1, 2])
    await context.close()
  },
)

t.test('429: it waits as long as it is told, and goes on with the same batch', async (t) => {
  const { pipeId, url, arrived } = await shop.makePipe()
  await shop.daemon.api('PUT', `/v1/pipes/${pipeId}/limits`, {
    pl_ingest_max_records_per_request: 100,
    pl_ingest_max_records_per_second: 50,
    pl_ingest_max_records_per_day: 1_000_000,
    pl_delivery_max_records_per_flush: 1_000,
    pl_delivery_max_bytes_per_flush: 1_000_000,
    pl_delivery_max_seconds_per_flush: 1,
  })
  const context = await shop.browser.newContext()
  const page = await shop.openPage(context, url)
  const attempts: { key: string; at: number; status: number; wait: number }[] = []
  page.on('response', (response) => {
    const wait = Number(response.headers()['retry-after'] ?? 0)
    const key = new URL(response.url()).searchParams.get('idempotency_key') ?? ''
    attempts.push({ key, at: Date.now(), status: response.status(), wait })
  })
  await send(page, 0, 300)
  await allOnce(t, page, arrived, numbers(0, 300))
  const rejected = attempts.filter(({ status }) => status === 429)
  t.ok(rejected.length > 0)
  for (const { key, at, wait } of rejected) {
    t.ok(wait >= 1)
    const next = attempts.find((one) => one.at > at)
    t.equal(next?.key, key, 'the same batch')
    t.ok((next?.at ?? 0) - at >= wait * 1_000, 'not before its time')
  }
  await context.close()
})

t.test(
  '413 and 400: batches are halved, the record at fault is dropped and counted, the others arrive',
  async (t) => {
    const { pipeId, url, arrived } = await shop.makePipe()
    await shop.daemon.api('PUT', `/v1/pipes/${pipeId}/limits`, {
      pl_ingest_max_records_per_request: 10,
      pl_ingest_max_records_per_second: 1_000,
      pl_ingest_max_records_per_day: 1_000_000,
      pl_delivery_max_records_per_flush: 1_000,
      pl_delivery_max_bytes_per_flush: 1_000_000,
      pl_delivery_max_seconds_per_flush: 1,
    })
    const context = await shop.browser.newContext()
    const page = await shop.openPage(context, url)
    await send(page, 0, 40)
    await page.evaluate(() => {
      let deep: unknown = 1
      for (let level = 0; level < 200; level++) deep = [deep]
      window.sender.send({ n: -1, deep })
    })
    await send(page, 40, 80)
    await allOnce(t, page, arrived, numbers(0, 80))
    t.same(
      (await arrived()).map(({ n }) => n),
      numbers(0, 80),
      'in order',
    )
    t.same(await dropped(page), [{ reason: 'rejected', numbers: [-1] }])
    await context.close()
  },
)

t.test('a pipe with a key, and what is no record', async (t) => {
  const { pipeId, url, arrived } = await shop.makePipe({ pipe_api_key_required: true })
  const made = await shop.daemon.api<{ api_key: string }>('POST', '/v1/api-keys', {
    ...{ api_key_name: 'shop', api_key_scopes: ['ingest'], api_key_pipe_ids: [pipeId] },
  })
  const context = await shop.browser.newContext()
  const page = await shop.openPage(context, url, { key: made.body.api_key })
  await send(page, 0, 5)
  await allOnce(t, page, arrived, numbers(0, 5))
  const loop = '(() => { const loop = {}; loop.loop = loop; return loop })()'
  const noRecords = ['1', '"text"', 'null', '[{}]', 'undefined', '() => 1', '{ n: 1n }', loop]
  for (const value of noRecords)
    t.equal(await page.evaluate(`window.sender.send(${value})`), false, `nothing is thrown for ${value}`)
  t.same(
    await page.evaluate(() => window.dropped.map(({ reason }) => reason)),
    noRecords.map(() => 'invalid'),
  )
  await send(page, 5, 8)
  await page.goto('about:blank')
  const next = await shop.openPage(context, url, { key: made.body.api_key })
  await allOnce(t, next, arrived, numbers(0, 8))
  await context.close()
})

t.test('the snippet that the dashboard shows for a page is one that works', async (t) => {
  const { url, arrived } = await shop.makePipe()
  const snippet = snippets(url, null, sampleRecord([], [], new Date())).find(
    ({ guide }) => guide.name === 'browser',
  )
  const context = await shop.browser.newContext()
  const page = await context.newPage()
  shop.serve(`<!doctype html>${snippet?.text}`)
  await page.goto(`${shop.url}/own`)
  await until('its record has arrived', async () => (await arrived()).length === 1)
  t.same(await arrived(), [{ event: 'signup', user_id: 42 }])
  await context.close()
})
