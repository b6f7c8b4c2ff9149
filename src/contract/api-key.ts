/** Workspace API keys as clients create and list them. Rules: spec "API key", contract "Ids, keys, auth". */
import Type, { type Static } from 'typebox'
import { withoutControls } from './validate.ts'

const apiKeyName = Type.String({ minLength: 1, maxLength: 100, pattern: withoutControls })

export const ApiKeyCreate = Type.Object({ api_key_name: apiKeyName }, { additionalProperties: false })
export type ApiKeyCreate = Static<typeof ApiKeyCreate>

/** A key's metadata: everything but the key. */
export const ApiKey = Type.Object({
  api_key_id: Type.String({ format: 'uuid' }),
  api_key_name: apiKeyName,
  api_key_prefix: Type.String(),
  api_key_status: Type.Enum(['active', 'revoked']),
  api_key_created_ts: Type.String({ format: 'date-time' }),
})
export type ApiKey = Static<typeof ApiKey>
