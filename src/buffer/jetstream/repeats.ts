/**
 * Which idempotency keys have been used: the stream itself knows. A message with a key is a frame of its own under a subject of its
 * own, and says which frame it expects to be that subject's last: none. Where there is one the stream refuses it, atomically for
 * all nodes, and names the one that is there.
 *
 *   nothing there                      stored: the first
 *   younger than 24 h, same body       its answer is repeated
 *   younger than 24 h, another body    IdempotencyKeyReusedError
 *   older                              published again, expecting exactly that one, under an id made of it
 *   gone meanwhile                     published again, expecting none
 *
 * A cluster of nats-server 2.9 compares an expected sequence of 0 when it applies a message, in one order on all replicas, any
 * other one only when the leader takes the message: of 20 at once that expected the same old frame, 8 were stored. So those have a
 * `Nats-Msg-Id` too, which is compared when they are applied; it is remembered for `duplicate_window`, long enough for the leader
 * to know of the one that was stored.
 *
 * The 24 h are between the times at which the two requests were received, by their nodes' clocks.
 */
import { AtMost } from '../../at-most.ts'
import type { NatsConnection } from '../../nats/headers.ts'
import type { Appended, Idempotency } from '../buffer.ts'
import { decodeFrame, decodeHead, keySubject, seqOf, streamName } from './frames.ts'
import { StreamClient } from './stream-client.ts'

export const keyLifetimeMs = 24 * 3_600_000
/** Each holds a whole message for the time of its answer. */
const lookUpsAtOnce = 8

/** The first message with a key, as far as an answer needs it. */
export interface FirstUse {
  streamSeq: number
  msgId: string
  receivedMs: number
  recordCount: number
  bodyHash: string
}

export class Repeats {
  readonly #cluster: string
  readonly #client: StreamClient
  readonly #lookUps = new AtMost(lookUpsAtOnce)

  constructor(connection: NatsConnection, cluster: string, replicas: number) {
    this.#cluster = cluster
    this.#client = new StreamClient(connection, streamName(cluster), replicas)
  }

  /**
   * The frame that is the newest of the key's subject; null: there is none. `streamSeq`: the one that the stream named. Asks the
   * leader. Rejects when it does not answer, or the frame is damaged.
   */
  firstUse(pipeId: string, key: string, streamSeq?: number): Promise<FirstUse | null> {
    return this.#lookUps.run(async () => {
      const subject = keySubject(this.#cluster, pipeId, key)
      const found = await (streamSeq === undefined
        ? this.#client.last(subject)
        : this.#client.nextOfLeader(subject, streamSeq))
      if (found === null) return null
      const [message] = decodeFrame(found.data, decodeHead(found.headers).messages)
      if (message === undefined || message.idempotencyKey !== key || message.bodyHash === null)
        throw new Error(`the frame ${found.streamSeq} is not of the key that its subject names`)
      const { msgId, receivedMs, recordCount, bodyHash } = message
      return { streamSeq: found.streamSeq, msgId, receivedMs, recordCount, bodyHash }
    })
  }
}

/** What a request that was received at `receivedMs` is told; null: the first use is too old to count. */
export function repeated(
  first: FirstUse,
  { bodyHash }: Idempotency,
  receivedMs: number,
): Appended | 'reused' | null {
  const { streamSeq, msgId, recordCount } = first
  if (receivedMs - first.receivedMs >= keyLifetimeMs) return null
  return first.bodyHash === bodyHash
    ? { seq: seqOf(streamSeq, 0), msgId, recordCount, repeated: true }
    : 'reused'
}
