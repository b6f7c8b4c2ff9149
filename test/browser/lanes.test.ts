/** Lanes that retry, are stuck or are new: the words, the advice and the order of what a page shows. */
import t from 'tap'
import { axeFindings, openDashboard } from '../support/dashboard.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
const sink = await startHttpSink()
t.teardown(async () => {
  await dashboard.close()
  await sink.stop()
})

const endpoint = (name: string, path = name) => ({
  destination_type: 'destination_http_endpoint',
  destination_name: name,
  destination_config: { url: `${sink.url}/${path}` },
})

t.test('a 500 is retrying and a 422 is stuck, in the table, in the messages and in the error', async (t) => {
  sink.respondWith(({ path }) => ({ status: Number(path.slice(1)) }))
  const pipeId = await daemon.createPipe({ pipe_name: 'hooks' })
  await daemon.createDestination(pipeId, endpoint('flaky', '500'))
  await daemon.createDestination(pipeId, endpoint('strict', '422'))
  const { msg_id: msgId } = await daemon.ingest(pipeId, { n: 1 })
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}`)
  const lanes = page.getByRole('table', { name: 'Destinations' })
  const rowOf = (name: string) => lanes.getByRole('row', { name })
  await rowOf('flaky')
    .getByText(/retrying$/)
    .waitFor()
  await rowOf('flaky')
    .getByText(/Cannot deliver: .*500/)
    .waitFor()
  await rowOf('strict')
    .getByText(/stuck$/)
    .waitFor()
  const messages = page.getByRole('table', { name: 'Recent messages' })
  await messages.getByText('stuck').waitFor()
  t.match(await messages.innerText(), /retrying\s+flaky/, 'the API calls both stuck')
  t.match(await messages.innerText(), /stuck\s+strict/)

  await page.goto(`${daemon.url}/dashboard/messages/${msgId}`)
  await page.getByText('The cause is the records: fix the endpoint, or skip the message.').waitFor()
  t.same(await axeFindings(page), [])
  await page.getByRole('link', { name: 'strict' }).click()
  await page.getByRole('heading', { name: 'strict', level: 1 }).waitFor()
  t.equal(
    await page.getByText(`${sink.url}/422`, { exact: true }).count(),
    1,
    'the address is shown once, not as target and as url',
  )
  await page.locator('dt', { hasText: 'stream_seq' }).waitFor()
  t.equal(await page.locator('dt', { hasText: /^[a-z_]+$/ }).count(), 1, 'labels, and one key: stream_seq')
  const box = async (name: string) =>
    (await page.getByRole('button', { name }).boundingBox()) ?? { x: 0, width: 0 }
  const [block, remove] = [await box('Block …'), await box('Delete …')]
  t.ok(remove.x > block.x + block.width + 100, 'the button that deletes is apart from the others')
  await page.getByRole('button', { name: 'Rewind …' }).click()
  const words = await page.getByRole('dialog').innerText()
  t.match(words, /The destination receives those a second time\./)
  t.notMatch(words, /column|unique id/, 'an endpoint has no columns')
  t.same(problems, [])
  await close()
})

t.test('a skip begins on Cancel, says that the message is parked, and leads to it', async (t) => {
  sink.respondWith(() => ({ status: 422 }))
  const pipeId = await daemon.createPipe({ pipe_name: 'skipped' })
  const id = await daemon.createDestination(pipeId, endpoint('picky'))
  await daemon.ingest(pipeId, [{ n: 1 }, { n: 2 }])
  const lane = async () => await daemon.lane(pipeId, id)
  await until('it is stuck', async () => (await lane()).blocking_msg_id !== null)
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/${id}`)
  const skip = page.getByRole('button', { name: 'Skip the message …' })
  const dialog = page.getByRole('dialog', { name: 'Skip and park this message (2 records)?' })
  await skip.press('Enter')
  t.match(
    await dialog.innerText(),
    /moved to the parked records of picky .* You can correct and replay it there\./,
  )
  t.match(await dialog.innerText(), /No message is pending behind it\./, 'and not "0 messages"')
  await dialog.locator('button:focus', { hasText: 'Cancel' }).waitFor()
  await page.keyboard.press('Enter')
  await dialog.waitFor({ state: 'detached' })
  t.equal((await lane()).skipped_messages, 0, 'Enter, Enter skips nothing')

  await skip.press('Enter')
  await dialog.getByRole('button', { name: 'Skip and park 2 records' }).click()
  await page.getByText('The blocking message of picky was skipped and parked.').waitFor()
  await page.getByRole('link', { name: 'Open parked records' }).click()
  const parked = page.getByRole('table', { name: 'Parked records' })
  await parked.getByText('skipped').first().waitFor()
  t.equal((await lane()).skipped_messages, 1)
  t.same(problems, [])
  await close()
})

t.test('the attempts of a lane: failures alone, and one with its request and response', async (t) => {
  sink.respondWith((_, index) => ({ status: index === 0 ? 503 : 200, body: 'so it said' }))
  sink.deliveries.length = 0
  const pipeId = await daemon.createPipe({ pipe_name: 'attempted' })
  const id = await daemon.createDestination(pipeId, endpoint('inspected'))
  await daemon.ingest(pipeId, { n: 1 })
  const { page, problems, close } = await dashboard.visit('viewer')
  const requests: string[] = []
  page.on('request', (request) => void requests.push(request.url()))
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/${id}`)
  const attempts = page.getByRole('region', { name: 'Attempts' })
  await attempts.getByText('delivered 200').waitFor()
  await attempts.getByLabel('Only failures').check()
  await attempts.getByText('delivered 200').waitFor({ state: 'detached' })
  await attempts.getByRole('button', { name: 'Show attempt 1' }).press('Enter')
  const dialog = page.getByRole('dialog', { name: 'Attempt 1' })
  const text = await dialog.innerText()
  t.match(text, /POST http:\/\/.*\/inspected/)
  t.match(text, /webhook-id: [0-9a-f-]{36}/)
  t.match(text, /503[\s\S]*so it said/)
  t.same(await axeFindings(page), [])
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}`)
  await page.getByText(`${daemon.url}/v1/ingest/${pipeId}`).first().waitFor()
  t.notOk(
    requests.find((url) => url.includes('openapi')),
    'no page loads the API document for an address',
  )
  t.same(problems, [])
  await close()
})

t.test('many failing lanes with one cause are one group, of which five are shown', async (t) => {
  sink.respondWith(() => ({ status: 500 }))
  const pipeId = await daemon.createPipe({ pipe_name: 'many' })
  for (let n = 0; n < 7; n += 1) await daemon.createDestination(pipeId, endpoint(`lane-${n}`))
  await daemon.ingest(pipeId, { n: 1 })
  const { page, problems, close } = await dashboard.visit('viewer')
  const group = page.getByRole('article', { name: /^server error \(HTTP 500\) 127\.0\.0\.1:\d+$/ })
  const more = group.getByRole('button', { name: /^Show \d+ more lanes?$/ })
  await until('all seven have failed', async () => {
    const hidden = /\d+/.exec((await more.count()) === 0 ? '' : await more.innerText())
    return Number(hidden?.[0] ?? 0) >= 2
  })
  t.equal(await group.getByRole('listitem').count(), 5)
  t.match(await group.innerText(), /Check the log of the endpoint/)
  await more.click()
  t.ok((await group.getByRole('listitem').count()) >= 7)
  await group.getByRole('button', { name: 'Show fewer' }).click()
  t.equal(await group.getByRole('listitem').count(), 5)
  t.same(problems, [])
  await close()
})

t.test(
  'the first destination of a pipe begins with the records that are kept, later ones do not',
  async (t) => {
    const pipeId = await daemon.createPipe({ pipe_name: 'kept' })
    await daemon.ingest(pipeId, { n: 1 })
    const { page, problems, close } = await dashboard.visit('admin')
    const fromTheBeginning = async () => {
      await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}`)
      await page.getByRole('link', { name: 'Add a destination' }).click()
      await page.getByRole('button', { name: /^Pull/ }).click()
      return (await page.getByLabel('Start from').inputValue()) === 'earliest'
    }
    t.equal(await fromTheBeginning(), true)
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByRole('heading', { name: 'pull', level: 1 }).waitFor()
    t.equal(await page.getByRole('button', { name: /^Test/ }).count(), 0, 'there is nothing to test')
    const { body } = await daemon.api<{ destinations: { lane: { pending_messages: number } }[] }>(
      'GET',
      `/v1/pipes/${pipeId}`,
    )
    t.equal(body.destinations[0]?.lane.pending_messages, 1)
    t.equal(await fromTheBeginning(), false)
    t.same(problems, [])
    await close()
  },
)

t.test('on a phone every page is in the bar at the bottom, or behind its last button', async (t) => {
  const { page, problems, close } = await dashboard.visit('viewer', { width: 390, height: 800 })
  const nav = page.getByRole('navigation', { name: 'Pages' })
  const links = nav.getByRole('link')
  /** The shown links, all of which are on the screen. */
  const shown = async () => {
    for (const link of await links.all()) {
      const box = await link.boundingBox()
      t.ok(box && box.x >= 0 && box.x + box.width <= 390 && box.y + box.height <= 800, await link.innerText())
    }
    return (await links.allInnerTexts()).map((text) => text.split('\n')[0])
  }
  const bar = ['Overview', 'Pipes', 'Messages']
  t.same(await shown(), bar)
  const more = nav.getByRole('button', { name: 'More', expanded: false })
  await more.click()
  const others = [
    'Lanes',
    'API keys',
    'Users',
    'Audit',
    'Personal data',
    'Alerts',
    'Service',
    'API reference',
    'Guides',
  ]
  t.same(await shown(), [...bar, ...others])
  t.same(await axeFindings(page), [])
  await page.keyboard.press('Escape')
  t.same(await shown(), bar)
  await more.click()
  await page.getByRole('heading', { name: 'Overview', level: 1 }).click()
  t.same(await shown(), bar, 'a press elsewhere closes it')
  await more.click()
  await nav.getByRole('link', { name: 'Audit' }).click()
  await page.getByRole('heading', { name: 'Audit log', level: 1 }).waitFor()
  t.same(await shown(), bar, 'so does another page')
  t.same(await axeFindings(page), [])
  t.same(problems, [])
  await close()
})
