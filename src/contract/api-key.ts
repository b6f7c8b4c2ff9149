/**
 * Workspace API keys as clients create and list them. Rules: docs/dev/contract.md#ids-and-api-keys,
 * docs/dev/contract.md#key-scopes.
 */
import Type, { type Static } from 'typebox'
import { resourceLimits } from './resource-limits.ts'
import { closed, nullable, timestamp, uuid } from './schema-parts.ts'
import { withoutControls } from './validate.ts'

/** The actions that a key allows. `manage` includes the others; `read` is every GET of the management API. */
export const apiKeyScopes = ['ingest', 'pull', 'read', 'manage'] as const
export type ApiKeyScope = (typeof apiKeyScopes)[number]

/** The actions that a key allows, the pipes that it is limited to, and when it expires. */
export interface KeyRights {
  readonly scopes: readonly ApiKeyScope[]
  /** In lower case. Null: all pipes of the workspace, including future ones. */
  readonly pipeIds: readonly string[] | null
  /** Null: the key does not expire. */
  readonly expiresMs: number | null
}

/** The rights of a key that was created without any of these fields. */
export const fullRights: KeyRights = { scopes: ['manage'], pipeIds: null, expiresMs: null }

const apiKeyName = Type.String({ minLength: 1, maxLength: 100, pattern: withoutControls })
const scopes = Type.Array(Type.Enum([...apiKeyScopes]), {
  minItems: 1,
  maxItems: apiKeyScopes.length,
  description:
    'What the key can do, each scope at most once. `ingest`: send records. `pull`: pull, ack and nack. `read`: every GET of the management API. `manage`: everything.',
})
const pipeIds = nullable(
  Type.Array(uuid(), {
    minItems: 1,
    maxItems: resourceLimits.pipesPerApiKey,
    description:
      'The pipes that the key is limited to; null: all pipes of the workspace. A deleted pipe stays in the list and allows nothing.',
  }),
)
const expires = nullable(
  timestamp('The time from which the key is treated as unknown; null: it does not expire.'),
)

export const ApiKeyCreate = Type.Object(
  {
    api_key_name: apiKeyName,
    api_key_scopes: Type.Optional(scopes),
    api_key_pipe_ids: Type.Optional(pipeIds),
    api_key_expires_ts: Type.Optional(expires),
  },
  closed,
)
export type ApiKeyCreate = Static<typeof ApiKeyCreate>

export const ApiKeyRotate = Type.Object(
  {
    /** The name of the new key. The old key keeps its own name until it expires. */
    api_key_name: apiKeyName,
    overlap_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: resourceLimits.apiKeyOverlapSeconds,
        default: resourceLimits.apiKeyOverlapDefaultSeconds,
        description: 'How long the old key still works; 0: it is revoked at once.',
      }),
    ),
    api_key_expires_ts: Type.Optional(expires),
  },
  closed,
)
export type ApiKeyRotate = Static<typeof ApiKeyRotate>

/** The metadata of a key, without the key itself. */
export const ApiKey = Type.Object({
  api_key_id: uuid(),
  api_key_name: apiKeyName,
  api_key_prefix: Type.String(),
  api_key_status: Type.Enum(['active', 'revoked', 'expired']),
  api_key_scopes: scopes,
  api_key_pipe_ids: pipeIds,
  api_key_expires_ts: expires,
  api_key_last_used_ts: nullable(timestamp('To the minute; null: never.')),
  api_key_created_ts: timestamp(),
})
export type ApiKey = Static<typeof ApiKey>
