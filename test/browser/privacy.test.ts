/** Personal data in the browser: find, delete, cancel; at every width, by keys alone; values stay out of the page's address. */
import path from 'node:path'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import type { PrivacyJob } from '../../src/contract/privacy.ts'
import { axeFindings, openDashboard, openPage } from '../support/dashboard.ts'
import { errorAt, fieldOf, isHidden } from '../support/destination-form.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { choose, press, typeInto } from '../support/keyboard.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
const sink = await startHttpSink()
t.teardown(async () => {
  await dashboard.close()
  await sink.stop()
})
sink.respondWith(({ text }) => ({ status: text.includes('reject') ? 422 : 200 }))

const jobsPath = '/v1/privacy/jobs'
const jobs = async () => (await daemon.api<{ jobs: PrivacyJob[] }>('GET', jobsPath)).body.jobs

/** A pipe with one destination, and a person with a record in the buffer and a parked one. */
async function pipeOf(name: string, email: string): Promise<string> {
  const pipeId = await daemon.createPipe({ pipe_name: name })
  const destinationId = await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_name: 'shop',
    destination_config: { url: `${sink.url}/x`, body_format: 'json_object' },
    on_permanent_error: 'park',
  })
  await daemon.ingest(pipeId, { id: 'reject-a', customer: { email } })
  await daemon.ingest(pipeId, { id: 'b', customer: { email: 'bob@example.com' } })
  await until('one record is parked', async () => {
    const { body } = await daemon.api<{ parked: unknown[] }>(
      'GET',
      `/v1/pipes/${pipeId}/destinations/${destinationId}/parked`,
    )
    return body.parked.length === 1
  })
  return pipeId
}

async function open(page: Page): Promise<void> {
  await openPage(page, `${daemon.url}/dashboard/privacy`, { name: 'Personal data' })
}

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const dialogOf = (page: Page) =>
  page.getByRole('dialog', { name: 'Delete 1 record and 1 parked record permanently?' })
const list = (page: Page) => page.getByRole('table', { name: 'Searches and deletions' })

/** The form of an admin, with the person found. */
async function find(page: Page, email: string): Promise<void> {
  await fieldOf(page, 'Key').fill('customer.email')
  await fieldOf(page, 'Value').fill(email)
  await button(page, 'Find').click()
  await page.getByText('Found 1 record and 1 parked record.').waitFor()
}

/** Neither in the address, nor in what the browser stores for later. */
async function isStoredNowhere(t: Test, page: Page, email: string): Promise<void> {
  const stored = String(
    await page.evaluate(
      'JSON.stringify([location.href, history.state, { ...localStorage }, { ...sessionStorage }, document.title, document.cookie])',
    ),
  )
  t.notOk(stored.includes(email) || stored.includes(encodeURIComponent(email)), stored)
}

for (const width of [1440, 768, 390])
  for (const colourScheme of ['light', 'dark'] as const)
    t.test(`form, result, confirmation and list, ${width} px wide, ${colourScheme}`, async (t) => {
      const email = `ada-${width}-${colourScheme}@example.com`
      await pipeOf(`p${width}-${colourScheme}`, email)
      const { page, problems, close } = await dashboard.visit('admin', { width, colourScheme })
      const checked = async (what: string) => {
        t.same(await axeFindings(page), [], what)
        const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
        t.ok(Number(overflow) <= 0, `${what}: nothing beside the screen (${overflow} px)`)
        const folder = process.env.SCREENSHOTS
        const file = path.join(folder ?? '', `privacy-${what}-${width}-${colourScheme}.png`)
        if (folder) await page.screenshot({ path: file, fullPage: true })
      }
      await open(page)
      await checked('form')
      await button(page, 'Add a key').click()
      await fieldOf(page, 'Key').fill('customer..email')
      await fieldOf(page, 'Value').fill(email)
      await fieldOf(page, 'Key 2').fill('id')
      await button(page, 'Find').click()
      await errorAt(page, 'Value 2')
      await checked('errors')
      await button(page, 'Remove key 2').click()
      await button(page, 'Find').click()
      t.match(await errorAt(page, 'Key'), /\w/, 'the server checks the path')
      await find(page, email)
      await checked('found')
      await button(page, 'Delete …').click()
      await dialogOf(page).waitFor()
      await checked('confirmation')
      await button(page, 'Delete permanently').click()
      await page.getByText('Deleted 1 record and 1 parked record.').waitFor()
      await checked('deleted')
      await page
        .getByRole('button', { name: /^Show deletion/ })
        .first()
        .click()
      await page.getByRole('dialog', { name: 'Deletion' }).getByText('Deleted 1 record').waitFor()
      await checked('job')
      t.same(problems, [])
      await close()
    })

t.test('with the keyboard alone: found, deleted in one pipe, and nothing keeps the value', async (t) => {
  const email = 'grace@example.com'
  await pipeOf('other', email)
  const pipeId = await pipeOf('orders', email)
  const { page, problems, close } = await dashboard.visit('admin')
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
  await press(page, 'Personal data')
  await page.getByRole('heading', { name: 'Personal data', level: 1 }).waitFor()
  await button(page, 'Find').waitFor()
  t.ok(await button(page, 'Delete …').isDisabled(), 'it is found first')
  await page.locator('main').focus()
  await typeInto(page, 'Key', 'customer.email')
  await typeInto(page, 'Value', email)
  await choose(page, 'Pipes', 'only orders')
  await press(page, 'Find')
  await page.getByText('Found 1 record and 1 parked record.').waitFor()
  t.equal(await page.getByRole('table', { name: 'Matches' }).locator('tbody tr').count(), 2)
  await isStoredNowhere(t, page, email)
  const twins = async () =>
    (await page.locator('details', { hasText: 'Copy as CLI' }).allTextContents()).join('\n')
  t.match(await twins(), 'pipectl privacy find --keys-file keys.txt --pipe orders')
  t.notMatch(await twins(), email)

  await page.locator('main').focus()
  await press(page, 'Delete …')
  await dialogOf(page).waitFor()
  const words = await dialogOf(page).innerText()
  for (const part of [`customer.email=${email}`, 'In orders:', 'orders/shop', 'backups', 'log of the daemon'])
    t.ok(words.includes(part), part)
  t.match(await twins(), 'pipectl privacy delete --keys-file keys.txt --pipe orders --yes')
  t.notMatch(await twins(), email)
  t.equal(await page.evaluate('document.activeElement.textContent'), 'Cancel', 'Enter does not delete')
  await press(page, 'Delete permanently')
  await page.getByText('Deleted 1 record and 1 parked record.').waitFor()
  t.match(await page.evaluate('document.activeElement.textContent'), /^Deletion/, 'the result has the focus')
  await page.getByText('Delete the records there.').waitFor()
  await isHidden(t, page, email)
  await isStoredNowhere(t, page, email)
  t.match(await jobs(), [
    { kind: 'delete', state: 'done', key_paths: ['customer.email'], pipe_ids: [pipeId] },
    { kind: 'find', pipe_ids: [pipeId] },
  ])

  await fieldOf(page, 'Key').fill('customer.email')
  await fieldOf(page, 'Value').fill(email)
  await button(page, 'Find').click()
  await page.getByText('Found 1 record and 1 parked record.').waitFor()
  await page
    .getByText(/^other$/)
    .first()
    .waitFor()
  t.same(problems, [])
  await close()
})

t.test('a changed form must be searched again; nothing found is said', async (t) => {
  const email = 'alan@example.com'
  await pipeOf('changed', email)
  const { page, problems, close } = await dashboard.visit('admin')
  await open(page)
  await find(page, email)
  t.notOk(await button(page, 'Delete …').isDisabled())
  await fieldOf(page, 'Value').fill('nobody@example.com')
  t.ok(await button(page, 'Delete …').isDisabled(), 'the search was for another value')
  t.equal(await page.getByText('Found 1 record and 1 parked record.').count(), 0)
  await button(page, 'Find').click()
  await page.getByText('Found 0 records.').waitFor()
  await button(page, 'Delete …').click()
  const dialog = page.getByRole('dialog', { name: 'Delete what quotes these values?' })
  await dialog.getByText('No record was found.').waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  await button(page, 'Clear').click()
  t.equal(await fieldOf(page, 'Value').inputValue(), '')
  t.ok(await button(page, 'Delete …').isDisabled())
  t.same(problems, [])
  await close()
})

t.test('a job of another browser appears; jobs are cancelled; too many are rejected', async (t) => {
  // A search of it takes long enough for a job to wait behind others.
  const pipeId = await daemon.createPipe({ pipe_name: 'large' })
  const filler = 'x'.repeat(900_000)
  for (let number = 0; number < 30; number += 1) await daemon.ingest(pipeId, { number, filler })
  const { page, problems, close } = await dashboard.visit('admin', { width: 390 })
  await open(page)
  const search = { kind: 'find', keys: [{ path: 'number', value: '1' }], pipe_ids: [pipeId] }
  const start = () => daemon.api<PrivacyJob>('POST', jobsPath, search)
  const stateOf = async (id: string) => (await jobs()).find(({ job_id }) => job_id === id)?.state
  const first = (await start()).body.job_id
  await button(page, `Show search ${first}`).waitFor()

  await fieldOf(page, 'Key').fill('number')
  await fieldOf(page, 'Value').fill('2')
  await until('no more jobs are accepted', async () => {
    while ((await start()).status === 202);
    await button(page, 'Find').click()
    await until(
      'there is a response',
      async () => (await button(page, 'Find').getAttribute('aria-disabled')) === null,
    )
    return (await page.getByRole('alert').count()) > 0
  })
  t.match(await page.getByRole('alert').innerText(), /jobs/)
  t.same(await axeFindings(page), [])

  const waiting = (await jobs()).filter(({ state }) => state === 'waiting')
  const newest = waiting[0]?.job_id ?? ''
  const row = list(page).locator('tr', { has: button(page, `Show search ${newest}`) })
  await row.getByText('waiting').waitFor()
  await row.getByRole('button', { name: 'Cancel search' }).focus()
  await page.keyboard.press('Enter')
  await row.getByText('cancelled').waitFor()
  t.equal(await stateOf(newest), 'cancelled')
  t.equal(await page.evaluate('document.activeElement.tagName'), 'TR', 'the row has the focus')

  await button(page, 'Find').click()
  const own = page.getByRole('region', { name: 'Search', exact: true })
  await own.getByText(/^Waiting for other jobs|Searching/).waitFor()
  await own.getByRole('button', { name: 'Cancel search' }).click()
  await own.getByText('cancelled').first().waitFor()
  t.ok(await button(page, 'Delete …').isDisabled(), 'the search did not end')
  for (const { job_id, state } of await jobs())
    if (state === 'waiting' || state === 'running') await daemon.api('DELETE', `${jobsPath}/${job_id}`)
  t.same(problems, [])
  await close()
})

t.test('a viewer sees the jobs and why there is no form', async (t) => {
  const { page, problems, close } = await dashboard.visit('viewer')
  await open(page)
  await page.getByText('Only admins can find and delete personal data.').waitFor()
  t.equal(await button(page, 'Find').count(), 0)
  await list(page).waitFor()
  await page.getByRole('button', { name: /^Show/ }).first().click()
  await page
    .getByRole('dialog')
    .getByText(/^(Found|Deleted) \d/)
    .waitFor()
  t.same(await axeFindings(page), [])
  t.same(problems, [])
  await close()
})
