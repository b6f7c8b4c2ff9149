/**
 * The URL of a metadata database: `postgres://user:password@host:port/database?sslmode=…`. Nothing is read from other
 * sources that libpq would use (PGPASSWORD, ~/.pgpass, the name of the system user), so that two nodes with the same
 * setting behave the same.
 *
 * Without `sslmode`, a server on this machine is used without TLS and every other one with TLS, as for destinations.
 */
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { ConfigError } from '../../platform/config-error.ts'

export interface PostgresTarget {
  /** A name, an address, or the directory of a Unix socket. */
  host: string
  port: number
  database: string
  user: string
  password: string
  /** False: without TLS. */
  ssl: false | ConnectionOptions
  /** For messages: identifies the database without user and password. */
  label: string
}

const sslModes = ['disable', 'require', 'verify-ca', 'verify-full'] as const
type SslMode = (typeof sslModes)[number]

const parameters = ['host', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey']

/** Throws ConfigError with one line that contains neither user nor password. */
export function parsePostgresUrl(text: string): PostgresTarget {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !/^postgres(ql)?:$/.test(url.protocol)) {
    throw wrong('use postgres://user:password@host:port/database')
  }
  const unknown = [...url.searchParams.keys()].find((name) => !parameters.includes(name))
  if (unknown !== undefined) {
    throw wrong(`parameter ${JSON.stringify(unknown)} is not known; use ${parameters.join(', ')}`)
  }
  const named = decoded(url.hostname).replace(/^\[(.*)\]$/, '$1')
  const host = url.searchParams.get('host') ?? (named === '' ? 'localhost' : named)
  const port = url.port === '' ? 5432 : Number(url.port)
  const database = decoded(url.pathname.slice(1))
  const user = decoded(url.username)
  if (database === '') throw wrong('add the database, as in postgres://host/pipectl')
  if (user === '') throw wrong('add the user, as in postgres://pipectl:password@host/database')
  return {
    host,
    port,
    database,
    user,
    password: decoded(url.password),
    ssl: sslOf(url.searchParams, host),
    label: `PostgreSQL database ${database} at ${host.startsWith('/') ? host : `${host}:${port}`}`,
  }
}

const ownHosts = new Set(['localhost', '127.0.0.1', '::1'])

function sslOf(given: URLSearchParams, host: string): PostgresTarget['ssl'] {
  const isOwnHost = ownHosts.has(host) || host.startsWith('/')
  const mode = given.get('sslmode') ?? (isOwnHost ? 'disable' : 'require')
  if (!isSslMode(mode)) throw wrong(`sslmode: use ${sslModes.join(', ')}`)
  if (mode === 'disable') return false
  const root = given.get('sslrootcert')
  if (mode === 'verify-ca' && root === null) throw wrong('sslmode=verify-ca needs sslrootcert')
  const [cert, key] = [given.get('sslcert'), given.get('sslkey')]
  return {
    // libpq's rule: with a root certificate, `require` verifies the certificate too, but not the name.
    rejectUnauthorized: mode !== 'require' || root !== null,
    ...(mode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
    ...(root === null ? {} : { ca: fileOf('sslrootcert', root) }),
    ...(cert === null ? {} : { cert: fileOf('sslcert', cert) }),
    ...(key === null ? {} : { key: fileOf('sslkey', key) }),
  }
}

function isSslMode(mode: string): mode is SslMode {
  return (sslModes as readonly string[]).includes(mode)
}

function fileOf(parameter: string, file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw wrong(`${parameter}: ${file} cannot be read`, error)
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw wrong('a % must be followed by two hexadecimal digits (a literal % is %25)')
  }
}

function wrong(what: string, cause?: unknown): ConfigError {
  return new ConfigError(`metadata.url: ${what}`, cause)
}
