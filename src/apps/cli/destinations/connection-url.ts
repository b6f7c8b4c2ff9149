/**
 * `--url`: a destination as one URL. The scheme says the type:
 *
 *   postgres://user@host:5432/database?table=schema.table     also postgresql, mysql, mariadb; &exactly_once=true
 *   https://example.com/hook?any=thing                        an HTTP endpoint, the URL as it is
 *   nats://user@host:4222?subject=orders.new&stream=ORDERS    a subject of NATS JetStream; tls:// with TLS
 *   s3://bucket?region=eu-central-1&endpoint=https://…        an object store
 *
 * A secret inside the URL is rejected: command lines are seen by others and kept in histories.
 */
import type { DestinationType } from '../../../contract/destination.ts'
import { exitCodes, Failure } from '../../client/failure.ts'

export interface NamedDestination {
  destination_type: DestinationType
  destination_config: Record<string, unknown>
}

const dialects: Record<string, string> = {
  'postgres:': 'postgresql',
  'postgresql:': 'postgresql',
  'mysql:': 'mysql',
  'mariadb:': 'mariadb',
}
const natsParameters = ['subject', 'stream']
const objectStoreParameters = ['region', 'endpoint', 'key_template', 'format', 'compression', 'access_key']

/** Type and config, secrets left out. Throws Failure (usage); its text never repeats a password. */
export function parseDestinationUrl(text: string): NamedDestination {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw wrong('it is not a URL', 'write it as postgres://user@host/database?table=events')
  }
  if (url.password !== '') {
    throw wrong(
      'it holds a password, which everyone on this machine can see',
      'leave it out: it is asked for, or read from PIPECTL_DESTINATION_PASSWORD (for HTTP: PIPECTL_DESTINATION_AUTH_HEADER); and change the one you just typed',
    )
  }
  const dialect = dialects[url.protocol]
  if (dialect !== undefined) return database(url, dialect)
  if (url.protocol === 'http:' || url.protocol === 'https:') return httpEndpoint(url, text)
  if (url.protocol === 's3:') return objectStore(url)
  if (url.protocol === 'nats:' || url.protocol === 'tls:') return natsSubject(url)
  throw wrong(
    `${url.protocol}// is not a kind of destination`,
    'use postgres://, mysql://, mariadb://, http://, https://, nats://, tls:// or s3://',
  )
}

function database(url: URL, dialect: string): NamedDestination {
  const name = decodeURIComponent(url.pathname.replace(/^\//, ''))
  if (url.hostname === '' || name === '' || name.includes('/')) {
    throw wrong(
      'it names no host or no database',
      `write it as ${url.protocol}//user@host/database?table=events`,
    )
  }
  rejectUnknown(url, ['table', 'exactly_once', 'tls_verify'])
  const config: Record<string, unknown> = {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    database: name,
    dialect,
  }
  if (url.port !== '') config.port = Number(url.port)
  if (url.username !== '') config.username = decodeURIComponent(url.username)
  const table = url.searchParams.get('table')
  if (table) config.table = table
  const verify = url.searchParams.get('tls_verify')
  if (verify !== null) config.tls_verify = verify
  const once = url.searchParams.get('exactly_once')
  if (once !== null) {
    if (once !== 'true' && once !== 'false') {
      throw wrong(`exactly_once is ${JSON.stringify(once)}`, 'write exactly_once=true or exactly_once=false')
    }
    config.exactly_once = once === 'true'
  }
  return { destination_type: 'destination_database', destination_config: config }
}

function httpEndpoint(url: URL, text: string): NamedDestination {
  if (url.username !== '') {
    throw wrong('it holds credentials', 'give the Authorization header in PIPECTL_DESTINATION_AUTH_HEADER')
  }
  return { destination_type: 'destination_http_endpoint', destination_config: { url: text } }
}

function natsSubject(url: URL): NamedDestination {
  const subject = url.searchParams.get('subject')
  if (url.host === '' || url.pathname.replace(/\/$/, '') !== '' || !subject) {
    throw wrong('it names no host or no subject', `write it as ${url.protocol}//host:4222?subject=orders.new`)
  }
  rejectUnknown(url, natsParameters)
  const config: Record<string, unknown> = { url: `${url.protocol}//${url.host}`, subject }
  if (url.username !== '') config.username = decodeURIComponent(url.username)
  const stream = url.searchParams.get('stream')
  if (stream) config.stream = stream
  return { destination_type: 'destination_nats', destination_config: config }
}

function objectStore(url: URL): NamedDestination {
  if (url.hostname === '' || url.pathname.replace(/\/$/, '') !== '') {
    throw wrong(
      'an object store is s3://BUCKET alone',
      'say where objects go with --set key_template=…, which must hold {first_seq}',
    )
  }
  rejectUnknown(url, objectStoreParameters)
  const config: Record<string, unknown> = { bucket: url.hostname }
  for (const name of objectStoreParameters) {
    const value = url.searchParams.get(name)
    if (value !== null) config[name] = value
  }
  return { destination_type: 'destination_object_store', destination_config: config }
}

function rejectUnknown(url: URL, known: readonly string[]): void {
  for (const name of url.searchParams.keys()) {
    if (known.includes(name)) continue
    const tls = /^ssl/i.test(name) ? '; TLS is decided by the daemon (DESTINATION_DB_SSL), not by a URL' : ''
    throw wrong(`it has the unknown parameter ${JSON.stringify(name)}${tls}`, `known: ${known.join(', ')}`)
  }
}

function wrong(what: string, hint: string): Failure {
  return new Failure(exitCodes.usage, `--url: ${what}`, hint)
}
