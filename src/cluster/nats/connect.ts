/**
 * A connection to NATS, for the buffer in JetStream and for requests between nodes. Every thread opens its own from the
 * same spec. Loaded only in a cluster.
 */
import { readFileSync } from 'node:fs'
import type { ConnectionOptions, NatsConnection } from '@nats-io/transport-node'
import type { NatsSpec } from '../../log/buffer-spec.ts'
import { ConfigError } from '../../platform/config-error.ts'
import { errorCode, messageOf, StorageUnavailableError } from '../../platform/error-code.ts'

export type { NatsConnection }

/** The time limit per server for the first connection. */
const connectTimeoutMs = 5_000
const reconnectWaitMs = 250
/** After two unanswered pings, the connection is closed and opened again. */
const pingIntervalMs = 2_000

/**
 * Connects, and reconnects whenever the connection is lost, until it is closed. Throws StorageUnavailableError when no
 * server responds, and ConfigError when the servers reject the connection: one line without secrets.
 */
export async function connectNats(spec: NatsSpec): Promise<NatsConnection> {
  const { connect, credsAuthenticator, errors } = await import('@nats-io/transport-node')
  const { servers, user, password, credentialsFile, name } = spec
  const options: ConnectionOptions = {
    servers: [...servers],
    name,
    timeout: connectTimeoutMs,
    maxReconnectAttempts: -1,
    // Otherwise a password that is rejected twice, for example while it is being changed, would end the connection
    // forever.
    ignoreAuthErrorAbort: true,
    reconnectTimeWait: reconnectWaitMs,
    pingInterval: pingIntervalMs,
    maxPingOut: 2,
  }
  if (user !== null) Object.assign(options, { user, pass: password ?? '' })
  if (credentialsFile !== null) {
    const credentials = readFile('buffer.nats_credentials', credentialsFile)
    options.authenticator = credsAuthenticator(credentials)
  }
  const tls = tlsOptions(spec)
  if (tls !== null) options.tls = tls
  try {
    return await connect(options)
  } catch (error) {
    // The driver reports only the last server it tried, in random order.
    const errorsOfEach = await Promise.all(
      servers.map((server) => failureAt({ ...options, servers: [server] }, connect)),
    )
    const all = [error, ...errorsOfEach]
    const isRefusal = (one: unknown) => one instanceof errors.AuthorizationError
    const telling = all.find(isRefusal) ?? all.find((one) => isAboutCertificate(one)) ?? error
    throw connectError(telling, isRefusal(telling), spec)
  }
}

function connectError(error: unknown, isRefused: boolean, spec: NatsSpec): Error {
  const reason = whatToCorrect(error, isRefused, spec)
  if (reason !== null) return new ConfigError(reason, error)
  return new StorageUnavailableError(
    `buffer.nats: no server responds at ${spec.servers.join(', ')}: ${messageOf(error)}`,
    error,
  )
}

/** Why this server cannot be used; null when it can. */
async function failureAt(
  options: ConnectionOptions,
  connect: (options: ConnectionOptions) => Promise<NatsConnection>,
): Promise<unknown> {
  try {
    await (await connect(options)).close()
    return null
  } catch (error) {
    return error
  }
}

/** Null: the server decides. The driver ignores `tls://`: a server without TLS would get the password in clear text. */
function tlsOptions({ servers, caFile }: NatsSpec): ConnectionOptions['tls'] {
  if (caFile !== null) return { ca: readFile('buffer.nats_ca', caFile).toString('latin1') }
  return servers.some((server) => server.startsWith('tls://')) ? {} : null
}

function readFile(setting: string, file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (error) {
    throw new ConfigError(`${setting}: ${file} cannot be read: ${messageOf(error)}`, error)
  }
}

/** The correction that the operator must make; null when the servers can become available by themselves. */
function whatToCorrect(error: unknown, isRefused: boolean, spec: NatsSpec): string | null {
  const { servers, user, credentialsFile, caFile } = spec
  const where = servers.join(', ')
  if (credentialsFile !== null && messageOf(error) === 'unable to parse credentials')
    return `buffer.nats_credentials: ${credentialsFile} is not a credentials file of NATS (a JWT and a seed)`
  if (isRefused) {
    if (credentialsFile !== null)
      return `buffer.nats_credentials: ${where} rejects the credentials in ${credentialsFile}`
    if (user !== null) return `buffer.nats: ${where} rejects the user ${user} or its password`
    return `buffer.nats: ${where} requires a user and password (nats://user:password@…) or for credentials (buffer.nats_credentials)`
  }
  if (isAboutCertificate(error))
    return `buffer.nats_ca: the certificate of ${where} is not verified by ${caFile === null ? "the system's CAs (set buffer.nats_ca to the file of its own)" : caFile}: ${messageOf(error)}`
  if (messageOf(error).includes("'tls'"))
    return `buffer.nats: ${where} offers no TLS, and ${caFile === null ? 'tls:// asks' : 'buffer.nats_ca asks'} for it`
  return null
}

/** True for Node.js error codes of a certificate that is wrong or not verified. */
function isAboutCertificate(error: unknown): boolean {
  return /CERT|UNABLE_TO_|SELF_SIGNED|^ERR_(TLS|SSL|OSSL)/.test(errorCode(error) ?? '')
}
