/** A transform in the form of its destination, by the keyboard: tried there, what is wrong is said at its field, the salt is never shown. */
import type { Page } from 'playwright-core'
import t from 'tap'
import { axeFindings, openDashboard } from '../support/dashboard.ts'
import {
  errorAt,
  fieldOf,
  fromTop,
  isHidden,
  look,
  newForm,
  storedOf,
  unfold,
} from '../support/destination-form.ts'
import { hangs } from '../support/hanging-filter.ts'
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
const shots = process.env.SCREENSHOTS
const salt = 'a salt that nobody sees'

/** The outcome for the records. On a busy machine the time limit may end the trial: it is repeated. */
const triedOn = async (page: Page, way: () => Promise<unknown>) => {
  const counts = page.getByText(/^Of the \d+ newest records?:/)
  return await until('there was time to try it', async () => {
    await way()
    await page.getByRole('button', { name: 'Try on the newest records' }).waitFor()
    const text = await counts.innerText()
    return text.includes('Time ran out') ? null : text
  })
}

for (const [width, colourScheme] of [
  [1280, 'light'],
  [1280, 'dark'],
  [400, 'light'],
  [400, 'dark'],
] as const)
  t.test(
    `a form with steps at ${width} px, ${colourScheme}: nothing beyond its edge, axe finds nothing`,
    async (t) => {
      const pipeId = await daemon.createPipe({ pipe_name: `w${width}-${colourScheme}` })
      await daemon.ingest(pipeId, [
        { status: 'paid', total: 2, user: { email: 'ada@example.com' }, note: '<img src=x> '.repeat(200) },
        { status: 'open', total: 2 },
        { total: 2 },
      ])
      const { body } = await daemon.api<{ destination_id: string }>(
        'POST',
        `/v1/pipes/${pipeId}/destinations`,
        {
          destination_type: 'destination_http_endpoint',
          destination_config: { url: sink.url },
          transform: {
            filter: 'record.status == "paid" && record.total > 1',
            map: [
              { op: 'move', from: 'user.email', to: 'email' },
              { op: 'mask', paths: ['email', 'user.phone'] },
              { op: 'constant', key: 'source', value: 'shop' },
            ],
            mask_salt: salt,
          },
        },
      )
      const { page, problems, close } = await dashboard.visit('admin', { width, colourScheme })
      for (const place of ['', '/edit']) {
        await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/${body.destination_id}${place}`)
        const title = place === '/edit' ? 'Transform' : 'Filter and transform'
        await page.getByRole('heading', { name: title, exact: true }).waitFor()
        if (place === '/edit') {
          const button = page.getByRole('button', { name: 'Try on the newest records' })
          const counts = await triedOn(page, () => button.click())
          t.equal(counts, 'Of the 3 newest records: 1 kept, 1 filtered out, 1 failed.')
          const list = page.getByRole('list', { name: 'Records before and after' })
          t.equal(await list.locator('pre').count(), 4, 'three before, one after')
          t.equal(await page.locator('main img').count(), 0)
        }
        t.same(await axeFindings(page), [])
        await isHidden(t, page, salt)
        const wide = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth')
        t.equal(wide, 0)
        if (shots === undefined) continue
        const name = `transform-${width}-${colourScheme}${place.replace('/', '-')}.png`
        await page.screenshot({ path: `${shots}/${name}`, fullPage: true })
      }
      t.same(problems, [])
      await close()
    },
  )

t.test('a transform: typed, corrected where it is wrong, saved, read, changed and taken away', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'sales', pipe_add_ingest_ts: false })
  await daemon.ingest(pipeId, [
    { kind: 'sale', user: { email: 'ada@example.com' } },
    { kind: 'view', user: { email: 'bob@example.com' } },
  ])
  const { page, problems, close } = await dashboard.visit('admin', { width: 1280 })
  await newForm(daemon, page, pipeId, 'HTTP endpoint')
  await typeInto(page, 'URL', sink.url)
  await typeInto(page, 'Filter', 'record.kind ==')
  await unfold(page, 'Transform, batches and retries')
  await press(page, 'Add a step')
  await page.keyboard.press('Enter')
  await choose(page, 'Step', 'move to the top level')
  await typeInto(page, 'From the path', 'user..email')
  await typeInto(page, 'To the key', 'email')
  await choose(page, 'Step', 'mask values')
  await typeInto(page, 'Paths', 'email\nuser..email')
  await typeInto(page, 'Salt for masking', 'short')
  await press(page, 'Test and save')
  t.match(await errorAt(page, 'Filter'), 'is not a valid expression')
  t.match(await errorAt(page, 'From the path'), 'has an empty key')
  t.match(await errorAt(page, 'Paths'), /^Line 2: has an empty key/)
  t.match(await errorAt(page, 'Salt for masking'), 'at least 8 characters')
  t.same(await axeFindings(page), [])
  if (shots !== undefined) await page.screenshot({ path: `${shots}/transform-errors.png`, fullPage: true })

  await fromTop(page)
  await typeInto(page, 'Filter', 'record.kind == "sale"')
  await typeInto(page, 'From the path', 'user.email')
  await typeInto(page, 'Paths', 'email')
  await press(page, 'Move step 2 up')
  await press(page, 'Move step 1 down')
  await typeInto(page, 'Salt for masking', salt)
  await press(page, 'Test only')
  await page.getByText('Of the 2 newest records 1 are kept, 1 filtered out, and 0 fail').waitFor()
  await press(page, 'Test and save')
  await page.getByText('Delivering normally.').waitFor()
  const stored = await storedOf(daemon, pipeId)
  t.strictSame(stored.transform, {
    filter: 'record.kind == "sale"',
    map: [
      { op: 'move', from: 'user.email', to: 'email' },
      { op: 'mask', paths: ['email'] },
    ],
    mask_salt: '[redacted]',
  })
  await page.getByRole('heading', { name: 'Filter and transform' }).waitFor()
  await page.getByText('record.kind == "sale"').waitFor()
  await page.getByText('move user.email to email at the top level').waitFor()
  await page.getByText('mask email', { exact: true }).waitFor()
  await look(t, page, [salt])

  t.equal(await fieldOf(page, 'Filter').inputValue(), 'record.kind == "sale"')
  await fromTop(page)
  await typeInto(page, 'Filter', 'record.kind != "view"')
  await choose(page, 'Step', 'rename a key')
  await choose(page, 'Step', 'set a constant')
  await typeInto(page, 'Key', 'source')
  await typeInto(page, 'Value', '"12"')
  await fromTop(page)
  await choose(page, 'Step', 'move to the top level')
  await press(page, 'Test and save')
  await page.getByText('set source to "12"').waitFor()
  t.match(await storedOf(daemon, pipeId), {
    transform: {
      filter: 'record.kind != "view"',
      map: [
        { op: 'move', from: 'user.email' },
        { op: 'constant', key: 'source', value: '12' },
      ],
      mask_salt: '[redacted]',
    },
  })
  await press(page, 'Edit')
  await page.getByRole('button', { name: 'Test and save' }).waitFor()
  await typeInto(page, 'Filter', '')
  await press(page, 'Remove step 1')
  await fromTop(page)
  await press(page, 'Remove step 1')
  await fromTop(page)
  await press(page, 'Test and save')
  await page.getByText('Delivering normally.').waitFor()
  await until('it is taken away', async () => (await storedOf(daemon, pipeId)).transform === null)
  await page.getByRole('heading', { name: 'Filter and transform' }).waitFor({ state: 'detached' })
  t.same(problems, [])
  await close()
})

t.test('a filter that fails on all records is saved anyway if the user insists', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'insisting', pipe_add_ingest_ts: false })
  await daemon.ingest(pipeId, Array(9).fill({ s: `${'a'.repeat(40)}!` }))
  const { page, problems, close } = await dashboard.visit('admin', { width: 1280 })
  await newForm(daemon, page, pipeId, 'HTTP endpoint')
  await typeInto(page, 'URL', sink.url)
  await typeInto(page, 'Filter', hangs)
  await press(page, 'Try on the newest records')
  await page.getByText(/Time ran out/).waitFor()
  await fromTop(page)
  await typeInto(page, 'Filter', 'record.later > 1')
  await press(page, 'Test and save')
  await page.getByText('Some checks failed').waitFor()
  await press(page, 'Save anyway')
  // Not a state of the lane: it delivers from the beginning, and its filter fails at once.
  await page.getByText('Its transform was not tested on the newest records.').waitFor()
  t.match(await storedOf(daemon, pipeId), { transform: { filter: 'record.later > 1' } })
  t.same(problems, [])
  await close()
})

t.test('a transform is tried in its form, and what saving it finds stays until it is read', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'tried', pipe_add_ingest_ts: false })
  const { page, problems, close } = await dashboard.visit('admin', { width: 400 })
  await newForm(daemon, page, pipeId, 'HTTP endpoint')
  await typeInto(page, 'URL', sink.url)
  await typeInto(page, 'Filter', 'record.kind == "sale"')
  await unfold(page, 'Transform, batches and retries')
  await press(page, 'Add a step')
  await choose(page, 'Step', 'set a constant')
  await typeInto(page, 'Key', 'source')
  await typeInto(page, 'Value', 'shop')
  await press(page, 'Try on the newest records')
  await page.getByText('The pipe has no records to try it on.').waitFor()
  const records = '{"kind":"sale","id":12345678901234567890,"name":"<img src=x>"},{"kind":"view"},{"n":1}'
  await daemon.ingest(pipeId, `[${records}]`)
  const counts = await triedOn(page, () => page.keyboard.press('Enter'))
  t.equal(counts, 'Of the 3 newest records: 1 kept, 1 filtered out, 1 failed.', 'the focus had stayed')
  const list = page.getByRole('list', { name: 'Records before and after' })
  const [sale = '', view = '', other = ''] = await list.getByRole('listitem').allInnerTexts()
  t.match(sale, /kept.*12345678901234567890.*<img src=x>.*After.*12345678901234567890.*"source": "shop"/s)
  t.match(view, /filtered out.*"view"/s)
  t.match(other, /failed.*Filter: .*No such key: kind.*"n": 1/s)
  t.equal(await page.locator('main img').count(), 0)
  await fromTop(page)
  await choose(page, 'Records to show', 'failed')
  await page.getByText('The form has changed: ').waitFor()
  await triedOn(page, () => press(page, 'Try on the newest records').then(() => fromTop(page)))
  t.equal(await list.getByRole('listitem').count(), 1)

  // The record that fails would block the lane.
  await page.getByLabel('Start from').selectOption('now')
  await press(page, 'Test and save')
  await page.getByText('Delivering normally.').waitFor()
  const warning = page.locator('span', { has: page.locator('> strong', { hasText: 'Warning:' }) })
  t.match(await warning.innerText(), / saved\. .*(fails on 1 of the 3 newest records|took too long)/)
  await page.keyboard.type('gp')
  await page.getByRole('heading', { name: 'Pipes', level: 1 }).waitFor()
  t.equal(await warning.count(), 1, 'also on another page')
  t.same(await axeFindings(page), [])
  await warning.locator('xpath=..').getByRole('button', { name: 'Dismiss' }).press('Enter')
  await warning.waitFor({ state: 'detached' })
  t.same(problems, [])
  await close()
})
