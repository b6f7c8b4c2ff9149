/**
 * API keys of a workspace (docs/dev/contract.md#ids-and-api-keys, docs/dev/contract.md#authentication,
 * docs/dev/contract.md#key-scopes).
 */
import { type ApiKey, fullRights, type KeyRights } from '../../contract/api-key.ts'
import { ApiError, validationError } from '../../contract/errors.ts'
import type { Principal } from '../../contract/principal.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { requireDistinct } from '../../contract/validate.ts'
import { mintApiKey } from '../../metadata/key-tokens.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'changes' | 'now'>

export function apiKeyUseCases({ metadata, changes, now }: Deps) {
  /**
   * A key that is limited to some pipes does not see keys that can access other pipes: the list would reveal those
   * pipes.
   */
  const visible = async (principal: Principal) =>
    (await metadata.apiKeys.list(principal.workspaceId)).filter((key) => isVisible(principal, key))
  const requireVisible = async (principal: Principal, apiKeyId: string): Promise<void> => {
    if (principal.pipeIds === null) return
    const isSeen = (await visible(principal)).some((key) => key.api_key_id === apiKeyId)
    if (!isSeen) throw new ApiError('api_key_not_found')
  }
  return {
    async listApiKeys({ principal }: Call<'listApiKeys'>) {
      return { api_keys: await visible(principal) }
    },

    /** This response is the only one that shows the whole key. */
    async createApiKey({ principal, body: given }: Call<'createApiKey'>) {
      requireDistinct('api_key_scopes', given.api_key_scopes)
      const rights = {
        scopes: given.api_key_scopes ?? fullRights.scopes,
        pipeIds: given.api_key_pipe_ids?.map((id) => id.toLowerCase()) ?? null,
        expiresMs: requireFuture(given.api_key_expires_ts ?? null, now()),
      }
      requireWithin(principal, rights)
      const { apiKey, key } = mintApiKey(given.api_key_name, rights)
      const created = await metadata.apiKeys.create(principal.workspaceId, key)
      await changes.publish({ apiKeyId: created.api_key_id, isRevoked: false })
      return { api_key_id: created.api_key_id, api_key: apiKey, api_key_name: created.api_key_name }
    },

    /** Creates a new key in place of another one, which remains valid for the overlap. */
    async rotateApiKey({ principal, path: { api_key_id: id }, body: given }: Call<'rotateApiKey'>) {
      await requireVisible(principal, id)
      const overlapSeconds = given.overlap_seconds ?? resourceLimits.apiKeyOverlapDefaultSeconds
      if (overlapSeconds === 0) requireOther(principal, id)
      const nowMs = now()
      const expires = given.api_key_expires_ts
      const givenMs = expires === undefined ? undefined : requireFuture(expires, nowMs)
      let apiKey = ''
      const rotated = await metadata.apiKeys.rotate(
        { workspaceId: principal.workspaceId, apiKeyId: id },
        overlapSeconds === 0 ? null : nowMs + overlapSeconds * 1_000,
        (old) => {
          const rights = rightsOf(old, givenMs)
          requireWithin(principal, rights)
          const minted = mintApiKey(given.api_key_name, rights)
          apiKey = minted.apiKey
          return minted.key
        },
      )
      if (rotated === null) throw new ApiError('api_key_not_found')
      const { created, replaced } = rotated
      await changes.publish({ apiKeyId: created.api_key_id, isRevoked: false })
      await changes.publish({ apiKeyId: id, isRevoked: overlapSeconds === 0 })
      return {
        api_key_id: created.api_key_id,
        api_key: apiKey,
        api_key_name: created.api_key_name,
        replaced: {
          api_key_id: id,
          api_key_expires_ts: overlapSeconds === 0 ? null : replaced.api_key_expires_ts,
        },
      }
    },

    /** The key has stopped working when this resolves. */
    async revokeApiKey({ principal, path: { api_key_id: id } }: Call<'revokeApiKey'>): Promise<void> {
      await requireVisible(principal, id)
      requireOther(principal, id)
      const isRevoked = await metadata.apiKeys.revoke({ workspaceId: principal.workspaceId, apiKeyId: id })
      if (!isRevoked) throw new ApiError('api_key_not_found')
      await changes.publish({ apiKeyId: id, isRevoked: true })
    },

    async purgeApiKeys({ principal }: Call<'purgeApiKeys'>) {
      const over = (await visible(principal)).filter((key) => key.api_key_status !== 'active')
      const ids = over.map((key) => key.api_key_id)
      return { purged: await metadata.apiKeys.forget(principal.workspaceId, ids) }
    },
  }
}

/** Whether the key has access only to pipes that this caller can access as well. */
export function isVisible({ pipeIds }: Pick<Principal, 'pipeIds'>, key: ApiKey): boolean {
  if (pipeIds === null) return true
  return key.api_key_pipe_ids?.every((id) => pipeIds.has(id)) ?? false
}

function requireOther({ by }: Principal, apiKeyId: string): void {
  if (by.kind === 'key' && apiKeyId === by.apiKeyId) throw new ApiError('cannot_revoke_current_key')
}

/** `expires`: undefined keeps the expiry of the old key. */
function rightsOf(old: ApiKey, expires: number | null | undefined): KeyRights {
  const before = old.api_key_expires_ts === null ? null : Date.parse(old.api_key_expires_ts)
  return {
    scopes: old.api_key_scopes,
    pipeIds: old.api_key_pipe_ids,
    expiresMs: expires === undefined ? before : expires,
  }
}

function requireFuture(expires: string | null, nowMs: number): number | null {
  if (expires === null) return null
  const expiresMs = Date.parse(expires)
  if (expiresMs > nowMs) return expiresMs
  throw validationError({ api_key_expires_ts: 'must be a time in the future' })
}

/**
 * A key cannot grant rights that its creator does not have. The caller has the scope `manage`, so it may grant every
 * scope.
 */
function requireWithin(principal: Principal, { pipeIds, expiresMs }: KeyRights): void {
  const own = principal.pipeIds
  if (own !== null && !(pipeIds?.every((id) => own.has(id)) ?? false)) {
    throw new ApiError('forbidden', {
      message: 'This key is limited to some pipes: api_key_pipe_ids can name only those.',
    })
  }
  if ((expiresMs ?? Number.POSITIVE_INFINITY) > principal.expiresMs) {
    throw new ApiError('forbidden', {
      message: `This key expires: api_key_expires_ts can be ${new Date(principal.expiresMs).toISOString()} at the latest.`,
    })
  }
}
