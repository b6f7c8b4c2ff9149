/** Workspace API keys (spec "API key", "Authentication"; contract "Ids, keys, auth"). */
import { ApiKeyCreate } from '../contract/api-key.ts'
import { ApiError } from '../contract/errors.ts'
import { requireObject, validate } from '../contract/validate.ts'
import type { Principal } from '../directory/principal.ts'
import { mintApiKey } from '../metadata/key-tokens.ts'
import type { ManagementDeps } from './deps.ts'
import { resourceId } from './lookup.ts'

export function apiKeyUseCases({ metadata, changes }: Pick<ManagementDeps, 'metadata' | 'changes'>) {
  return {
    async listApiKeys(workspaceId: string) {
      return { api_keys: await metadata.apiKeys.list(workspaceId) }
    },

    /** The one time the whole key is shown. */
    async createApiKey(workspaceId: string, body: unknown) {
      const { api_key_name } = validate(ApiKeyCreate, requireObject(body))
      const { apiKey, key } = mintApiKey(api_key_name)
      const created = await metadata.apiKeys.create(workspaceId, key)
      await changes.publish({ apiKeyId: created.api_key_id, isRevoked: false })
      return { api_key_id: created.api_key_id, api_key: apiKey, api_key_name: created.api_key_name }
    },

    /** When this resolves the key has stopped working. */
    async revokeApiKey({ workspaceId, by }: Principal, apiKeyId: string): Promise<void> {
      const id = resourceId(apiKeyId, 'api_key_not_found')
      if (by.kind === 'key' && id === by.apiKeyId) throw new ApiError('cannot_revoke_current_key')
      if (!(await metadata.apiKeys.revoke(workspaceId, id))) throw new ApiError('api_key_not_found')
      await changes.publish({ apiKeyId: id, isRevoked: true })
    },
  }
}
