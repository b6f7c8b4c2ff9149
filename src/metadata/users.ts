/**
 * Users who sign in, and the setup links with which they create an account. docs/dev/contract.md#sign-in-for-people.
 */

import { randomUUID } from 'node:crypto'
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { User, UserRole } from '../contract/user.ts'
import type { Audited } from './audit.ts'
import { insertUnlessTaken } from './rows.ts'
import { addressOf, isoTime, normaliseId, type UserRef, type UserRow } from './tables.ts'
import type { Connection } from './transactions.ts'

export interface NewUser {
  /** As the user typed it. */
  email: string
  role: UserRole
  passwordHash: string
}

/** An absent field is left unchanged. */
export interface UserChange {
  role?: UserRole
  passwordHash?: string
}

export interface NewSetupLink {
  role: UserRole
  /** SHA-256 of the token, hex. */
  hash: string
  expiresMs: number
}

export interface StoredUser {
  readonly workspaceId: string
  readonly user: User
  readonly passwordHash: string
}

export interface UserStore {
  list(workspaceId: string): Promise<User[]>
  /** Throws `duplicate_user_email` (other workspaces are not checked) and `workspace_full`. */
  create(workspaceId: string, user: NewUser): Promise<User>
  /** Ends every session of the user. Null: no such user. Throws `last_admin`. */
  update(user: UserRef, change: UserChange): Promise<User | null>
  /** Deletes the user and its sessions. False: no such user. Throws `last_admin`. */
  delete(user: UserRef): Promise<boolean>
  /** Returns the accounts with this address in all workspaces, oldest first, for signing in. */
  accountsOf(email: string): Promise<StoredUser[]>
  /** Creates the user and deletes the link. Null: there is no such link, or it has expired. Throws as `create` does. */
  redeemSetupLink(hash: string, user: Omit<NewUser, 'role'>): Promise<StoredUser | null>
  /** Throws `workspace_full`. */
  createSetupLink(workspaceId: string, link: NewSetupLink): Promise<void>
  /** True if `redeemSetupLink` would find the link now. */
  hasSetupLink(hash: string): Promise<boolean>
}

export function users(db: Connection, now: () => number, inAudited: Audited): UserStore {
  return {
    list: async (workspaceId) => (await rowsOf(db, workspaceId)).map(shownUser),

    create: (workspaceId, user) =>
      inAudited(async (trx, record) => {
        const after = shownUser(await insert(trx, normaliseId(workspaceId), user, now()))
        await record({ ...of(workspaceId, after), operation: 'createUser', before: null, after })
        return after
      }),

    update: ({ workspaceId, userId }, { role, passwordHash }) =>
      inAudited(async (trx, record) => {
        const row = await one(trx, { workspaceId, userId })
        if (row === null) return null
        if (role === 'viewer') await requireAnotherAdmin(trx, row)
        const changed = {
          ...row,
          user_role: role ?? row.user_role,
          password_hash: passwordHash ?? row.password_hash,
        }
        await saveChanged(trx, changed)
        const after = shownUser(changed)
        const password = passwordHash === undefined ? {} : { secrets_changed: ['password'] }
        const states = { before: shownUser(row), after: { ...after, ...password } }
        await record({ ...of(workspaceId, after), operation: 'updateUser', ...states })
        return after
      }),

    delete: ({ workspaceId, userId }) =>
      inAudited(async (trx, record) => {
        const row = await one(trx, { workspaceId, userId })
        if (row === null) return false
        await requireAnotherAdmin(trx, row)
        await trx.deleteFrom('users').where('user_id', '=', row.user_id).execute()
        const before = shownUser(row)
        await record({ ...of(workspaceId, before), operation: 'deleteUser', before, after: null })
        return true
      }),

    accountsOf: (email) => accountsOf(db, email.toLowerCase()),

    redeemSetupLink: (hash, user) =>
      inAudited(async (trx, record) => {
        const link = await setupLink(trx, hash, now())
        if (link === undefined) return null
        const row = await insert(trx, link.workspace_id, { ...user, role: link.user_role }, now())
        await trx.deleteFrom('setup_tokens').where('token_hash', '=', hash).execute()
        const after = shownUser(row)
        await record({ ...of(row.workspace_id, after), operation: 'setUp', before: null, after })
        return storedUser(row)
      }),

    createSetupLink: (workspaceId, link) =>
      inAudited(async (trx, record) => {
        await insertSetupLink(trx, normaliseId(workspaceId), link, now())
        const { role, expiresMs } = link
        const after = { user_role: role, setup_expires_ts: isoTime(expiresMs) }
        const made = { operation: 'createSetupLink', resourceId: null, pipeId: null, before: null }
        await record({ workspaceId, ...made, after })
      }),

    hasSetupLink: async (hash) => (await setupLink(db, hash, now())) !== undefined,
  }
}

const of = (workspaceId: string, { user_id }: User) => ({ workspaceId, resourceId: user_id, pipeId: null })

async function rowsOf(db: Connection, workspaceId: string): Promise<UserRow[]> {
  return await db
    .selectFrom('users')
    .selectAll()
    .where('workspace_id', '=', normaliseId(workspaceId))
    .orderBy('creation_order')
    .orderBy('user_id')
    .execute()
}

async function accountsOf(db: Connection, address: string): Promise<StoredUser[]> {
  // Such a text would match the stored form of a further account, and bypass the count of attempts per address.
  if (address.includes(' ')) return []
  const rows = await db
    .selectFrom('users')
    .selectAll()
    .where((eb) =>
      eb.or([
        eb('user_email', '=', address),
        eb('user_email', 'in', (further) =>
          further
            .selectFrom('workspaces')
            .select((one) => one(one.val(`${address} `), '||', one.ref('workspace_id')).as('user_email')),
        ),
      ]),
    )
    .orderBy('user_created_ms')
    .orderBy('user_id')
    .execute()
  return rows.map(storedUser)
}

/** Ends all sessions of the user. */
async function saveChanged(trx: Connection, changed: UserRow): Promise<void> {
  await trx
    .updateTable('users')
    .set({ user_role: changed.user_role, password_hash: changed.password_hash })
    .where('user_id', '=', changed.user_id)
    .execute()
  await trx.deleteFrom('sessions').where('user_id', '=', changed.user_id).execute()
}

function setupLink(db: Connection, hash: string, nowMs: number) {
  return db
    .selectFrom('setup_tokens')
    .selectAll()
    .where('token_hash', '=', hash)
    .where('setup_expires_ms', '>', nowMs)
    .executeTakeFirst()
}

async function insertSetupLink(
  trx: Connection,
  workspaceId: string,
  { role, hash, expiresMs }: NewSetupLink,
  nowMs: number,
): Promise<void> {
  await trx.deleteFrom('setup_tokens').where('setup_expires_ms', '<=', nowMs).execute()
  const ofWorkspace = trx
    .selectFrom('setup_tokens')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('workspace_id', '=', workspaceId)
  requireRoom(await ofWorkspace.executeTakeFirst(), 'unused setup links', 'setupLinksPerWorkspace')
  await trx
    .insertInto('setup_tokens')
    .values({
      token_hash: hash,
      workspace_id: workspaceId,
      user_role: role,
      setup_expires_ms: expiresMs,
    })
    .execute()
}

async function insert(trx: Connection, workspaceId: string, user: NewUser, nowMs: number): Promise<UserRow> {
  const known = await trx
    .selectFrom('users')
    .select((eb) => [eb.fn.countAll<number>().as('count'), eb.fn.max('creation_order').as('order')])
    .where('workspace_id', '=', workspaceId)
    .executeTakeFirst()
  requireRoom(known, 'users', 'usersPerWorkspace')
  const address = user.email.toLowerCase()
  const keys = [address, `${address} ${workspaceId}`]
  const taken = await trx
    .selectFrom('users')
    .select('user_id')
    .where('workspace_id', '=', workspaceId)
    .where('user_email', 'in', keys)
    .executeTakeFirst()
  if (taken !== undefined) throw new ApiError('duplicate_user_email')
  const row = {
    user_id: randomUUID(),
    workspace_id: workspaceId,
    user_role: user.role,
    password_hash: user.passwordHash,
    user_created_ms: nowMs,
    user_last_sign_in_ms: null,
    creation_order: (known?.order ?? 0) + 1,
  }
  for (const user_email of keys) {
    if (await insertUnlessTaken(trx, 'users', { ...row, user_email })) return { ...row, user_email }
  }
  throw new ApiError('duplicate_user_email')
}

async function one(trx: Connection, { workspaceId, userId }: UserRef): Promise<UserRow | null> {
  const row = await trx
    .selectFrom('users')
    .selectAll()
    .where('workspace_id', '=', normaliseId(workspaceId))
    .where('user_id', '=', normaliseId(userId))
    .executeTakeFirst()
  return row ?? null
}

/**
 * A workspace with admins keeps at least one. Otherwise only a command on the machine itself could give access again.
 */
async function requireAnotherAdmin(
  trx: Connection,
  { workspace_id, user_id, user_role }: UserRow,
): Promise<void> {
  if (user_role !== 'admin') return
  const other = await trx
    .selectFrom('users')
    .select('user_id')
    .where('workspace_id', '=', workspace_id)
    .where('user_role', '=', 'admin')
    .where('user_id', '<>', user_id)
    .limit(1)
    .executeTakeFirst()
  if (other === undefined) throw new ApiError('last_admin')
}

function requireRoom(
  row: { count: number } | undefined,
  words: string,
  limit: 'usersPerWorkspace' | 'setupLinksPerWorkspace',
): void {
  const most = resourceLimits[limit]
  if ((row?.count ?? 0) < most) return
  throw new ApiError('workspace_full', {
    message: `This workspace has reached its limit of ${most} ${words}.`,
    details: { limit: limit === 'usersPerWorkspace' ? 'users' : 'setup_links', limit_value: most },
  })
}

export function shownUser(row: Omit<UserRow, 'workspace_id' | 'password_hash' | 'creation_order'>): User {
  return {
    user_id: row.user_id,
    user_email: addressOf(row.user_email),
    user_role: row.user_role,
    user_created_ts: isoTime(row.user_created_ms),
    user_last_sign_in_ts: row.user_last_sign_in_ms === null ? null : isoTime(row.user_last_sign_in_ms),
  }
}

function storedUser(row: UserRow): StoredUser {
  return { workspaceId: row.workspace_id, user: shownUser(row), passwordHash: row.password_hash }
}
