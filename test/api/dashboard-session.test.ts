/** Signing in to the dashboard on the real daemon: sessions, forged requests, other names. docs/dev/contract.md#sign-in-for-people. */
import assert from 'node:assert/strict'
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { needsOf } from '../../src/contract/operation.ts'
import { operationTable } from '../../src/contract/operations.ts'
import { CurrentSession } from '../../src/contract/session.ts'
import { shapeFaults } from '../../src/contract/validate.ts'
import { hashToken } from '../../src/metadata/session-tokens.ts'
import { Browser, password } from '../support/browser.ts'
import { call, startDaemon } from '../support/daemon.ts'
import { unknownId } from './management-client.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())

async function newUser(user_email: string, user_role: 'admin' | 'viewer'): Promise<string> {
  const answer = await daemon.api<{ user: { user_id: string } }>('POST', '/v1/users', {
    ...{ user_email, user_role, password },
  })
  assert.equal(answer.status, 201, answer.text)
  return answer.body.user.user_id
}

/** The daemon's own file, changed as time would. */
function inMetadata(sql: string, ...values: unknown[]): void {
  const file = new Database(path.join(daemon.dataDir, 'metadata.db'), { timeout: 10_000 })
  file.prepare(sql).run(...values)
  file.close()
}

const hourMs = 3_600_000
await newUser('ada@example.com', 'admin')
await newUser('vic@example.com', 'viewer')
const ada = await new Browser(daemon.url).signIn('ada@example.com')
const vic = await new Browser(daemon.url).signIn('vic@example.com')

t.test(
  'the cookie: 256 bits, HttpOnly, SameSite=Strict, for the whole host, another with each sign-in',
  async (t) => {
    const browser = new Browser(daemon.url)
    const answer = await browser.api('POST', '/v1/session', { email: ' ADA@example.com', password })
    t.equal(answer.status, 204)
    t.match(
      answer.headers['set-cookie']?.[0],
      /^pipectl=[A-Za-z0-9_-]{43}; Path=\/; HttpOnly; SameSite=Strict$/,
      'a name with white space and capitals is the same account; on loopback without TLS there is no Secure',
    )
    t.not(browser.cookie, ada.cookie)
    const session = await browser.api('GET', '/v1/session')
    t.strictSame({ ...shapeFaults(CurrentSession, session.body) }, {})
    t.match(session.body, {
      user: { user_email: 'ada@example.com', user_role: 'admin' },
      data_url: daemon.url,
    })
    t.equal((await ada.api('GET', '/v1/session')).status, 200, 'the older session goes on')
  },
)

t.test('signing out ends this session at once, and no other', async (t) => {
  const browser = await new Browser(daemon.url).signIn('ada@example.com')
  const { cookie } = browser
  const answer = await browser.api('DELETE', '/v1/session')
  t.equal(answer.status, 204)
  t.match(String(answer.headers['set-cookie']), /^pipectl=; Max-Age=0; Path=\//)
  t.match(await browser.api('GET', '/v1/session', undefined, { cookie }), {
    status: 401,
    body: { error: 'session_required' },
  })
  t.equal((await ada.api('GET', '/v1/session')).status, 200)
})

t.test('what changes something needs the token of its session and a page of ours', async (t) => {
  const { csrfToken } = vic
  const own = { origin: daemon.url, 'x-csrf-token': ada.csrfToken }
  const port = new URL(daemon.url).port
  const cases: [string, Record<string, string | null>, number, string | undefined][] = [
    ['control: both', own, 400, 'validation_error'],
    ['Sec-Fetch-Site beside them', { ...own, 'sec-fetch-site': 'same-origin' }, 400, 'validation_error'],
    [
      'Sec-Fetch-Site instead of Origin',
      { ...own, origin: null, 'sec-fetch-site': 'same-origin' },
      400,
      'validation_error',
    ],
    ['no token', { ...own, 'x-csrf-token': null }, 403, 'csrf_token_invalid'],
    ['an empty token', { ...own, 'x-csrf-token': '' }, 403, 'csrf_token_invalid'],
    ["another session's token", { ...own, 'x-csrf-token': csrfToken }, 403, 'csrf_token_invalid'],
    ['a token of another length', { ...own, 'x-csrf-token': 'x' }, 403, 'csrf_token_invalid'],
    ['neither Origin nor Sec-Fetch-Site', { ...own, origin: null }, 403, 'origin_mismatch'],
    ['a foreign Origin', { ...own, origin: 'https://evil.example' }, 403, 'origin_mismatch'],
    ['Origin null', { ...own, origin: 'null' }, 403, 'origin_mismatch'],
    ['our host with TLS', { ...own, origin: `https://127.0.0.1:${port}` }, 403, 'origin_mismatch'],
    ['another port', { ...own, origin: 'http://127.0.0.1:1' }, 403, 'origin_mismatch'],
    ['another name of this host', { ...own, origin: `http://localhost:${port}` }, 403, 'origin_mismatch'],
    [
      'a name that begins like ours',
      { ...own, origin: `${daemon.url}.evil.example` },
      403,
      'origin_mismatch',
    ],
    ['another site', { ...own, 'sec-fetch-site': 'cross-site' }, 403, 'origin_mismatch'],
    ['another service of this host', { ...own, 'sec-fetch-site': 'same-site' }, 403, 'origin_mismatch'],
    ['no cookie', { ...own, cookie: null }, 401, 'session_required'],
    ['two cookies', { ...own, cookie: `${ada.cookie}; ${vic.cookie}` }, 401, 'session_required'],
    ['a cookie of the other kind', { ...own, cookie: `__Host-${ada.cookie}` }, 401, 'session_required'],
    [
      'the API key instead',
      { ...own, cookie: null, authorization: `Bearer ${daemon.apiKey}` },
      401,
      'session_required',
    ],
  ]
  for (const [what, headers, status, error] of cases) {
    t.match(await ada.api('POST', '/v1/pipes', {}, headers), { status, body: { error } }, what)
  }
  t.strictSame((await daemon.api('GET', '/v1/pipes')).body.pipes, [], 'nothing was made')
})

t.test('signing in, setting up and signing out are not for foreign pages either', async (t) => {
  const foreign = { origin: 'https://evil.example' }
  const body = { email: 'ada@example.com', password }
  for (const [method, where] of [
    ['POST', '/v1/session'],
    ['POST', '/v1/setup'],
    ['DELETE', '/v1/session'],
    ['PUT', '/v1/session/password'],
  ] as const) {
    const answer = await ada.api(method, where, method === 'DELETE' ? undefined : body, foreign)
    t.match(answer, { status: 403, body: { error: 'origin_mismatch' } }, `${method} ${where}`)
    t.equal(answer.headers['set-cookie'], undefined)
  }
})

t.test('/v1 never looks at cookies', async (t) => {
  const headers = { cookie: String(ada.cookie), 'x-csrf-token': ada.csrfToken, origin: daemon.url }
  for (const [method, body] of [
    ['GET', undefined],
    ['POST', '{"pipe_name":"x"}'],
  ] as const) {
    const answer = await call(method, `${daemon.url}/v1/pipes`, headers, body)
    t.match(answer, { status: 401, body: { error: 'unauthorized' } })
  }
})

t.test('names that are not ours get nothing (DNS rebinding)', async (t) => {
  const { port } = new URL(daemon.url)
  const get = (host: string) => ada.api('GET', '/v1/session', undefined, { host })
  for (const host of [
    'evil.example',
    `evil.example:${port}`,
    '10.0.0.1',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    '[::2]',
  ]) {
    t.match(await get(host), { status: 421, body: { error: 'host_not_allowed' } }, host)
  }
  for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, 'LOCALHOST', '127.0.0.1', `[::1]:${port}`])
    t.equal((await get(host)).status, 200, host)
  const page = await call('GET', `${daemon.url}/dashboard`, { host: 'evil.example' })
  t.match(page, { status: 421, body: { error: 'host_not_allowed' } })
})

t.test('a viewer may look and change nothing, whatever the operation', async (t) => {
  const ids = { pipe_id: unknownId, destination_id: unknownId, origin_id: unknownId, api_key_id: unknownId }
  const fill = (route: string) =>
    route.replace(/\{(\w+)\}/g, (_, name: string) => ids[name as keyof typeof ids] ?? unknownId)
  const walked = operationTable.filter(({ area }) => area === 'management' || area === 'health')
  t.ok(walked.length > 25)
  for (const operation of walked) {
    const { method, path: route } = operation
    const body = method === 'GET' || method === 'DELETE' ? undefined : {}
    const asViewer = await vic.api(method, fill(route), body)
    const asAdmin = await ada.api(method, fill(route), body)
    const what = `${method} ${route}`
    if (needsOf(operation) === 'manage')
      t.match(asViewer, { status: 403, body: { error: 'forbidden', message: /role admin/ } }, what)
    else t.equal(asViewer.status, asAdmin.status, what)
    t.notOk([401, 403].includes(asAdmin.status), `control: an admin may, ${what}`)
  }
})

t.test('ingest and pull are not served to sessions', async (t) => {
  for (const where of [`/v1/pull/${unknownId}`, `/v1/ingest/${unknownId}`, '/v1/nothing', '/v2'])
    t.match(await ada.api('GET', where), { status: 404, body: { error: 'not_found' } }, where)
})

t.test(
  'a session ends after 30 minutes without a request, and after 12 hours whatever happens',
  async (t) => {
    const columns = { session_last_used_ms: hourMs / 2, session_created_ms: 12 * hourMs }
    for (const [column, longestMs] of Object.entries(columns)) {
      const { cookie } = await new Browser(daemon.url).signIn('vic@example.com')
      const hash = hashToken(String(cookie).split('=')[1] ?? '')
      // Started again, since a process that has served the session knows itself when that was.
      const statusAtAge = async (ms: number) => {
        await daemon.stop()
        inMetadata(`UPDATE sessions SET ${column} = ? WHERE session_hash = ?`, Date.now() - ms, hash)
        await daemon.start()
        const browser = new Browser(daemon.url)
        browser.cookie = cookie
        return (await browser.api('GET', '/v1/session')).status
      }
      t.equal(await statusAtAge(longestMs - 60_000), 200, `control: ${column}`)
      t.equal(await statusAtAge(longestMs), 401, column)
      t.equal(await statusAtAge(0), 401, 'it is gone for good')
    }
  },
)
