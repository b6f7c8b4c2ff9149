/**
 * Getting in on the real daemon: TLS in front, guessed passwords, setup links, sessions that other people's changes end,
 * hostile requests, the files of the application. docs/dev/contract.md#sign-in-for-people.
 */
import assert from 'node:assert/strict'
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { resourceLimits } from '../../src/contract/resource-limits.ts'
import { Browser, password } from '../support/browser.ts'
import { call, startDaemon } from '../support/daemon.ts'

const daemon = await startDaemon({
  env: { PIPECTL_PUBLIC_URL: 'https://pipes.example.com', PIPECTL_TRUSTED_PROXIES: '127.0.0.1' },
})
t.teardown(() => daemon.close())

async function newUser(user_email: string, user_role = 'admin'): Promise<string> {
  const body = { user_email, user_role, password }
  const answer = await daemon.api<{ user: { user_id: string } }>('POST', '/v1/users', body)
  assert.equal(answer.status, 201, answer.text)
  return answer.body.user.user_id
}
await newUser('ada@example.com')
const bobId = await newUser('bob@example.com', 'viewer')

t.test('under the host of public_url: a Secure __Host- cookie and HSTS; on loopback neither', async (t) => {
  const behindProxy = { host: 'pipes.example.com', 'x-forwarded-for': '192.0.2.7' }
  const browser = new Browser(daemon.url, { origin: 'https://pipes.example.com', headers: behindProxy })
  const answer = await browser.api('POST', '/v1/session', { email: 'ada@example.com', password })
  t.match(answer.headers['set-cookie'], [
    /^__Host-pipectl=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Secure$/,
    /^__Host-pipectl-browser=[\w-]{22}\.[\w-]{43}; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict; Secure$/,
  ])
  t.equal(answer.headers['strict-transport-security'], 'max-age=31536000')
  t.equal((await browser.api('GET', '/v1/session')).status, 200)
  const plain = String(browser.cookie).replace('__Host-', '')
  t.equal((await browser.api('GET', '/v1/session', undefined, { cookie: plain })).status, 401)

  const local = new Browser(daemon.url)
  const given = await local.api('POST', '/v1/session', { email: 'ada@example.com', password })
  t.match(given.headers['set-cookie'], [
    /^pipectl=/,
    /^pipectl-browser=[^;]*; Path=\/; Max-Age=\d+; HttpOnly/,
  ])
  t.equal(given.headers['strict-transport-security'], undefined)
})

t.test('what a trusted proxy says of TLS is believed, the last word of several', async (t) => {
  const get = (proto: string) => call('GET', `${daemon.url}/dashboard`, { 'x-forwarded-proto': proto })
  t.ok((await get('https')).headers['strict-transport-security'])
  t.ok((await get('http, https')).headers['strict-transport-security'])
  t.notOk((await get('https, http')).headers['strict-transport-security'])
})

t.test('every response has the headers that keep other pages out', async (t) => {
  const answers = [
    await call('GET', `${daemon.url}/dashboard`, {}),
    await call('GET', `${daemon.url}/dashboard/pipes/x`, {}),
    await call('GET', `${daemon.url}/dashboard/api/v1/session`, {}),
    await call('GET', `${daemon.url}/dashboard/api/v1/nothing`, {}),
    await call('GET', `${daemon.url}/dashboard`, { host: 'evil.example' }),
  ]
  for (const { headers } of answers) {
    const policy = String(headers['content-security-policy'])
    for (const part of [
      "default-src 'self'",
      "frame-ancestors 'none'",
      "base-uri 'none'",
      "form-action 'self'",
    ])
      t.ok(policy.includes(part), part)
    t.notMatch(policy, /unsafe|data:|\*/)
    t.match(headers, {
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
    })
  }
})

t.test('a change of password or role, and a deletion, sign the user out everywhere', async (t) => {
  const changes: [string, () => Promise<{ status: number }>][] = [
    ['password', () => daemon.api('PATCH', `/v1/users/${bobId}`, { password })],
    ['role', () => daemon.api('PATCH', `/v1/users/${bobId}`, { user_role: 'admin' })],
    ['deletion', () => daemon.api('DELETE', `/v1/users/${bobId}`)],
  ]
  for (const [what, change] of changes) {
    const bob = await new Browser(daemon.url).signIn('bob@example.com')
    t.ok([200, 204].includes((await change()).status))
    t.match(await bob.api('GET', '/v1/session'), { status: 401, body: { error: 'session_required' } }, what)
  }
})

t.test(
  'of the own password: the present one is asked for; this browser goes on with another session',
  async (t) => {
    await newUser('eve@example.com', 'viewer')
    const eve = await new Browser(daemon.url).signIn('eve@example.com')
    const elsewhere = await new Browser(daemon.url).signIn('eve@example.com')
    const change = (current_password: string) =>
      eve.api('PUT', '/v1/session/password', { current_password, password: 'a quite different one' })
    t.match(await change('a wrong guess'), {
      status: 400,
      body: { error: 'validation_error', errors: { current_password: 'This is not your current password.' } },
    })
    t.equal((await elsewhere.api('GET', '/v1/session')).status, 200, 'control: nothing has changed')
    const before = eve.cookie
    t.equal((await change(password)).status, 204)
    t.not(eve.cookie, before)
    t.equal((await eve.api('GET', '/v1/session')).status, 200)
    t.equal((await elsewhere.api('GET', '/v1/session')).status, 401)
    await new Browser(daemon.url).signIn('eve@example.com', 'a quite different one')
  },
)

t.test('a setup link works once and in time', async (t) => {
  const link = async () => {
    const { body } = await daemon.api<{ setup_path: string }>('POST', '/v1/setup-links', {
      user_role: 'admin',
    })
    return body.setup_path.split('#')[1]
  }
  const invalid = { status: 410, body: { error: 'setup_link_invalid' } }
  const setUp = (token: unknown, email: string) =>
    new Browser(daemon.url).api('POST', '/v1/setup', { token, email, password })
  const token = await link()
  t.match(await setUp(token, 'ada@example.com'), { status: 409, body: { error: 'duplicate_user_email' } })
  t.match(await setUp(token, 'new@example.com'), { status: 204 }, 'what failed has not used it up')
  t.match(await setUp(token, 'another@example.com'), invalid, 'twice')
  for (const never of ['x', 'A'.repeat(43), '../../setup'])
    t.match(await setUp(never, 'x@example.com'), invalid)
  const late = await link()
  const file = new Database(path.join(daemon.dataDir, 'metadata.db'), { timeout: 10_000 })
  file.prepare('UPDATE setup_tokens SET setup_expires_ms = ?').run(Date.now() - 1)
  file.close()
  t.match(await setUp(late, 'late@example.com'), invalid, 'expired')
  const { body } = await daemon.api<{ users: { user_email: string }[] }>('GET', '/v1/users')
  const emails = body.users.map(({ user_email }) => user_email)
  t.ok(emails.includes('new@example.com'))
  t.notOk(emails.some((one) => /another|late|^x@/.test(one)))
})

t.test('hostile bodies and cookies are refused, and take nobody down', async (t) => {
  const browser = new Browser(daemon.url)
  const bodies: [unknown, number][] = [
    ['', 400],
    ['not JSON', 400],
    ['[]', 400],
    ['{"email":"ada@example.com"}', 400],
    [{ email: { $ne: null }, password: { $ne: null } }, 400],
    [{ email: 'ada@example.com', password: 'x'.repeat(1_001) }, 400],
    [{ email: 'a'.repeat(255), password }, 400],
    [{ email: 'ada@example.com', password, user_role: 'admin' }, 400],
    [`{"email":"ada@example.com","password":"${'x'.repeat(1_200_000)}"}`, 413],
    [{ email: "' OR 1=1 --", password }, 401],
    [{ email: '__proto__', password }, 401],
    [{ email: 'ada@example.com\u0000', password }, 401],
  ]
  for (const [body, status] of bodies)
    t.equal(
      (await browser.api('POST', '/v1/session', body)).status,
      status,
      JSON.stringify(body).slice(0, 60),
    )
  const form = { 'content-type': 'text/plain' }
  t.equal((await browser.api('POST', '/v1/session', '{"email":"ada@example.com"}', form)).status, 400)
  for (const cookie of [
    'pipectl=',
    'pipectl',
    'pipectl=x',
    `pipectl=${'A'.repeat(43)}`,
    `pipectl=${'x'.repeat(4_000)}`,
    '; ;=;',
  ])
    t.equal((await browser.api('GET', '/v1/session', undefined, { cookie })).status, 401, cookie.slice(0, 30))
})

t.test('one session has so many requests at once; others are not held up', async (t) => {
  const ada = await new Browser(daemon.url).signIn('ada@example.com')
  const other = await new Browser(daemon.url).signIn('ada@example.com')
  const many = resourceLimits.sessionRequestsAtOnce + 100
  const answers = await Promise.all(Array.from({ length: many }, () => ada.api('GET', '/v1/session')))
  const refused = answers.filter(({ status }) => status !== 200)
  t.ok(refused.length > 0)
  for (const answer of refused)
    t.match(answer, { status: 429, body: { error: 'too_many_requests' }, headers: { 'retry-after': '1' } })
  t.equal((await other.api('GET', '/v1/session')).status, 200)
})

t.test('passwords cannot be guessed for long: known and unknown accounts get the same answers', async (t) => {
  await newUser('guessed@example.com')
  const known = await new Browser(daemon.url, { headers: { 'x-forwarded-for': '192.0.2.20' } }).signIn(
    'guessed@example.com',
  )
  const { signInsPerAccount } = resourceLimits
  const texts: string[] = []
  for (const [email, address] of [
    ['guessed@example.com', '192.0.2.20'],
    ['nobody@example.com', '192.0.2.21'],
  ] as const) {
    const attempt = (given: string, from: string = address) =>
      new Browser(daemon.url, { headers: { 'x-forwarded-for': from } }).api('POST', '/v1/session', {
        email,
        password: given,
      })
    const guesses = Array.from({ length: signInsPerAccount }, (_, n) => attempt(`a wrong guess ${n}`))
    for (const answer of await Promise.all(guesses)) {
      t.match(answer, { status: 401, body: { error: 'sign_in_failed' } })
      texts.push(answer.text)
    }
    const limited = await attempt(password)
    t.match(limited, { status: 429, body: { error: 'too_many_attempts' } }, 'the right one neither')
    t.ok(Number(limited.headers['retry-after']) > 60)
    texts.push(limited.text)
  }
  t.equal(new Set(texts).size, 2, 'one text for each of the two answers')
  await new Browser(daemon.url, { headers: { 'x-forwarded-for': '192.0.2.99' } }).signIn(
    'guessed@example.com',
  )
  t.equal((await known.api('DELETE', '/v1/session')).status, 204)
  await known.signIn('guessed@example.com')
  t.pass('a browser that has signed in before gets in from the address that is locked out')
  await new Browser(daemon.url, { headers: { 'x-forwarded-for': '192.0.2.20' } }).signIn('ada@example.com')
})
