/** People over HTTP with an API key, on the real daemon. docs/dev/contract.md#sign-in-for-people. */
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { resourceLimits } from '../../src/contract/resource-limits.ts'
import { Browser, password } from '../support/browser.ts'
import { createWorkspace } from '../support/daemon.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { checkedApi, errorsIn, unknownId } from './management-client.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)

const admin = { user_email: 'ada@example.com', user_role: 'admin', password }
const idOf = (answer: { body: Record<string, unknown> }) => String(Object(answer.body.user).user_id)
const adminId = idOf(await api('POST', '/v1/users', admin))

t.test('no workspace finds out or occupies the addresses of another', async (t) => {
  const other = await createWorkspace(daemon.dataDir, 'other')
  const inOther = { key: other.api_key }
  const again = { ...admin, user_email: 'ADA@Example.com' }
  t.match(await api('POST', '/v1/users', again), { status: 409, body: { error: 'duplicate_user_email' } })
  const theirs = 'a password of the other'
  const known = await api('POST', '/v1/users', { ...again, password: theirs }, inOther)
  const fresh = await api('POST', '/v1/users', { ...again, user_email: 'new@example.com' }, inOther)
  t.equal(known.status, 201)
  const shape = ({ text }: { text: string }) =>
    text.replace(/new@|ada@/, '').replace(/[\da-f]{8}-[\da-f-]{27}|\d{4}-\d\d-[\dT:.Z-]+/g, '')
  t.equal(shape(known), shape(fresh), 'the response is that of a new address')
  const workspaceOf = async (given: string) => {
    const browser = await new Browser(daemon.url).signIn('ada@example.com', given)
    const session = await browser.api<{ workspace: { workspace_name: string } }>('GET', '/v1/session')
    return session.body.workspace.workspace_name
  }
  t.equal(await workspaceOf(theirs), 'other')
  t.not(await workspaceOf(password), 'other', 'the password decides')
  const ids = [idOf(known), idOf(fresh)]
  await api('PATCH', `/v1/users/${ids[0]}`, { password: 'changed by its admin' }, inOther)
  t.equal(await workspaceOf('changed by its admin'), 'other')
  t.not(await workspaceOf(password), 'other')
  for (const [method, body] of [
    ['PATCH', { user_role: 'viewer' }],
    ['DELETE', undefined],
  ] as const) {
    const answer = await api(method, `/v1/users/${adminId}`, body, { key: other.api_key })
    t.match(answer, { status: 404, body: { error: 'user_not_found' } })
  }
})

t.test('what is wrong with a user is said field by field', async (t) => {
  const wrong: [Record<string, unknown>, string][] = [
    [{ user_email: 'ada' }, 'user_email'],
    [{ user_email: 'ada@example.com\n' }, 'user_email'],
    [{ user_email: 'ada@exämple.com' }, 'user_email'],
    [{ user_email: 'a b@example.com' }, 'user_email'],
    [{ user_email: `${'a'.repeat(65)}@example.com` }, 'user_email'],
    [{ user_email: `a@${'b'.repeat(260)}` }, 'user_email'],
    [{ user_email: ['x@example.com'] }, 'user_email'],
    [{ password: 'nine char' }, 'password'],
    [{ password: 'p'.repeat(1_001) }, 'password'],
    [{ password: null }, 'password'],
    [{ password: '\ud800 lone surrogate' }, 'password'],
    [{ user_role: 'owner' }, 'user_role'],
    [{ user_id: unknownId }, 'user_id'],
  ]
  for (const [change, field] of wrong) {
    const answer = await api('POST', '/v1/users', { ...admin, user_email: 'new@example.com', ...change })
    t.same(Object.keys(errorsIn(answer)), [field], JSON.stringify(change).slice(0, 60))
  }
  t.match(errorsIn(await api('POST', '/v1/users', { ...admin, password: 'short' })), {
    password: 'must be at least 10 characters, not 5',
  })
  t.match(errorsIn(await api('PATCH', `/v1/users/${adminId}`, { user_email: 'x@example.com' })), {
    user_email: 'Unknown field.',
  })
  t.match(errorsIn(await api('POST', '/v1/setup-links', {})), { user_role: 'is required' })
})

t.test('the last admin can neither go nor become a viewer', async (t) => {
  for (const [method, body] of [
    ['PATCH', { user_role: 'viewer' }],
    ['DELETE', undefined],
  ] as const) {
    const answer = await api(method, `/v1/users/${adminId}`, body)
    t.match(answer, { status: 409, body: { error: 'last_admin' } })
  }
  const second = idOf(await api('POST', '/v1/users', { ...admin, user_email: 'bob@example.com' }))
  t.match(await api('PATCH', `/v1/users/${second}`, { user_role: 'viewer' }), {
    body: { user: { user_role: 'viewer' } },
  })
  t.equal((await api('DELETE', `/v1/users/${second}`)).status, 204)
  t.match(await api('DELETE', `/v1/users/${second}`), { status: 404 })
})

t.test('so many passwords wait to be hashed, and no more', async (t) => {
  const many = resourceLimits.waitingPasswords + 4
  const creates = Array.from({ length: many }, (_, n) =>
    api('POST', '/v1/users', { ...admin, user_email: `many-${n}@example.com` }),
  )
  const change = api('PATCH', `/v1/users/${adminId}`, { password })
  const answers = [...(await Promise.all(creates)), await change]
  const busy = answers.filter(({ status }) => status === 503)
  t.ok(busy.length >= 1)
  for (const answer of busy)
    t.match(answer, { body: { error: 'sign_in_busy' }, headers: { 'retry-after': '2' } })
  t.ok(answers.filter(({ status }) => status === 201).length >= resourceLimits.waitingPasswords)
  t.equal((await change).status, 503, 'a change waits for its turn like the others')
})

t.test('a workspace has so many users and links, and no more', async (t) => {
  const { usersPerWorkspace, setupLinksPerWorkspace } = resourceLimits
  const file = new Database(path.join(daemon.dataDir, 'metadata.db'), { timeout: 10_000 })
  const { length: there } = (await api('GET', '/v1/users')).body.users as unknown[]
  // As many as there may be: each made over HTTP would take half a second.
  const insert =
    file.prepare(`INSERT INTO users SELECT 'id-' || ?, workspace_id, 'user-' || ? || '@example.com',
    'viewer', password_hash, 0, NULL, creation_order + 1000 FROM users WHERE user_email = 'ada@example.com'`)
  for (let n = there; n < usersPerWorkspace; n += 1) insert.run(n, n)
  file.close()
  const full = { status: 409, body: { error: 'workspace_full', limit_value: usersPerWorkspace } }
  t.match(await api('POST', '/v1/users', { ...admin, user_email: 'one-more@example.com' }), full)
  const link = () => api('POST', '/v1/setup-links', { user_role: 'viewer' })
  const { length: unused } = (await Promise.all(Array.from({ length: setupLinksPerWorkspace }, link))).filter(
    ({ status }) => status === 201,
  )
  t.ok(unused >= setupLinksPerWorkspace - 1, 'one may be there from the set-up')
  t.match(await link(), { status: 409, body: { limit: 'setup_links', limit_value: setupLinksPerWorkspace } })
})

t.test('without a key there are no users', async (t) => {
  for (const [method, where] of [
    ['GET', '/v1/users'],
    ['POST', '/v1/users'],
    ['PATCH', `/v1/users/${adminId}`],
    ['DELETE', `/v1/users/${adminId}`],
    ['POST', '/v1/setup-links'],
  ] as const)
    t.equal((await api(method, where, undefined, { key: null })).status, 401, where)
})
