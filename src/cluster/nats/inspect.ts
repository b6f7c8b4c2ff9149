/** Reads the features of nats-servers without changing anything: for `pipectl doctor`. */
import type { NatsSpec } from '../../log/buffer-spec.ts'
import { connectNats } from './connect.ts'

export interface InspectedNats {
  /** The version of the server that responded. */
  version: string
  maxPayload: number
  /** Servers of its cluster that clients are told of, and it; 1 where there is none, or they advertise nothing. */
  servers: number
  /** A text: why JetStream cannot be used. */
  jetStream: InspectedJetStream | string
}

export interface InspectedJetStream {
  /** Null: no node has started yet. */
  stream: {
    replicas: number
    /** The number of replicas that have everything; the leader is one. */
    currentReplicas: number
    hasLeader: boolean
    messages: number
    bytes: number
    maxBytes: number
  } | null
}

const requestTimeoutMs = 5_000
const streamNotFound = 10059

/** Throws as `connectNats` does. */
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
    const jetStream = await find().catch((error: unknown) =>
      error instanceof Error ? error.message : String(error),
    )
    return { version, maxPayload, servers: Math.max(1, others.length), jetStream }
  } finally {
    await connection.close()
  }
}
