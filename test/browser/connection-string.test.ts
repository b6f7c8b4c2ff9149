/** The form of a destination: three fields suffice, a pasted password is seen nowhere, and errors lead to their fields. */
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { axeFindings, openDashboard } from '../support/dashboard.ts'
import { errorAt, fieldOf, fromTop, newForm, storedOf, unfold } from '../support/destination-form.ts'
import { press, tabTo, typeInto } from '../support/keyboard.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
const pg = await startPostgres({ ssl: false })
t.teardown(async () => {
  await dashboard.close()
  await pg.stop()
})
const shots = process.env.SCREENSHOTS
await pg.query(`ALTER USER "${pg.user}" PASSWORD 'p@ss word'`)
const password = 'p@ss word'
const written = encodeURIComponent(password)
const address = `postgres://${pg.user}:${written}@${pg.host}:${pg.port}/${pg.database}?sslmode=require`

/** Into the focused field. The clipboard of a browser without a window is not that of a person. */
const paste = (page: Page, text: string) =>
  page.evaluate(`(() => {
    const data = new DataTransfer()
    data.setData('text/plain', ${JSON.stringify(text)})
    document.activeElement.dispatchEvent(
      new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }),
    )
  })()`)

/** Only the field for the password has it, which shows dots. */
async function isOnlyInItsField(t: Test, page: Page): Promise<void> {
  // React writes the value of a field into its attribute.
  const content = String(
    await page.evaluate(`(() => {
      const copy = document.documentElement.cloneNode(true)
      for (const one of copy.querySelectorAll('input[type="password"]')) one.remove()
      return copy.outerHTML
    })()`),
  )
  const visible = String(
    await page.evaluate(
      `[...document.querySelectorAll('input:not([type="password"]), textarea')].map((one) => one.value).join('\\n')`,
    ),
  )
  const kept = String(await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])'))
  for (const secret of [password, written])
    t.notOk(`${content} ${visible} ${kept} ${page.url()}`.includes(secret), 'the password is not shown')
}

for (const [width, colourScheme] of [
  [1440, 'light'],
  [768, 'dark'],
  [390, 'light'],
  [390, 'dark'],
] as const)
  t.test(`type, connection string and table, ${width} px, ${colourScheme}, by the keyboard`, async (t) => {
    const name = `w${width}_${colourScheme}`
    await pg.query(`CREATE TABLE ${name} (id bigint)`)
    const pipeId = await daemon.createPipe({ pipe_name: name })
    await daemon.ingest(pipeId, { id: 1 })
    const { page, problems, close } = await dashboard.visit('admin', { width, colourScheme })
    await newForm(daemon, page, pipeId, 'Database')
    const shoot = async (what: string) => {
      t.same(await axeFindings(page), [], what)
      const wide = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
      t.ok(Number(wide) <= 0, `${what}: nothing beside the screen`)
      if (shots !== undefined)
        await page.screenshot({ path: `${shots}/form-${what}-${width}-${colourScheme}.png`, fullPage: true })
    }
    await shoot('empty')
    const form = await page.locator('main form').boundingBox()
    t.ok(form !== null && form.width <= 640, 'lines of at most 640 px')

    await press(page, 'Test and save')
    t.match(await errorAt(page, 'Connection string'), /Paste a connection string/)
    t.match(await errorAt(page, 'Host'), /required/, 'its fields are unfolded')
    await until('the first wrong field has the focus', () =>
      page.evaluate(`document.activeElement.labels?.[0]?.textContent === 'Connection string'`),
    )
    const button = await page.getByRole('button', { name: 'Test and save' }).boundingBox()
    const height = page.viewportSize()?.height ?? 0
    t.ok(button !== null && button.y + button.height <= height, 'the button is on the screen')
    await page.getByRole('button', { name: /^Correct \d fields$/ }).waitFor()
    await shoot('errors')

    await paste(page, address)
    t.match(await fieldOf(page, 'Connection string').inputValue(), `//${pg.user}:••••••••@${pg.host}`)
    await page.getByText('Still needed: Table. Not used: sslmode.').waitFor()
    t.equal(await fieldOf(page, 'Host').inputValue(), pg.host)
    t.equal(await fieldOf(page, 'Password').inputValue(), password)
    await typeInto(page, 'Table', name)
    await page.getByText('Nothing else is needed: Test and save.').waitFor()
    await isOnlyInItsField(t, page)
    t.match(
      await page.locator('details', { hasText: 'Copy as CLI' }).last().textContent(),
      /--secret password .*--start-from earliest/,
    )
    await shoot('filled')
    await press(page, 'Test and save')
    await page.getByText('Delivering normally.').waitFor()
    t.match((await storedOf(daemon, pipeId)).destination_config, {
      ...{ host: pg.host, port: pg.port, database: pg.database, username: pg.user, table: name },
    })
    await until('the record from before it is there', async () => {
      return (await pg.query(`SELECT 1 FROM ${name}`)).length === 1
    })
    t.same(problems, [])
    await close()
  })

t.test('typed, pasted into Host, malformed, corrected', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'typed' })
  const { page, problems, close } = await dashboard.visit('admin')
  await newForm(daemon, page, pipeId, 'Database')
  const string = fieldOf(page, 'Connection string')
  await typeInto(page, 'Connection string', 'postgres://me:hunt')
  t.equal(
    await page.evaluate('getComputedStyle(document.activeElement).webkitTextSecurity'),
    'disc',
    'a password is not shown while it is typed',
  )
  await page.keyboard.type('er2@db.example.com/shop')
  await page.keyboard.press('Enter')
  t.equal(await string.inputValue(), 'postgres://me:••••••••@db.example.com/shop')
  t.equal(await page.evaluate('getComputedStyle(document.activeElement).webkitTextSecurity'), 'none')
  t.equal(await fieldOf(page, 'Password').inputValue(), 'hunter2')
  await page.keyboard.press('End')
  await page.keyboard.type('s')
  await page.keyboard.press('Enter')
  t.equal(await fieldOf(page, 'Database').inputValue(), 'shops')
  t.equal(await fieldOf(page, 'Password').inputValue(), 'hunter2', 'its mask keeps it')

  await unfold(page, 'Separate fields')
  await tabTo(page, 'Host')
  await paste(page, 'mysql://root:[YOUR-PASSWORD]@10.0.0.1:3307/app')
  t.equal(await fieldOf(page, 'Host').inputValue(), '10.0.0.1')
  t.equal(await fieldOf(page, 'Port').inputValue(), '3307')
  t.equal(await fieldOf(page, 'Server type').inputValue(), 'mysql')
  await fromTop(page)
  await tabTo(page, 'Connection string')
  await paste(page, 'postgres://me:hun#ter2@db.example.com/shop')
  t.match(await errorAt(page, 'Connection string'), /# as %23/)
  t.equal(await string.inputValue(), '', 'a text with a password is not kept')
  t.notMatch(await page.content(), /hun#ter2/)
  await paste(page, 'nats://me:hunter2@nats.example.com')
  t.match(await errorAt(page, 'Connection string'), /type NATS JetStream/)
  t.equal(await fieldOf(page, 'Host').inputValue(), '10.0.0.1', 'the fields are as they were')
  t.same(await axeFindings(page), [])
  t.same(problems, [])
  await close()
})

t.test('an address with a password is read in the fields of other types', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'others' })
  const { page, problems, close } = await dashboard.visit('admin')
  await newForm(daemon, page, pipeId, 'HTTP endpoint')
  await tabTo(page, 'URL')
  await paste(page, 'https://me:hunter2@example.com/hook')
  t.equal(await fieldOf(page, 'URL').inputValue(), 'https://example.com/hook')
  t.match(await fieldOf(page, 'Authorization header').inputValue(), /^Basic /)
  await page.getByText('Filled in: URL, Authorization header.').waitFor()
  await page.getByRole('button', { name: 'Change type' }).click()
  await newForm(daemon, page, pipeId, 'NATS JetStream')
  await tabTo(page, 'Servers')
  await paste(page, 'nats://me:hunter2@nats.example.com:4222')
  t.equal(await fieldOf(page, 'Servers').inputValue(), 'nats://nats.example.com:4222')
  t.equal(await fieldOf(page, 'User').inputValue(), 'me')
  t.equal(await fieldOf(page, 'Password').inputValue(), 'hunter2')
  t.same(problems, [])
  await close()
})

t.test('folded settings open by themselves for an error, and for a value of their own', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'folded' })
  const { page, problems, close } = await dashboard.visit('admin')
  await newForm(daemon, page, pipeId, 'HTTP endpoint')
  await typeInto(page, 'URL', 'http://127.0.0.1:9/')
  await unfold(page, 'Transform, batches and retries')
  await typeInto(page, 'Max requests per second', 'many')
  await page.getByText('Transform, batches and retries').click()
  await page.getByRole('button', { name: 'Test and save' }).click()
  t.match(await errorAt(page, 'Max requests per second'), /number/)
  await until('it is unfolded', () => fieldOf(page, 'Max requests per second').isVisible())
  const { body } = await daemon.api<{ destination_id: string }>('POST', `/v1/pipes/${pipeId}/destinations`, {
    ...{ destination_type: 'destination_http_endpoint', destination_config: { url: 'http://127.0.0.1:9/' } },
    concurrency: 4,
  })
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/${body.destination_id}/edit`)
  await fieldOf(page, 'Concurrency').waitFor()
  t.ok(await fieldOf(page, 'Concurrency').isVisible())
  t.notOk(await page.getByLabel('Response timeout').isVisible(), 'the others are folded')
  t.same(problems, [])
  await close()
})

t.test('every form leads to its first wrong field, and its button keeps the focus', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  await daemon.createPipe({ pipe_name: 'taken' })
  const isWrong = (label: string) =>
    until(`${label} has the focus, and is on the screen`, async () => {
      const focused = page.locator(':focus')
      if ((await focused.getAttribute('aria-invalid')) !== 'true') return false
      const name = await page.evaluate('document.activeElement.labels?.[0]?.textContent')
      const box = await focused.boundingBox()
      return String(name).startsWith(label) && box !== null && box.y >= 0 && box.y < 900
    })
  await page.goto(`${daemon.url}/dashboard/pipes/new`)
  await page.getByLabel('Name').fill('taken')
  await press(page, 'Create pipe')
  t.ok(await isWrong('Name'), 'a name that is taken')
  await page.goto(`${daemon.url}/dashboard/keys`)
  for (const expected of ['created', 'taken']) {
    await page.getByRole('button', { name: 'New key', exact: true }).first().click()
    await page.getByRole('dialog').getByLabel('Name').fill('app')
    await page.getByRole('button', { name: 'Create key' }).click()
    if (expected === 'taken') t.ok(await isWrong('Name'), 'a key')
    else await page.getByRole('button', { name: 'I have copied it' }).click()
  }
  await page.goto(`${daemon.url}/dashboard/users`)
  await page.getByRole('button', { name: 'New user' }).first().click()
  await page.getByLabel('E-mail').fill('viewer@example.com')
  await page.getByRole('dialog').getByLabel('Password').fill('long enough to pass')
  await page.getByRole('button', { name: 'Create user' }).click()
  t.ok(await isWrong('E-mail'), 'a user')
  await page.goto(`${daemon.url}/dashboard/alerts`)
  await page.getByLabel('Address').fill('nonsense')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  t.ok(await isWrong('Address'), 'alerts')

  let release = () => {}
  await page.route('**/v1/pipes', async (route) => {
    await new Promise<void>((resolve) => {
      release = resolve
    })
    await route.continue()
  })
  await page.goto(`${daemon.url}/dashboard/pipes/new`)
  await page.getByLabel('Name').fill('slow')
  await press(page, 'Create pipe')
  const running = page.getByRole('button', { name: 'Creating …' })
  await running.waitFor()
  t.ok(await page.evaluate("document.activeElement.textContent === 'Creating …'"), 'it keeps the focus')
  t.equal(await running.getAttribute('aria-disabled'), 'true')
  await page.keyboard.press('Enter')
  release()
  await page.getByRole('heading', { name: 'slow', level: 1 }).waitFor()
  t.same(problems, [])
  await close()
})
