/** The spec that opens a buffer in JetStream: plain data, for any thread. */
import type { NatsSpec } from '../nats/connect.ts'
import type { KnownBuffer } from '../../log/buffer.ts'

/** Its identity stands in the stream's description. */
export interface JetStreamSpec extends KnownBuffer {
  kind: 'jetstream'
  nats: NatsSpec
  /** `cluster.name`: part of every subject and of the stream's name. */
  cluster: string
  /** Of the stream: 1 or 3. */
  replicas: number
  /** Of the stream: beyond it appends are rejected. */
  maxBytes: number
  undeliveredHours: number
  deliveredHours: number
  deliveredMaxBytes: number
  /** The largest body that one message may have: with its head it must fit into the server's `max_payload`. */
  maxBodyBytes: number
  /** Where readers put damaged messages, on this node's disk. */
  quarantineDir: string
}
