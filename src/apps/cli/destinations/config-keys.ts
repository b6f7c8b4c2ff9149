/** The keys of a destination's config, for `--help`. */
import { type DestinationType, destinationTypes, wordsOf } from '../../../contract/destination-words.ts'

/** As the contract's schemas; a test compares both (their module is slow to load). */
export const configKeys: Record<DestinationType, readonly string[]> = {
  destination_database: [
    'host*',
    'port',
    'database*',
    'username*',
    'password*',
    'table*',
    'dialect',
    'sql_dialect',
    'exactly_once',
    ...['tls_verify', 'tls_ca', 'tls_cert', 'tls_key'],
  ],
  destination_object_store: [
    ...['bucket*', 'region', 'endpoint', 'force_path_style', 'access_key', 'secret_key', 'session_token'],
    ...['key_template', 'format', 'compression', 'storage_class', 'sse', 'kms_key_id'],
  ],
  destination_http_endpoint: [
    ...[
      'url*',
      'secret_path',
      'auth_header',
      'headers',
      'secret_headers',
      'method',
      'body_format',
      'labels',
      'text_template',
      'compression',
      'timeout_ms',
    ],
    'signing_secret',
  ],
  destination_nats: [
    ...['url*', 'subject*', 'stream', 'username', 'password', 'token', 'nkey_seed', 'credentials'],
    ...['tls_ca', 'tls_verify', 'tls_cert', 'tls_key', 'headers', 'timeout_ms'],
  ],
  destination_pull: ['ack_mode', 'lease_seconds'],
}

export const configKeysHelp = destinationTypes
  .map((type) => `  ${wordsOf(type).kind.padEnd(14)} ${configKeys[type].join(' ')}`)
  .join('\n')
