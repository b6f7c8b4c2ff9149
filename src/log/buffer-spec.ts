/** The specs with which a buffer is opened: plain data, which can be sent to another thread or another process. */
import type { KnownBuffer } from './buffer.ts'
import type { SegmentsSpec } from './segments/protocol.ts'

export type BufferSpec = SegmentsSpec | JetStreamSpec

/** The NATS servers of a cluster, and how a connection signs in. */
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

/** Its identity stands in the stream's description. */
export interface JetStreamSpec extends KnownBuffer {
  kind: 'jetstream'
  nats: NatsSpec
  /** `cluster.name`: part of every subject and of the stream's name. */
  cluster: string
  /** The replicas of the stream: 1 or 3. */
  replicas: number
  /** The limit of the stream: beyond it appends are rejected. */
  maxBytes: number
  undeliveredHours: number
  deliveredHours: number
  deliveredMaxBytes: number
  /** The largest body that one message may have: with its head it must fit into the server's `max_payload`. */
  maxBodyBytes: number
  /** Where readers put damaged messages, on this node's disk. */
  quarantineDir: string
}
