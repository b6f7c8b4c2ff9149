/** The idempotency keys of a pipe's messages, by the stream's own seq: for a move out of a cluster that is stopped. */
import { jetstream } from '@nats-io/jetstream'
import type { Idempotency } from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import { connectNats } from '../nats/connect.ts'
import { decodeFrame, keyedSubjects, seqOf, streamName } from './frames.ts'
import { headOf } from './stored-frame.ts'

export async function usedKeysOf(spec: JetStreamSpec, pipeId: string): Promise<Map<number, Idempotency>> {
  const keys = new Map<number, Idempotency>()
  const connection = await connectNats(spec.nats)
  try {
    const consumer = await jetstream(connection).consumers.get(streamName(spec.cluster), {
      filter_subjects: keyedSubjects(spec.cluster, pipeId),
    })
    const { num_pending: pending } = await consumer.info()
    if (pending === 0) return keys
    let left = pending
    for await (const frame of await consumer.consume({ max_messages: 256 })) {
      const head = headOf(frame)
      const messages = head === null ? [] : decodeFrame(frame.data, head.messages)
      for (const [index, { idempotencyKey: key, bodyHash }] of messages.entries())
        if (key !== null && bodyHash !== null) keys.set(seqOf(frame.seq, index), { key, bodyHash })
      left -= 1
      if (left === 0) break
    }
    return keys
  } finally {
    await connection.close()
  }
}
