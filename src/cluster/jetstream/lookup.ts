/**
 * Implements MessageLookup over the stream: finds messages by id and lists them by page.
 *
 * An id contains its creation time, by the clock of the accepting node, and a frame states when its messages were
 * received. So an id is searched where the stream stored frames at that time, and then where frames state that time (a
 * migration stores them later). Both searches read a limited number of frames.
 *
 * A page is in reverse order, which a stream does not support: `#partBefore` finds the part with enough frames by
 * counting.
 */
import { crc32 } from 'node:zlib'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type {
  MessageListing,
  MessageLookup,
  ReadMessage,
  StoredMessage,
  SummarizedMessage,
} from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import { connectNats } from '../nats/connect.ts'
import type { NatsConnection } from '../nats/headers.ts'
import { FramePull } from './frame-pull.ts'
import {
  bufferSubjects,
  type FrameHead,
  pipeIdOf,
  pipeSubjects,
  seqOf,
  streamName,
  streamSeqOf,
} from './frames.ts'
import { lastReceivedBefore, receivedSlackMs } from './pipe-times.ts'
import { headOf, storedFrame } from './stored-frame.ts'
import { type ConsumerStart, StreamClient, type StreamMessage } from './stream-client.ts'

/** The limits of one search: headers that are read, and frames that are opened. */
const maxHeads = 500_000
const maxFrames = 5_000
const lot = { messages: 2_048, bytes: 512 * 1024 }
/** The number of frames, above those of the page, that a part can have. */
const spareFrames = 512
const framesAtOnce = 8
const bytesAtOnce = 4 * 1024 * 1024

interface Candidate {
  streamSeq: number
  head: FrameHead
}

export async function openJetStreamLookup(spec: JetStreamSpec): Promise<MessageLookup> {
  return new StreamLookup(await connectNats(spec.nats), spec)
}

class StreamLookup implements MessageLookup {
  readonly #nats: NatsConnection
  readonly #client: StreamClient
  readonly #cluster: string

  constructor(nats: NatsConnection, { cluster, replicas }: JetStreamSpec) {
    this.#nats = nats
    this.#client = new StreamClient(nats, streamName(cluster), replicas)
    this.#cluster = cluster
  }

  /** Null when the message is not kept or is damaged. */
  async find(msgId: string): Promise<StoredMessage | null> {
    const ms = timeOf(msgId)
    if (ms === null) return null
    const filter = bufferSubjects(this.#cluster)
    const found = await this.#findFrom(msgId, ms, { timeMs: ms - receivedSlackMs })
    if (found !== null) return found
    const streamSeq = (await lastReceivedBefore(this.#client, filter, ms - receivedSlackMs)) + 1
    return await this.#findFrom(msgId, ms, { streamSeq })
  }

  /** Newest first. */
  async list(pipeId: string, listing: MessageListing): Promise<SummarizedMessage[]> {
    const listed: SummarizedMessage[] = []
    for await (const { body, ...message } of this.#between(pipeId, listing))
      listed.push({ ...message, beginning: beginningOf(body) })
    return listed
  }

  /** Newest first. */
  async read(
    pipeId: string,
    { maxBytes, ...listing }: MessageListing & { maxBytes: number },
  ): Promise<ReadMessage[]> {
    const read: ReadMessage[] = []
    let bytes = 0
    for await (const message of this.#between(pipeId, listing)) {
      read.push(message)
      bytes += message.bytes
      if (bytes >= maxBytes) break
    }
    return read
  }

  async *#between(
    pipeId: string,
    { beforeSeq, afterSeq, limit }: MessageListing,
  ): AsyncGenerator<ReadMessage, void> {
    let left = limit
    let before = streamSeqOf(Math.min(beforeSeq - 1, Number.MAX_SAFE_INTEGER - 1)) + 1
    const filter = pipeSubjects({ cluster: this.#cluster, pipeId })
    const { firstSeq, lastSeq } = await this.#client.state()
    before = Math.min(before, lastSeq + 1)
    const first = Math.max(firstSeq, streamSeqOf(afterSeq))
    while (left > 0 && before > first) {
      const from = await this.#partBefore(filter, first, before, left)
      for await (const message of this.#newestFirst(filter, from, before)) {
        if (message.seq >= beforeSeq || message.seq <= afterSeq) continue
        yield message
        left -= 1
        if (left === 0) return
      }
      before = from
    }
  }

  async *#newestFirst(filter: string, from: number, before: number): AsyncGenerator<ReadMessage, void> {
    const heads = await this.#headsBetween(filter, from, before)
    for (const part of partsOf(heads.reverse())) {
      const frames = await Promise.all(part.map(({ streamSeq }) => this.#messagesIn(filter, streamSeq)))
      for (const messages of frames) yield* messages.reverse()
    }
  }

  async close(): Promise<void> {
    await this.#nats.close()
  }

  async #findFrom(msgId: string, ms: number, start: ConsumerStart): Promise<StoredMessage | null> {
    for await (const candidate of this.#candidates(ms, start)) {
      const found = await this.#findIn(msgId, candidate)
      if (found !== null) return found
    }
    return null
  }

  /** First the frames whose receive times enclose the id's time, then those close to it. */
  async *#candidates(ms: number, start: ConsumerStart): AsyncGenerator<Candidate, void> {
    const near: Candidate[] = []
    let opened = 0
    const filter = bufferSubjects(this.#cluster)
    const pull = await FramePull.open(this.#client, { filter, start, headersOnly: true }, lot)
    try {
      for (let heads = 0; heads < maxHeads && opened < maxFrames; heads += 1) {
        const message = await pull.next()
        if (message === null) break
        const head = headOf(message)
        if (head === null || head.lastMs < ms - receivedSlackMs) continue
        // Later frames were received later still, by any clock.
        if (head.firstMs > ms + 2 * receivedSlackMs) break
        const candidate = { streamSeq: message.streamSeq, head }
        if (distance(head, ms) > closeMs) {
          if (near.length < maxFrames) near.push(candidate)
          continue
        }
        opened += 1
        yield candidate
      }
    } finally {
      pull.close()
    }
    near.sort((a, b) => distance(a.head, ms) - distance(b.head, ms))
    yield* near.slice(0, maxFrames - opened)
  }

  async #findIn(msgId: string, { streamSeq }: Candidate): Promise<StoredMessage | null> {
    const message = await this.#client.next(bufferSubjects(this.#cluster), streamSeq)
    if (message?.streamSeq !== streamSeq) return null
    const messages = storedFrame(message)?.messages() ?? []
    const index = messages.findIndex((one) => one.msgId === msgId)
    const one = messages[index]
    if (one === undefined || crc32(one.body) !== one.crc) return null
    const { receivedMs, recordCount } = one
    const pipeId = pipeIdOf({ cluster: this.#cluster, subject: message.subject })
    return {
      seq: seqOf(streamSeq, index),
      pipeId,
      msgId,
      receivedMs,
      recordCount,
      body: Buffer.from(one.body),
    }
  }

  /**
   * A sequence after which, up to `before`, there are enough frames for this many messages, but not many more. Found by
   * bisection over the number of following frames, which the server counts.
   */
  async #partBefore(filter: string, first: number, before: number, messages: number): Promise<number> {
    const later = await this.#framesFrom(filter, before)
    let low = first
    let high = before
    // Each frame has at least one message.
    while (high - low > messages) {
      const middle = Math.max(low, high === before ? before - messages : Math.floor((low + high) / 2))
      const frames = (await this.#framesFrom(filter, middle)) - later
      if (frames >= messages && frames <= messages + spareFrames) return middle
      if (frames > messages) low = middle + 1
      else high = middle
    }
    return low
  }

  async #framesFrom(filter: string, streamSeq: number): Promise<number> {
    const plan = { filter, start: { streamSeq }, headersOnly: true }
    const { name, pending } = await this.#client.createConsumer(plan)
    this.#client.deleteConsumer(name)
    return pending
  }

  async #headsBetween(filter: string, from: number, before: number): Promise<Candidate[]> {
    const found: Candidate[] = []
    const plan = { filter, start: { streamSeq: from }, headersOnly: true }
    const pull = await FramePull.open(this.#client, plan, lot)
    try {
      for (;;) {
        const message: StreamMessage | null = await pull.next()
        if (message === null || message.streamSeq >= before || found.length >= maxHeads) return found
        const head = headOf(message)
        if (head !== null) found.push({ streamSeq: message.streamSeq, head })
      }
    } finally {
      pull.close()
    }
  }

  async #messagesIn(filter: string, streamSeq: number): Promise<ReadMessage[]> {
    const message = await this.#client.next(filter, streamSeq)
    if (message?.streamSeq !== streamSeq) return []
    const messages = storedFrame(message)?.messages() ?? []
    return messages.map(({ msgId, receivedMs, recordCount, body, crc }, index) => ({
      seq: seqOf(streamSeq, index),
      msgId,
      receivedMs,
      recordCount,
      bytes: body.length,
      body: crc32(body) === crc ? Buffer.from(body.buffer, body.byteOffset, body.length) : null,
    }))
  }
}

/** The frames that are requested at the same time: few, and together not larger than a large one. */
function* partsOf(frames: readonly Candidate[]): Generator<Candidate[]> {
  let part: Candidate[] = []
  let bytes = 0
  for (const frame of frames) {
    if (part.length === framesAtOnce || (part.length > 0 && bytes + frame.head.bytes > bytesAtOnce)) {
      yield part
      part = []
      bytes = 0
    }
    part.push(frame)
    bytes += frame.head.bytes
  }
  if (part.length > 0) yield part
}

/** The same as on one machine, where a large body is not read for its beginning. */
function beginningOf(body: Buffer | null): Buffer | null {
  if (body === null || body.length > resourceLimits.listedBodyBytes) return null
  return Buffer.from(body.subarray(0, resourceLimits.listedBytes))
}

/** The maximum difference between a message's id and its receive time, which have the same clock. */
const closeMs = 1_000

const version7 = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** The creation time of the id, ms since the epoch; null when it is not one of our ids. */
function timeOf(msgId: string): number | null {
  const match = version7.exec(msgId)
  return match === null ? null : Number.parseInt(`${match[1]}${match[2]}`, 16)
}

function distance({ firstMs, lastMs }: FrameHead, ms: number): number {
  return ms < firstMs ? firstMs - ms : Math.max(0, ms - lastMs)
}
