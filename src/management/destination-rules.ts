/**
 * What a destination must be beyond its shape, by type: rules between keys, and rules that a schema cannot say.
 * Errors carry the paths of the request body (`destination_config.url`, `columns.0.column_name`). Pure, but for
 * `checkTarget`, which asks the egress policy.
 */
import {
  type ColumnMapping,
  configSchemas,
  type DestinationType,
  redacted,
  secretKeys,
} from '../contract/destination.ts'
import { parseKeyTemplate } from '../contract/key-template.ts'
import { explain, type FieldErrors, isObject } from '../contract/validate.ts'
import { headerErrors, headerValueError } from './header-rules.ts'

type Config = Record<string, unknown>
/** Null: may be dialled. Otherwise a sentence that says why the policy refuses it. */
export type CheckTarget = (type: DestinationType, config: Config) => string | null

/** Everything wrong with a whole config (new, or merged by PATCH). */
export function configErrors(type: DestinationType, config: Config, checkTarget: CheckTarget): FieldErrors {
  const shape = explain(configSchemas[type], config, 'destination_config')
  if (Object.keys(shape).length > 0) return shape
  const errors: FieldErrors = {}
  const wrong = (key: string, message: string | null) => {
    if (message !== null) errors[`destination_config.${key}`] ??= message
  }
  for (const key of secretKeys[type])
    if (config[key] === redacted) wrong(key, `must be the secret itself, not ${redacted}`)
  rules[type](config, wrong)
  if (Object.keys(errors).length === 0) wrong(targetKey[type], checkTarget(type, config))
  return errors
}

/** Everything wrong with the mappings of a database destination, whose shape is right already. */
export function columnErrors(columns: readonly ColumnMapping[], config: Config): FieldErrors {
  const errors: FieldErrors = {}
  const seen = new Map<string, number>()
  let dedupeAt: number | null = null
  columns.forEach((column, index) => {
    const path = `columns.${index}`
    // MySQL compares column names without regard to case; PostgreSQL's are quoted, so there case counts.
    const name = isMysql(config) ? column.column_name.toLowerCase() : column.column_name
    const first = seen.get(name)
    const bad = identifierError(column.column_name, config)
    if (bad !== null) errors[`${path}.column_name`] = bad
    else if (first !== undefined) errors[`${path}.column_name`] = `is mapped already by columns.${first}`
    else seen.set(name, index)
    if (column.semantic_role !== 'dedupe_id') return
    if (dedupeAt === null) dedupeAt = index
    else errors[`${path}.semantic_role`] = `only one column may be the dedupe_id; columns.${dedupeAt} is`
  })
  return errors
}

/** Where the error of a refused target stands. */
const targetKey: Record<DestinationType, string> = {
  destination_database: 'host',
  destination_object_store: 'endpoint',
  destination_http_endpoint: 'url',
  destination_pull: 'ack_mode',
}

type Wrong = (key: string, message: string | null) => void

const rules: Record<DestinationType, (config: Config, wrong: Wrong) => void> = {
  destination_database(config, wrong) {
    if (typeof config.port === 'string' && !(Number(config.port) >= 1 && Number(config.port) <= 65_535))
      wrong('port', 'must be a port number from 1 to 65535')
    if (/[\s/\\@\p{Cc}]/u.test(String(config.host))) wrong('host', 'must be a host name or an address')
    const parts = String(config.table).split('.')
    if (parts.length > 2) wrong('table', 'must be table or schema.table')
    for (const part of parts)
      if (identifierError(part, config) !== null)
        wrong('table', `must be table or schema.table: a part ${identifierError(part, config)}`)
  },
  destination_object_store(config, wrong) {
    if (/[\s/\p{Cc}]/u.test(String(config.bucket))) wrong('bucket', 'must be a bucket name')
    if (config.endpoint !== undefined) wrong('endpoint', httpUrlError(config.endpoint))
    const hasAccessKey = config.access_key !== undefined
    const hasSecretKey = config.secret_key !== undefined
    if (hasAccessKey && !hasSecretKey) wrong('secret_key', 'is required with access_key')
    if (hasSecretKey && !hasAccessKey) wrong('access_key', 'is required with secret_key')
    if (config.session_token !== undefined && !hasAccessKey)
      wrong('access_key', 'is required with session_token')
    if (typeof config.key_template === 'string') {
      const parsed = parseKeyTemplate(config.key_template)
      if (!parsed.ok) wrong('key_template', parsed.message)
    }
    if (config.kms_key_id !== undefined && config.sse !== 'aws:kms')
      wrong('kms_key_id', 'goes with sse "aws:kms" only')
  },
  destination_http_endpoint(config, wrong) {
    wrong('url', httpUrlError(config.url))
    if (config.auth_header !== undefined) wrong('auth_header', headerValueError(String(config.auth_header)))
    for (const [key, message] of headerErrors(isObject(config.headers) ? config.headers : {}))
      wrong(`headers.${key}`, message)
    if (config.signing_secret !== undefined)
      wrong('signing_secret', signingSecretError(String(config.signing_secret)))
  },
  destination_pull() {},
}

function httpUrlError(text: unknown): string | null {
  let url: URL
  try {
    url = new URL(String(text))
  } catch {
    return 'must be a URL such as https://example.com/path'
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'must begin with http:// or https://'
  if (url.hostname === '') return 'must name a host'
  if (url.username !== '' || url.password !== '')
    return 'must not hold a user name or password: they would be shown'
  return null
}

/** Standard Webhooks: `whsec_` and 24 to 64 bytes in base64. */
function signingSecretError(secret: string): string | null {
  const encoded = secret.startsWith('whsec_') ? secret.slice('whsec_'.length) : null
  const bytes = encoded === null ? null : Buffer.from(encoded, 'base64')
  const isExact =
    bytes !== null && bytes.toString('base64').replace(/=+$/, '') === encoded?.replace(/=+$/, '')
  if (isExact && bytes.length >= 24 && bytes.length <= 64) return null
  return 'must be whsec_ followed by 24 to 64 bytes in base64'
}

function isMysql(config: Config): boolean {
  const dialect = config.dialect ?? config.sql_dialect
  return dialect === 'mysql' || dialect === 'mariadb'
}

/** PostgreSQL cuts longer names with a mere notice and MySQL fails on each batch: both are refused when saving. */
function identifierError(name: string, config: Config): string | null {
  if (name.trim() === '') return 'must not be empty'
  if (/\p{Cc}/u.test(name)) return 'must not hold control characters'
  if (isMysql(config)) return [...name].length > 64 ? 'must be at most 64 characters for this dialect' : null
  return Buffer.byteLength(name) > 63 ? 'must be at most 63 bytes for this dialect' : null
}
