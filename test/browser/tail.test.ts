/** The live tail in the browser, over the session: followed while somebody looks, and why it ended. */
import type { Page } from 'playwright-core'
import t from 'tap'
import { axeFindings, openDashboard } from '../support/dashboard.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
t.teardown(() => dashboard.close())
const newPipe = (name: string) => daemon.createPipe({ pipe_name: name, pipe_add_ingest_ts: false })
const record = '{"n":1,"big":12345678901234567890,"price":1.10,"note":"<u>under</u>"}'

async function openTail(page: Page, pipeId: string): Promise<void> {
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}`)
  await page.getByRole('link', { name: 'Live tail' }).click()
  await page.getByRole('heading', { name: 'Live tail', level: 1 }).waitFor()
}

async function start(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Start' }).click()
  await page.locator('dd', { hasText: 'running' }).waitFor()
}

/** The number beside this word. */
const fact = (page: Page, name: string) =>
  page
    .locator('dl > div')
    .filter({ has: page.getByText(name, { exact: true }) })
    .locator('dd')

t.test('records as they come, with every digit; filtered, paused, and no longer once left', async (t) => {
  const pipeId = await newPipe('orders')
  const { page, problems, close } = await dashboard.visit('viewer')
  const ended: string[] = []
  page.on('requestfailed', (request) => ended.push(new URL(request.url()).pathname))
  const closed = () => ended.filter((one) => one.endsWith('/tail')).length
  await openTail(page, pipeId)
  await page.getByLabel('Max records per second').fill('0')
  t.ok(await page.getByRole('button', { name: 'Start' }).isDisabled())
  await page.getByLabel('Max records per second').fill('50')
  await start(page)
  await daemon.ingest(pipeId, record)
  const table = page.getByRole('table', { name: 'Records' })
  await table.waitFor()
  t.ok((await table.innerText()).includes(record), 'as it was sent')
  t.equal(await page.locator('u').count(), 0, 'no markup from outside')
  t.same(await axeFindings(page), [])

  const filter = page.getByLabel('Only records where')
  await filter.fill('nothing')
  await page.getByText('must be key=value').waitFor()
  await filter.fill('price=1.1')
  await table.waitFor({ state: 'detached' })
  await filter.fill('price=1.10')
  await table.waitFor()
  await daemon.ingest(pipeId, '{"price":1.1}')
  await until('it came, and is not shown', async () => (await fact(page, 'Received').innerText()) === '2')
  t.equal(await fact(page, 'Shown').innerText(), '1')

  await page.getByRole('button', { name: 'Pause' }).click()
  await page.locator('dd', { hasText: 'paused' }).waitFor()
  await until('its request is over', () => closed() === 1)
  await start(page)
  await page.getByRole('link', { name: '1 #0' }).click()
  await page.getByRole('heading', { name: 'Message', level: 1 }).waitFor()
  await until('that of the page that was left too', () => closed() === 2)
  t.same(problems, [])
  await close()
})

t.test('more than is asked for is counted, and 200 records are shown', async (t) => {
  const pipeId = await newPipe('busy')
  const { page, problems, close } = await dashboard.visit('viewer')
  await openTail(page, pipeId)
  await page.getByLabel('Max records per second').fill('300')
  await start(page)
  const records = Array.from({ length: 1_000 }, (_, n) => `{"n":${n}}`)
  await daemon.ingest(pipeId, `[${records.join(',')}]`)
  const number = async (name: string) => Number((await fact(page, name).innerText()).replace(/\D/g, ''))
  await until(
    'each is received or left out',
    async () => (await number('Received')) + (await number('Left out')) === 1_000,
  )
  t.ok((await number('Left out')) > 0)
  t.equal(await number('Shown'), 200)
  t.equal(await page.getByRole('table', { name: 'Records' }).getByRole('row').count(), 1 + 200)
  t.same(problems, [])
  await close()
})

t.test('a daemon that is started again is followed on', async (t) => {
  const pipeId = await newPipe('lasting')
  const { page, close } = await dashboard.visit('viewer')
  await openTail(page, pipeId)
  await start(page)
  await daemon.kill()
  await page.locator('dd', { hasText: 'reconnecting' }).waitFor()
  await daemon.start()
  await page.locator('dd', { hasText: 'running' }).waitFor()
  await daemon.ingest(pipeId, record)
  await page.getByRole('table', { name: 'Records' }).waitFor()
  t.equal(await fact(page, 'Received').innerText(), '1')
  await close()
})

t.test('why it ended: too many are open, the pipe is gone', async (t) => {
  const pipeId = await newPipe('short')
  const { page, problems, close } = await dashboard.visit('viewer')
  await openTail(page, pipeId)
  const leave = new AbortController()
  t.teardown(() => leave.abort())
  const headers = { authorization: `Bearer ${daemon.apiKey}` }
  const others: Response[] = []
  for (let n = 0; n < 8; n++)
    others.push(await fetch(`${daemon.url}/v1/pipes/${pipeId}/tail`, { headers, signal: leave.signal }))
  t.ok(others.every(({ status }) => status === 200))
  await page.getByRole('button', { name: 'Start' }).click()
  await page.getByText(/^Ended: .*tails/).waitFor()
  leave.abort()
  await until('there is room again', async () => {
    const button = page.getByRole('button', { name: 'Start' })
    if (await button.isVisible()) await button.click()
    return page.locator('dd', { hasText: 'running' }).isVisible()
  })
  t.equal((await daemon.api('DELETE', `/v1/pipes/${pipeId}`)).status, 204)
  await page.getByText('Ended: The pipe was deleted.').waitFor()
  t.same(problems, [])
  await close()
})
