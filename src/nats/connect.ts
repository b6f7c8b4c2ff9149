/**
 * A connection to NATS, for the buffer in JetStream and for what nodes ask each other. Every thread opens its own from the
 * same spec. Loaded in clustered mode alone.
 */
import { readFileSync } from 'node:fs'
import type { NatsConnection } from '@nats-io/transport-node'
import { ConfigError } from '../config.ts'

/** Plain data, for any thread. */
export interface NatsSpec {
  /** `nats://host:port` or `tls://…`, each; without user and password. */
  servers: readonly string[]
  user: string | null
  password: string | null
  /** A credentials file (JWT and seed); null: none. */
  credentialsFile: string | null
  /** A CA that server certificates are verified with, PEM; null: the system's. */
  caFile: string | null
  /** For the servers' own lists of connections. */
  name: string
}

const connectTimeoutMs = 5_000
const reconnectWaitMs = 250
/** Two of them unanswered: the connection is given up and made again. */
const pingIntervalMs = 2_000

/**
 * Connects, and from then on again whenever the connection is lost, for as long as it is not closed. Throws ConfigError when no
 * server is there, or they do not let us in.
 */
export async function connectNats(spec: NatsSpec): Promise<NatsConnection> {
  const { connect, credsAuthenticator } = await import('@nats-io/transport-node')
  const { servers, user, password, credentialsFile, caFile, name } = spec
  try {
    return await connect({
      servers: [...servers],
      name,
      ...(user === null ? {} : { user, pass: password ?? '' }),
      ...(credentialsFile === null
        ? {}
        : { authenticator: credsAuthenticator(readFileSync(credentialsFile)) }),
      ...(caFile === null ? {} : { tls: { caFile } }),
      timeout: connectTimeoutMs,
      maxReconnectAttempts: -1,
      reconnectTimeWait: reconnectWaitMs,
      pingInterval: pingIntervalMs,
      maxPingOut: 2,
    })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new ConfigError(`buffer.nats: ${servers.join(', ')} cannot be used: ${reason}`, error)
  }
}
