/** Records parked at a pipe in the browser: found, corrected, replayed, forced, discarded; viewers read. */
import type { Page } from 'playwright-core'
import t from 'tap'
import type { PipeParkedList } from '../../src/contract/pipe-parked.ts'
import { axeFindings, openDashboard } from '../support/dashboard.ts'
import { press, tabTo } from '../support/keyboard.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
t.teardown(() => dashboard.close())

const schema = { type: 'object', properties: { n: { type: 'integer' }, m: { type: 'string' } } }
const bad = (n: number) => ({ n: String(n) })

async function pipeWith(name: string, records: object[] | string) {
  const pipeId = await daemon.createPipe({
    ...{ pipe_name: name, pipe_schema: schema, pipe_schema_on_mismatch: 'park', pipe_add_ingest_ts: false },
  })
  const reply = await daemon.api('POST', `/v1/ingest/${pipeId}`, records)
  t.equal(reply.status, 202, reply.text)
  const list = async () =>
    (await daemon.api('GET', `/v1/pipes/${pipeId}/parked`)).body as unknown as PipeParkedList
  return { pipeId, list, address: `${daemon.url}/dashboard/pipes/${pipeId}/parked` }
}

const heading = (page: Page, name: string) => page.getByRole('heading', { name, level: 1, exact: true })
const boxes = (page: Page) => page.getByRole('table', { name: 'Parked records' }).getByRole('checkbox')

for (const width of [1440, 390])
  for (const colourScheme of ['light', 'dark'] as const)
    t.test(`from the pipe to a record, ${width} px wide, ${colourScheme}`, async (t) => {
      const hostile = '<img src=x onerror="document.title=\'owned\'"> \u202edesrever'
      const pipe = await pipeWith(`w${width}-${colourScheme}`, [bad(1), { n: 1, m: 2 }, { n: hostile }])
      const { page, problems, close } = await dashboard.visit('viewer', { width, colourScheme })
      const checked = async (what: string) => {
        t.same(await axeFindings(page), [], what)
        const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
        t.ok(Number(overflow) <= 0, `${what}: nothing beside the screen (${overflow} px)`)
      }
      for (const part of ['', '/settings/schema']) {
        await page.goto(`${daemon.url}/dashboard/pipes/${pipe.pipeId}${part}`)
        await page.getByText('3 records parked at the pipe').waitFor()
        await checked(`the number ${part}`)
      }
      await page.getByRole('link', { name: 'Show them' }).click()
      await heading(page, 'Records parked at the pipe').waitFor()
      await boxes(page).nth(2).waitFor()
      await page.getByLabel('All on this page').check()
      for (const name of [/^Replay 3 records/, /^Discard …/, /^Replay all …/, /^Discard all …/])
        t.ok(await page.getByRole('button', { name }).isDisabled(), String(name))
      await checked('the list')
      await page.getByRole('link', { name: 'Show #2' }).click()
      await page.getByRole('table', { name: 'Errors' }).waitFor()
      t.notOk(await page.getByLabel('JSON').isEditable())
      for (const name of ['Replay', 'Discard …'])
        t.ok(await page.getByRole('button', { name, exact: true }).isDisabled(), name)
      await checked('the record')
      t.same(problems, [])
      await close()
    })

t.test('a filter by path; a record is corrected, and stored with every digit', async (t) => {
  const pipe = await pipeWith('corrected', '[{"n":"x","big":12345678901234567890},{"m":1}]')
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(pipe.address)
  await boxes(page).nth(1).waitFor()
  await page.getByLabel('Path of the first error').fill('/none')
  await page.getByText('No record matches the filter.').waitFor()
  await page.getByLabel('Path of the first error').fill('/n')
  await until('one record matches', async () => (await boxes(page).count()) === 1)
  await until('the filter is in the address', () => new URL(page.url()).searchParams.get('path') === '/n')
  await page.getByRole('button', { name: 'Replay all that match …' }).click()
  t.match(await page.getByRole('dialog').textContent(), /pipes parked replay corrected --error-path \/n/)
  await page.keyboard.press('Escape')
  await page.getByRole('link', { name: 'Show #0' }).click()
  const editor = page.getByLabel('JSON')
  const text = await editor.inputValue()
  t.match(text, /"big": 12345678901234567890/)
  await page.getByRole('button', { name: 'Replay', exact: true }).click()
  await page.getByText('The record still does not match the schema. It stays parked.').waitFor()
  await editor.fill(text.replace('"x",', '"x"'))
  await page.getByText(/^Line 3, column 3: expected/).waitFor()
  t.ok(await page.getByRole('button', { name: 'Replay with changes' }).isDisabled())
  await editor.fill(text.replace('"x"', '7'))
  await page.getByRole('button', { name: 'Replay with changes' }).click()
  const dialog = page.getByRole('dialog')
  t.match(await dialog.innerText(), /"n": "x",[\s\S]*"n": 7,/)
  await dialog.getByRole('button', { name: 'Replay', exact: true }).click()
  await page.getByText('Stored as a new message.').waitFor()
  await page.getByRole('link', { name: 'Open message' }).click()
  await page.getByText('12345678901234567890').first().waitFor()
  t.equal((await pipe.list()).count, 1)
  t.same(
    problems.filter((one) => !/409/.test(one)),
    [],
  )
  await close()
})

t.test('an edited record that still does not match keeps the edit, and is stored by force', async (t) => {
  const pipe = await pipeWith('forced', [{ n: 'x', m: 1 }])
  const { page, close } = await dashboard.visit('admin')
  await page.goto(pipe.address)
  await page.getByRole('link', { name: 'Show #0' }).click()
  await page.getByLabel('JSON').fill('{"n": 3, "m": 1}')
  await page.getByRole('button', { name: 'Replay with changes' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Replay', exact: true }).click()
  await page.getByText('The record still does not match the schema. It stays parked.').waitFor()
  await page.getByText('#0, edited').waitFor()
  t.match((await pipe.list()).parked, [{ is_edited: true, errors: [{ path: '/m' }] }])
  t.match(await page.getByRole('table', { name: 'Errors' }).innerText(), /\/m/)
  await page.getByRole('button', { name: 'Replay anyway …' }).click()
  t.same(await axeFindings(page), [])
  await page.getByRole('dialog').getByRole('button', { name: 'Replay anyway' }).click()
  await page.getByText('Stored as a new message.').waitFor()
  t.equal((await pipe.list()).count, 0)
  await close()
})

t.test('several at once: replayed, forced, discarded; with the keyboard', async (t) => {
  const pipe = await pipeWith('several', [bad(1), bad(2), bad(3), { m: 4 }])
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(pipe.address)
  await boxes(page).nth(3).waitFor()
  await boxes(page).first().check()
  await page.getByRole('button', { name: 'Replay 1 record …' }).click()
  const dialog = page.getByRole('dialog', { name: 'Replay 1 parked record?' })
  await dialog.getByRole('button', { name: 'Replay', exact: true }).click()
  await page.getByText('0 records stored. 1 record still not matching the schema.').waitFor()
  await boxes(page).first().check()
  await page.getByRole('button', { name: 'Replay 1 record …' }).click()
  await dialog.getByLabel('Store records that do not match, too').check()
  t.match(await dialog.textContent(), /pipes parked replay several \S+ --force/)
  t.same(await axeFindings(page), [])
  await dialog.getByRole('button', { name: 'Replay', exact: true }).click()
  await until('its line is gone', async () => (await boxes(page).count()) === 3)
  t.equal((await pipe.list()).count, 3)
  await boxes(page).first().check()
  await page.getByRole('button', { name: 'Discard …', exact: true }).click()
  await page
    .getByRole('dialog', { name: 'Discard 1 parked record?' })
    .getByRole('button', { name: 'Discard' })
    .click()
  await until('it is discarded', async () => (await boxes(page).count()) === 2)
  await page.locator('main').focus()
  await press(page, 'Discard all …')
  await page.getByRole('dialog', { name: 'Discard all records parked at the pipe?' }).waitFor()
  await tabTo(page, 'Discard')
  await page.keyboard.press('Enter')
  await page.getByText('No record is parked at this pipe.').waitFor()
  t.equal((await pipe.list()).count, 0)
  t.same(problems, [])
  await close()
})

t.test('more records than one page shows', async (t) => {
  const pipe = await pipeWith(
    'pages',
    Array.from({ length: 60 }, (_, n) => bad(n)),
  )
  const { page, problems, close } = await dashboard.visit('viewer')
  await page.goto(pipe.address)
  await boxes(page).nth(49).waitFor()
  await page.getByText('60 records in total.').waitFor()
  await page.getByRole('button', { name: 'Next page' }).click()
  await until('the last ten are shown', async () => (await boxes(page).count()) === 10)
  await page.getByRole('button', { name: 'First page' }).click()
  await until('the first fifty are shown', async () => (await boxes(page).count()) === 50)
  t.same(problems, [])
  await close()
})
