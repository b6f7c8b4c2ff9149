/** A deletion of something that another user changes meanwhile: nothing is deleted until the user has seen the change. */
import type { Page } from 'playwright-core'
import t from 'tap'
import { openDashboard } from '../support/dashboard.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
t.teardown(() => dashboard.close())

const limits = {
  pl_ingest_max_records_per_request: 10,
  pl_ingest_max_records_per_second: 10,
  pl_ingest_max_records_per_day: 10,
  pl_ingest_max_bytes_per_day: null,
  pl_delivery_max_records_per_flush: 10,
  pl_delivery_max_bytes_per_flush: 1_000,
  pl_delivery_max_seconds_per_flush: 1,
}

/** Presses the dialog's button; the dialog stays open with the difference, and with the focus on it. */
async function conflictOf(page: Page, label: RegExp): Promise<string> {
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: label }).click()
  const notice = dialog.getByRole('alert')
  await notice.getByText('Nothing was deleted').waitFor()
  await page.locator(':focus', { has: page.getByRole('alert') }).waitFor()
  return notice.innerText()
}

async function confirmAgain(page: Page, label: RegExp): Promise<void> {
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: label }).click()
  await dialog.waitFor({ state: 'detached' })
}

t.test('a destination that got another name, and then another time for retries', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'deliveries' })
  const id = await daemon.createDestination(pipeId, {
    ...{ destination_type: 'destination_pull', destination_config: { ack_mode: 'auto' } },
  })
  const path = `/v1/pipes/${pipeId}/destinations/${id}`
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/${id}`)
  await page.getByRole('button', { name: 'Delete …' }).click()
  await daemon.api('PATCH', path, { destination_name: 'theirs' })
  const first = await conflictOf(page, /^Delete/)
  t.match(first, /destination_name: "theirs" \(it was "pull"\)/)
  t.equal((await daemon.api('GET', path)).status, 200, 'nothing is deleted')

  await daemon.api('PATCH', path, { destination_max_retry_seconds: 77 })
  const second = await conflictOf(page, /^Delete/)
  t.match(second, /destination_max_retry_seconds: 77/)
  t.notMatch(second, /destination_name/, 'only the change that the user has not seen')
  t.equal((await daemon.api('GET', path)).status, 200)

  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
  t.equal((await daemon.api('GET', path)).status, 200, 'the user can decide to keep it')
  await page.getByRole('button', { name: 'Delete …' }).click()
  await confirmAgain(page, /^Delete/)
  await page.getByRole('heading', { name: 'deliveries', level: 1 }).waitFor()
  t.equal((await daemon.api('GET', path)).status, 404)
  t.same(problems, [])
  await close()
})

t.test('a pipe that got another description; its records and destinations are no conflict', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'orders' })
  const path = `/v1/pipes/${pipeId}`
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/settings`)
  await page.getByRole('button', { name: 'Delete pipe …' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Type orders to confirm').fill('orders')
  await daemon.api('PATCH', path, { pipe_description: 'still needed' })
  const words = await conflictOf(page, /^Delete the pipe/)
  t.match(words, /pipe\.pipe_description: "still needed" \(it was ""\)/)
  t.equal((await daemon.api('GET', path)).status, 200, 'nothing is deleted')
  t.equal(await dialog.getByLabel('Type orders to confirm').inputValue(), 'orders', 'what was typed stays')

  await daemon.ingest(pipeId, { id: 1 })
  await daemon.createDestination(pipeId, {
    ...{ destination_type: 'destination_pull', destination_config: { ack_mode: 'auto' } },
  })
  await confirmAgain(page, /^Delete the pipe/)
  await page.getByRole('heading', { name: 'Pipes', level: 1 }).waitFor()
  t.equal((await daemon.api('GET', path)).status, 404)
  t.same(problems, [])
  await close()
})

t.test('limits: one that changed is shown; a change of the rest of the pipe is no conflict', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'limited' })
  const path = `/v1/pipes/${pipeId}`
  const stored = async () =>
    (await daemon.api<{ limits: unknown; pipe: { pipe_description: string } }>('GET', path)).body
  await daemon.api('PUT', `${path}/limits`, limits)
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/settings`)
  await page.getByRole('button', { name: 'Remove limits …' }).click()
  await daemon.api('PUT', `${path}/limits`, { ...limits, pl_ingest_max_records_per_day: 99 })
  t.match(await conflictOf(page, /^Remove$/), /pl_ingest_max_records_per_day: 99 \(it was 10\)/)
  t.match((await stored()).limits, { pl_ingest_max_records_per_day: 99 })

  await daemon.api('PATCH', path, { pipe_description: 'theirs' })
  await confirmAgain(page, /^Remove$/)
  await page.getByText('No limits: ingest is not limited').waitFor()
  t.match(await stored(), { limits: null, pipe: { pipe_description: 'theirs' } })
  t.same(problems, [])
  await close()
})

t.test('alerts that go to another address now', async (t) => {
  const stored = async () => (await daemon.api<{ alerts: unknown }>('GET', '/v1/alerts')).body.alerts
  await daemon.api('PUT', '/v1/alerts', { url: 'http://127.0.0.1:9/mine' })
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/alerts`)
  await page.getByRole('button', { name: 'Remove …' }).click()
  await daemon.api('PUT', '/v1/alerts', { url: 'http://127.0.0.1:9/theirs' })
  t.match(
    await conflictOf(page, /^Remove$/),
    /url: "http:\/\/127\.0\.0\.1:9\/theirs" \(it was "http:\/\/127\.0\.0\.1:9\/mine"\)/,
  )
  t.match(await stored(), { url: 'http://127.0.0.1:9/theirs' })
  await confirmAgain(page, /^Remove$/)
  await page.getByRole('heading', { name: 'Set up alerts' }).waitFor()
  t.equal(await stored(), null)
  t.same(problems, [])
  await close()
})
