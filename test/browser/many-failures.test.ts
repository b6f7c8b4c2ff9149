/** Many failures, many lanes, many keys: grouped by cause, sorted, filtered, selected, found with the palette. */
import type { Page } from 'playwright-core'
import t from 'tap'
import { axeFindings, openDashboard } from '../support/dashboard.ts'
import { freePort } from '../support/free-port.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { tabTo } from '../support/keyboard.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
const sink = await startHttpSink()
t.teardown(async () => {
  await dashboard.close()
  await sink.stop()
})
const shots = process.env.SCREENSHOTS

const endpoint = (name: string, url: string) => ({
  destination_type: 'destination_http_endpoint',
  destination_name: name,
  destination_config: { url },
})
sink.respondWith(({ path }) => ({ status: Number(path.slice(1)) || 200 }))
const closedPort = await freePort()
const orders = await daemon.createPipe({ pipe_name: 'orders' })
const clicks = await daemon.createPipe({ pipe_name: 'clicks' })
for (let n = 1; n <= 4; n += 1)
  await daemon.createDestination(orders, endpoint(`copy-${n}`, `http://127.0.0.1:${closedPort}/${n}`))
await daemon.createDestination(orders, endpoint('strict', `${sink.url}/422`))
await daemon.createDestination(clicks, endpoint('well', `${sink.url}/200`))
for (const pipe of [orders, clicks]) await daemon.ingest(pipe, { n: 1 })
for (let n = 0; n < 12; n += 1)
  await daemon.api('POST', '/v1/api-keys', { api_key_name: `program-${n}`, api_key_scopes: ['ingest'] })

const open = (page: Page, place: string) => page.goto(`${daemon.url}/dashboard${place}`)
const shot = async (page: Page, name: string) => {
  if (shots !== undefined) await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true })
}
const group = (page: Page) =>
  page.getByRole('article', { name: `connection refused 127.0.0.1:${closedPort}` })

for (const { width, colourScheme } of [
  { width: 1440, colourScheme: 'light' },
  { width: 1440, colourScheme: 'dark' },
  { width: 768, colourScheme: 'light' },
  { width: 768, colourScheme: 'dark' },
  { width: 390, colourScheme: 'light' },
  { width: 390, colourScheme: 'dark' },
] as const) {
  t.test(`groups, lanes, keys and the palette, ${width} px wide, ${colourScheme}`, async (t) => {
    const { page, problems, close } = await dashboard.visit('admin', { width, colourScheme })
    const check = async (name: string) => {
      t.same(await axeFindings(page), [], `${name}: no serious finding`)
      const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
      t.ok(Number(overflow) <= 0, `${name}: nothing beside the screen (${overflow} px)`)
      await shot(page, `${name}-${width}-${colourScheme}`)
    }
    await group(page).getByText('copy-4').waitFor()
    await check('overview')
    await open(page, '/lanes?sort=-pending&state=failing')
    await page.getByText('copy-4').waitFor()
    await check('lanes')
    await open(page, '/keys?sort=name')
    await page.getByText('program-11').waitFor()
    await check('keys')
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox', { name: 'Search or jump to' }).fill('copy')
    await page.getByRole('option').first().waitFor()
    await check('palette')
    t.same(problems, [])
    await close()
  })
}

t.test('one cause is one group, and Retry all tries each of its lanes again', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  const refused = group(page)
  await refused.getByText('copy-4').waitFor()
  t.match(await refused.innerText(), /Connection refused, 127\.0\.0\.1:\d+, 4 lanes/i)
  t.match(await refused.innerText(), /Start the server, or correct the host and port\./)
  const strict = page.getByRole('article', { name: /^records rejected \(HTTP 422\)/ })
  t.match(await strict.innerText(), /strict/, 'another cause is another group')
  const server = await startHttpSink({ port: closedPort })
  t.teardown(() => server.stop())
  const retry = refused.getByRole('button', { name: 'Retry all' })
  await retry.focus()
  await page.keyboard.press('Enter')
  await page.getByText('Retrying 4 lanes.').waitFor()
  t.match(
    await page.getByRole('button', { name: /lanes retry/ }).getAttribute('aria-label'),
    /pipectl lanes retry( orders\/copy-[1-4]){4}/,
  )
  await until('each has arrived', () => server.deliveries.length === 4)
  await refused.waitFor({ state: 'detached' })
  t.ok(await strict.isVisible(), 'the others are not touched')
  t.same(problems, [])
  await close()
})

t.test('columns sort by mouse and keyboard, and the address keeps the order', async (t) => {
  const { page, problems, close } = await dashboard.visit('viewer')
  await open(page, '/pipes')
  const table = page.getByRole('table', { name: 'Pipes' })
  await table.getByText('orders').waitFor()
  const names = async () => await table.locator('tbody tr td:first-child').allInnerTexts()
  const heading = (name: string) => table.getByRole('columnheader', { name })
  t.equal(await heading('Pipe').getAttribute('aria-sort'), null)
  await tabTo(page, 'Pipe')
  await page.keyboard.press('Enter')
  await until('ascending', async () => (await heading('Pipe').getAttribute('aria-sort')) === 'ascending')
  t.same(await names(), ['clicks', 'orders'])
  await page.keyboard.press('Enter')
  await until('descending', async () => (await names())[0] === 'orders')
  t.equal(await heading('Pipe').getAttribute('aria-sort'), 'descending')
  t.match(page.url(), /\?sort=-pipe$/)
  await page.reload()
  await table.getByText('orders').waitFor()
  t.same(await names(), ['orders', 'clicks'])
  await heading('Pending').getByRole('button').click()
  await until('by number', async () => (await heading('Pending').getAttribute('aria-sort')) === 'descending')
  t.equal(await heading('Pipe').getAttribute('aria-sort'), null, 'one column at a time')
  t.equal((await names())[0], 'orders', 'the most first')
  t.same(problems, [])
  await close()
})

t.test('a search stays on the page, survives a reload, and is there again after going back', async (t) => {
  const { page, problems, close } = await dashboard.visit('viewer')
  await open(page, '/pipes')
  await page.getByLabel('Search', { exact: true }).pressSequentially('ord')
  const rows = page.getByRole('table', { name: 'Pipes' }).locator('tbody tr')
  await until('one is left', async () => (await rows.count()) === 1)
  await page.getByRole('link', { name: 'orders' }).click()
  await page.getByRole('heading', { name: 'orders', level: 1 }).waitFor()
  await page.goBack()
  await page.getByRole('heading', { name: 'Pipes', level: 1 }).waitFor()
  t.equal(await page.getByLabel('Search', { exact: true }).inputValue(), 'ord')
  t.match(page.url(), /pipes\?q=ord$/)
  await page.reload()
  await until('still one', async () => (await rows.count()) === 1)
  await page.getByLabel('Search', { exact: true }).fill('')
  await until('both', async () => (await rows.count()) === 2)
  await until('the address follows', () => !page.url().includes('q='))
  t.same(problems, [])
  await close()
})

t.test('several lanes are selected, blocked and unblocked; a viewer selects none', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  await open(page, '/lanes')
  await page.getByLabel('Search', { exact: true }).fill('copy-')
  await page.getByLabel('Select orders/copy-1').check()
  await page.getByLabel('Select orders/copy-3').check()
  await page.getByRole('button', { name: 'Block 2 lanes …' }).click()
  const dialog = page.getByRole('dialog', { name: 'Block 2 lanes?' })
  t.match(await dialog.textContent(), /destinations block orders\/copy-1 --yes\n?.*orders\/copy-3/s)
  await dialog.getByRole('button', { name: 'Block 2 lanes' }).click()
  await page.getByText('Blocked 2 lanes.').waitFor()
  await page.getByLabel('State', { exact: true }).selectOption('blocked')
  const rows = page.getByRole('table', { name: 'Lanes' }).locator('tbody tr')
  await until('both are blocked', async () => (await rows.count()) === 2)
  t.match(page.url(), /state=blocked/)
  await page.getByLabel('All on this page').check()
  await page.getByRole('button', { name: 'Unblock 2 lanes …' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Unblock 2 lanes' }).click()
  await page.getByText('Unblocked 2 lanes.').waitFor()
  await page.getByRole('heading', { name: 'No lane matches' }).waitFor()
  const viewer = await dashboard.visit('viewer')
  await open(viewer.page, '/lanes')
  await viewer.page.getByText('copy-1').waitFor()
  t.equal(await viewer.page.getByRole('checkbox').count(), 0)
  t.same([...problems, ...viewer.problems], [])
  await viewer.close()
  await close()
})

t.test('several keys are revoked at once', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  await open(page, '/keys?q=program-1')
  await page.getByLabel('Select program-10').check()
  await page.getByLabel('Select program-11').check()
  await page.getByRole('button', { name: 'Revoke 2 keys …' }).click()
  const dialog = page.getByRole('dialog', { name: 'Revoke 2 keys?' })
  t.match(await dialog.innerText(), /program-10, program-11|program-11, program-10/)
  await dialog.getByRole('button', { name: 'Revoke 2 keys' }).click()
  await page.getByText('2 keys revoked.').waitFor()
  const { body } = await daemon.api<{ api_keys: { api_key_name: string; api_key_status: string }[] }>(
    'GET',
    '/v1/api-keys',
  )
  t.same(
    body.api_keys
      .filter((key) => key.api_key_status === 'revoked')
      .map((key) => key.api_key_name)
      .sort(),
    ['program-10', 'program-11'],
  )
  t.same(problems, [])
  await close()
})

t.test('the palette finds pages, pipes, destinations, keys and actions by keyboard alone', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  const requests: string[] = []
  page.on('request', (request) => void requests.push(request.url()))
  await page.getByRole('button', { name: 'Search' }).waitFor()
  t.notOk(
    requests.find((url) => url.includes('palette')),
    'it is not loaded before it is opened',
  )
  const jump = async (typed: string, key = 'Control+k') => {
    await page.keyboard.press(key)
    await page.locator('[role="combobox"]:focus').waitFor()
    await page.keyboard.type(typed)
    await until('it has found something', async () => (await page.getByRole('option').count()) > 0)
    await page.locator('[role="option"][aria-selected="true"]').waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
  }
  await jump('audit')
  await page.getByRole('heading', { name: 'Audit log', level: 1 }).waitFor()
  await jump('copy-2', 'Meta+k')
  await page.getByRole('heading', { name: 'copy-2', level: 1 }).waitFor()
  await jump('ord pipe')
  await page.getByRole('heading', { name: 'orders', level: 1 }).waitFor()
  await jump('program-7')
  await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor()
  const search = page.getByLabel('Search', { exact: true })
  await until('the search is filled in', async () => (await search.inputValue()) === 'program-7')
  await jump('dark theme')
  t.equal(await page.evaluate('document.documentElement.dataset.theme'), 'dark')
  await jump('new destination clicks')
  await page.getByRole('heading', { name: 'New destination', level: 1 }).waitFor()
  await jump('retry all')
  await page.getByText(/^Retrying \d+ lanes?\./).waitFor()

  await page.keyboard.press('Control+k')
  await page.locator('[role="combobox"]:focus').waitFor()
  const selected = () => page.locator('[role="option"][aria-selected="true"]').innerText()
  const before = await selected()
  await page.keyboard.press('ArrowDown')
  t.not(await selected(), before)
  await page.keyboard.press('ArrowUp')
  t.equal(await selected(), before)
  await page.keyboard.type('no such thing anywhere')
  await page.getByText('Nothing matches.').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.keyboard.press('?')
  await page.getByRole('dialog', { name: 'Keyboard' }).getByText('Ctrl K').waitFor()
  t.same(problems, [])
  await close()
})
