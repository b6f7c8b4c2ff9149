/**
 * The config of each destination type as fields of a form, and what is sent of them. Everything that is typed is text until
 * then; what is no number goes to the API as it is, which says so at the field. Pure.
 */
import { type DestinationType, redacted, wordsOf } from '../../../../contract/destination-words.ts'

export interface ConfigField {
  key: string
  label: string
  /** `headers`: `Name: value`, one a line; `lines`: text of several. */
  kind: 'text' | 'lines' | 'secret' | 'number' | 'choice' | 'switch' | 'headers'
  required?: boolean
  hint?: string
  placeholder?: string
  options?: readonly (readonly [string, string])[]
  /** A secret of several lines. */
  hasLines?: boolean
  /** Seldom needed: below "More". */
  more?: boolean
}

const compressions = [
  ['none', 'none'],
  ['gzip', 'gzip'],
] as const

export const configFields: Record<DestinationType, readonly ConfigField[]> = {
  destination_database: [
    {
      key: 'dialect',
      label: 'Kind of server',
      kind: 'choice',
      options: [
        ['postgresql', 'PostgreSQL'],
        ['mysql', 'MySQL'],
        ['mariadb', 'MariaDB'],
      ],
    },
    { key: 'host', label: 'Host', kind: 'text', required: true, placeholder: 'db.example.com' },
    { key: 'port', label: 'Port', kind: 'number', placeholder: '5432, MySQL 3306' },
    { key: 'database', label: 'Database', kind: 'text', required: true },
    { key: 'username', label: 'User', kind: 'text', required: true },
    { key: 'password', label: 'Password', kind: 'secret' },
    {
      key: 'table',
      label: 'Table',
      kind: 'text',
      required: true,
      placeholder: 'events or schema.events',
      hint: 'It is there already, or is created from the records, below.',
    },
    {
      key: 'exactly_once',
      label: 'After a crash or a lost reply',
      kind: 'choice',
      options: [
        ['', 'may be there twice'],
        ['true', 'there once'],
      ],
      hint: 'Twice: unless a column has the role unique id. Once: how far delivery has come is kept in the table _pipectl_lanes beside yours, which pipectl makes.',
    },
    {
      key: 'tls_verify',
      label: 'Certificate of the server',
      kind: 'choice',
      more: true,
      options: [
        ['', 'not verified (full with a CA)'],
        ['none', 'not verified, its key is pinned'],
        ['ca', 'of a trusted authority'],
        ['full', 'of a trusted authority, and for the host'],
      ],
    },
    {
      key: 'tls_ca',
      label: 'CA of that certificate',
      kind: 'lines',
      more: true,
      hint: 'PEM. Empty: the public authorities.',
    },
    {
      key: 'tls_cert',
      label: 'Client certificate',
      kind: 'lines',
      more: true,
      hint: 'PEM, where the server asks for one.',
    },
    {
      key: 'tls_key',
      label: 'Key of the client certificate',
      kind: 'secret',
      hasLines: true,
      more: true,
      hint: 'PEM. Once saved it is not shown again; empty: stays as it is.',
    },
  ],
  destination_object_store: [
    { key: 'bucket', label: 'Bucket', kind: 'text', required: true },
    { key: 'region', label: 'Region', kind: 'text', placeholder: 'us-east-1' },
    {
      key: 'endpoint',
      label: 'Endpoint',
      kind: 'text',
      placeholder: 'https://s3.example.com',
      hint: 'Of a compatible store; empty for AWS.',
    },
    { key: 'access_key', label: 'Access key', kind: 'text' },
    { key: 'secret_key', label: 'Secret key', kind: 'secret' },
    {
      key: 'format',
      label: 'Format',
      kind: 'choice',
      options: [
        ['ndjson', 'one record a line'],
        ['json_array', 'a JSON array'],
        ['parquet', 'Parquet, by the columns below'],
      ],
    },
    {
      key: 'compression',
      label: 'Compression',
      kind: 'choice',
      options: [
        ['', 'usual: gzip, snappy in Parquet'],
        ['gzip', 'gzip'],
        ['none', 'none'],
        ['snappy', 'snappy, Parquet alone'],
        ['zstd', 'zstd, Parquet alone'],
      ],
    },
    {
      key: 'key_template',
      label: 'Names of objects',
      kind: 'text',
      more: true,
      placeholder:
        '{pipe_name}/date={yyyy}-{MM}-{dd}/hour={HH}/{first_seq}-{last_seq}-{destination_id}.{ext}',
      hint: 'Must hold {first_seq}.',
    },
    { key: 'session_token', label: 'Session token', kind: 'secret', more: true },
    { key: 'storage_class', label: 'Storage class', kind: 'text', more: true },
    {
      key: 'sse',
      label: 'Encryption at rest',
      kind: 'choice',
      more: true,
      options: [
        ['', 'as the bucket says'],
        ['AES256', 'AES256'],
        ['aws:kms', 'aws:kms'],
      ],
    },
    { key: 'kms_key_id', label: 'KMS key', kind: 'text', more: true },
    {
      key: 'force_path_style',
      label: 'Bucket in the path',
      kind: 'choice',
      more: true,
      options: [
        ['', 'yes with an endpoint, no for AWS'],
        ['true', 'yes'],
        ['false', 'no'],
      ],
    },
  ],
  destination_http_endpoint: [
    { key: 'url', label: 'URL', kind: 'text', required: true, placeholder: 'https://example.com/hook' },
    {
      key: 'method',
      label: 'Method',
      kind: 'choice',
      options: [
        ['POST', 'POST'],
        ['PUT', 'PUT'],
      ],
    },
    {
      key: 'body_format',
      label: 'Body',
      kind: 'choice',
      options: [
        ['json_array', 'a JSON array of records'],
        ['ndjson', 'one record a line'],
        ['json_object', 'one request for each record'],
        ['es_bulk', '_bulk of Elasticsearch, OpenSearch'],
        ['loki', 'push to Grafana Loki'],
        ['slack', 'a message to Slack for each record'],
      ],
    },
    {
      key: 'auth_header',
      label: 'Authorization header',
      kind: 'secret',
      placeholder: 'Bearer …',
      hint: 'The whole value.',
    },
    {
      key: 'signing_secret',
      label: 'Signing secret',
      kind: 'secret',
      placeholder: 'whsec_…',
      hint: 'Requests are signed as Standard Webhooks; two secrets with a space between while rotating.',
    },
    {
      key: 'headers',
      label: 'Headers',
      kind: 'headers',
      more: true,
      placeholder: 'X-Source: pipectl',
      hint: 'Name: value, one a line.',
    },
    {
      key: 'secret_headers',
      label: 'Secret headers',
      kind: 'headers',
      more: true,
      placeholder: 'X-Api-Key: …',
      hint: `Stored sealed. ${redacted} keeps what is stored.`,
    },
    {
      key: 'secret_path',
      label: 'Path of the URL',
      kind: 'choice',
      more: true,
      options: [
        ['', 'is shown, but for Slack'],
        ['true', 'is a secret'],
      ],
    },
    {
      key: 'labels',
      label: 'Labels (Loki)',
      kind: 'headers',
      more: true,
      placeholder: 'app: shop',
      hint: 'Of the stream. Name: value, one a line.',
    },
    {
      key: 'text_template',
      label: 'Message (Slack)',
      kind: 'text',
      more: true,
      placeholder: 'Order {id}: {total}',
      hint: "{key} for a record's value; empty: the whole record.",
    },
    { key: 'compression', label: 'Compression', kind: 'choice', more: true, options: compressions },
    {
      key: 'timeout_ms',
      label: 'Time for a response, in milliseconds',
      kind: 'number',
      more: true,
      placeholder: '15000',
    },
  ],
  destination_nats: [
    {
      key: 'url',
      label: 'Servers',
      kind: 'text',
      required: true,
      placeholder: 'nats://nats.example.com:4222',
      hint: 'Servers of one cluster with commas between them; tls:// for TLS.',
    },
    {
      key: 'subject',
      label: 'Subject',
      kind: 'text',
      required: true,
      placeholder: 'events.{pipe_name}',
      hint: 'A stream of JetStream must keep it.',
    },
    {
      key: 'stream',
      label: 'Stream',
      kind: 'text',
      placeholder: 'EVENTS',
      hint: 'Checked with every message where it is given.',
    },
    { key: 'username', label: 'User', kind: 'text' },
    { key: 'password', label: 'Password', kind: 'secret' },
    { key: 'token', label: 'Token', kind: 'secret', more: true },
    { key: 'nkey_seed', label: 'NKey seed', kind: 'secret', more: true, placeholder: 'SU…' },
    {
      key: 'credentials',
      label: 'Credentials',
      kind: 'secret',
      hasLines: true,
      more: true,
      hint: 'The whole content of a .creds file. Once saved it is not shown again; empty: stays as it is.',
    },
    { key: 'tls_ca', label: 'Authorities (PEM)', kind: 'lines', more: true },
    {
      key: 'tls_verify',
      label: 'Certificate of the server',
      kind: 'choice',
      more: true,
      options: [
        ['', 'is verified'],
        ['false', 'is not verified'],
      ],
    },
    { key: 'tls_cert', label: 'Certificate to show (PEM)', kind: 'lines', more: true },
    {
      key: 'tls_key',
      label: 'Key of the certificate (PEM)',
      kind: 'secret',
      hasLines: true,
      more: true,
      hint: 'Once saved it is not shown again; empty: stays as it is.',
    },
    {
      key: 'headers',
      label: 'Headers',
      kind: 'headers',
      more: true,
      placeholder: 'Source: pipectl',
      hint: 'Of every message. Name: value, one a line.',
    },
    {
      key: 'timeout_ms',
      label: 'Time for an acknowledgement, in milliseconds',
      kind: 'number',
      more: true,
      placeholder: '5000',
    },
  ],
  destination_pull: [
    {
      key: 'ack_mode',
      label: 'A message is done',
      kind: 'choice',
      options: [
        ['auto', 'when it was handed over'],
        ['explicit', 'when the consumer acknowledges it'],
      ],
    },
    {
      key: 'lease_seconds',
      label: 'Seconds to acknowledge',
      kind: 'number',
      placeholder: '30',
      hint: 'With acknowledgement: after this long without one it is delivered again.',
    },
  ],
}

export type Texts = Readonly<Record<string, string>>

/** The form's texts for a stored config. A secret is never shown: its field is empty, which keeps it. */
export function textsOf(type: DestinationType, config: Readonly<Record<string, unknown>>): Texts {
  const texts = configFields[type].map(({ key, kind, options }) => {
    const value = config[key] ?? (key === 'dialect' ? config.sql_dialect : undefined)
    if (kind === 'secret') return [key, '']
    if (kind === 'headers') return [key, headerLines(value)]
    if (value === undefined || value === null)
      return [key, kind === 'choice' ? (options?.[0]?.[0] ?? '') : '']
    const text = key === 'dialect' ? shortDialect(String(value)) : String(value)
    // A stored false where the choice is between nothing and true.
    return [key, options?.every(([name]) => name !== text) ? options[0]![0] : text]
  })
  return Object.fromEntries(texts)
}

function shortDialect(name: string): string {
  return name === 'postgres' || name === 'pg' ? 'postgresql' : name
}

function headerLines(value: unknown): string {
  if (typeof value !== 'object' || value === null) return ''
  return Object.entries(value)
    .map(([name, one]) => `${name}: ${one}`)
    .join('\n')
}

function headersOf(text: string): Record<string, string> {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf(':')
      return at === -1 ? [line.trim(), ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()]
    }),
  )
}

/** The config of a new destination: what is empty is left out. */
export function newConfig(type: DestinationType, texts: Texts): Record<string, unknown> {
  const given = configFields[type].flatMap((field) => {
    const text = texts[field.key] ?? ''
    // A database's password may be empty; the API wants to be told.
    if (text.trim() === '' && field.key !== 'password') return []
    return [[field.key, typedValue(type, field, text)]]
  })
  return Object.fromEntries(given)
}

/**
 * The changes that a form makes to a stored config. An empty field removes the value, except for secrets, which stay.
 */
export function changedConfig(type: DestinationType, before: Texts, texts: Texts): Record<string, unknown> {
  const given = configFields[type].flatMap((field) => {
    const text = texts[field.key] ?? ''
    const earlier = before[field.key] ?? ''
    if (text === earlier) return []
    if (field.key === 'secret_headers') return [[field.key, mergedHeaders(earlier, text)]]
    if (text.trim() === '') return field.required ? [[field.key, '']] : [[field.key, null]]
    return [[field.key, typedValue(type, field, text)]]
  })
  return Object.fromEntries(given)
}

/** The API merges secret headers one by one: one that is gone from the text is removed by null. */
function mergedHeaders(before: string, now: string): Record<string, string | null> {
  const wanted = headersOf(now)
  const gone = Object.keys(headersOf(before)).filter((name) => !Object.hasOwn(wanted, name))
  return { ...wanted, ...Object.fromEntries(gone.map((name) => [name, null])) }
}

function typedValue(type: DestinationType, { key, kind }: ConfigField, text: string): unknown {
  if (kind === 'headers') return headersOf(text)
  if (kind === 'number') return numberOr(text)
  if (wordsOf(type).booleans.includes(key)) return text === 'true'
  return kind === 'secret' ? text : text.trim()
}

/** The number that a text is; the text itself where it is none. */
export function numberOr(text: string): number | string {
  const trimmed = text.trim()
  return trimmed === '' || Number.isNaN(Number(trimmed)) ? text : Number(trimmed)
}
