/** Latency and usage of a lane for any range of hours: the address keeps it, keys reach it, and every width shows it. */
import path from 'node:path'
import Database from 'better-sqlite3'
import type { Page } from 'playwright-core'
import t from 'tap'
import { axeFindings, loaded, openDashboard } from '../support/dashboard.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'

const hourMs = 3_600_000
const dashboard = await openDashboard()
const { daemon } = dashboard
const sink = await startHttpSink()
t.teardown(async () => {
  await dashboard.close()
  await sink.stop()
})

const pipeId = await daemon.createPipe({ pipe_name: 'measured' })
const id = await daemon.createDestination(pipeId, {
  destination_type: 'destination_http_endpoint',
  destination_name: 'endpoint',
  destination_config: { url: `${sink.url}/` },
})
await fillHours()

/** Fills the last 30 days: 1,000 records per hour, most in about 110 ms, some in 2 s; one of ten attempts fails. */
async function fillHours(): Promise<void> {
  await daemon.stop()
  const db = new Database(path.join(daemon.dataDir, 'metadata.db'))
  const current = Math.floor(Date.now() / hourMs) * hourMs
  const latency = db.prepare('INSERT INTO lane_latency VALUES (?, ?, ?)')
  const usage = db.prepare('INSERT INTO lane_hours VALUES (?, ?, 1000, 1, 0, 0)')
  db.transaction(() => {
    for (let hour = 0; hour < 720; hour += 1) {
      const swing = 24 + Math.round(4 * Math.sin(hour / 5))
      const counts = {
        records: [swing, 900, swing + 5, 80, 42, 20],
        delivered: [swing - 6, 9],
        failed: [50, 1],
      }
      latency.run(id, current - hour * hourMs, JSON.stringify(counts))
      usage.run(id, current - hour * hourMs)
    }
  })()
  db.close()
  await daemon.start()
}

const lane = `${daemon.url}/dashboard/pipes/${pipeId}/destinations/${id}`
const section = (page: Page) => page.getByRole('region', { name: 'Latency and success' })
const chart = (page: Page) => section(page).getByRole('img', { name: /^Latency from acceptance/ })
const fact = async (page: Page, name: string) =>
  await section(page)
    .locator('dt', { hasText: new RegExp(`^${name}$`) })
    .locator('..')
    .locator('dd')
    .innerText()

async function opened(page: Page, query = ''): Promise<void> {
  await page.goto(`${lane}${query}`)
  await chart(page).locator('canvas').waitFor()
  await loaded(page)
}

for (const { width, colourScheme } of [
  { width: 1440, colourScheme: 'light' },
  { width: 768, colourScheme: 'dark' },
  { width: 390, colourScheme: 'light' },
  { width: 390, colourScheme: 'dark' },
] as const) {
  t.test(`tiles, chart, table and form, ${width} px wide, ${colourScheme}`, async (t) => {
    const { page, problems, close } = await dashboard.visit('viewer', { width, colourScheme })
    await opened(page)
    t.match(await fact(page, 'Latency p50'), /^\d+ ms$/)
    t.match(await fact(page, 'Latency p99'), /^\d\.\d s$/)
    t.equal(await fact(page, 'Successful attempts'), '90 %')
    t.equal(await fact(page, 'Records measured'), '24,000')
    const range = section(page).getByRole('group', { name: 'Time range of latency' })
    await range.getByRole('button', { name: 'Custom' }).click()
    await section(page).getByLabel('From', { exact: true }).waitFor()
    await section(page).getByText('As a table', { exact: true }).click()
    await section(page).getByRole('table').waitFor()
    t.equal(await section(page).getByRole('table').locator('tbody tr').count(), 24)
    t.same(await axeFindings(page), [])
    const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
    t.ok(Number(overflow) <= 0, `nothing beside the screen (${overflow} px)`)
    if (process.env.SCREENSHOTS)
      await page.screenshot({
        path: path.join(process.env.SCREENSHOTS, `latency-${width}-${colourScheme}.png`),
        fullPage: true,
      })
    t.same(problems, [])
    await close()
  })
}

t.test('every range, with keys, in the address and for all charts of the page', async (t) => {
  const { page, problems, close } = await dashboard.visit('viewer')
  await opened(page)
  const range = section(page).getByRole('group', { name: 'Time range of latency' })
  for (const [label, name, hours] of [
    ['30 d', '30d', 720],
    ['7 d', '7d', 168],
    ['1 h', '1h', 2],
  ] as const) {
    const button = range.getByRole('button', { name: label, exact: true })
    await button.focus()
    await page.keyboard.press('Enter')
    await until(
      `${label} is shown`,
      async () =>
        (await fact(page, 'Records measured').catch(() => '')) === (hours * 1_000).toLocaleString('en'),
    )
    t.equal(await button.getAttribute('aria-pressed'), 'true')
    t.equal(new URL(page.url()).search, `?range=${name}`)
    const others = page.getByRole('group', { name: 'Time range of records' })
    t.equal(
      await others.getByRole('button', { name: label, exact: true }).getAttribute('aria-pressed'),
      'true',
    )
    await page
      .getByRole('img', {
        name: new RegExp(`^Records per hour .*delivered ${(hours * 1_000).toLocaleString('en')},`),
      })
      .waitFor()
  }
  await opened(page, '?range=7d')
  t.match(
    await chart(page).getAttribute('aria-label'),
    /per hour of the last 7 days\./,
    'the address is enough',
  )
  await opened(page, '?range=nonsense&from=x')
  t.match(await chart(page).getAttribute('aria-label'), /of the last 24 hours\./)
  t.same(problems, [])
  await close()
})

t.test('a custom range of whole hours, with its time zone', async (t) => {
  const { page, problems, close } = await dashboard.visit('viewer')
  await opened(page)
  const zone = await page.evaluate('Intl.DateTimeFormat().resolvedOptions().timeZone')
  await section(page).getByRole('button', { name: 'Custom' }).click()
  const [from, to] = [
    section(page).getByLabel('From', { exact: true }),
    section(page).getByLabel('To', { exact: true }),
  ]
  await from.waitFor()
  t.match(await section(page).innerText(), `Whole hours, ${zone}.`)
  const text = (hoursAgo: number) => new Date(Date.now() - hoursAgo * hourMs).toISOString().slice(0, 13)
  const local = async (hoursAgo: number) =>
    String(
      await page.evaluate(
        `(() => { const at = new Date(Math.floor(Date.now() / 36e5) * 36e5 - ${hoursAgo} * 36e5); return new Date(at - at.getTimezoneOffset() * 6e4).toISOString().slice(0, 16) })()`,
      ),
    )
  await from.fill(await local(40))
  await to.fill(await local(41))
  await section(page).getByText('This must be later than the other time.').waitFor()
  await to.fill(await local(30))
  await page.keyboard.press('Enter')
  await until('it is shown', async () => (await fact(page, 'Records measured').catch(() => '')) === '10,000')
  const search = new URL(page.url()).searchParams
  t.same([search.get('from'), search.get('to')], [text(40), text(31)])
  t.match(await chart(page).getAttribute('aria-label'), /per hour from .* to .*\. Whole range/)
  await page.reload()
  await until(
    'it outlasts a reload',
    async () => (await fact(page, 'Records measured').catch(() => '')) === '10,000',
  )
  t.same(problems, [])
  await close()
})

t.test('times are dates when the user wants them to be', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/${id}`)
  await page.goto(`${daemon.url}/dashboard/users`)
  const time = page.locator('main time').first()
  t.match(await time.innerText(), /ago|just now|in /)
  await page.getByRole('button', { name: /^Account of/ }).click()
  await page.getByRole('menuitemradio', { name: /^Dates and times \(/ }).click()
  await until('it is a date', async () => /\d{4}/.test(await time.innerText()))
  t.equal(await time.innerText(), await time.getAttribute('title'))
  await page.reload()
  await until('it is still a date', async () => /\d{4}/.test(await time.innerText()))
  t.same(await axeFindings(page), [])
  t.same(problems, [])
  await close()
})
