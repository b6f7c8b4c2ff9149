/**
 * Writes messages that were accepted elsewhere, for a move into a cluster that nobody else writes to. Frames carry the sequence that
 * the stream must have before them: the server takes a frame only right behind the one before it. So many may be under way at
 * once, and the seq of each message is known before it is stored. After a failure the move begins again with empty streams.
 */
import { type JetStreamClient, type JetStreamManager, jetstream, type StreamInfo } from '@nats-io/jetstream'
import { BufferUnavailableError, type NewMessage } from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import { appendToFrame, framedBytes, type OpenFrame, openFrame } from '../../log/frame.ts'
import { bodyHashOf, type KeyStore, keyHashOf, type UsedKey } from '../../log/key-store.ts'
import { ConfigError } from '../../platform/config-error.ts'
import { connectNats } from '../nats/connect.ts'
import type { NatsConnection } from '../nats/headers.ts'
import {
  encodeHead,
  type FrameHead,
  frameHeadBytes,
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
/** Unless one message is larger: a reader of one message gets all of its frame. */
const frameBytes = 1024 * 1024
/** Enough for round trips of a few ms. */
const mostFramesUnderWay = 64
const mostBytesUnderWay = 32 * 1024 * 1024

/**
 * Creates the streams. A stream with messages is removed and created again if an earlier run of this move has created it: `stream` is
 * the `stream` of that run. Throws ConfigError for every other one with messages, and BufferUnavailableError, StreamUnavailableError.
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

/** The stream is empty, or it is the one that was created then. */
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
 * Whether the streams of a cluster could be opened. Only a server knows how much room its disk and its accounts have left, and only
 * a request that creates a stream learns it. Streams that do not exist are therefore created and removed again.
 *
 *   crash before the removal   an empty stream of this identity is left, which the opening that follows takes for its own
 *   stream of another owner    the opening is refused as always; only an empty stream with our description is ever removed
 *
 * `stream`, and what it throws: as `openFrameImport`.
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
  /** When the stream was created: no other stream has it. */
  readonly stream: string
  readonly #connection: NatsConnection
  readonly #stream: JetStreamClient
  readonly #cluster: string
  readonly #keys: Pick<KeyStore, 'add'>
  readonly #mostBytes: number
  readonly #underWay = new Set<Promise<void>>()
  #bytesUnderWay = 0
  /** The sequence of the frame that was published last. */
  #lastSeq = 0
  #failure: BufferUnavailableError | null = null

  constructor(connection: NatsConnection, cluster: string, keys: Pick<KeyStore, 'add'>, stream: string) {
    this.stream = stream
    this.#connection = connection
    this.#stream = jetstream(connection, { timeout: publishTimeoutMs })
    this.#cluster = cluster
    this.#keys = keys
    this.#mostBytes = Math.min(frameBytes, (connection.info?.max_payload ?? 0) - frameHeadBytes)
  }

  /**
   * Messages of one pipe, in order. Resolves with the seq of each when there is room for more. Rejects with BufferUnavailableError
   * when any frame was not stored.
   */
  async put(messages: readonly NewMessage[]): Promise<number[]> {
    const frames = [...framesOf(messages, this.#mostBytes)]
    const seqs = frames.flatMap((frame, ahead) =>
      frame.map((_, index) => seqOf(this.#lastSeq + 1 + ahead, index)),
    )
    // First: a message whose key is missing would be stored again by a repeat.
    await this.#keys.add(usedKeys(messages, seqs))
    for (const frame of frames) {
      while (this.#underWay.size >= mostFramesUnderWay || this.#bytesUnderWay > mostBytesUnderWay) {
        await Promise.race(this.#underWay)
      }
      this.#throwFailure()
      this.#publish(frame)
    }
    return seqs
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

  #publish(messages: readonly NewMessage[]): void {
    const frame = openFrame(messages.reduce((sum, message) => sum + framedBytes(message), 0))
    for (const message of messages) appendToFrame(frame, message)
    const subject = frameSubject(this.#cluster, messages[0]!.pipeId)
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

/** `seqs`: those that the messages get. */
function usedKeys(messages: readonly NewMessage[], seqs: readonly number[]): UsedKey[] {
  const used = new Map<string, UsedKey>()
  for (const [index, { pipeId, msgId, recordCount, idempotency }] of messages.entries()) {
    if (idempotency === undefined) continue
    const keyHash = keyHashOf(pipeId, idempotency.key)
    const bodyHash = bodyHashOf(idempotency.bodyHash)
    used.set(keyHash, { keyHash, bodyHash, msgId, recordCount, seq: seqs[index]! })
  }
  return [...used.values()]
}

function* framesOf(messages: readonly NewMessage[], mostBytes: number): Generator<NewMessage[]> {
  let frame: NewMessage[] = []
  let bytes = 0
  for (const message of messages) {
    const size = framedBytes(message)
    if (frame.length === messagesPerFrame || (frame.length > 0 && bytes + size > mostBytes)) {
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
  return new BufferUnavailableError(
    'write_failed',
    `JetStream does not accept frames: ${said}. Run the command again`,
  )
}
