/** Signing in, the setup link, roles, and a session that ends while somebody fills in a form. */
import t from 'tap'
import { openDashboard, password, signIn } from '../support/dashboard.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
t.teardown(() => dashboard.close())

t.test('a wrong password is said as the API says it; the right one opens the page asked for', async (t) => {
  const { page, problems, close } = await dashboard.visit(null)
  await page.goto(`${daemon.url}/dashboard/keys`)
  await page.getByLabel('E-mail').fill('admin@example.com')
  await page.getByLabel('Password').fill('not the password')
  await page.getByRole('button', { name: 'Sign in' }).click()
  t.match(await page.getByRole('alert').innerText(), /password/i)
  await signIn(page, 'admin@example.com')
  await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor()
  t.same(problems, [])
  await close()
})

t.test('a visit has one response that is an error: that nobody is signed in', async (t) => {
  const { page, problems, close } = await dashboard.visit(null)
  await page.getByRole('button', { name: 'Sign in' }).waitFor()
  const failed: string[] = []
  page.on('response', (response) => {
    if (response.status() >= 400) failed.push(`${response.status()} ${new URL(response.url()).pathname}`)
  })
  await page.goto(`${daemon.url}/dashboard/`)
  await signIn(page, 'admin@example.com')
  for (const name of ['Pipes', 'Messages', 'API keys', 'Users', 'Audit', 'Alerts', 'Service']) {
    await page.getByRole('link', { name, exact: true }).first().click()
    await page.getByRole('heading', { level: 1 }).getByText(name).waitFor()
  }
  t.same(failed, ['401 /dashboard/api/v1/session'])
  t.same(problems, [])
  await close()
})

t.test('signing out ends the session and shows nothing any more', async (t) => {
  const { page, context, close } = await dashboard.visit('admin')
  await page.getByRole('button', { name: 'Account of admin@example.com' }).click()
  await page.getByRole('menuitem', { name: 'Sign out' }).click()
  await page.getByRole('button', { name: 'Sign in' }).waitFor()
  // The cookie of a known browser stays. It gives no access.
  t.same(
    (await context.cookies()).map(({ name }) => name),
    ['pipectl-browser'],
  )
  await page.goto(`${daemon.url}/dashboard/`)
  await page.getByRole('button', { name: 'Sign in' }).waitFor()
  await close()
})

t.test('a setup link makes an account once', async (t) => {
  const link = await daemon.api<{ setup_path: string }>('POST', '/v1/setup-links', { user_role: 'viewer' })
  const { page, problems, close } = await dashboard.visit(null)
  const open = async () => {
    // Another fragment of the same address would not load it again.
    await page.goto('about:blank')
    await page.goto(`${daemon.url}${link.body.setup_path}`)
    await page.getByLabel('E-mail').fill('new@example.com')
    await page.getByLabel('Password').fill(password)
    await page.getByRole('button', { name: 'Create my account' }).click()
  }
  await open()
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
  await open()
  t.match(await page.getByRole('alert').innerText(), /link/i, 'the second time it says why not')
  t.same(
    problems.filter((one) => !one.includes('about:blank')),
    [],
  )
  await close()
})

t.test('a viewer sees everything and can change nothing', async (t) => {
  const pipe = await daemon.createPipe({ pipe_name: 'seen-by-viewers' })
  const id = await daemon.createDestination(pipe, {
    ...{ destination_type: 'destination_pull', destination_config: {} },
  })
  const { page, close } = await dashboard.visit('viewer')
  const places = [
    `/pipes/${pipe}`,
    `/pipes/${pipe}/settings`,
    `/pipes/${pipe}/destinations/${id}`,
    '/keys',
    '/users',
  ]
  const changes = /^(Pause|Delete pipe|Set limits|Allow|Save|Rewind|Block|Delete|New key|New user|Invite)/
  for (const place of places) {
    await page.goto(`${daemon.url}/dashboard${place}`)
    const buttons = page.getByRole('button', { name: changes })
    await buttons.first().waitFor()
    for (const button of await buttons.all())
      t.ok(await button.isDisabled(), `${place} ${await button.innerText()}`)
  }
  await page.goto(`${daemon.url}/dashboard/pipes`)
  await page.getByRole('link', { name: 'seen-by-viewers' }).waitFor()
  t.equal(await page.getByRole('link', { name: 'New pipe' }).count(), 0)
  await close()

  const admin = await dashboard.visit('admin')
  await admin.page.goto(`${daemon.url}/dashboard/pipes/${pipe}`)
  t.ok(
    await admin.page.getByRole('button', { name: 'Pause' }).isEnabled(),
    'an admin can, or this proves nothing',
  )
  await admin.close()
})

t.test('a session that ends in the middle of a form costs nothing of it', async (t) => {
  const { page, context, problems, close } = await dashboard.visit('admin')
  await page.getByRole('link', { name: 'New pipe' }).click()
  await page.getByLabel('Name').fill('kept-over-sign-in')
  await page.getByLabel('Description').fill('typed before the session ended')
  await context.clearCookies()
  await page.getByRole('dialog', { name: 'Your session has ended' }).waitFor()
  await signIn(page, 'admin@example.com')
  t.equal(await page.getByLabel('Description').inputValue(), 'typed before the session ended')
  await page.getByRole('button', { name: 'Create pipe' }).click()
  await page.getByRole('heading', { name: 'kept-over-sign-in', level: 1 }).waitFor()
  t.same(problems, [])
  await close()
})

t.test('signing in again in another tab does not stop a change in this one', async (t) => {
  const { page, context, close } = await dashboard.visit('admin')
  await page.getByRole('link', { name: 'New pipe' }).click()
  await page.getByLabel('Name').fill('made-with-another-token')
  // So that this tab hears nothing of what the other one does.
  await page.route('**/v1/overview*', (route) => route.abort())
  const other = await context.newPage()
  await other.goto(`${daemon.url}/dashboard/`)
  await other.getByRole('button', { name: 'Account of admin@example.com' }).click()
  await other.getByRole('menuitem', { name: 'Sign out' }).click()
  await signIn(other, 'admin@example.com')
  await page.getByRole('button', { name: 'Create pipe' }).click()
  await page.getByRole('heading', { name: 'made-with-another-token', level: 1 }).waitFor()
  t.pass('the token was fetched and the change sent again')
  await close()
})

t.test(
  'a new password: a wrong one is said at its field, the other sessions end, this one goes on',
  async (t) => {
    const email = 'dora@example.com'
    const made = { user_email: email, user_role: 'viewer', password }
    t.equal((await daemon.api('POST', '/v1/users', made)).status, 201)
    const here = await dashboard.visit(null)
    const elsewhere = await dashboard.visit(null)
    for (const { page } of [here, elsewhere]) await signIn(page, email)
    const { page, problems } = here
    await page.getByRole('button', { name: `Account of ${email}` }).click()
    await page.getByRole('menuitem', { name: /password/i }).click()
    const dialog = page.getByRole('dialog', { name: 'Change your password' })
    t.match(
      await dialog.locator('details', { hasText: 'Copy as CLI' }).textContent(),
      /pipectl users password dora@example.com/,
    )
    await dialog.getByLabel('Current password').fill('not this one')
    await dialog.getByLabel('New password').fill('another sentence')
    await dialog.getByRole('button', { name: 'Change password' }).click()
    await dialog.locator('[aria-invalid="true"]').waitFor()
    t.equal(await dialog.getByLabel('New password').inputValue(), 'another sentence', 'nothing typed is lost')
    await dialog.getByLabel('Current password').fill(password)
    await dialog.getByRole('button', { name: 'Change password' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('link', { name: 'Pipes', exact: true }).click()
    await page.getByRole('heading', { name: 'Pipes', level: 1 }).waitFor()
    await elsewhere.page.reload()
    await signIn(elsewhere.page, email, 'another sentence')
    t.same(problems, [])
    await here.close()
    await elsewhere.close()
  },
)
