/** Sessions of signed-in users. docs/dev/contract.md#sign-in-for-people. */
import { resourceLimits } from '../contract/resource-limits.ts'
import type { User } from '../contract/user.ts'
import type { Audited } from './audit.ts'
import { type Connection, inWriteTransaction } from './transactions.ts'
import { type StoredUser, shownUser } from './users.ts'

export interface StoredSession {
  readonly workspaceId: string
  readonly workspaceName: string
  readonly user: User
  readonly passwordHash: string
  readonly createdMs: number
  /** Rounded down to the minute. */
  readonly lastUsedMs: number
}

/** Workspace-independent: the hash of a session identifies its user. */
export interface SessionStore {
  /**
   * Begins a session, and ends the user's oldest one above the limit. False: the password has changed, or there is no
   * such user.
   */
  begin(user: StoredUser, hash: string): Promise<boolean>
  /** Returns sessions of any age: the caller checks it. */
  find(hash: string): Promise<StoredSession | null>
  used(hash: string): Promise<void>
  end(hash: string): Promise<void>
  /** Removes sessions that were last used, or begun, before these times. */
  prune(lastUsedBeforeMs: number, begunBeforeMs: number): Promise<void>
}

export function sessions(db: Connection, now: () => number, inAudited: Audited): SessionStore {
  return {
    begin: ({ workspaceId, user, passwordHash }, hash) =>
      inAudited(async (trx, record) => {
        // The password may have changed while it was compared. Without this check the new session would outlive the
        // change.
        const updated = await trx
          .updateTable('users')
          .set({ user_last_sign_in_ms: now() })
          .where('user_id', '=', user.user_id)
          .where('password_hash', '=', passwordHash)
          .executeTakeFirst()
        if (updated.numUpdatedRows === 0n) return false
        await trx
          .insertInto('sessions')
          .values({
            session_hash: hash,
            user_id: user.user_id,
            session_created_ms: now(),
            session_last_used_ms: now(),
          })
          .execute()
        await endOldest(trx, user.user_id)
        const of = { workspaceId, resourceId: user.user_id, pipeId: null }
        const after = { user_email: user.user_email }
        await record({ ...of, operation: 'signIn', before: null, after })
        return true
      }),

    find: (hash) => findSession(db, hash),

    async used(hash) {
      await inWriteTransaction(db, (trx) =>
        trx
          .updateTable('sessions')
          .set({ session_last_used_ms: now() })
          .where('session_hash', '=', hash)
          .execute(),
      )
    },

    async end(hash) {
      await inWriteTransaction(db, (trx) =>
        trx.deleteFrom('sessions').where('session_hash', '=', hash).execute(),
      )
    },

    async prune(lastUsedBeforeMs, begunBeforeMs) {
      await inWriteTransaction(db, (trx) =>
        trx
          .deleteFrom('sessions')
          .where((eb) =>
            eb.or([
              eb('session_last_used_ms', '<', lastUsedBeforeMs),
              eb('session_created_ms', '<', begunBeforeMs),
            ]),
          )
          .execute(),
      )
    },
  }
}

async function findSession(db: Connection, hash: string): Promise<StoredSession | null> {
  const row = await db
    .selectFrom('sessions')
    .innerJoin('users', 'users.user_id', 'sessions.user_id')
    .innerJoin('workspaces', 'workspaces.workspace_id', 'users.workspace_id')
    .select(['sessions.session_created_ms', 'sessions.session_last_used_ms', 'workspaces.workspace_name'])
    .selectAll('users')
    .where('sessions.session_hash', '=', hash)
    .executeTakeFirst()
  if (row === undefined) return null
  return {
    workspaceId: row.workspace_id,
    workspaceName: row.workspace_name,
    user: shownUser(row),
    passwordHash: row.password_hash,
    createdMs: row.session_created_ms,
    lastUsedMs: row.session_last_used_ms,
  }
}

async function endOldest(trx: Connection, userId: string): Promise<void> {
  await trx
    .deleteFrom('sessions')
    .where('session_hash', 'in', (eb) =>
      eb
        .selectFrom('sessions')
        .select('session_hash')
        .where('user_id', '=', userId)
        .orderBy('session_created_ms', 'desc')
        .orderBy('session_last_used_ms', 'desc')
        // SQLite has no OFFSET without a LIMIT.
        .limit(1_000)
        .offset(resourceLimits.sessionsPerUser),
    )
    .execute()
}
