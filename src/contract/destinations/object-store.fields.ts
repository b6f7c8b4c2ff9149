/** An S3-compatible object store. */
import { type Config, hostOf, oneOf, optionalSecret, originOf } from './config-field.ts'
import { type ConnectionUrl, ConnectionUrlError, rejectUnknownParameters } from './connection-url.ts'
import type { TypeFacts } from './type-facts.ts'

const urlParameters = ['region', 'endpoint', 'key_template', 'format', 'compression', 'access_key']

const url: ConnectionUrl = {
  schemes: ['s3'],
  form: 's3://bucket',
  needs: ['bucket'],
  uses: (name) => urlParameters.includes(name),
  parse(url) {
    if (url.hostname === '' || url.pathname.replace(/\/$/, '') !== '')
      throw new ConnectionUrlError(
        'an object store is only s3://BUCKET',
        'say where objects go with --set key_template=…, which must contain {first_seq}',
      )
    rejectUnknownParameters(url, this, urlParameters)
    const given = urlParameters.flatMap((name) => {
      const value = url.searchParams.get(name)
      return value === null ? [] : [[name, value]]
    })
    return { bucket: url.hostname, ...Object.fromEntries(given) }
  },
}

export const objectStore = {
  kind: 'object-store',
  title: 'Object store',
  summary: 'Files in a bucket of S3 or a compatible store.',
  guides: [['object-store.md', 'Object stores']],
  examples: [
    'pipectl destinations create orders --url s3://lake --set endpoint=http://127.0.0.1:9000 --set access_key=loader --secret secret_key',
    "pipectl destinations create orders --url 's3://lake?region=eu-central-1&format=parquet' --column id:number --column at:string:received_at",
  ],
  fields: {
    bucket: {
      kind: 'text',
      label: 'Bucket',
      hint: 'It must exist: pipectl does not create it.',
      needed: true,
      maxLength: 255,
    },
    region: { kind: 'text', label: 'Region', maxLength: 100, default: 'us-east-1' },
    endpoint: {
      kind: 'text',
      label: 'Endpoint',
      hint: 'The URL of a compatible store. Without it: AWS.',
      example: 'https://s3.example.com',
      nullable: true,
      maxLength: 2000,
    },
    access_key: {
      kind: 'text',
      label: 'Access key',
      hint: 'Needs secret_key.',
      nullable: true,
      empty: 'unset',
      maxLength: 1000,
    },
    secret_key: { ...optionalSecret, label: 'Secret key', maxLength: 4096 },
    format: {
      kind: 'choice',
      label: 'Format',
      hint: 'parquet requires columns, which define its schema.',
      options: {
        ndjson: 'one record per line',
        json_array: 'a JSON array',
        parquet: 'Parquet, by column mappings',
      },
      default: 'ndjson',
    },
    compression: {
      kind: 'choice',
      label: 'Compression',
      hint: 'snappy and zstd are for Parquet only.',
      options: { gzip: 'gzip', none: 'none', snappy: 'snappy', zstd: 'zstd' },
      usual: 'gzip; snappy with format parquet',
      resolve: ({ compression, format }: Config) =>
        oneOf(compression, ['gzip', 'none', 'snappy', 'zstd']) ?? (format === 'parquet' ? 'snappy' : 'gzip'),
    },
    key_template: {
      kind: 'text',
      label: 'Object key',
      hint: 'Must contain {first_seq}. Date and time are those of the first message, in UTC. Also {pipe_id}, {mm}, {ss}, {msg_id} and {epoch}.',
      advanced: true,
      maxLength: 900,
      default: '{pipe_name}/date={yyyy}-{MM}-{dd}/hour={HH}/{first_seq}-{last_seq}-{destination_id}.{ext}',
    },
    session_token: { ...optionalSecret, label: 'Session token', advanced: true, maxLength: 8192 },
    storage_class: {
      kind: 'text',
      label: 'Storage class',
      example: 'STANDARD_IA',
      advanced: true,
      nullable: true,
      maxLength: 100,
    },
    sse: {
      kind: 'choice',
      label: 'Encryption at rest',
      options: { AES256: 'AES256', 'aws:kms': 'aws:kms' },
      usual: "the bucket's",
      advanced: true,
      nullable: true,
    },
    kms_key_id: {
      kind: 'text',
      label: 'KMS key',
      hint: 'For sse aws:kms.',
      advanced: true,
      nullable: true,
      maxLength: 2048,
    },
    force_path_style: {
      kind: 'boolean',
      label: 'Path-style URLs',
      hint: 'https://store/bucket/key instead of https://bucket.store/key.',
      options: { true: 'yes', false: 'no' },
      usual: 'true with endpoint, false for AWS',
      advanced: true,
      resolve: ({ force_path_style, endpoint = null }: Config) =>
        typeof force_path_style === 'boolean' ? force_path_style : endpoint !== null,
    },
  },
  hasColumns: true,
  isDatabase: false,
  hasServerKey: false,
  isTableFile: false,
  hasConcurrency: false,
  isPulled: false,
  receiver: 'destination',
  defaultFlush: { maxRecords: 50_000, maxBytes: 32 * 1024 * 1024, maxSeconds: 60 },
  url,
  target: ({ endpoint, bucket }) => `${endpoint ?? 's3'} ${bucket}`,
  targetKey: ({ endpoint, bucket, key_template }) => [endpoint ?? null, bucket, key_template ?? null],
  // Without an endpoint the server is AWS, which is always the same.
  server: ({ endpoint }) => (typeof endpoint === 'string' ? originOf(endpoint) : null),
  shownServer: ({ endpoint, bucket }) =>
    `${typeof endpoint === 'string' ? hostOf(endpoint) : 's3'}, bucket ${bucket}`,
} as const satisfies TypeFacts
