/** The schema of a pipe in the browser: proposed, edited, saved, compared, removed; at every width, by keys alone. */
import path from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { axeFindings, openDashboard, openPage } from '../support/dashboard.ts'
import { press, tabTo } from '../support/keyboard.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
t.teardown(() => dashboard.close())

const records = Array.from({ length: 120 }, (_, id) => ({ id, state: id % 2 === 0 ? 'new' : 'paid' }))
const text = (schema: object) => JSON.stringify(schema, null, 2)
const stored = async (pipeId: string) =>
  Object((await daemon.api('GET', `/v1/pipes/${pipeId}`)).body).pipe as Record<string, unknown>

async function open(page: Page, pipeId: string): Promise<void> {
  await openPage(page, `${daemon.url}/dashboard/pipes/${pipeId}/settings/schema`, { name: /^Schema of/ })
}

const editor = (page: Page) => page.getByLabel('JSON Schema', { exact: true })
const save = (page: Page) => page.getByRole('button', { name: 'Save', exact: true })

for (const width of [1440, 768, 390])
  for (const colourScheme of ['light', 'dark'] as const)
    t.test(`proposal, errors, versions and types, ${width} px wide, ${colourScheme}`, async (t) => {
      const pipeId = await daemon.createPipe({ pipe_name: `s${width}-${colourScheme}` })
      await daemon.ingest(pipeId, records)
      const { page, problems, close } = await dashboard.visit('admin', { width, colourScheme })
      const checked = async (what: string) => {
        t.same(await axeFindings(page), [], what)
        const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
        t.ok(Number(overflow) <= 0, `${what}: nothing beside the screen (${overflow} px)`)
        const folder = process.env.SCREENSHOTS
        const file = path.join(folder ?? '', `schema-${what}-${width}-${colourScheme}.png`)
        if (folder) await page.screenshot({ path: file, fullPage: true })
      }
      await open(page, pipeId)
      t.ok(await save(page).isDisabled(), 'there is nothing to save')
      await checked('empty')
      await page.getByText('Options', { exact: true }).click()
      await checked('options')
      await page.getByRole('button', { name: 'Propose a schema' }).click()
      await page.getByText('Proposed from 120 records.').waitFor()
      t.match(JSON.parse(await editor(page).inputValue()), {
        properties: { id: { type: 'integer' }, state: { enum: ['new', 'paid'] } },
        required: ['id', 'state'],
      })
      await page.getByText('export type S', { exact: false }).first().waitFor()
      await page.getByRole('button', { name: 'Check the newest records' }).click()
      await page.getByText('All of the 120 newest records match.').waitFor()
      await save(page).click()
      await page.getByText(/^Schema of pipe .* saved\.$/).waitFor()
      await editor(page).fill('{"type": "object", "propertys": {}}')
      await page.getByRole('list', { name: 'Errors in the schema' }).waitFor()
      t.ok(await save(page).isDisabled(), 'an invalid schema cannot be saved')
      await checked('errors')
      await page.getByRole('button', { name: 'Compare version 1' }).click()
      await page.getByRole('button', { name: 'Use version 1' }).waitFor()
      await page.locator('main').focus()
      await checked('versions')
      t.same(problems, [])
      await close()
    })

t.test('with the keyboard alone: from the settings to a saved schema that tags', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'by-keys' })
  await daemon.ingest(pipeId, records)
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/settings`)
  await page.getByRole('heading', { name: 'Schema of records', exact: true }).waitFor()
  await press(page, 'Set up a schema')
  await editor(page).waitFor()
  await page.locator('main').focus()
  await press(page, 'Propose a schema')
  await page.getByText('Proposed from 120 records.').waitFor()
  await page.getByLabel('A record that does not match').focus()
  await page.keyboard.press('End')
  await page.getByLabel('Key of the errors').waitFor()
  await page.locator('main').focus()
  await tabTo(page, 'Save')
  await page.keyboard.press('Enter')
  await page.getByText('Schema of pipe by-keys saved.').waitFor()
  t.match(await stored(pipeId), {
    pipe_schema: { required: ['id', 'state'] },
    pipe_schema_on_mismatch: 'tag',
  })
  t.same(problems, [])
  await close()
})

t.test(
  'a change of another user in between is shown; a version is restored; the schema is removed',
  async (t) => {
    const pipeId = await daemon.createPipe({ pipe_name: 'shared' })
    const set = (schema: object) => daemon.api('PATCH', `/v1/pipes/${pipeId}`, { pipe_schema: schema })
    await set({ type: 'object', title: 'first' })
    const { page, problems, close } = await dashboard.visit('admin')
    await open(page, pipeId)
    await editor(page).fill(text({ type: 'object', title: 'mine' }))
    await set({ type: 'object', title: 'theirs' })
    await save(page).click()
    await page.getByText('Another user changed this after you opened the form.').waitFor()
    t.match(await stored(pipeId), { pipe_schema: { title: 'theirs' } })
    await page.getByRole('button', { name: 'Save mine' }).click()
    await page.getByText('Schema of pipe shared saved.').waitFor()
    t.match(await stored(pipeId), { pipe_schema: { title: 'mine' } })
    await page.getByRole('button', { name: 'Compare version 1' }).click()
    await page.getByText('"title": "first"').first().waitFor()
    await page.getByRole('button', { name: 'Use version 1' }).click()
    await save(page).click()
    await until('the first version is stored again', async () =>
      JSON.stringify((await stored(pipeId)).pipe_schema).includes('first'),
    )
    await page.getByRole('button', { name: 'Remove schema …' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove schema' }).click()
    await until('it is removed', async () => (await stored(pipeId)).pipe_schema === null)
    await until('the editor is empty', async () => (await editor(page).inputValue()) === '')
    // The browser reports the 412 of the conflict.
    t.same(
      problems.filter((one) => !/412/.test(one)),
      [],
    )
    await close()
  },
)

t.test(
  'stored records are checked before a schema is saved; mismatches are counted afterwards',
  async (t) => {
    const pipeId = await daemon.createPipe({ pipe_name: 'checked' })
    await daemon.ingest(pipeId, [{ id: 1 }, { id: 'x' }, { id: 'y' }])
    const { page, problems, close } = await dashboard.visit('admin')
    await open(page, pipeId)
    await editor(page).fill(text({ type: 'object', properties: { id: { type: 'integer' } } }))
    await page.getByRole('button', { name: 'Check the newest records' }).click()
    await page.getByText('2 of the 3 newest records do not match.').waitFor()
    const errors = page.getByRole('table', { name: 'Errors of stored records' })
    t.match(await errors.innerText(), /\/id.*must be a whole number, not a string.*2/s)
    t.same(await axeFindings(page), [])
    await page.getByLabel('A record that does not match').selectOption('tag')
    await save(page).click()
    await page.getByText('Schema of pipe checked saved.').waitFor()
    await daemon.ingest(pipeId, [{ id: 'z' }])
    await page.getByRole('heading', { name: 'Records that did not match, last 24 hours' }).waitFor()
    t.same(problems, [])
    await close()
  },
)

t.test('a viewer reads the schema, its versions and types, and changes nothing', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'viewed' })
  await daemon.api('PATCH', `/v1/pipes/${pipeId}`, {
    pipe_schema: { type: 'object', properties: { a: { type: 'string' } } },
  })
  const { page, problems, close } = await dashboard.visit('viewer')
  await open(page, pipeId)
  t.equal(await editor(page).getAttribute('readonly'), '')
  await page.getByText('a?: string').waitFor()
  t.equal(await page.getByRole('button', { name: 'Propose a schema' }).count(), 0)
  for (const name of ['Save', 'Remove schema …'])
    t.ok(await page.getByRole('button', { name, exact: true }).isDisabled(), name)
  await page.getByRole('button', { name: 'Compare version 1' }).click()
  t.equal(await page.getByRole('button', { name: 'Use version 1' }).count(), 0)
  t.same(await axeFindings(page), [])
  t.same(problems, [])
  await close()
})
