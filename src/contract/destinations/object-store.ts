/** An S3-compatible object store: its config as clients send it, and as its driver works with it. */
import Type, { type Static } from 'typebox'
import { closed, nullable, text } from './fields.ts'

export const defaultKeyTemplate =
  '{pipe_name}/date={yyyy}-{MM}-{dd}/hour={HH}/{first_seq}-{last_seq}-{destination_id}.{ext}'

const formats = ['ndjson', 'json_array', 'parquet'] as const
const compressions = ['gzip', 'none', 'snappy', 'zstd'] as const

export const ObjectStoreConfig = Type.Object(
  {
    bucket: text(255),
    region: Type.Optional(Type.String({ minLength: 1, maxLength: 100, default: 'us-east-1' })),
    endpoint: Type.Optional(nullable(text(2000, 'The URL of a compatible store; without it, AWS.'))),
    force_path_style: Type.Optional(Type.Boolean({ description: 'Default: true when endpoint is set.' })),
    access_key: Type.Optional(nullable(Type.String({ maxLength: 1000 }))),
    secret_key: Type.Optional(nullable(Type.String({ maxLength: 4096 }))),
    session_token: Type.Optional(nullable(Type.String({ maxLength: 8192 }))),
    key_template: Type.Optional(Type.String({ minLength: 1, maxLength: 900, default: defaultKeyTemplate })),
    format: Type.Optional(
      Type.Enum([...formats], {
        default: 'ndjson',
        description: 'parquet takes its schema from columns, which it needs.',
      }),
    ),
    compression: Type.Optional(
      Type.Enum([...compressions], {
        description: 'Default: gzip; snappy with format parquet. snappy and zstd go with parquet only.',
      }),
    ),
    storage_class: Type.Optional(nullable(text(100))),
    sse: Type.Optional(nullable(Type.Enum(['AES256', 'aws:kms']))),
    kms_key_id: Type.Optional(nullable(text(2048))),
  },
  closed,
)
export type ObjectStoreConfig = Static<typeof ObjectStoreConfig>

export interface ResolvedObjectStoreConfig {
  bucket: string
  region: string
  endpoint: string | null
  force_path_style: boolean
  access_key: string | null
  secret_key: string | null
  session_token: string | null
  key_template: string
  format: (typeof formats)[number]
  compression: (typeof compressions)[number]
  storage_class: string | null
  sse: 'AES256' | 'aws:kms' | null
  kms_key_id: string | null
}

export function resolveObjectStoreConfig(config: ObjectStoreConfig): ResolvedObjectStoreConfig {
  const endpoint = config.endpoint ?? null
  const format = config.format ?? 'ndjson'
  return {
    bucket: config.bucket,
    region: config.region ?? 'us-east-1',
    endpoint,
    force_path_style: config.force_path_style ?? endpoint !== null,
    access_key: config.access_key ?? null,
    secret_key: config.secret_key ?? null,
    session_token: config.session_token ?? null,
    key_template: config.key_template ?? defaultKeyTemplate,
    format,
    compression: config.compression ?? (format === 'parquet' ? 'snappy' : 'gzip'),
    storage_class: config.storage_class ?? null,
    sse: config.sse ?? null,
    kms_key_id: config.kms_key_id ?? null,
  }
}
