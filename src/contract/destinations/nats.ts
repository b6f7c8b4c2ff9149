/** Subjects of NATS JetStream: the config as clients send it, and as its driver works with it. */
import Type, { type Static } from 'typebox'
import { closed, nullable, text } from './fields.ts'

const defaultTimeoutMs = 5_000

const secret = (maxLength: number, description?: string) =>
  Type.Optional(nullable(Type.String({ maxLength, ...(description === undefined ? {} : { description }) })))

export const NatsConfig = Type.Object(
  {
    url: text(
      2000,
      'nats://host:4222 or tls://host:4222; servers of one cluster with commas between them, at most 8. Only these are ever dialled.',
    ),
    subject: text(
      200,
      'What each record is published to. Takes {pipe_name}, {pipe_id} and {destination_id}. A stream must keep it.',
    ),
    stream: Type.Optional(
      nullable(
        Type.String({
          minLength: 1,
          maxLength: 255,
          pattern: '^[^\\s.*>/\\\\\\p{Cc}]+$',
          description: 'The stream that must keep the subject; null: whichever does.',
        }),
      ),
    ),
    username: Type.Optional(nullable(Type.String({ minLength: 1, maxLength: 1000 }))),
    password: secret(4096),
    token: secret(4096),
    nkey_seed: secret(200, 'SU…: the seed of a user.'),
    credentials: secret(16_384, 'The content of a .creds file: the JWT and the seed of a user.'),
    tls_ca: Type.Optional(
      nullable(text(65_536, 'Certificates of authorities, PEM, in the place of those of the system.')),
    ),
    tls_verify: Type.Optional(
      Type.Boolean({
        default: true,
        description: 'With tls:// addresses: false takes any certificate.',
      }),
    ),
    tls_cert: Type.Optional(nullable(text(65_536, 'The certificate that pipectl shows, PEM.'))),
    tls_key: secret(65_536, 'The key of tls_cert, PEM, not encrypted.'),
    headers: Type.Optional(
      Type.Record(Type.String(), Type.String({ maxLength: 4096 }), {
        maxProperties: 20,
        description: 'Of every message. Names that begin with Nats- belong to the protocol.',
      }),
    ),
    timeout_ms: Type.Optional(
      Type.Integer({
        minimum: 1000,
        maximum: 60_000,
        default: defaultTimeoutMs,
        description: 'How long the acknowledgement of a message may take.',
      }),
    ),
  },
  closed,
)
export type NatsConfig = Static<typeof NatsConfig>

export interface ResolvedNatsConfig {
  url: string
  subject: string
  stream: string | null
  username: string | null
  password: string | null
  token: string | null
  nkey_seed: string | null
  credentials: string | null
  tls_ca: string | null
  tls_verify: boolean
  tls_cert: string | null
  tls_key: string | null
  headers: Readonly<Record<string, string>>
  timeout_ms: number
}

export function resolveNatsConfig(config: NatsConfig): ResolvedNatsConfig {
  return {
    url: config.url,
    subject: config.subject,
    stream: config.stream ?? null,
    username: config.username ?? null,
    password: config.password ?? null,
    token: config.token ?? null,
    nkey_seed: config.nkey_seed ?? null,
    credentials: config.credentials ?? null,
    tls_ca: config.tls_ca ?? null,
    tls_verify: config.tls_verify ?? true,
    tls_cert: config.tls_cert ?? null,
    tls_key: config.tls_key ?? null,
    headers: config.headers ?? {},
    timeout_ms: config.timeout_ms ?? defaultTimeoutMs,
  }
}
