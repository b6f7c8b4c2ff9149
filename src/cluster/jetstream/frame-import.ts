/**
 * Imports messages that were accepted elsewhere, for a move into a cluster without other writers. Each frame carries
 * the sequence that the stream must have before it, so the server accepts it only directly after the previous one. So
 * many frames can be in flight, and the seq of each message is known before it is stored. After a failure the move
 * restarts with empty streams.
 */
import { type JetStreamClient, type JetStreamManager, jetstream, type StreamInfo } from '@nats-io/jetstream'
import { BufferUnavailableError, type NewMessage } from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import { framedBytes, type OpenFrame } from '../../log/frame.ts'
import { bodyHashOf, type KeyStore, keyHashOf, type UsedKey } from '../../log/key-store.ts'
import { ConfigError } from '../../platform/config-error.ts'
import { messageOf } from '../../platform/error-code.ts'
import { connectNats } from '../nats/connect.ts'
import type { NatsConnection } from '../nats/headers.ts'
import {
  encodeHead,
  type FrameHead,
  frameHeadBytes,
  frameOf,
  frameSubject,
  messagesPerFrame,
  seqOf,
  streamName,
  totalsStreamName,
} from './frames.ts'
import {
  bufferConfig,
  findStream,
  openManager,
  openStreams,
  totalsConfig,
  type WantedConfig,
  withinStart,
} from './stream.ts'

const publishTimeoutMs = 10_000
/** Unless one message is larger. A reader of one message gets its whole frame. */
const frameBytes = 1024 * 1024
/** Enough for round trips of a few ms. */
const maxFramesUnderWay = 64
const maxBytesUnderWay = 32 * 1024 * 1024

/**
 * Creates the streams. A stream with messages is recreated if an earlier run of this move created it; `stream` is the
 * `stream` of that run. Throws ConfigError for any other stream with messages, BufferUnavailableError and
 * StreamUnavailableError.
 */
export async function openFrameImport(
  spec: JetStreamSpec,
  keys: Pick<KeyStore, 'add'>,
  stream: string | null,
): Promise<FrameImport> {
  const connection = await connectNats(spec.nats)
  try {
    let info = await openUnused(connection, spec, stream)
    if (info.state.last_seq > 0) {
      const manager = await openManager(connection, spec)
      for (const name of [streamName(spec.cluster), totalsStreamName(spec.cluster)])
        await manager.streams.delete(name)
      info = await openUnused(connection, spec, null)
    }
    return new FrameImport(connection, spec.cluster, keys, info.created)
  } catch (error) {
    await connection.close()
    throw error
  }
}

/** Returns the stream if it is empty or was created by that run. */
async function openUnused(
  connection: NatsConnection,
  spec: JetStreamSpec,
  created: string | null,
): Promise<StreamInfo> {
  const { info } = await openStreams(connection, spec)
  if (info.state.last_seq === 0 || info.created === created) return info
  throw new ConfigError(
    `the stream ${info.config.name} at ${spec.nats.servers.join(', ')} already contains messages; nothing was changed. Use another cluster.name, or delete the stream if it is not needed`,
  )
}

/**
 * Checks that the streams of a cluster can be opened. Only a request that creates a stream shows whether the server's
 * disk and the account have enough room. So missing streams are created and removed again.
 *
 *   crash before the removal   an empty stream of this identity remains, which the following opening uses
 *   stream of another owner    rejected as always; only an empty stream with our description is ever removed
 *
 * `stream` and errors are those of `openFrameImport`.
 */
export async function rehearseStreams(spec: JetStreamSpec, stream: string | null): Promise<void> {
  const connection = await connectNats(spec.nats)
  try {
    const manager = await openManager(connection, spec)
    const absent: WantedConfig[] = []
    for (const config of [totalsConfig(spec), bufferConfig(spec)])
      if ((await withinStart(spec, () => findStream(manager, config.name))) === null) absent.push(config)
    try {
      await openUnused(connection, spec, stream)
    } finally {
      for (const config of absent) await removeEmpty(manager, config)
    }
  } finally {
    await connection.close()
  }
}

async function removeEmpty(manager: JetStreamManager, { name, description }: WantedConfig): Promise<void> {
  const found = await findStream(manager, name)
  if (found === null || found.state.messages > 0 || found.config.description !== description) return
  await manager.streams.delete(name)
}

export class FrameImport {
  /** The stream's creation time, which identifies it. */
  readonly stream: string
  readonly #connection: NatsConnection
  readonly #stream: JetStreamClient
  readonly #cluster: string
  readonly #keys: Pick<KeyStore, 'add'>
  readonly #maxBytes: number
  readonly #underWay = new Set<Promise<void>>()
  #bytesUnderWay = 0
  /** The sequence of the last published frame. */
  #lastSeq = 0
  #failure: BufferUnavailableError | null = null

  constructor(connection: NatsConnection, cluster: string, keys: Pick<KeyStore, 'add'>, stream: string) {
    this.stream = stream
    this.#connection = connection
    this.#stream = jetstream(connection, { timeout: publishTimeoutMs })
    this.#cluster = cluster
    this.#keys = keys
    this.#maxBytes = Math.min(frameBytes, (connection.info?.max_payload ?? 0) - frameHeadBytes)
  }

  /**
   * Writes messages of one pipe, in order. Resolves with their seqs when there is room for more. Rejects with
   * BufferUnavailableError when any frame was not stored.
   */
  async put(messages: readonly NewMessage[]): Promise<number[]> {
    const frames = [...framesOf(messages, this.#maxBytes)]
    const seqs = frames.flatMap((frame, ahead) =>
      frame.map((_, index) => seqOf(this.#lastSeq + 1 + ahead, index)),
    )
    // The keys come first: if a message's key were missing, a repeat would be stored again.
    await this.#keys.add(usedKeys(messages, seqs))
    for (const frame of frames) {
      while (this.#underWay.size >= maxFramesUnderWay || this.#bytesUnderWay > maxBytesUnderWay) {
        await Promise.race(this.#underWay)
      }
      this.#throwFailure()
      this.#publish(frame)
    }
    return seqs
  }

  /** Resolves when everything written so far is stored. */
  async flush(): Promise<void> {
    await Promise.all(this.#underWay)
    this.#throwFailure()
  }

  async close(): Promise<void> {
    await Promise.all(this.#underWay)
    await this.#connection.close()
  }

  #publish(messages: readonly NewMessage[]): void {
    const { frame, head } = frameOf(messages)
    const subject = frameSubject({ cluster: this.#cluster, pipeId: messages[0]!.pipeId })
    const sent = this.#send(subject, frame, head, this.#lastSeq).finally(() => {
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
      // Only the first error is the cause; later ones follow from it.
      this.#failure ??= unavailable(error)
    }
  }

  #throwFailure(): void {
    if (this.#failure !== null) throw this.#failure
  }
}

/** `seqs` are the future seqs of the messages. */
function usedKeys(messages: readonly NewMessage[], seqs: readonly number[]): UsedKey[] {
  const used = new Map<string, UsedKey>()
  for (const [index, { pipeId, msgId, recordCount, idempotency }] of messages.entries()) {
    if (idempotency === undefined) continue
    const keyHash = keyHashOf({ pipeId, key: idempotency.key })
    const bodyHash = bodyHashOf(idempotency.bodyHash)
    used.set(keyHash, { keyHash, bodyHash, msgId, recordCount, seq: seqs[index]! })
  }
  return [...used.values()]
}

function* framesOf(messages: readonly NewMessage[], maxBytes: number): Generator<NewMessage[]> {
  let frame: NewMessage[] = []
  let bytes = 0
  for (const message of messages) {
    const size = framedBytes(message)
    if (frame.length === messagesPerFrame || (frame.length > 0 && bytes + size > maxBytes)) {
      yield frame
      frame = []
      bytes = 0
    }
    frame.push(message)
    bytes += size
  }
  if (frame.length > 0) yield frame
}

function unavailable(error: unknown): BufferUnavailableError {
  return new BufferUnavailableError(
    'write_failed',
    `JetStream does not accept frames: ${messageOf(error)}. Run the command again`,
  )
}
