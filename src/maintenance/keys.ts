/**
 * Creates API keys directly in the data directory, for an operator of the machine who has lost all keys. A running
 * daemon accepts such a key immediately.
 */
import { apiKeyUseCases } from '../api/management/api-keys.ts'
import { checkedCall } from '../api/management/call.ts'
import type { ApiKeyCreate } from '../contract/api-key.ts'
import { localChanges } from '../metadata/changes.ts'
import type { Settings } from '../settings/settings.ts'
import { DataDirError } from './errors.ts'
import { withLocalWorkspace } from './workspaces.ts'

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
