/** The specs that a buffer is opened with. They are plain data and can be sent to another thread or process. */
import type { KnownBuffer } from './buffer.ts'
import type { SegmentsSpec } from './segments/protocol.ts'

export type BufferSpec = SegmentsSpec | JetStreamSpec

/** The NATS servers of a cluster, and how a connection signs in. */
export interface NatsSpec {
  /** `nats://host:port` or `tls://host:port`, without user and password. */
  servers: readonly string[]
  user: string | null
  password: string | null
  /** A credentials file (JWT and seed); null for none. */
  credentialsFile: string | null
  /** The CA that verifies server certificates, as PEM; null for the system's CAs. */
  caFile: string | null
  /** The connection's name in the servers' connection lists. */
  name: string
}

/** The identity is stored in the stream's description. */
export interface JetStreamSpec extends KnownBuffer {
  kind: 'jetstream'
  nats: NatsSpec
  /** `cluster.name`: part of every subject and of the stream's name. */
  cluster: string
  /** Number of replicas of the stream: 1 or 3. */
  replicas: number
  /** The size limit of the stream. At the limit, appends are rejected. */
  maxBytes: number
  undeliveredHours: number
  deliveredHours: number
  deliveredMaxBytes: number
  /** The largest body of one message. Body and header must fit into the server's `max_payload`. */
  maxBodyBytes: number
  /** The directory on this node for damaged messages. */
  quarantineDir: string
}
