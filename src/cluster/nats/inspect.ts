/** Reads the features of nats-servers without changing anything, for `pipectl doctor`. */
import type { NatsSpec } from '../../log/buffer-spec.ts'
import { messageOf } from '../../platform/error-code.ts'
import { connectNats } from './connect.ts'

export interface InspectedNats {
  /** Version of the server that responded. */
  version: string
  maxPayload: number
  /**
   * The number of servers in its cluster that it advertises to clients, including itself; 1 without a cluster or without
   * advertising.
   */
  servers: number
  /** A text explains why JetStream cannot be used. */
  jetStream: InspectedJetStream | string
}

export interface InspectedJetStream {
  /** Null when no node has started yet. */
  stream: {
    replicas: number
    /** The number of up-to-date replicas, including the leader. */
    currentReplicas: number
    hasLeader: boolean
    messages: number
    bytes: number
    maxBytes: number
  } | null
}

const requestTimeoutMs = 5_000
const streamNotFound = 10059

/** Throws like `connectNats`. */
export async function inspectNats(spec: NatsSpec, streamName: string): Promise<InspectedNats> {
  const connection = await connectNats(spec)
  try {
    const { version = '', max_payload: maxPayload = 0, connect_urls: others = [] } = connection.info ?? {}
    const { JetStreamApiError, jetstreamManager } = await import('@nats-io/jetstream')
    const find = async (): Promise<InspectedJetStream> => {
      const manager = await jetstreamManager(connection, { timeout: requestTimeoutMs })
      try {
        const { config, state, cluster } = await manager.streams.info(streamName)
        const followers = cluster?.replicas ?? []
        return {
          stream: {
            replicas: config.num_replicas,
            currentReplicas: 1 + followers.filter((one) => one.current && one.offline !== true).length,
            hasLeader: cluster === undefined || Boolean(cluster.leader),
            messages: state.messages,
            bytes: state.bytes,
            maxBytes: config.max_bytes,
          },
        }
      } catch (error) {
        if (error instanceof JetStreamApiError && error.code === streamNotFound) return { stream: null }
        throw error
      }
    }
    const jetStream = await find().catch((error: unknown) => messageOf(error))
    return { version, maxPayload, servers: Math.max(1, others.length), jetStream }
  } finally {
    await connection.close()
  }
}
