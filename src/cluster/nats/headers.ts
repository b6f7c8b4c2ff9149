/** What the buffer needs of the library's messages, which only this folder imports. Loaded in clustered mode alone. */
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
