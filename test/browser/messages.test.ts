/** One message in the browser: found, its state in each lane, the next step; and the newest messages of a pipe. */
import t from 'tap'
import { axeFindings, openDashboard } from '../support/dashboard.ts'
import { startParkingLane } from '../support/parking.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
const lane = await startParkingLane(daemon, 'orders')
t.teardown(async () => {
  await dashboard.close()
  await lane.sink.stop()
})
const record = '{"n":1,"bad":true,"big":12345678901234567890,"price":1.10,"note":"<u>under</u>"}'
await lane.send(record, '{"n":2}')
const [parked] = await lane.parked()
const msgId = parked!.msg_id

t.test('a viewer finds a message by its id, and the record that is parked', async (t) => {
  const { page, problems, close } = await dashboard.visit('viewer')
  await page.getByRole('link', { name: 'Messages' }).click()
  await page.getByLabel('msg_id', { exact: true }).fill(` ${msgId} `)
  await page.getByRole('button', { name: 'Find', exact: true }).click()
  await page.getByRole('link', { name: `${msgId.slice(0, 8)}…${msgId.slice(-8)}` }).click()
  await page.getByRole('link', { name: 'Open page' }).click()
  await page.getByRole('heading', { name: 'Message', level: 1 }).waitFor()
  const row = page.getByRole('table', { name: 'Lanes' }).getByRole('row').nth(1)
  await row.getByRole('link', { name: 'record 1' }).waitFor()
  const words = await row.innerText()
  t.match(words, /shop/)
  t.match(words, /parked/)
  t.match(words, /http_422/)
  t.match(
    await page.locator('details[open] pre').first().innerText(),
    /"big": 12345678901234567890,\n {2}"price": 1\.10/,
  )
  t.equal(await page.locator('u').count(), 0, 'no markup from outside')
  await page.getByText('Copy as CLI').first().click()
  await page.getByText(`pipectl why ${msgId}`).waitFor()
  t.same(await axeFindings(page), [])

  await row.getByRole('link', { name: 'record 1' }).click()
  await page.getByRole('heading', { name: /^Parked record/, level: 1 }).waitFor()
  await page.getByRole('link', { name: msgId }).click()
  await page.getByRole('heading', { name: 'Message', level: 1 }).waitFor()
  t.same(problems, [])
  await close()
})

t.test('one that is not there says so', async (t) => {
  const { page, problems, close } = await dashboard.visit('viewer')
  for (const id of ['0190b0a0-0000-7000-8000-000000000001', 'nonsense', '%3Cu%3E']) {
    await page.goto(`${daemon.url}/dashboard/messages/${id}`)
    await page.getByRole('heading', { name: 'There is no such message, or it is no longer kept' }).waitFor()
    await page.getByText(decodeURIComponent(id)).waitFor()
  }
  t.same(await axeFindings(page), [])
  t.same(problems, [])
  await close()
})

t.test('the newest messages of a pipe, a page at a time', async (t) => {
  for (let n = 3; n <= 24; n++) await daemon.ingest(lane.pipeId, `{"n":${n}}`)
  const { page, problems, close } = await dashboard.visit('viewer')
  await page.goto(`${daemon.url}/dashboard/pipes/${lane.pipeId}`)
  const table = page.getByRole('table', { name: 'Recent messages' })
  await table.waitFor()
  t.equal(await table.getByRole('row').count(), 1 + 20)
  await page.getByRole('button', { name: 'Older messages' }).click()
  await table.getByRole('link', { name: msgId }).waitFor()
  t.equal(await table.getByRole('row').count(), 1 + 3)
  t.match(await table.getByRole('row').nth(3).innerText(), /parked/)
  await page.getByRole('button', { name: 'Newest messages' }).click()
  await page.getByRole('button', { name: 'Older messages' }).waitFor()
  await table.getByRole('link').first().click()
  await page.getByRole('heading', { name: 'Message', level: 1 }).waitFor()
  t.same(problems, [])
  await close()
})

t.test('of a lane that is stuck: what to do, and from its page back', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'stuck' })
  lane.sink.respondWith(() => ({ status: 422, body: 'no' }))
  const destinationId = await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_name: 'shut',
    destination_config: { url: `${lane.sink.url}/` },
    on_permanent_error: 'block',
  })
  await daemon.ingest(pipeId, '{"n":1}')
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/${destinationId}`)
  const section = page.getByRole('region', { name: 'The blocking message' })
  await section.getByRole('link').click()
  const row = page.getByRole('table', { name: 'Lanes' }).getByRole('row').nth(1)
  await row.getByText('stuck').waitFor()
  await row.getByRole('link', { name: 'Retry or skip it' }).click()
  await page.getByRole('heading', { name: 'shut', level: 1 }).waitFor()
  t.same(problems, [])
  await close()
})
