/**
 * Opens one workspace of a data directory, for commands that work directly on the files, also while the daemon runs.
 */
import { localPrincipal, type Principal } from '../contract/principal.ts'
import type { Actor } from '../metadata/audit.ts'
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
export async function withLocalWorkspace<T>(
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
