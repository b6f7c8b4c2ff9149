/** `pipectl users …`, through the API and on the data directory of the same daemon while it runs. */
import t from 'tap'
import { Browser, password } from '../../support/browser.ts'
import { cliEnv, homeEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { call, startDaemon } from '../../support/daemon.ts'

const home = makeHome()
t.teardown(() => removeHome(home))
const daemon = await startDaemon()
t.teardown(() => daemon.close())

const overApi = (args: string[], input?: string) =>
  runCli(['users', ...args], { env: cliEnv(daemon, home), input })
const onDirectory = (args: string[], input?: string) =>
  runCli(['users', ...args, '--data-dir', daemon.dataDir], { env: homeEnv(home), input })

for (const [where, users, email] of [
  ['through the API', overApi, 'ada@example.com'],
  ['on the data directory, without a key', onDirectory, 'bob@example.com'],
] as const) {
  t.test(`${where}: create, list, password, role, delete`, async (t) => {
    const spare = `spare-${email}`
    t.equal(
      (await users(['create', spare], password)).code,
      0,
      'another admin, so that the user is not the last',
    )
    const made = await users(
      ['create', email.toUpperCase(), '--role', 'admin', '-o', 'json'],
      `${password}\n`,
    )
    t.equal(made.code, 0, made.stderr)
    t.match(JSON.parse(made.stdout), { user: { user_email: email, user_role: 'admin' } })
    const browser = await new Browser(daemon.url).signIn(email)
    const listed = await users(['list', '-o', 'name'])
    t.ok(listed.stdout.split('\n').includes(email))
    t.notMatch((await users(['list', '-o', 'json'])).stdout, /scrypt|hash/)

    const changed = await users(['password', email], 'another good password')
    t.equal(changed.code, 0, changed.stderr)
    t.equal((await browser.api('GET', '/v1/session')).status, 401, 'the running daemon knows at once')
    const again = await new Browser(daemon.url).signIn(email, 'another good password')

    t.match(await users(['role', email, 'owner']), { code: 2, stderr: /user_role/ })
    t.equal((await again.api('GET', '/v1/session')).status, 200, 'control: nothing was changed')
    const demoted = await users(['role', email, 'viewer'])
    t.match(demoted, { code: 0, stderr: /is viewer now/ })
    t.equal((await again.api('GET', '/v1/session')).status, 401, 'another role is another session')
    const viewer = await new Browser(daemon.url).signIn(email, 'another good password')
    t.match(await viewer.api('GET', '/v1/session'), { body: { user: { user_role: 'viewer' } } })
    t.match(await users(['role', `no-${email}`, 'viewer']), { code: 3, stderr: /there is no user/ })

    t.match((await users(['role', email.replace('.', '_'), 'viewer'])).stderr, `did you mean "${email}"?`)
    t.equal((await users(['delete', email])).code, 2, 'nobody can be asked')
    t.equal((await users(['delete', email, '--yes'])).code, 0)
    t.match(await users(['delete', email, '--yes']), { code: 3, stderr: /there is no user/ })
    t.equal((await new Browser(daemon.url).api('POST', '/v1/session', { email, password })).status, 401)
  })

  t.test(`${where}: a setup link makes one account of its role`, async (t) => {
    const made = await users(['setup-link', '--role', 'viewer', '-o', 'json'])
    t.equal(made.code, 0, made.stderr)
    const { setup_url } = JSON.parse(made.stdout)
    const [page, token] = String(setup_url).split('#')
    t.match(page, /\/dashboard\/setup$/)
    const browser = new Browser(daemon.url)
    const invited = `invited-${email}`
    t.equal((await browser.api('POST', '/v1/setup', { token, email: invited, password })).status, 204)
    t.match(await browser.api('GET', '/v1/session'), {
      body: { user: { user_email: invited, user_role: 'viewer' } },
    })
  })

  t.test(`${where}: what is wrong is said, and nothing is made`, async (t) => {
    t.match(await users(['create', 'no address'], password), { code: 2, stderr: /e-mail address/ })
    t.match(await users(['create', 'x@example.com'], 'short'), { code: 2, stderr: /at least 10 characters/ })
    t.match(await users(['create', 'x@example.com', '--role', 'owner'], password), {
      code: 2,
      stderr: /role/,
    })
    const { stdout } = await users(['list', '-o', 'name'])
    t.notMatch(stdout, /x@example.com/)
  })
}

t.test('a workspace that is not there, and --workspace with a key', async (t) => {
  t.match(await onDirectory(['list', '--workspace', 'none']), {
    code: 3,
    stderr: /there is no workspace none/,
  })
  t.match(await overApi(['list', '--workspace', 'default']), { code: 2, stderr: /--data-dir/ })
  t.match(await overApi(['password', 'spare-ada@example.com', '--api-key-stdin'], daemon.apiKey), {
    code: 2,
    stderr: /both the API key and the password/,
  })
})

t.test('control: an answer of the API has no password hash either', async (t) => {
  const { text } = await call('GET', `${daemon.url}/v1/users`, { authorization: `Bearer ${daemon.apiKey}` })
  t.match(text, /spare-ada@example.com/)
  t.notMatch(text, /scrypt|hash/)
})
