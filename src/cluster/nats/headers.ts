/**
 * The parts of the library's messages that the buffer needs. Only src/cluster imports the library, and only a cluster
 * loads it.
 */
import { type MsgHdrs, MsgHdrsImpl } from '@nats-io/transport-node'

export {
  headers,
  type Msg as NatsMessage,
  type MsgHdrs,
  type NatsConnection,
  type Subscription,
} from '@nats-io/transport-node'

/** Decodes headers in their wire format. */
export function decodeHeaders(encoded: Uint8Array): MsgHdrs {
  return MsgHdrsImpl.decode(encoded)
}
