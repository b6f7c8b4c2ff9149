/**
 * Works on one workspace of a data directory, for an operator of the machine without an account or a key, also while the
 * daemon runs. A running daemon accepts a new key immediately.
 */
import { apiKeyUseCases } from '../api/management/api-keys.ts'
import { checkedCall } from '../api/management/call.ts'
import { userUseCases } from '../api/management/users.ts'
import type { ApiKeyCreate } from '../contract/api-key.ts'
import { localPrincipal, type Principal } from '../contract/principal.ts'
import type { SetupLink, User } from '../contract/user.ts'
import type { Actor } from '../metadata/audit.ts'
import { localChanges } from '../metadata/changes.ts'
import { Passwords } from '../metadata/password-hash.ts'
import type { LocalCommand } from '../metadata/sqlite/offline-audit.ts'
import type { Metadata } from '../metadata/store.ts'
import { systemUser } from '../platform/system-user.ts'
import type { Settings } from '../settings/settings.ts'
import { openDataDirMetadata } from './data-dir.ts'
import { DataDirError } from './errors.ts'

/**
 * Calls `use` with the metadata and the user who runs the command. Throws DataDirError if the workspace does not
 * exist.
 */
async function withLocalWorkspace<T>(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  workspaceName: string,
  use: (metadata: Metadata, principal: Principal) => Promise<T>,
): Promise<T> {
  const { metadata } = await openDataDirMetadata(settings, env, { create: false })
  try {
    const workspaces = await metadata.workspaces.list()
    const workspace = workspaces.find(({ name }) => name === workspaceName)
    if (workspace === undefined) {
      const names = workspaces.map(({ name }) => name).join(', ')
      throw new DataDirError('missing', `there is no workspace ${workspaceName}`, `choose one of ${names}`)
    }
    const name = systemUser()
    const actor: Actor = { kind: 'local', id: null, name, address: null, operation: null }
    return await use(metadata.as(actor), localPrincipal(workspace.workspaceId, name))
  } finally {
    await metadata.close()
  }
}

/** For commands that change the metadata while no daemon runs. */
export function commandNow(): LocalCommand {
  return { user: systemUser(), nowMs: Date.now() }
}

export interface CreatedKey {
  api_key_id: string
  api_key: string
  api_key_name: string
}

interface WantedKey {
  workspaceName: string
  body: ApiKeyCreate
  /** Names or ids. */
  pipes: readonly string[]
}

/** Throws DataDirError if the workspace or a pipe does not exist, and ApiError as `/v1` does. */
export async function createLocalKey(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  { workspaceName, body, pipes }: WantedKey,
): Promise<CreatedKey> {
  return await withLocalWorkspace(settings, env, workspaceName, async (metadata, principal) => {
    const all = await metadata.pipes.list(principal.workspaceId)
    const ids = pipes.map((reference) => {
      const found = all.find((one) => one.pipe_name === reference || one.pipe_id === reference.toLowerCase())
      if (found !== undefined) return found.pipe_id
      throw new DataDirError('missing', `there is no pipe ${reference}`, 'use its name or its id')
    })
    const keys = apiKeyUseCases({ metadata, changes: localChanges(), now: Date.now })
    const wanted = ids.length === 0 ? body : { ...body, api_key_pipe_ids: ids }
    return await keys.createApiKey(checkedCall('createApiKey', { principal, body: wanted }))
  })
}

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
