/** Workspace API keys (spec "API key", "Authentication"; contract "Ids, keys, auth"). */
import { ApiKeyCreate } from '../contract/api-key.ts'
import { ApiError } from '../contract/errors.ts'
import { requireObject, validate } from '../contract/validate.ts'
import { mintApiKey } from '../metadata/key-tokens.ts'
import type { ManagementDeps } from './deps.ts'
import { resourceId } from './lookup.ts'

export function apiKeyUseCases({ metadata, directory }: Pick<ManagementDeps, 'metadata' | 'directory'>) {
  return {
    async listApiKeys(workspaceId: string) {
      return { api_keys: await metadata.apiKeys.list(workspaceId) }
    },

    /** The one time the whole key is shown. */
    async createApiKey(workspaceId: string, body: unknown) {
      const { api_key_name } = validate(ApiKeyCreate, requireObject(body))
      const { apiKey, key } = mintApiKey(api_key_name)
      const created = await metadata.apiKeys.create(workspaceId, key)
      await directory.refreshKeys()
      return { api_key_id: created.api_key_id, api_key: apiKey, api_key_name: created.api_key_name }
    },

    /** When this resolves the key has stopped working. `currentKeyId` is the key of the request. */
    async revokeApiKey(workspaceId: string, currentKeyId: string, apiKeyId: string): Promise<void> {
      const id = resourceId(apiKeyId, 'api_key_not_found')
      if (id === currentKeyId) throw new ApiError('cannot_revoke_current_key')
      if (!(await metadata.apiKeys.revoke(workspaceId, id))) throw new ApiError('api_key_not_found')
      await directory.refreshKeys()
    },
  }
}
