/**
 * Manages the users of a workspace directly in the data directory, for an operator of the machine without an account.
 * Works also while the daemon runs.
 */
import { checkedCall } from '../api/management/call.ts'
import { userUseCases } from '../api/management/users.ts'
import type { Principal } from '../contract/principal.ts'
import type { SetupLink, User } from '../contract/user.ts'
import { Passwords } from '../metadata/password-hash.ts'
import type { Metadata } from '../metadata/store.ts'
import type { Settings } from '../settings/settings.ts'
import { withLocalWorkspace } from './workspaces.ts'

export interface LocalUsers {
  list(): Promise<User[]>
  create(body: object): Promise<User>
  update(userId: string, body: object): Promise<User>
  delete(userId: string): Promise<void>
  createSetupLink(body: object): Promise<SetupLink>
}

/**
 * Calls `use` with the users of that workspace. Throws DataDirError if the workspace does not exist, and ApiError as
 * `/v1` does.
 */
export async function withLocalUsers<T>(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  workspaceName: string,
  use: (users: LocalUsers) => Promise<T>,
): Promise<T> {
  return await withLocalWorkspace(settings, env, workspaceName, (metadata, principal) =>
    use(localUsers(metadata, principal)),
  )
}

function localUsers(metadata: Metadata, principal: Principal): LocalUsers {
  const users = userUseCases({ metadata, passwords: new Passwords(), now: Date.now })
  return {
    list: async () => (await users.listUsers(checkedCall('listUsers', { principal }))).users,
    create: async (body) => (await users.createUser(checkedCall('createUser', { principal, body }))).user,
    update: async (user_id, body) =>
      (await users.updateUser(checkedCall('updateUser', { principal, params: { user_id }, body }))).user,
    delete: (user_id) => users.deleteUser(checkedCall('deleteUser', { principal, params: { user_id } })),
    createSetupLink: (body) => users.createSetupLink(checkedCall('createSetupLink', { principal, body })),
  }
}
