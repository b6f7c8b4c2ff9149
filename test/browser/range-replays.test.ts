/** A replay of a range in the browser: the dialog and the section of the lane's page, at every width, by keys alone. */
import path from 'node:path'
import type { Locator, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { axeFindings, openDashboard } from '../support/dashboard.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { choose, press, tabTo } from '../support/keyboard.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
const sink = await startHttpSink()
t.teardown(async () => {
  await dashboard.close()
  await sink.stop()
})

const pipeId = await daemon.createPipe({ pipe_name: 'orders', pipe_add_ingest_ts: false })
const laneIds = [await hook('shop'), await hook('warehouse')]
for (let n = 0; n < 12; n += 1) await daemon.ingest(pipeId, { order_id: 4_711_000 + n })
for (const id of laneIds)
  await until('all are delivered', async () => {
    const { delivered_records: records } = await daemon.lane(pipeId, id)
    return records === 12
  })

async function hook(name: string): Promise<string> {
  return await daemon.createDestination(pipeId, {
    ...{ destination_type: 'destination_http_endpoint', destination_name: name },
    destination_config: { url: `${sink.url}/${name}` },
    flush: { max_records: 2, max_bytes: 1_000_000, max_seconds: 1 },
  })
}

/** The endpoint responds to so many batches of the replay. The next ones wait until the result is called. */
function holdAfter(batches: number): () => void {
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  let count = 0
  sink.respondWith(async () => {
    count += 1
    if (count > batches) await released
    return {}
  })
  return release
}

const dialog = (page: Page) => page.getByRole('dialog', { name: 'Replay messages' })
const section = (page: Page) => page.getByRole('region', { name: 'Replays' })
const newest = (page: Page) =>
  section(page).getByRole('table', { name: 'Replays' }).locator('tbody tr').first()
const opener = 'Replay this range …'

async function opened(page: Page): Promise<void> {
  await page.goto(`${daemon.url}/dashboard/messages?pipe=${pipeId}`)
  await page.getByText('12 shown.').waitFor()
}

async function shoot(part: Page | Locator, name: string): Promise<void> {
  const folder = process.env.SCREENSHOTS
  if (folder) await part.screenshot({ path: path.join(folder, `${name}.png`) })
}

/** Nothing for axe to find, and nothing beyond the edge of the screen or of that part of it. */
async function checked(t: Test, page: Page, part: string, what: string): Promise<void> {
  t.same(await axeFindings(page), [], what)
  const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
  t.ok(Number(overflow) <= 0, `${what}: nothing beside the screen (${overflow} px)`)
  const inner = await page.evaluate<number>(
    `(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('${part}'))`,
  )
  t.ok(inner <= 0, `${what}: nothing beside its edge (${inner} px)`)
}

const hasFocus = (page: Page, name: string) =>
  until(
    `${name} has the focus`,
    async () => (await page.evaluate('document.activeElement.textContent')) === name,
  )

for (const width of [1440, 768, 390])
  for (const colourScheme of ['light', 'dark'] as const)
    t.test(`dialog and section, ${width} px wide, ${colourScheme}`, async (t) => {
      const { page, problems, close } = await dashboard.visit('admin', { width, colourScheme })
      const name = (what: string) => `replay-${what}-${width}-${colourScheme}`
      const release = holdAfter(2)
      await opened(page)
      await page.getByRole('button', { name: opener }).click()
      const begin = dialog(page).getByRole('button', { name: 'Replay 12 messages' })
      await begin.waitFor()
      await checked(t, page, '[role="dialog"]', 'dry run')
      await shoot(page, name('dry-run'))
      await begin.click()
      await dialog(page).getByText('4 of 12 messages, 4 records stored.').waitFor()
      await checked(t, page, '[role="dialog"]', 'running')
      await shoot(page, name('running'))

      await dialog(page).getByRole('link', { name: 'Follow it on the page of the lane' }).click()
      await newest(page).getByText('4 of 12 messages, 4 records stored.').waitFor()
      t.notMatch(
        await newest(page).innerText(),
        /\d-\d\dT\d\d:/,
        'the range is in times as the page shows them',
      )
      await checked(t, page, 'section:has([aria-label="Replays"])', 'section')
      await shoot(section(page), name('section'))
      await newest(page).getByRole('button', { name: 'Cancel replay' }).click()
      await newest(page).getByText('cancelled').waitFor()
      await checked(t, page, 'section:has([aria-label="Replays"])', 'cancelled')
      await shoot(section(page), name('cancelled'))
      release()
      t.same(problems, [])
      await close()
    })

t.test('with the keyboard alone: open, choose, dry run, replay, cancel, close', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  await opened(page)
  await press(page, opener)
  await dialog(page).getByRole('button', { name: 'Replay 12 messages' }).waitFor()
  await page.keyboard.press('Escape')
  await dialog(page).waitFor({ state: 'detached' })
  t.ok(await hasFocus(page, opener), 'after Escape')

  await page.keyboard.press('Enter')
  await choose(page, 'Destination', 'warehouse')
  await dialog(page).getByText('Copy as CLI').waitFor()
  t.match(await dialog(page).textContent(), /lanes replay orders\/warehouse --from/)
  await dialog(page).getByRole('button', { name: 'Replay 12 messages' }).waitFor()
  const release = holdAfter(1)
  await press(page, 'Replay 12 messages')
  await dialog(page).getByText('2 of 12 messages, 2 records stored.').waitFor()
  t.equal(
    await page.locator('[role="dialog"]:focus, [role="dialog"] :focus').count(),
    1,
    'the focus stays in it',
  )
  await press(page, 'Cancel replay')
  await dialog(page).getByText('cancelled').waitFor()
  release()
  await press(page, 'Close')
  await dialog(page).waitFor({ state: 'detached' })
  t.ok(await hasFocus(page, opener), 'after Close')
  t.same(problems, [])
  await close()
})

t.test(
  'with the keyboard alone: a replay is cancelled on the page of its lane, another one ends',
  async (t) => {
    const [laneId = ''] = laneIds
    const lane = `/pipes/${pipeId}/destinations/${laneId}`
    const release = holdAfter(1)
    const range = { from: 'earliest', to: 'now' }
    for (const _ of ['runs', 'waits']) await daemon.api('POST', `/v1${lane}/replays`, range)
    const { page, problems, close } = await dashboard.visit('admin')
    await page.goto(`${daemon.url}/dashboard${lane}`)
    const rows = section(page).getByRole('table', { name: 'Replays' }).locator('tbody tr')
    await rows.filter({ hasText: 'running' }).getByText('2 of 12 messages, 2 records stored.').waitFor()
    t.match(await newest(page).innerText(), /waiting/)
    await tabTo(page, 'Cancel replay')
    await press(page, 'Cancel replay')
    const cancelled = rows.filter({ hasText: 'cancelled' }).first()
    await rows.filter({ hasText: 'running' }).waitFor({ state: 'detached' })
    t.equal(await cancelled.and(page.locator(':focus')).count(), 1, 'its row has the focus')
    release()
    await newest(page)
      .getByText(/●\s*done/)
      .waitFor()
    await newest(page).getByText('12 of 12 messages, 12 records stored.').waitFor()
    t.equal(await page.getByRole('button', { name: 'Cancel replay' }).count(), 0)
    t.same(problems, [])
    await close()
  },
)

t.test('a viewer sees the progress and cannot cancel', async (t) => {
  const release = holdAfter(1)
  const [laneId = ''] = laneIds
  const lane = `/pipes/${pipeId}/destinations/${laneId}`
  await daemon.api('POST', `/v1${lane}/replays`, { from: 'earliest', to: 'now' })
  const { page, problems, close } = await dashboard.visit('viewer')
  await page.goto(`${daemon.url}/dashboard${lane}`)
  await newest(page).getByText('2 of 12 messages, 2 records stored.').waitFor()
  t.ok(await page.getByRole('button', { name: 'Cancel replay' }).isDisabled())
  await opened(page)
  t.ok(await page.getByRole('button', { name: opener }).isDisabled())
  release()
  t.same(problems, [])
  await close()
})
