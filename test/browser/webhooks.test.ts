/** Webhooks into a pipe in the browser: set up, first event, rejected requests, rotation; at every width, by keys alone. */
import { createHmac, randomUUID } from 'node:crypto'
import path from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { axeFindings, openDashboard, openPage } from '../support/dashboard.ts'
import { errorAt, fieldOf, isHidden, unfold } from '../support/destination-form.ts'
import { press, tabTo, typeInto } from '../support/keyboard.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
t.teardown(() => dashboard.close())

const secret = 'a secret of the provider'
const addressOf = (pipeId: string) => `${daemon.dataUrl}/v1/hooks/${pipeId}`

async function send(url: string, headers: Record<string, string>): Promise<number> {
  const body = JSON.stringify({ action: 'opened' })
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  })
  return response.status
}

/** As GitHub does. */
async function sendEvent(pipeId: string, key = secret): Promise<number> {
  const hmac = createHmac('sha256', key)
    .update(JSON.stringify({ action: 'opened' }))
    .digest('hex')
  return await send(addressOf(pipeId), {
    ...{ 'x-github-event': 'pull_request', 'x-github-delivery': randomUUID() },
    'x-hub-signature-256': `sha256=${hmac}`,
  })
}

async function open(page: Page, pipeId: string): Promise<void> {
  await openPage(page, `${daemon.url}/dashboard/pipes/${pipeId}/settings/webhooks`, {
    name: /^Webhooks into/,
  })
}

async function setUp(page: Page, pipeId: string): Promise<void> {
  await open(page, pipeId)
  await page.getByRole('button', { name: /^GitHub/ }).click()
  await fieldOf(page, 'Secret').fill(secret)
  await page.getByRole('button', { name: 'Accept webhooks' }).click()
  await page.getByText('Waiting for the first event.').waitFor()
}

const rejected = (page: Page) => page.getByRole('table', { name: 'Rejected requests' })
const secrets = (page: Page) => page.getByRole('table', { name: 'Stored, each secret' }).locator('tbody tr')

for (const width of [1440, 768, 390])
  for (const colourScheme of ['light', 'dark'] as const)
    t.test(`providers, form and stored source, ${width} px wide, ${colourScheme}`, async (t) => {
      const pipeId = await daemon.createPipe({ pipe_name: `w${width}-${colourScheme}` })
      const { page, problems, close } = await dashboard.visit('admin', { width, colourScheme })
      const checked = async (what: string) => {
        t.same(await axeFindings(page), [], what)
        const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
        t.ok(Number(overflow) <= 0, `${what}: nothing beside the screen (${overflow} px)`)
        const folder = process.env.SCREENSHOTS
        const file = path.join(folder ?? '', `webhooks-${what}-${width}-${colourScheme}.png`)
        if (folder) await page.screenshot({ path: file, fullPage: true })
      }
      await open(page, pipeId)
      t.equal(await page.getByRole('button', { name: /^(Stripe|GitHub|Secret URL)/ }).count(), 3)
      await checked('providers')
      await page.getByRole('button', { name: /^Other HMAC signature/ }).click()
      await unfold(page, 'Advanced')
      await page.getByRole('button', { name: 'Accept webhooks' }).click()
      await errorAt(page, 'Signature header')
      await checked('errors')
      await page.getByRole('button', { name: 'Change provider' }).click()
      await page.getByRole('button', { name: /^GitHub/ }).click()
      await fieldOf(page, 'Secret').fill(secret)
      await checked('form')
      await page.getByRole('button', { name: 'Accept webhooks' }).click()
      await page.getByText('Waiting for the first event.').waitFor()
      await checked('waiting')
      t.equal(await sendEvent(pipeId, 'another secret'), 401)
      t.equal(await sendEvent(pipeId), 202)
      await page.getByText(/^The first event arrived at /).waitFor()
      await rejected(page).getByText('wrong signature').waitFor()
      await page.locator('main').focus()
      await checked('arrived')
      t.same(problems, [])
      await close()
    })

t.test('with the keyboard alone: from the pipe to the first event, and to it in Messages', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'events' })
  const { page, context, problems, close } = await dashboard.visit('admin')
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/settings`)
  await page.getByRole('heading', { name: 'Webhooks in', exact: true }).waitFor()
  await press(page, 'Set up webhooks')
  await page.getByRole('button', { name: /^GitHub/ }).waitFor()
  await page.locator('main').focus()
  await tabTo(page, 'GitHubWebhooks of a repository, an organization or an app.')
  await page.keyboard.press('Enter')
  await fieldOf(page, 'Secret').waitFor()
  await page.locator('main').focus()
  await press(page, 'Copy: Address to enter at GitHub')
  t.equal(await page.evaluate('navigator.clipboard.readText()'), addressOf(pipeId))
  await typeInto(page, 'Secret', secret)
  t.equal(
    await fieldOf(page, 'Headers to keep').inputValue(),
    'x-github-event',
    'the body does not name the event',
  )
  await typeInto(page, 'Headers to keep', 'X-GitHub-Event\nUser-Agent')
  await tabTo(page, 'Keep the raw bodyThe body exactly as it was sent, as text under the key raw_body')
  await page.keyboard.press('Space')
  await press(page, 'Accept webhooks')
  await page.getByText('Waiting for the first event.').waitFor()
  await isHidden(t, page, secret)
  t.equal(await sendEvent(pipeId), 202)
  await page.getByText(/^The first event arrived at /).waitFor()
  await page.locator('main').focus()
  await press(page, 'Show in Messages')
  await page.getByRole('table', { name: 'Messages' }).getByText('"action":"opened"').waitFor()
  const { body } = await daemon.api<{ messages: { msg_id: string }[] }>('GET', `/v1/pipes/${pipeId}/messages`)
  t.equal(body.messages.length, 1)
  const record = await daemon.api('GET', `/v1/messages/${body.messages[0]?.msg_id}`)
  t.match(record.text, /"x-github-event":"pull_request"/)
  t.match(record.text, /raw_body/)
  t.same(problems, [])
  await close()
})

t.test('a secret is rotated without a gap, by the keyboard', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'rotated' })
  const { page, problems, close } = await dashboard.visit('admin')
  await setUp(page, pipeId)
  t.equal(await page.getByRole('button', { name: /^Remove the secret/ }).count(), 0, 'the only one stays')
  await page.locator('main').focus()
  await typeInto(page, 'Another secret', 'the next secret')
  await page.keyboard.press('Enter')
  await until('there are two', async () => (await secrets(page).count()) === 2)
  t.equal(await fieldOf(page, 'Another secret').inputValue(), '')
  await isHidden(t, page, 'the next secret')
  for (const key of [secret, 'the next secret']) t.equal(await sendEvent(pipeId, key), 202, key)

  await secrets(page).first().getByRole('button').focus()
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog', { name: /^Remove the secret of/ })
  await dialog.waitFor()
  t.same(await axeFindings(page), [])
  await press(page, 'Remove the secret')
  await dialog.waitFor({ state: 'detached' })
  await until('there is one', async () => (await secrets(page).count()) === 1)
  t.equal(await sendEvent(pipeId), 401)
  t.equal(await sendEvent(pipeId, 'the next secret'), 202)
  await rejected(page).getByText('wrong signature').waitFor()
  t.same(problems, [])
  await close()
})

t.test('a secret address is shown once, and replaced by another one', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'unsigned' })
  const { page, problems, close } = await dashboard.visit('admin', { width: 390 })
  const shown = page.getByRole('dialog', { name: 'Copy the address now' })
  const copied = async () => {
    const address = await shown.locator('pre').innerText()
    t.same(await axeFindings(page), [])
    await page.keyboard.press('Escape')
    t.equal(await shown.count(), 1, 'only a press on the button closes it')
    await shown.getByRole('button', { name: 'I have copied it' }).click()
    await shown.waitFor({ state: 'detached' })
    await isHidden(t, page, address.split('/').at(-1) ?? '')
    return address
  }
  await open(page, pipeId)
  await page.getByRole('button', { name: /^Secret URL/ }).click()
  await page.getByRole('button', { name: 'Accept webhooks' }).click()
  const first = await copied()
  t.match(first, new RegExp(`^${addressOf(pipeId)}/[A-Za-z0-9_-]{43}$`))
  t.equal(await send(first, {}), 202)
  t.equal(await send(addressOf(pipeId), {}), 404)
  await page.getByRole('button', { name: 'Make a new address' }).click()
  const second = await copied()
  t.equal(await send(second, {}), 202)
  const addresses = page.getByRole('table', { name: 'Stored, each address' }).locator('tbody tr')
  await until('there are two', async () => (await addresses.count()) === 2)
  await addresses.first().getByRole('button').click()
  await page.getByRole('button', { name: 'Remove the address', exact: true }).click()
  await until('there is one', async () => (await addresses.count()) === 1)
  t.equal(await send(first, {}), 404)
  t.equal(await send(second, {}), 202)
  t.same(problems, [])
  await close()
})

t.test(
  'settings are changed, errors are at their fields, another provider replaces the first one',
  async (t) => {
    const pipeId = await daemon.createPipe({ pipe_name: 'changed' })
    const { page, problems, close } = await dashboard.visit('admin')
    await open(page, pipeId)
    await page.getByRole('button', { name: /^Other HMAC signature/ }).click()
    await page.getByRole('button', { name: 'Accept webhooks' }).click()
    t.match(await errorAt(page, 'Signature header'), /required/)
    await fieldOf(page, 'Signature header').fill('x-signature')
    await page.getByRole('button', { name: 'Accept webhooks' }).click()
    t.match(await errorAt(page, 'Secret'), /required/)
    await fieldOf(page, 'Secret').fill(secret)
    await fieldOf(page, 'Headers to keep').fill('Cookie')
    await page.getByRole('button', { name: 'Accept webhooks' }).click()
    t.match(await errorAt(page, 'Headers to keep'), /credential/)
    await fieldOf(page, 'Headers to keep').fill('')
    await page.getByRole('button', { name: 'Accept webhooks' }).click()
    await page.getByText('Waiting for the first event.').waitFor()

    const source = async () => {
      const { body } = await daemon.api<{ pipe: { pipe_source: Record<string, unknown> | null } }>(
        'GET',
        `/v1/pipes/${pipeId}`,
      )
      return body.pipe.pipe_source
    }
    const save = page.getByRole('button', { name: 'Save', exact: true })
    t.ok(await save.isDisabled(), 'nothing has changed')
    await fieldOf(page, 'Prefix').fill('v1=')
    await fieldOf(page, 'Delivery id header').fill('x-id')
    const words = 'pipes update changed --source hmac --source-set prefix=v1= --source-set id_header=x-id'
    t.match(await page.locator('details', { hasText: 'Copy as CLI' }).first().textContent(), words)
    await save.click()
    await until('it is stored', async () => (await source())?.prefix === 'v1=')
    await fieldOf(page, 'Delivery id header').fill('')
    await save.click()
    await until('it is reset', async () => !(await source())?.id_header)
    t.match(await source(), { type: 'hmac', header: 'x-signature', prefix: 'v1=', secrets: [{}] })

    await page.getByRole('button', { name: 'Change provider' }).click()
    await page.getByRole('button', { name: 'Keep Other HMAC signature' }).click()
    await page.getByRole('button', { name: 'Change provider' }).click()
    await page.getByRole('button', { name: /^Stripe/ }).click()
    await page.getByText('webhooks of Other HMAC signature are rejected').waitFor()
    await fieldOf(page, 'Signing secret').fill('whsec_0123456789')
    await page.getByRole('button', { name: 'Accept webhooks' }).click()
    await until('it is replaced', async () => (await source())?.type === 'stripe')
    await page.getByRole('button', { name: 'Stop webhooks …' }).click()
    await page.getByRole('button', { name: 'Stop webhooks', exact: true }).click()
    await page.getByRole('button', { name: /^Stripe/ }).waitFor()
    t.equal(await source(), null)
    t.same(problems, [])
    await close()
  },
)

t.test('a secret address is shown although the page knew the source before the response', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'late' })
  const { page, problems, close } = await dashboard.visit('admin')
  await open(page, pipeId)
  await page.getByRole('button', { name: /^Secret URL/ }).click()
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  await page.route(`**/v1/pipes/${pipeId}`, async (route) => {
    if (route.request().method() !== 'PATCH') return await route.continue()
    const response = await route.fetch()
    await released
    await route.fulfill({ response })
  })
  await page.getByRole('button', { name: 'Accept webhooks' }).click()
  await until('it is stored', async () => {
    const { body } = await daemon.api<{ pipe: { pipe_source: unknown } }>('GET', `/v1/pipes/${pipeId}`)
    return body.pipe.pipe_source !== null
  })
  await daemon.api('PATCH', `/v1/pipes/${pipeId}`, { pipe_status: 'paused' })
  await page.getByRole('button', { name: 'Stop webhooks …' }).waitFor()
  release()
  const shown = page.getByRole('dialog', { name: 'Copy the address now' })
  await shown.getByRole('button', { name: 'I have copied it' }).click()
  await page.getByRole('button', { name: 'Stop webhooks …' }).click()
  await page.getByRole('button', { name: 'Stop webhooks', exact: true }).click()
  await page.getByRole('button', { name: /^Stripe/ }).waitFor()
  t.same(problems, [])
  await close()
})

t.test('a viewer sees the source and can change nothing', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'watched' })
  const { page, problems, close } = await dashboard.visit('viewer')
  await open(page, pipeId)
  await page.getByText('Only admins can set up webhooks.').waitFor()
  t.ok(await page.getByRole('button', { name: /^Stripe/ }).isDisabled())
  t.same(await axeFindings(page), [])
  await daemon.api('PATCH', `/v1/pipes/${pipeId}`, {
    pipe_source: { type: 'github', secrets: [secret, 'other'] },
  })
  await open(page, pipeId)
  await page.getByText('Waiting for the first event.').waitFor()
  for (const name of ['Change provider', 'Stop webhooks …'])
    t.ok(await page.getByRole('button', { name }).isDisabled(), name)
  t.ok(await secrets(page).first().getByRole('button').isDisabled())
  t.same(problems, [])
  await close()
})
