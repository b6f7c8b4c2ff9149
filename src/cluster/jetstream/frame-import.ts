/**
 * Writes messages that were accepted elsewhere, for a move into a cluster that nobody else writes to. Frames carry the sequence that
 * the stream must have before them: the server takes a frame only right behind the one before it. So many may be under way at
 * once, and whatever happens to one of them, what is stored is the beginning of what was put, in order and once.
 */
import { type JetStreamClient, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { BufferUnavailableError, type NewMessage } from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import { appendToFrame, framedBytes, type OpenFrame, openFrame } from '../../log/frame.ts'
import { bodyHashOf, type KeyStore, keyHashOf, type UsedKey } from '../../log/key-store.ts'
import { connectNats } from '../nats/connect.ts'
import type { NatsConnection } from '../nats/headers.ts'
import {
  chainSubject,
  encodeHead,
  type FrameHead,
  frameHeadBytes,
  frameSubject,
  messagesPerFrame,
  seqOf,
  streamName,
} from './frames.ts'

const publishTimeoutMs = 10_000
const importChain = 'import'
/** Enough for round trips of a few ms. */
const mostFramesUnderWay = 64
const mostBytesUnderWay = 32 * 1024 * 1024

/** The stream must be there. Throws ConfigError, BufferUnavailableError. */
export async function openFrameImport(
  spec: JetStreamSpec,
  keys: Pick<KeyStore, 'add'>,
): Promise<FrameImport> {
  const connection = await connectNats(spec.nats)
  try {
    const manager = await jetstreamManager(connection, { timeout: publishTimeoutMs })
    const { state } = await manager.streams.info(streamName(spec.cluster))
    return new FrameImport(connection, spec.cluster, keys, state.last_seq)
  } catch (error) {
    await connection.close()
    throw unavailable(error)
  }
}

export class FrameImport {
  readonly #connection: NatsConnection
  readonly #stream: JetStreamClient
  readonly #cluster: string
  readonly #keys: Pick<KeyStore, 'add'>
  readonly #mostBytes: number
  readonly #underWay = new Set<Promise<void>>()
  #bytesUnderWay = 0
  /** The sequence of the frame that was published last. */
  #lastSeq: number
  #failure: BufferUnavailableError | null = null

  constructor(connection: NatsConnection, cluster: string, keys: Pick<KeyStore, 'add'>, lastSeq: number) {
    this.#connection = connection
    this.#stream = jetstream(connection, { timeout: publishTimeoutMs })
    this.#cluster = cluster
    this.#keys = keys
    this.#lastSeq = lastSeq
    this.#mostBytes = (connection.info?.max_payload ?? 0) - frameHeadBytes
  }

  /** Messages of one pipe, in order. Resolves when there is room for more. Rejects when any frame was not stored. */
  async put(messages: readonly NewMessage[]): Promise<void> {
    const frames = [...framesOf(messages, this.#mostBytes)]
    // First: a message whose key is missing would be stored again by a repeat.
    await this.#keys.add(this.#usedKeys(frames))
    for (const frame of frames) {
      while (this.#underWay.size >= mostFramesUnderWay || this.#bytesUnderWay > mostBytesUnderWay) {
        await Promise.race(this.#underWay)
      }
      this.#throwFailure()
      this.#publish(frame)
    }
  }

  /** Resolves when everything that was put is stored. */
  async flush(): Promise<void> {
    await Promise.all(this.#underWay)
    this.#throwFailure()
  }

  async close(): Promise<void> {
    await Promise.all(this.#underWay)
    await this.#connection.close()
  }

  /** The keys of the next frames: each is stored right behind the one before it or not at all. */
  #usedKeys(frames: readonly NewMessage[][]): UsedKey[] {
    const used = new Map<string, UsedKey>()
    for (const [ahead, messages] of frames.entries())
      for (const [index, { pipeId, msgId, recordCount, idempotency }] of messages.entries()) {
        if (idempotency === undefined) continue
        const keyHash = keyHashOf(pipeId, idempotency.key)
        const seq = seqOf(this.#lastSeq + 1 + ahead, index)
        used.set(keyHash, { keyHash, bodyHash: bodyHashOf(idempotency.bodyHash), msgId, recordCount, seq })
      }
    return [...used.values()]
  }

  #publish(messages: readonly NewMessage[]): void {
    const first = messages[0]!
    const frame = openFrame(messages.reduce((sum, message) => sum + framedBytes(message), 0))
    for (const message of messages) appendToFrame(frame, message)
    const { pipeId, idempotency } = first
    // Where a move out of the cluster looks for keys.
    const subject =
      idempotency === undefined
        ? frameSubject(this.#cluster, pipeId)
        : chainSubject(this.#cluster, pipeId, importChain)
    const sent = this.#send(subject, frame, headOf(messages), this.#lastSeq).finally(() => {
      this.#underWay.delete(sent)
      this.#bytesUnderWay -= frame.length
    })
    this.#lastSeq += 1
    this.#bytesUnderWay += frame.length
    this.#underWay.add(sent)
  }

  async #send(subject: string, frame: OpenFrame, head: FrameHead, lastSequence: number): Promise<void> {
    const options = { headers: encodeHead(head), expect: { lastSequence } }
    try {
      await this.#stream.publish(subject, frame.buffer.subarray(0, frame.length), options)
    } catch (error) {
      // The first one says why; those behind it only that it is missing.
      this.#failure ??= unavailable(error)
    }
  }

  #throwFailure(): void {
    if (this.#failure !== null) throw this.#failure
  }
}

/** Messages with keys are read back from subjects of their own: each is a frame. */
function* framesOf(messages: readonly NewMessage[], mostBytes: number): Generator<NewMessage[]> {
  let frame: NewMessage[] = []
  let bytes = 0
  for (const message of messages) {
    const size = framedBytes(message)
    const isKeyed = message.idempotency !== undefined
    const isFull = frame.length === messagesPerFrame || bytes + size > mostBytes
    if (frame.length > 0 && (isKeyed || isFull || frame[0]!.idempotency !== undefined)) {
      yield frame
      frame = []
      bytes = 0
    }
    frame.push(message)
    bytes += size
  }
  if (frame.length > 0) yield frame
}

function headOf(messages: readonly NewMessage[]): FrameHead {
  const times = messages.map(({ receivedMs }) => receivedMs)
  return {
    workspaceId: messages[0]!.workspaceId ?? '',
    messages: messages.length,
    records: messages.reduce((sum, { recordCount }) => sum + recordCount, 0),
    bytes: messages.reduce((sum, { body }) => sum + body.length, 0),
    firstMs: times.at(0) ?? 0,
    lastMs: times.at(-1) ?? 0,
  }
}

function unavailable(error: unknown): BufferUnavailableError {
  const said = error instanceof Error ? error.message : String(error)
  return new BufferUnavailableError('write_failed', `JetStream does not take frames: ${said}`)
}
