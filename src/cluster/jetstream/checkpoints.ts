/**
 * Checkpoints of the pipes' totals, in a stream of their own: the totals from a pipe's first message up to the end of a
 * frame. Only the pipe's owner writes them. Without checkpoints, totals would start at the oldest kept frame.
 */
import Type from 'typebox'
import { fits } from '../../contract/validate.ts'
import { BufferReadUnavailableError } from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import type { Logger } from '../../platform/log.ts'
import type { NatsConnection } from '../nats/headers.ts'
import { count, parsed } from '../protocol.ts'
import { FrameStream, type PullRoom } from './frame-stream.ts'
import { streamSeqOf, totalsStreamName, totalsSubject } from './frames.ts'
import type { PipePosition } from './position.ts'
import { StreamClient, type StreamMessage } from './stream-client.ts'

const writeTimeoutMs = 5_000
const checkpoint = Type.Object({ seq: count, messages: count, records: count, bytes: count })

export class Checkpoints {
  readonly #client: StreamClient
  readonly #room: PullRoom
  readonly #cluster: string
  readonly #log: Logger

  constructor(
    nats: NatsConnection,
    { cluster, replicas }: Pick<JetStreamSpec, 'cluster' | 'replicas'>,
    room: PullRoom,
    log: Logger,
  ) {
    this.#client = new StreamClient(nats, totalsStreamName(cluster), replicas)
    this.#room = room
    this.#cluster = cluster
    this.#log = log
  }

  /** Null when the pipe has none. `storedMs` is the time of writing, ms since the epoch. */
  async newest(pipeId: string): Promise<(PipePosition & { storedMs: number }) | null> {
    const message = await this.#client.last(totalsSubject({ cluster: this.#cluster, pipeId }))
    const position = message && this.#decoded(message)
    return position && { ...position, storedMs: message.storedMs ?? 0 }
  }

  /** Oldest first. */
  async all(pipeId: string): Promise<PipePosition[]> {
    const plan = { filter: totalsSubject({ cluster: this.#cluster, pipeId }), afterStreamSeq: 0 }
    const stream = new FrameStream(this.#client, this.#room, plan)
    const found: PipePosition[] = []
    try {
      for (let message = await stream.next(); message !== null; message = await stream.next()) {
        const position = this.#decoded(message)
        // During a change of ownership, the previous owner can have written an older one.
        if (position !== null && position.seq > (found.at(-1)?.seq ?? 0)) found.push(position)
      }
    } finally {
      stream.rest()
    }
    return found
  }

  /** Resolves when it is stored. Rejects with BufferReadUnavailableError. */
  async write(pipeId: string, { seq, messages, records, bytes }: PipePosition): Promise<void> {
    const body = JSON.stringify({ seq, messages, records, bytes })
    let answer: { error?: { description?: string } }
    try {
      const subject = totalsSubject({ cluster: this.#cluster, pipeId })
      const reply = await this.#client.nats.request(subject, body, { timeout: writeTimeoutMs })
      answer = reply.json()
    } catch (error) {
      throw new BufferReadUnavailableError('a checkpoint of totals cannot be written', error)
    }
    if (answer.error !== undefined)
      throw new BufferReadUnavailableError(`a checkpoint of totals is refused: ${answer.error.description}`)
  }

  #decoded({ data, subject }: StreamMessage): PipePosition | null {
    const found = parsed(Buffer.from(data).toString('utf8'))
    if (fits(checkpoint, found)) {
      const { seq, messages, records, bytes } = found
      return { streamSeq: streamSeqOf(seq), seq, messages, records, bytes }
    }
    this.#log.warn({ subject }, 'buffer.checkpoint_unreadable')
    return null
  }
}
