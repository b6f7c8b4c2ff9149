/** An HTTP endpoint: its config as clients send it, and as its driver works with it. */
import Type, { type Static } from 'typebox'
import { resourceLimits } from '../resource-limits.ts'
import { closed, nullable, text } from './fields.ts'

const methods = ['POST', 'PUT'] as const
const bodyFormats = ['json_array', 'ndjson', 'json_object', 'es_bulk', 'loki', 'slack'] as const
export type BodyFormat = (typeof bodyFormats)[number]

/** One request per record. */
export function isOneByOne(format: BodyFormat): boolean {
  return format === 'json_object' || format === 'slack'
}

/** The number of requests for a number of records. */
export function requestsFor(format: BodyFormat, records: number): number {
  if (isOneByOne(format)) return records
  return format === 'es_bulk' ? Math.ceil(records / resourceLimits.bulkRecords) : 1
}

const compressions = ['none', 'gzip'] as const
const defaultTimeoutMs = 15_000

export const HttpEndpointConfig = Type.Object(
  {
    url: text(
      4000,
      'User information and query values are secret, with secret_path or body_format slack the path too: they show as [redacted].',
    ),
    secret_path: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'The path of the URL is a secret: who knows it may send. With body_format slack it always is. Where it no longer is, the URL has to be sent again.',
      }),
    ),
    auth_header: Type.Optional(
      nullable(Type.String({ maxLength: 8192, description: 'The whole Authorization value.' })),
    ),
    headers: Type.Optional(
      Type.Record(Type.String(), Type.String({ maxLength: 4096 }), { maxProperties: 20 }),
    ),
    secret_headers: Type.Optional(
      Type.Record(Type.String(), Type.String({ minLength: 1, maxLength: 8192 }), {
        maxProperties: 20,
        description: 'Like headers, each value secret. A change is merged header by header.',
      }),
    ),
    method: Type.Optional(Type.Enum([...methods], { default: 'POST' })),
    body_format: Type.Optional(
      Type.Enum([...bodyFormats], {
        default: 'json_array',
        description:
          'json_object: one request per record. es_bulk: the _bulk API of Elasticsearch and OpenSearch, whose answer is read item by item. loki: the push API of Grafana Loki. slack: an incoming webhook, one message per record.',
      }),
    ),
    labels: Type.Optional(
      Type.Record(Type.String(), Type.String({ minLength: 1, maxLength: 1024 }), {
        maxProperties: 15,
        description: 'With body_format loki: the labels of its stream. Default: pipe, the name of the pipe.',
      }),
    ),
    text_template: Type.Optional(
      nullable(
        text(
          2000,
          "With body_format slack: the message, with {key} for a record's top-level value. Default: the record.",
        ),
      ),
    ),
    compression: Type.Optional(Type.Enum([...compressions], { default: 'none' })),
    timeout_ms: Type.Optional(Type.Integer({ minimum: 1000, maximum: 60000, default: defaultTimeoutMs })),
    signing_secret: Type.Optional(
      nullable(
        Type.String({
          maxLength: 400,
          description:
            'whsec_…; two of them, separated by a space, while rotating: both signatures are sent. The body is signed as it is before compression.',
        }),
      ),
    ),
  },
  closed,
)
export type HttpEndpointConfig = Static<typeof HttpEndpointConfig>

export interface ResolvedHttpEndpointConfig {
  url: string
  secret_path: boolean
  auth_header: string | null
  headers: Readonly<Record<string, string>>
  secret_headers: Readonly<Record<string, string>>
  method: (typeof methods)[number]
  body_format: BodyFormat
  labels: Readonly<Record<string, string>>
  text_template: string | null
  compression: (typeof compressions)[number]
  timeout_ms: number
  signing_secret: string | null
}

export function resolveHttpEndpointConfig(config: HttpEndpointConfig): ResolvedHttpEndpointConfig {
  return {
    url: config.url,
    secret_path: config.secret_path ?? false,
    auth_header: config.auth_header ?? null,
    headers: config.headers ?? {},
    secret_headers: config.secret_headers ?? {},
    method: config.method ?? 'POST',
    body_format: config.body_format ?? 'json_array',
    labels: config.labels ?? {},
    text_template: config.text_template ?? null,
    compression: config.compression ?? 'none',
    timeout_ms: config.timeout_ms ?? defaultTimeoutMs,
    signing_secret: config.signing_secret ?? null,
  }
}
