/** The users of a workspace and their setup links (docs/dev/contract.md#sign-in-for-people). */
import { ApiError } from '../../contract/errors.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { SetupLink } from '../../contract/user.ts'
import type { Passwords } from '../../metadata/password-hash.ts'
import { mintToken } from '../../metadata/session-tokens.ts'
import type { Metadata } from '../../metadata/store.ts'
import type { Call } from './call.ts'

export interface UserDeps {
  metadata: Pick<Metadata, 'users'>
  passwords: Passwords
  now: () => number
  /**
   * Called with the workspace of users whose sessions have ended. Absent: no other part of the process needs to know.
   */
  usersChanged?: (workspaceId: string) => void
}

export function userUseCases({ metadata, passwords, now, usersChanged = () => {} }: UserDeps) {
  /** Null: there is no such user, which the change itself then reports. */
  const storedHash = async (workspaceId: string, userId: string) => {
    const user = (await metadata.users.list(workspaceId)).find(({ user_id }) => user_id === userId)
    const accounts = user === undefined ? [] : await metadata.users.accountsOf(user.user_email)
    return accounts.find((one) => one.user.user_id === user?.user_id)?.passwordHash ?? null
  }
  return {
    async listUsers({ principal }: Call<'listUsers'>) {
      return { users: await metadata.users.list(principal.workspaceId) }
    },

    async createUser({ principal, body }: Call<'createUser'>) {
      const { user_email: email, user_role: role, password } = body
      const [sameEmail] = await metadata.users.accountsOf(email)
      const passwordHash = await passwords.hash(password, sameEmail?.passwordHash)
      return { user: await metadata.users.create(principal.workspaceId, { email, role, passwordHash }) }
    },

    /** Ends every session of the user. */
    async updateUser({ principal: { workspaceId }, path: { user_id: id }, body }: Call<'updateUser'>) {
      const { user_role: role, password } = body
      const passwordHash =
        password === undefined ? undefined : await passwords.hash(password, await storedHash(workspaceId, id))
      const user = await metadata.users.update({ workspaceId, userId: id }, { role, passwordHash })
      if (user === null) throw new ApiError('user_not_found')
      usersChanged(workspaceId)
      return { user }
    },

    async deleteUser({ principal: { workspaceId }, path }: Call<'deleteUser'>): Promise<void> {
      if (!(await metadata.users.delete({ workspaceId, userId: path.user_id })))
        throw new ApiError('user_not_found')
      usersChanged(workspaceId)
    },

    async createSetupLink({
      principal,
      body: { user_role: role },
    }: Call<'createSetupLink'>): Promise<SetupLink> {
      const { token, hash } = mintToken()
      const expiresMs = now() + resourceLimits.setupLinkSeconds * 1_000
      await metadata.users.createSetupLink(principal.workspaceId, { role, hash, expiresMs })
      // The token is in the fragment, which stays in the browser: it is in no proxy log and no Referer.
      return { setup_path: `/dashboard/setup#${token}`, setup_expires_ts: new Date(expiresMs).toISOString() }
    },
  }
}
