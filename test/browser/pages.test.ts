/**
 * Rules for every page: nothing against the policy, usable by everyone, text from outside is text, keys, long lists.
 */
import type { Page } from 'playwright-core'
import t from 'tap'
import { axeFindings, openDashboard, openPage } from '../support/dashboard.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
const sink = await startHttpSink()
t.teardown(async () => {
  await dashboard.close()
  await sink.stop()
})

/** Markup, a link that runs, control characters of terminals and of direction. */
const hostile = '<img src=x onerror="document.title=\'owned\'"> \u202edesrever'
sink.respondWith(() => ({ status: 422, body: '{"problem":"no such note"}' }))
const pipeId = await daemon.createPipe({
  pipe_name: 'hostile',
  pipe_description: '<b>bold</b> javascript:alert(1)',
})
const destinationId = await daemon.createDestination(pipeId, {
  destination_type: 'destination_http_endpoint',
  destination_name: '<u>under',
  destination_config: { url: `${sink.url}/` },
})
await daemon.ingest(pipeId, { note: hostile, 'a\u0007bell': 1 })
await until(
  'the lane is stuck',
  async () => (await daemon.lane(pipeId, destinationId)).blocking_msg_id !== null,
)
const places: Record<string, string> = {
  '/': 'Overview',
  '/pipes': 'Pipes',
  '/pipes/new': 'New pipe',
  [`/pipes/${pipeId}`]: 'hostile',
  [`/pipes/${pipeId}/settings`]: 'Settings of hostile',
  [`/pipes/${pipeId}/settings/webhooks`]: 'Webhooks into hostile',
  [`/pipes/${pipeId}/settings/schema`]: 'Schema of hostile',
  [`/pipes/${pipeId}/parked`]: 'Records parked at the pipe',
  [`/pipes/${pipeId}/destinations/new`]: 'New destination',
  [`/pipes/${pipeId}/destinations/${destinationId}`]: '<u>under',
  [`/pipes/${pipeId}/destinations/${destinationId}/edit`]: 'Edit <u>under',
  '/lanes': 'Lanes',
  '/messages': 'Messages',
  '/messages/nonsense': 'Message not found',
  '/keys': 'API keys',
  '/users': 'Users',
  '/audit': 'Audit log',
  '/privacy': 'Personal data',
  '/alerts': 'Alerts',
  '/service': 'Service',
  '/reference': 'API reference',
  '/nowhere': 'Page not found',
}

/** The page and its data are there. */
async function open(page: Page, place: string): Promise<void> {
  await openPage(page, `${daemon.url}/dashboard${place}`, { name: places[place] ?? '', exact: true })
}

for (const { width, colourScheme } of [
  { width: 1440, colourScheme: 'light' },
  { width: 390, colourScheme: 'dark' },
] as const) {
  t.test(`every page, ${width} px wide, ${colourScheme}`, async (t) => {
    const { page, problems, close } = await dashboard.visit('admin', { width, colourScheme })
    for (const place of Object.keys(places)) {
      await open(page, place)
      t.same(await axeFindings(page), [], `${place}: no serious finding`)
      const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
      t.ok(Number(overflow) <= 0, `${place}: nothing beside the screen (${overflow} px)`)
      t.equal(await page.title().then((title) => title.includes('owned')), false)
      t.equal(await page.locator('b, u, img[src="x"]').count(), 0, `${place}: no markup from outside`)
    }
    t.same(problems, [], 'nothing against the policy, no script failed, no other host was asked')
    await close()
  })
}

t.test('the first page takes less than 120 KB of scripts, charts included', async (t) => {
  const { page: first, close } = await dashboard.visit('viewer')
  const sizes = new Map<string, number>()
  // As they are sent; also those that the browser has from signing in, as the responses that they were. Each once: the page
  // that signing in led to may still be loading its chart.
  first.on('response', (response) => {
    if (response.request().resourceType() !== 'script') return
    t.equal(response.headers()['content-encoding'], 'br')
    sizes.set(response.url(), Number(response.headers()['content-length']))
  })
  await first.goto(`${daemon.url}/dashboard/`)
  await first
    .getByRole('img', { name: /^Records per hour/ })
    .locator('canvas')
    .waitFor()
  const bytes = [...sizes.values()].reduce((sum, size) => sum + size, 0)
  t.ok(
    bytes < 120_000,
    `${bytes} bytes: ${[...sizes].map(([url, size]) => `${url.split('/').at(-1)} ${size}`).join(', ')}`,
  )
  t.ok(bytes > 20_000, 'they were counted, and not taken from the cache')
  await close()
})

for (const { locale, timezoneId, time, other } of [
  { locale: 'de-DE', timezoneId: 'Asia/Tokyo', time: /^\d\d:\d\d$/, other: /[ap]m|\//i },
  { locale: 'en-US', timezoneId: 'America/New_York', time: /^\d\d:\d\d [AP]M$/, other: /^\d\d:\d\d$/ },
]) {
  t.test(`the times of a chart are those of ${locale} and ${timezoneId}, which is named`, async (t) => {
    const { page, problems, close } = await dashboard.visit('viewer', { locale, timezoneId })
    await page.addInitScript(`
      globalThis.drawn = []
      const { fillText } = CanvasRenderingContext2D.prototype
      CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        drawn.push(text)
        return fillText.call(this, text, ...rest)
      }`)
    await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}`)
    const chart = page
      .getByRole('figure', { name: undefined })
      .filter({ has: page.getByRole('img', { name: /^Records per hour/ }) })
    await chart.locator('canvas').waitFor()
    t.match(await chart.innerText(), `Times: ${timezoneId}`)
    const drawn = await page.evaluate<string[]>('drawn')
    t.ok(
      drawn.some((text) => time.test(text)),
      drawn.join(', '),
    )
    t.notOk(
      drawn.some((text) => other.test(text)),
      drawn.join(', '),
    )
    t.same(problems, [])
    await close()
  })
}

t.test('the checks of this file can fail', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  await page.evaluate(`(() => {
    const style = document.createElement('style')
    style.textContent = 'body { color: red }'
    document.head.append(style)
    const image = document.createElement('img')
    image.src = ${JSON.stringify(`${daemon.url}/dashboard/favicon.ico`)}
    document.querySelector('main').append(image)
  })()`)
  await until('the policy was heard of', () =>
    problems.some((one) => one.includes('Content Security Policy')),
  )
  t.match(await axeFindings(page), [/image-alt/])
  await close()
})

t.test('text from outside is shown as what it is', async (t) => {
  const { page, close } = await dashboard.visit('admin')
  await open(page, `/pipes/${pipeId}/destinations/${destinationId}`)
  const record = page.locator('pre', { hasText: 'onerror' })
  const text = await record.innerText()
  t.match(text, '\\u202edesrever', 'what turns text around is an escape')
  t.notMatch(text, '\u202e')
  await open(page, `/pipes/${pipeId}`)
  await page.getByText('<b>bold</b> javascript:alert(1)', { exact: true }).waitFor()
  await close()
})

t.test('dialogs are usable by everybody too', async (t) => {
  const { page, close } = await dashboard.visit('admin')
  await open(page, `/pipes/${pipeId}/destinations/${destinationId}`)
  for (const name of ['Skip the message …', 'Rewind …', 'Block …', 'Delete …']) {
    await page.getByRole('button', { name }).click()
    await page.getByRole('dialog').waitFor()
    t.same(await axeFindings(page), [], name)
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    // It moves back just after the dialog is gone.
    const focused = () => page.evaluate('document.activeElement.textContent')
    t.ok(await until('the focus is where it was', async () => (await focused()) === name))
  }
  await close()
})

t.test('the keyboard: g p, g o, / and ?', async (t) => {
  const { page, close } = await dashboard.visit('admin')
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
  await page.keyboard.type('gp')
  await page.getByRole('heading', { name: 'Pipes', level: 1 }).waitFor()
  await page.keyboard.press('/')
  await page.keyboard.type('no such pipe')
  await page.getByRole('heading', { name: 'No pipe matches' }).waitFor()
  await page.getByLabel('Search').fill('stuck or what')
  await page.keyboard.type('go')
  t.match(page.url(), /pipes/, 'what is typed into a field goes nowhere')
  await page.getByLabel('Search').blur()
  await page.keyboard.type('go')
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
  await page.keyboard.press('/')
  await page.getByRole('heading', { name: 'Pipes', level: 1 }).waitFor()
  await until('the search has the focus', () =>
    page.evaluate('document.activeElement.getAttribute("type") === "search"'),
  )
  await page.getByLabel('Search').blur()
  await page.keyboard.press('?')
  await page.getByRole('dialog', { name: 'Keyboard' }).waitFor()
  await close()
})

t.test('every operation of the document is in the API reference, with its keys', async (t) => {
  const { page, close } = await dashboard.visit('viewer')
  await open(page, '/reference')
  const text = await (await fetch(`${daemon.url}/openapi/management-v1.openapi.yaml`)).text()
  const operations = [...text.matchAll(/operationId: (\w+)/g)].map((match) => match[1] ?? '')
  t.ok(operations.length > 20)
  for (const id of operations) t.equal(await page.locator(`#${id}`).count(), 1, id)
  await page.getByLabel('Search').fill('rewind')
  await page.locator('#rewindDestination summary').first().click()
  await page.locator('#rewindDestination').getByText('cursor_seq').first().waitFor()
  await close()
})

t.test('five hundred pipes: a page of them at a time, any of them found', async (t) => {
  for (let number = 1; number <= 500; number += 1) await daemon.createPipe({ pipe_name: `many-${number}` })
  const { page, problems, close } = await dashboard.visit('admin')
  await open(page, '/pipes')
  const rows = page.getByRole('table', { name: 'Pipes' }).locator('tbody tr')
  await rows.first().waitFor()
  t.equal(await rows.count(), 50)
  await page.getByRole('button', { name: 'Next' }).click()
  await page.getByText('51 to 100 of 501 pipes').waitFor()
  await page.getByLabel('Search').fill('many-499')
  await until('it is found', async () => (await rows.count()) === 1)
  await open(page, '/audit')
  await page.getByRole('button', { name: 'Older changes' }).click()
  await until('the page of the audit log is in the address', () => /after=\d+/.test(page.url()))
  await page.reload()
  await page.getByRole('button', { name: 'Newest changes' }).click()
  await page.getByRole('button', { name: 'Newest changes' }).waitFor({ state: 'detached' })
  t.notMatch(page.url(), /after=/)
  t.same(problems, [])
  await close()
})
