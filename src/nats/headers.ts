/** Headers of NATS messages: the library's own, which only this folder imports. */
export { headers, type MsgHdrs } from '@nats-io/transport-node'
