/** What writers need of the library, which only this folder imports. Loaded in clustered mode alone. */
export { headers, type Msg as NatsMessage, type MsgHdrs, type NatsConnection } from '@nats-io/transport-node'
