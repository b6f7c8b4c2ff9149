/** People, their sessions and setup links as metadata keeps them. */
import t from 'tap'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { beginEpoch } from '../../../src/metadata/sqlite/offline.ts'
import type { Metadata } from '../../../src/metadata/store.ts'
import type { StoredUser } from '../../../src/metadata/users.ts'
import { onlySqlite } from './database.ts'
import { newWorkspace, open, openFile, testFile } from './fixture.ts'

const ada = { email: 'Ada@Example.com', role: 'admin', passwordHash: 'hash of ada' } as const
const bob = { email: 'bob@example.com', role: 'viewer', passwordHash: 'hash of bob' } as const

async function stored(metadata: Metadata, email: string): Promise<StoredUser> {
  const [user] = await metadata.users.accountsOf(email)
  if (user === undefined) throw new Error(`no user ${email}`)
  return user
}

t.test(
  'an e-mail address is in lower case, and there once in a workspace, whatever others have',
  async (t) => {
    const metadata = await open(t)
    const [mine, other] = [await newWorkspace(metadata, 'mine'), await newWorkspace(metadata, 'other')]
    const user = await metadata.users.create(mine, ada)
    t.match(user, { user_email: 'ada@example.com', user_role: 'admin', user_last_sign_in_ts: null })
    await t.rejects(metadata.users.create(mine, ada), { code: 'duplicate_user_email' })
    const theirs = await metadata.users.create(other, {
      ...ada,
      email: 'ADA@example.com',
      passwordHash: 'theirs',
    })
    t.equal(theirs.user_email, 'ada@example.com')
    await t.rejects(metadata.users.create(other, ada), { code: 'duplicate_user_email' })
    await metadata.users.create(await newWorkspace(metadata, 'third'), ada)
    const accounts = await metadata.users.accountsOf('aDa@example.com')
    t.same(new Set(accounts.slice(0, 2).map(({ workspaceId }) => workspaceId)), new Set([mine, other]))
    t.equal(accounts.length, 3)
    t.same(await metadata.users.list(other), [theirs])
    t.same(
      await metadata.users.accountsOf(`ada@example.com ${other}`),
      [],
      'the stored form is no name to sign in with',
    )
    t.same(await metadata.users.accountsOf('da@example.com'), [])
    await metadata.users.create(mine, bob)
    await metadata.users.update({ workspaceId: mine, userId: user.user_id }, { passwordHash: 'mine' })
    await metadata.users.create(other, bob)
    t.equal((await metadata.users.accountsOf(bob.email)).length, 2)
  },
)

t.test('a user is nobody in another workspace', async (t) => {
  const metadata = await open(t)
  const [mine, other] = [await newWorkspace(metadata, 'mine'), await newWorkspace(metadata, 'other')]
  const { user_id } = await metadata.users.create(mine, bob)
  t.equal(await metadata.users.update({ workspaceId: other, userId: user_id }, { role: 'admin' }), null)
  t.equal(await metadata.users.delete({ workspaceId: other, userId: user_id }), false)
  t.equal((await metadata.users.list(mine))[0]?.user_role, 'viewer')
})

t.test('the last admin stays an admin; with another one there is no last', async (t) => {
  const metadata = await open(t)
  const mine = await newWorkspace(metadata, 'mine')
  const { user_id } = await metadata.users.create(mine, ada)
  const second = await metadata.users.create(mine, bob)
  await t.rejects(metadata.users.update({ workspaceId: mine, userId: user_id }, { role: 'viewer' }), {
    code: 'last_admin',
  })
  await t.rejects(metadata.users.delete({ workspaceId: mine, userId: user_id }), { code: 'last_admin' })
  await metadata.users.update({ workspaceId: mine, userId: second.user_id }, { role: 'admin' })
  t.equal(await metadata.users.delete({ workspaceId: mine, userId: user_id }), true)
  t.same(await metadata.users.accountsOf(ada.email), [])
})

t.test('a workspace has so many users and no more', async (t) => {
  const metadata = await open(t)
  const mine = await newWorkspace(metadata, 'mine')
  for (let n = 0; n < resourceLimits.usersPerWorkspace; n += 1)
    await metadata.users.create(mine, { ...bob, email: `user-${n}@example.com` })
  await t.rejects(metadata.users.create(mine, bob), {
    code: 'workspace_full',
    details: { limit: 'users', limit_value: resourceLimits.usersPerWorkspace },
  })
})

t.test('a change of role or password, and a deletion, end every session of the user alone', async (t) => {
  const metadata = await open(t)
  const mine = await newWorkspace(metadata, 'mine')
  await metadata.users.create(mine, ada)
  const { user_id } = await metadata.users.create(mine, bob)
  await metadata.sessions.begin(await stored(metadata, ada.email), 'of ada')
  const changes: (() => Promise<unknown>)[] = [
    () => metadata.users.update({ workspaceId: mine, userId: user_id }, { role: 'admin' }),
    () => metadata.users.update({ workspaceId: mine, userId: user_id }, { passwordHash: 'another' }),
    () => metadata.users.delete({ workspaceId: mine, userId: user_id }),
  ]
  for (const change of changes) {
    const user = await stored(metadata, bob.email)
    t.equal(await metadata.sessions.begin(user, 'one'), true)
    t.equal(await metadata.sessions.begin(user, 'two'), true)
    t.match(await metadata.sessions.find('one'), {
      workspaceId: mine,
      workspaceName: 'mine',
      user: { user_email: bob.email },
    })
    await change()
    t.equal(await metadata.sessions.find('one'), null)
    t.equal(await metadata.sessions.find('two'), null)
  }
  t.ok(await metadata.sessions.find('of ada'), "another user's session goes on")
})

t.test('no session begins with a password that was changed meanwhile', async (t) => {
  const metadata = await open(t)
  const mine = await newWorkspace(metadata, 'mine')
  const { user_id } = await metadata.users.create(mine, ada)
  const before = await stored(metadata, ada.email)
  await metadata.users.update({ workspaceId: mine, userId: user_id }, { passwordHash: 'another' })
  t.equal(await metadata.sessions.begin(before, 'late'), false)
  t.equal(await metadata.sessions.find('late'), null)
  t.equal(await metadata.sessions.begin(await stored(metadata, ada.email), 'in time'), true, 'control')
})

t.test('one session too many ends the oldest; prune ends the old and the unused', async (t) => {
  let clock = 1_000
  const metadata = await open(t, { ...testFile(t), now: () => clock })
  await metadata.users.create(await newWorkspace(metadata, 'mine'), ada)
  const user = await stored(metadata, ada.email)
  for (let n = 0; n <= resourceLimits.sessionsPerUser; n += 1) {
    clock += 1
    await metadata.sessions.begin(user, `session ${n}`)
  }
  t.equal(await metadata.sessions.find('session 0'), null)
  t.ok(await metadata.sessions.find('session 1'))
  clock = 5_000
  await metadata.sessions.used('session 2')
  await metadata.sessions.prune(5_000, 0)
  t.equal(await metadata.sessions.find('session 1'), null)
  t.match(await metadata.sessions.find('session 2'), { createdMs: 1_003, lastUsedMs: 5_000 })
  await metadata.sessions.prune(0, 1_004)
  t.equal(await metadata.sessions.find('session 2'), null)
})

t.test('a setup link makes one user, once, in its workspace and role, and only in time', async (t) => {
  let clock = 1_000
  const metadata = await open(t, { ...testFile(t), now: () => clock })
  const mine = await newWorkspace(metadata, 'mine')
  await metadata.users.createSetupLink(mine, { role: 'viewer', hash: 'link', expiresMs: 2_000 })
  await metadata.users.createSetupLink(mine, { role: 'admin', hash: 'late', expiresMs: 2_000 })
  t.equal(await metadata.users.redeemSetupLink('no such link', ada), null)
  t.match(await metadata.users.redeemSetupLink('link', ada), {
    workspaceId: mine,
    user: { user_role: 'viewer' },
  })
  t.equal(await metadata.users.redeemSetupLink('link', bob), null)
  // A failed attempt does not use it up.
  await t.rejects(metadata.users.redeemSetupLink('late', ada), { code: 'duplicate_user_email' })
  t.equal(await metadata.users.hasSetupLink('late'), true)
  clock = 2_000
  t.equal(await metadata.users.hasSetupLink('late'), false)
  t.equal(await metadata.users.redeemSetupLink('late', bob), null)
})

t.test('links that expired make room for others', async (t) => {
  let clock = 1_000
  const metadata = await open(t, { ...testFile(t), now: () => clock })
  const mine = await newWorkspace(metadata, 'mine')
  const link = (n: number) =>
    metadata.users.createSetupLink(mine, { role: 'admin', hash: `link ${n}`, expiresMs: clock + 10 })
  for (let n = 0; n < resourceLimits.setupLinksPerWorkspace; n += 1) await link(n)
  await t.rejects(link(100), { code: 'workspace_full' })
  clock += 10
  await link(101)
})

const restored = { skip: onlySqlite('about a backup of the file') }

t.test('a restored file has its people, without their sessions and links', restored, async (t) => {
  const file = testFile(t)
  const metadata = await openFile(file)
  const mine = await newWorkspace(metadata, 'mine')
  await metadata.users.create(mine, ada)
  await metadata.sessions.begin(await stored(metadata, ada.email), 'session')
  await metadata.users.createSetupLink(mine, { role: 'admin', hash: 'link', expiresMs: Date.now() + 60_000 })
  await metadata.close()
  const before = await openFile(file)
  t.ok(await before.sessions.find('session'), 'control: they are in the file')
  await before.close()
  beginEpoch(file.file, 0, { user: 'me', nowMs: Date.now() })
  const after = await open(t, file)
  t.equal(await after.sessions.find('session'), null)
  t.equal(await after.users.hasSetupLink('link'), false)
  t.equal((await after.users.list(mine)).length, 1)
})
