/** The source of a pipe in requests and responses (docs/dev/contract.md#webhooks). The facts are in `source-words.ts`. */
import Type, { type Static } from 'typebox'
import { configSchemaOf } from './destinations/config-schema.ts'
import { boolean, closed, count, timestamp, uuid } from './schema-parts.ts'
import {
  hookRefusalNames,
  hookRefusals,
  maxSecretLength,
  maxSecrets,
  maxSourceHeaders,
  type RejectedHooks as RejectedHookCounts,
  type SourceFacts,
  type SourceType,
  sourceHeaderPattern,
  sourceTypes,
  sourceWords,
} from './source-words.ts'

/** A stored secret as responses show it: never its value. */
export const SourceSecret = Type.Object({ secret_id: uuid(), set_ts: timestamp() })
export type SourceSecret = Static<typeof SourceSecret>

const keptSecret = Type.Object(
  { secret_id: uuid('A stored secret, which is kept.'), set_ts: Type.Optional(Type.String()) },
  closed,
)
const generatedSecret = Type.Object(
  { generate: Type.Literal(true, { description: 'A new token. At most one in a request.' }) },
  closed,
)

function enteredSecret({ secretLabel, secretHint, secretPattern }: SourceFacts) {
  return Type.String({
    minLength: 1,
    maxLength: maxSecretLength,
    ...(secretPattern === undefined ? {} : { pattern: secretPattern }),
    description: `${secretLabel}. ${secretHint}`,
  })
}

function givenSchema(type: SourceType) {
  const facts = sourceWords(type)
  const own = facts.secrets === 'generated' ? generatedSecret : enteredSecret(facts)
  const secrets = Type.Array(Type.Union([own, keptSecret]), {
    minItems: 1,
    maxItems: maxSecrets,
    description:
      'The complete list: new secrets, and `{secret_id}` of each stored one that is kept. Absent: the stored secrets are kept.',
  })
  // A change can leave settings out. Management checks that the needed ones are set.
  const settings = Type.Partial(configSchemaOf(facts.fields)).properties
  return Type.Object({ type: Type.Enum([type]), secrets: Type.Optional(secrets), ...settings }, closed)
}

function shownSchema(type: SourceType) {
  return Type.Object({
    type: Type.Enum([type]),
    secrets: Type.Array(SourceSecret),
    ...configSchemaOf(sourceWords(type).fields).properties,
  })
}

interface GivenSource {
  type: SourceType
  secrets?: (string | { secret_id: string; set_ts?: string } | { generate: true })[]
  [setting: string]: unknown
}
export type PipeSourceGiven = GivenSource

/** A source in a response. A secret setting that is set is shown as `[redacted]`. */
export interface PipeSource {
  type: SourceType
  secrets: SourceSecret[]
  [setting: string]: unknown
}

const nullableUnion = (schemas: Type.TSchema[], description: string) =>
  Type.Union([...schemas, Type.Null()], { description })

/** `pipe_source` in requests. */
export const givenSources = sourceTypes.map((type) => [type, givenSchema(type)] as const)
export const PipeSourceGiven = Type.Unsafe<PipeSourceGiven | null>(
  nullableUnion(
    givenSources.map(([, schema]) => schema),
    'Accepts webhooks of a provider at POST /v1/hooks/{pipe_id}; null: the pipe has no source, and those paths get 404. A change of the same type keeps the settings and secrets that it leaves out; null resets a setting.',
  ),
)
/** `pipe_source` in responses. */
export const shownSources = sourceTypes.map((type) => [type, shownSchema(type)] as const)
export const PipeSource = Type.Unsafe<PipeSource | null>(
  nullableUnion(
    shownSources.map(([, schema]) => schema),
    'The source of webhooks; null: none.',
  ),
)

export const PipeSourceHeaders = Type.Array(
  Type.String({ minLength: 1, maxLength: 100, pattern: sourceHeaderPattern }),
  {
    maxItems: maxSourceHeaders,
    description:
      'Request headers of webhooks that are written into each record, as an object under the key `headers`, in lower case. Headers with credentials or signatures are not allowed.',
  },
)
export const PipeSourceRaw = boolean(
  'Writes the body of a webhook, as it was sent, into its record as text under the key `raw_body`.',
)

/** In the usage of a pipe. */
export const RejectedHooks = Type.Unsafe<RejectedHookCounts>(
  Type.Object(
    Object.fromEntries(hookRefusalNames.map((name) => [name, Type.Optional(count(hookRefusals[name]))])),
    { description: 'Webhooks that were rejected, by reason. A reason without any is left out.' },
  ),
)

/** In responses to a request that made a token for `secret_url`. It is shown once. */
export const sourceToken = Type.Optional(
  Type.String({
    description:
      'The token that was made for the secret URL. It is shown once: the address is {data_url}/v1/hooks/{pipe_id}/{token}.',
  }),
)
