/** The messages of a pipe in the browser: filtered, searched, paged, opened; at every width, by keys alone. */
import path from 'node:path'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { axeFindings, loaded, openDashboard } from '../support/dashboard.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { choose, press, tabTo, typeInto } from '../support/keyboard.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
const sink = await startHttpSink()
sink.respondWith(({ text }) => ({ status: text.includes('"bad"') ? 422 : 200, body: 'no such column' }))
t.teardown(async () => {
  await dashboard.close()
  await sink.stop()
})

const countries = ['AT', 'DE', 'FR', 'IT', 'ES']
const pipeId = await daemon.createPipe({ pipe_name: 'orders', pipe_add_ingest_ts: false })
const [shop, stuckLane] = [await hook('shop', 'park'), await hook('warehouse', 'block')]
await daemon.createDestination(pipeId, { destination_type: 'destination_pull', destination_name: 'reports' })
const ids: string[] = []
for (let n = 0; n < 60; n += 1) ids.unshift(await send(n))
await until('the lanes are done', async () => (await idsIn('delivered', shop)).length >= 50)
await until('the parked ones are parked', async () => (await idsIn('parked', shop)).length === 1)
await until('the other lane is stuck', async () => (await idsIn('stuck', stuckLane)).length === 1)

async function hook(name: string, onPermanentError: string): Promise<string> {
  return await daemon.createDestination(pipeId, {
    ...{ destination_type: 'destination_http_endpoint', destination_name: name },
    destination_config: { url: `${sink.url}/${name}`, body_format: 'json_object' },
    on_permanent_error: onPermanentError,
  })
}

async function send(n: number): Promise<string> {
  const order = {
    order_id: 4_711_000 + n,
    ...{ status: n % 3 === 0 ? 'paid' : 'open', total: 19.9 + n, currency: 'EUR' },
    customer: { country: countries[n % countries.length], email: `customer-${n}@example.com` },
    ...(n === 55 ? { bad: true } : {}),
  }
  const { msg_id } = await daemon.ingest(pipeId, n % 7 === 0 ? [order, { order_id: n, line: 2 }] : [order])
  return msg_id
}

async function idsIn(state: string, destinationId: string): Promise<string[]> {
  const { body } = await daemon.api<{ messages: { msg_id: string }[] }>(
    'GET',
    `/v1/pipes/${pipeId}/messages?state=${state}&destination_id=${destinationId}&limit=200`,
  )
  return body.messages.map(({ msg_id }) => msg_id)
}

/** The text of the link to a message. */
const short = (id = '') => `${id.slice(0, 8)}…${id.slice(-8)}`
const list = (page: Page) => page.getByRole('table', { name: 'Messages' })
const rows = (page: Page) => list(page).locator('tbody tr')
const status = (page: Page) => page.locator('main p[role="status"]')
const panel = (page: Page) => page.getByRole('dialog', { name: 'Message' })

async function opened(page: Page, query = ''): Promise<void> {
  await page.goto(`${daemon.url}/dashboard/messages${query}`)
  await status(page).waitFor()
  await loaded(page)
}

async function shoot(page: Page, name: string): Promise<void> {
  const folder = process.env.SCREENSHOTS
  if (folder) await page.screenshot({ path: path.join(folder, `${name}.png`) })
}

async function checked(t: Test, page: Page, what: string): Promise<void> {
  t.same(await axeFindings(page), [], what)
  const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
  t.ok(Number(overflow) <= 0, `${what}: nothing beside the screen (${overflow} px)`)
}

for (const { width, colourScheme } of [
  { width: 1440, colourScheme: 'light' },
  { width: 1440, colourScheme: 'dark' },
  { width: 768, colourScheme: 'light' },
  { width: 390, colourScheme: 'light' },
  { width: 390, colourScheme: 'dark' },
] as const) {
  t.test(`list, panel and empty list, ${width} px wide, ${colourScheme}`, async (t) => {
    const { page, problems, close } = await dashboard.visit('admin', { width, colourScheme })
    await opened(page)
    t.equal(await rows(page).count(), 50)
    const newest = await rows(page).first().innerText()
    t.match(newest, short(ids[0]))
    t.match(newest, /"order_id":4711059/)
    const marks = rows(page).first().getByRole('img')
    for (const [at, name] of ['shop: delivered', 'warehouse: pending', 'reports: pending'].entries())
      t.equal(await marks.nth(at).getAttribute('aria-label'), name)
    await checked(t, page, 'list')
    await shoot(page, `messages-${width}-${colourScheme}`)

    await page.getByRole('link', { name: short(ids[4]) }).click()
    await panel(page).getByText('http_422').first().waitFor()
    await checked(t, page, 'panel')
    await shoot(page, `messages-panel-${width}-${colourScheme}`)
    await page.keyboard.press('Escape')
    await panel(page).waitFor({ state: 'detached' })

    await opened(page, '?where=status%3Dlost')
    await page.getByRole('heading', { name: 'Nothing matches in the last 24 hours' }).waitFor()
    await checked(t, page, 'empty list')
    await shoot(page, `messages-empty-${width}-${colourScheme}`)
    t.same(problems, [])
    await close()
  })
}

t.test('filters are in the address, and the address is enough', async (t) => {
  const { page, problems, close } = await dashboard.visit('viewer')
  await opened(page)
  await page.getByLabel('State').selectOption('parked')
  await until('the parked message is shown', async () => (await rows(page).count()) === 1)
  await page.getByLabel('Lane', { exact: true }).selectOption({ label: 'warehouse' })
  await page.getByRole('heading', { name: 'Nothing matches in the last 24 hours' }).waitFor()
  await page.getByLabel('State').selectOption('stuck')
  await page.getByRole('link', { name: short(ids[4]) }).waitFor()
  t.equal(await rows(page).count(), 1)
  await page.getByLabel('Lane', { exact: true }).selectOption('')
  await page.getByLabel('State').selectOption('')
  await page.getByLabel('Record').fill('customer.country=AT')
  await page.getByLabel('Record').press('Enter')
  await until('12 messages are shown', async () => (await rows(page).count()) === 12)
  t.match(
    await status(page).innerText(),
    /^12 shown\. Looked at 60 messages \(\d+\.\d KiB\)\. There are no older ones/,
  )
  await page.getByRole('button', { name: '1 h', exact: true }).click()
  await until('the range is in the address', () => page.url().includes('range=1h'))
  const search = new URL(page.url()).searchParams
  t.equal(search.get('where'), 'customer.country=AT', 'with the others')
  await page.reload()
  await until('the same is shown', async () => (await rows(page).count()) === 12)
  await page.getByText('Copy as CLI').click()
  await page.getByText('pipectl messages orders --since 1h --where customer.country=AT').waitFor()
  await page.getByLabel('Record').fill('nothing')
  await page.getByRole('button', { name: 'Find', exact: true }).click()
  await page.getByText('must be key=value').waitFor()
  t.same(problems, [])
  await close()
})

t.test('older messages are loaded below the newer ones', async (t) => {
  const { page, problems, close } = await dashboard.visit('viewer')
  await opened(page)
  await page.getByRole('button', { name: 'Load older messages' }).click()
  await until('all are shown', async () => (await rows(page).count()) === 60)
  await list(page)
    .getByRole('link', { name: short(ids[59]) })
    .waitFor()
  t.match(await status(page).innerText(), /^60 shown\..* There are no older ones in this range\.$/)
  t.equal(await page.getByRole('button', { name: 'Load older messages' }).count(), 0)
  t.same(problems, [])
  await close()
})

t.test('a search that was cut short says how far it looked, and continues', async (t) => {
  const many = await daemon.createPipe({ pipe_name: 'archive', pipe_add_ingest_ts: false })
  const { msg_id: needle } = await daemon.ingest(many, { kind: 'needle' })
  const chaff = JSON.stringify(Array.from({ length: 1_000 }, (_, n) => ({ n, text: 'x'.repeat(970) })))
  for (let n = 0; n < 75; n += 1) await daemon.ingest(many, chaff)
  const { page, problems, close } = await dashboard.visit('viewer')
  await opened(page, `?pipe=${many}&where=kind%3Dneedle`)
  await page.getByRole('heading', { name: 'Nothing matches in the last 24 hours so far' }).waitFor()
  t.match(await status(page).innerText(), /^Looked at \d+ messages \(\d\d\.\d MiB\), back to .*\.$/)
  await shoot(page, 'messages-cut-short')
  await until('it is found', async () => {
    const more = page.getByRole('button', { name: 'Go on to older messages' })
    if ((await more.count()) > 0 && (await more.isEnabled())) await more.click()
    return (await page.getByRole('link', { name: short(needle) }).count()) === 1
  })
  t.same(problems, [])
  await close()
})

t.test('with the keyboard alone: choose, search, open, go on, close', async (t) => {
  const { page, problems, close } = await dashboard.visit('viewer')
  // The page listens to keys when it is shown.
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
  await page.keyboard.type('gm')
  await status(page).waitFor()
  await page.locator('main').focus()
  await choose(page, 'Pipe', 'orders')
  await choose(page, 'Lane', 'shop')
  await typeInto(page, 'Record', 'customer.country=DE')
  await press(page, 'Find')
  await until('it is filtered', async () => (await rows(page).count()) === 12)
  await page.locator('main').focus()
  await press(page, short(ids[3]))
  await panel(page).getByText(String(ids[3])).first().waitFor()
  await page.keyboard.press('j')
  await panel(page).getByText(String(ids[8])).first().waitFor()
  await page.keyboard.press('k')
  await panel(page).getByText(String(ids[3])).first().waitFor()
  await page.keyboard.press('Escape')
  await panel(page).waitFor({ state: 'detached' })
  await tabTo(page, short(ids[8]))
  t.same(problems, [])
  await close()
})

t.test('pages without messages say why', async (t) => {
  const empty = await daemon.createPipe({ pipe_name: 'empty' })
  const { page, problems, close } = await dashboard.visit('admin')
  await opened(page, `?pipe=${empty}`)
  await page.getByRole('heading', { name: 'This pipe has not received any records yet' }).waitFor()
  await page.goto(`${daemon.url}/dashboard/messages?pipe=${ids[0]}`)
  await page.getByRole('heading', { name: 'There is no such pipe' }).waitFor()
  await opened(page, `?pipe=${empty}&id=${ids[0]}`)
  await page.getByRole('heading', { name: 'No message of this pipe has this msg_id' }).waitFor()
  await page.getByRole('button', { name: 'Look for it in all pipes' }).click()
  await panel(page).getByRole('link', { name: 'orders' }).first().waitFor()
  t.same(problems, [])
  await close()
})

t.test(
  'selected messages are replayed to a destination, with counts before and progress after',
  async (t) => {
    const { page, problems, close } = await dashboard.visit('admin')
    await opened(page, `?pipe=${pipeId}`)
    const before = sink.deliveries.length
    await page.getByLabel(`Select ${short(ids[10])}`).check()
    await page.getByLabel(`Select ${short(ids[12])}`).check()
    await page.getByRole('button', { name: 'Replay 2 selected …' }).click()
    const dialog = page.getByRole('dialog', { name: 'Replay messages' })
    await dialog.getByText('All 3 messages from the oldest to the newest selected one').waitFor()
    await checked(t, page, 'dialog')
    await shoot(page, 'replay-dialog')
    await dialog.getByRole('button', { name: 'Replay 3 messages' }).click()
    await dialog.getByText(/●\s*done/).waitFor()
    await dialog.getByText('3 of 3 messages, 4 records stored.').waitFor()
    await checked(t, page, 'progress')
    t.equal(sink.deliveries.length, before + 4, 'one of the messages has two records')
    await dialog.getByRole('link', { name: 'Follow it on the page of the lane' }).click()
    const row = page.getByRole('table', { name: 'Replays' }).locator('tbody tr')
    await row.getByText(/●\s*done/).waitFor()
    await checked(t, page, 'lane')
    await opened(page, `?pipe=${pipeId}&state=parked`)
    await page.getByRole('button', { name: 'Replay this range …' }).click()
    await dialog.getByText('The filters of the page do not apply').waitFor()
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    t.same(problems, [])
    await close()
  },
)
