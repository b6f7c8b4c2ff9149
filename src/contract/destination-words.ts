/**
 * The destination types, and what everybody needs to know of each: one entry per type. Free of schemas, because
 * loading those costs a command line more than all else that it does. The schemas are in `destinations/`, what the
 * server does with a type is in its folder below `src/destinations`.
 */
export interface DestinationWords {
  /** In names such as orders/database, and for --type. */
  kind: string
  /** Config keys that are sealed at rest and redacted in responses. */
  secrets: Readonly<Record<string, SecretKind>>
  /** Config keys whose empty string says that there is none. */
  emptyIsUnset: readonly string[]
  /** Config keys that are not text, for command lines. */
  numbers: readonly string[]
  booleans: readonly string[]
  /** Has column mappings; object stores with format parquet alone. */
  hasColumns: boolean
  /** Has a table, and a server whose key is pinned. */
  isDatabase: boolean
  /** Requests of one batch may be under way at the same time. */
  hasConcurrency: boolean
  /** docs/dev/contract.md#destinations: the flush plan where neither the destination nor its pipe has one. */
  defaultFlush: { maxRecords: number; maxBytes: number; maxSeconds: number }
  /** Where it puts records, in one short text. */
  target(config: Readonly<Record<string, unknown>>): string
}

/** `text`: the whole value. `map`: every value of an object. `url`: user information and query values, and where `hasSecretPath` the path. */
export type SecretKind = 'text' | 'map' | 'url'

const sendAtOnce = { maxRecords: 1_000, maxBytes: 4 * 1024 * 1024, maxSeconds: 0 }

export const destinationWords = {
  destination_database: {
    kind: 'database',
    secrets: { password: 'text', tls_key: 'text' },
    emptyIsUnset: ['tls_verify', 'tls_ca', 'tls_cert', 'tls_key'],
    numbers: ['port'],
    booleans: ['exactly_once'],
    hasColumns: true,
    isDatabase: true,
    hasConcurrency: false,
    defaultFlush: sendAtOnce,
    target: ({ host, database, table }) => `${host}/${database} ${table}`,
  },
  destination_object_store: {
    kind: 'object-store',
    secrets: { secret_key: 'text', session_token: 'text' },
    emptyIsUnset: ['access_key', 'secret_key', 'session_token'],
    numbers: [],
    booleans: ['force_path_style'],
    hasColumns: true,
    isDatabase: false,
    hasConcurrency: false,
    defaultFlush: { maxRecords: 50_000, maxBytes: 32 * 1024 * 1024, maxSeconds: 60 },
    target: ({ endpoint, bucket }) => `${endpoint ?? 's3'} ${bucket}`,
  },
  destination_http_endpoint: {
    kind: 'http-endpoint',
    secrets: { auth_header: 'text', signing_secret: 'text', secret_headers: 'map', url: 'url' },
    emptyIsUnset: ['auth_header', 'signing_secret'],
    numbers: ['timeout_ms'],
    booleans: ['secret_path'],
    hasColumns: false,
    isDatabase: false,
    hasConcurrency: true,
    defaultFlush: sendAtOnce,
    target: ({ url }) => String(url),
  },
  destination_nats: {
    kind: 'nats',
    secrets: { password: 'text', token: 'text', nkey_seed: 'text', credentials: 'text', tls_key: 'text' },
    emptyIsUnset: ['password', 'token', 'nkey_seed', 'credentials', 'tls_key'],
    numbers: ['timeout_ms'],
    booleans: ['tls_verify'],
    hasColumns: false,
    isDatabase: false,
    hasConcurrency: true,
    defaultFlush: sendAtOnce,
    target: ({ url, subject }) => `${url} ${subject}`,
  },
  destination_pull: {
    kind: 'pull',
    secrets: {},
    emptyIsUnset: [],
    numbers: ['lease_seconds'],
    booleans: [],
    hasColumns: false,
    isDatabase: false,
    hasConcurrency: false,
    defaultFlush: { maxRecords: 1, maxBytes: 1, maxSeconds: 0 },
    target: ({ ack_mode }) => (ack_mode === 'explicit' ? 'pull, explicit ack' : 'pull'),
  },
} as const satisfies Record<string, DestinationWords>

/** Replaces a secret value in responses; sent back, it keeps the stored value. */
export const redacted = '[redacted]'

export type DestinationType = keyof typeof destinationWords

export const destinationTypes = Object.keys(destinationWords).filter(isDestinationType)

function isDestinationType(name: string): name is DestinationType {
  return Object.hasOwn(destinationWords, name)
}

export function wordsOf(type: DestinationType): DestinationWords {
  return destinationWords[type]
}
