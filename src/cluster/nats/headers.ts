/**
 * The parts of the library's messages that the buffer needs. Only this folder imports the library, and only a cluster
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

/** Headers as they stand before a message on the wire. */
export function decodeHeaders(encoded: Uint8Array): MsgHdrs {
  return MsgHdrsImpl.decode(encoded)
}
