/** Tables as cards, and ids, at the width of a phone. */
import t from 'tap'
import { axeFindings, openDashboard } from '../support/dashboard.ts'
import { startParkingLane } from '../support/parking.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
const lane = await startParkingLane(daemon, 'orders')
t.teardown(async () => {
  await dashboard.close()
  await lane.sink.stop()
})
await lane.send('{"n":1}')
lane.sink.respondWith(() => ({ status: 503, body: 'down for maintenance until tomorrow' }))
await daemon.ingest(lane.pipeId, '{"n":2}')
await until('an attempt failed', async () => {
  return (await daemon.lane(lane.pipeId, lane.destinationId)).last_error !== null
})
const address = `${daemon.url}/dashboard/pipes/${lane.pipeId}/destinations/${lane.destinationId}`

t.test('a card leaves out what has no value; its error has the full width', async (t) => {
  for (const colourScheme of ['light', 'dark'] as const) {
    const { page, problems, close } = await dashboard.visit('admin', {
      width: 390,
      height: 844,
      colourScheme,
    })
    await page.goto(address)
    const cards = page.getByRole('table', { name: 'Attempts' }).locator('tbody tr')
    await cards.nth(1).waitFor()
    const delivered = cards.filter({ hasText: 'delivered' }).first()
    t.equal(await delivered.getByText('–', { exact: true }).isVisible(), false)
    const failed = cards.filter({ hasText: 'failed' }).first()
    const [card, error, button] = await Promise.all([
      failed.boundingBox(),
      failed.locator('td[data-label=Error] > div').boundingBox(),
      failed.getByRole('button').boundingBox(),
    ])
    t.equal(error?.x, card?.x, 'the error begins at the left edge')
    t.equal(error?.width, card?.width)
    t.ok(button!.y < error!.y && button!.x > card!.x + card!.width / 2, 'the button is next to the title')
    t.equal(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), 0)
    t.same(await axeFindings(page), [])
    t.same(problems, [])
    await close()
  }
})

t.test('an id is shortened in the middle and copied in full', async (t) => {
  const { page, context, problems, close } = await dashboard.visit('admin', { width: 390, height: 844 })
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await page.goto(address)
  const id = lane.destinationId
  await page.getByText(`${id.slice(0, 6)}…${id.slice(-6)}`).waitFor()
  t.equal(await page.getByText(id, { exact: true }).isVisible(), false)
  await page.getByRole('button', { name: 'Copy: the id of the destination' }).click()
  await page.getByText('Copied').waitFor()
  t.equal(await page.evaluate('navigator.clipboard.readText()'), id)
  t.same(problems, [])
  await close()
  const wide = await dashboard.visit('admin')
  await wide.page.goto(address)
  await wide.page.getByText(id, { exact: true }).waitFor()
  t.equal(await wide.page.getByRole('button', { name: 'Copy: the id of the destination' }).count(), 0)
  await wide.close()
})
