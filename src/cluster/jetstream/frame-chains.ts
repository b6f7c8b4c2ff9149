/**
 * Caches consecutive frames of pipes for the lanes that read them, so that each frame is fetched once for all lanes of
 * a pipe. A chain is a part of a pipe without a gap; lanes far apart have separate chains.
 *
 *   ──frame──frame──frame──▶ stream          the oldest frames go when memory is short; the chain begins later then
 *     after        lane's cursor
 *
 * All pipes of a reader share one memory budget. A chain that is not read for a while is removed.
 */
import { FrameStream, type PullRoom } from './frame-stream.ts'
import { pipeSubjects } from './frames.ts'
import { type StoredFrame, storedFrame } from './stored-frame.ts'
import type { StreamClient, StreamMessage } from './stream-client.ts'

/** In addition to the requests of consumers. */
const maxBytes = 16 * 1024 * 1024
const idleChainMs = 30_000

class Chain {
  readonly stream: FrameStream
  readonly frames: StoredFrame[] = []
  /** Index in `frames` of the first kept frame. */
  start = 0
  /** The first kept frame is the first one after this sequence. */
  afterSeq: number
  bytes = 0
  usedAt = performance.now()
  reading: Promise<StoredFrame | null> | null = null

  constructor(stream: FrameStream) {
    this.stream = stream
    this.afterSeq = stream.lastSeq
  }

  covers(afterStreamSeq: number): boolean {
    return this.afterSeq <= afterStreamSeq && afterStreamSeq <= this.stream.lastSeq
  }

  /** The first frame in memory after this sequence. */
  firstAfter(streamSeq: number): StoredFrame | undefined {
    let low = this.start
    let high = this.frames.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.frames[middle]!.streamSeq <= streamSeq) low = middle + 1
      else high = middle
    }
    return this.frames[low]
  }

  push(frame: StoredFrame): void {
    this.frames.push(frame)
    this.bytes += frame.memoryBytes
  }

  dropFirst(): StoredFrame | undefined {
    const frame = this.frames[this.start]
    if (frame === undefined) return undefined
    this.start += 1
    this.afterSeq = frame.streamSeq
    this.bytes -= frame.memoryBytes
    if (this.start >= 1_024 || this.start === this.frames.length) {
      this.frames.splice(0, this.start)
      this.start = 0
    }
    return frame
  }
}

export class FrameChains {
  readonly #client: StreamClient
  readonly #room: PullRoom
  readonly #cluster: string
  readonly #chains = new Map<string, Chain[]>()
  /** The chains in the order in which their frames arrived. */
  #order: Chain[] = []
  #orderStart = 0
  #bytes = 0
  #sweep: NodeJS.Timeout | null = null

  constructor(client: StreamClient, room: PullRoom, cluster: string) {
    this.#client = client
    this.#room = room
    this.#cluster = cluster
  }

  /** True when the kept frames follow this sequence without a gap. */
  covers(pipeId: string, afterStreamSeq: number): boolean {
    return this.#find(pipeId, afterStreamSeq) !== undefined
  }

  /** The pipe's first frame after this one, if it is in memory. */
  peek(pipeId: string, afterStreamSeq: number): StoredFrame | undefined {
    return this.#find(pipeId, afterStreamSeq)?.firstAfter(afterStreamSeq)
  }

  /** The frame with exactly this sequence, if it is in memory. */
  frameAt(pipeId: string, streamSeq: number): StoredFrame | undefined {
    for (const chain of this.#chains.get(pipeId) ?? []) {
      const frame = chain.firstAfter(streamSeq - 1)
      if (frame?.streamSeq === streamSeq) return frame
    }
    return undefined
  }

  /** True when a chain that is being read ends there and has little in memory: the next frame is needed soon. */
  isReadAt(pipeId: string, streamSeq: number, maxChainBytes: number): boolean {
    const chain = this.#find(pipeId, streamSeq)
    return chain !== undefined && chain.stream.lastSeq === streamSeq && chain.bytes < maxChainBytes
  }

  /** The pipe's first frame after this sequence; null when the leader has none. */
  next(pipeId: string, afterStreamSeq: number): StoredFrame | Promise<StoredFrame | null> {
    const chain = this.#find(pipeId, afterStreamSeq) ?? this.#open(pipeId, afterStreamSeq)
    chain.usedAt = performance.now()
    return (
      chain.firstAfter(afterStreamSeq) ?? this.#shift(chain) ?? this.#extend(pipeId, chain, afterStreamSeq)
    )
  }

  close(): void {
    if (this.#sweep !== null) clearInterval(this.#sweep)
    this.#chains.clear()
  }

  #find(pipeId: string, afterStreamSeq: number): Chain | undefined {
    return this.#chains.get(pipeId)?.find((chain) => chain.covers(afterStreamSeq))
  }

  #open(pipeId: string, afterStreamSeq: number): Chain {
    const plan = { filter: pipeSubjects({ cluster: this.#cluster, pipeId }), afterStreamSeq }
    const chain = new Chain(new FrameStream(this.#client, this.#room, plan))
    const chains = this.#chains.get(pipeId)
    if (chains === undefined) this.#chains.set(pipeId, [chain])
    else chains.unshift(chain)
    this.#sweep ??= setInterval(() => this.#forgetIdle(), idleChainMs / 3).unref()
    return chain
  }

  /** Takes a frame that a consumer has already fetched. Returns null while another reader waits for it. */
  #shift(chain: Chain): StoredFrame | null {
    if (chain.reading !== null) return null
    for (let message = chain.stream.shift(); message !== null; message = chain.stream.shift()) {
      const frame = this.#keep(chain, message)
      if (frame !== null) return frame
    }
    return null
  }

  async #extend(pipeId: string, chain: Chain, afterStreamSeq: number): Promise<StoredFrame | null> {
    // A read that began before this call can have been too early.
    while (chain.reading !== null) {
      await chain.reading.catch(() => {})
      if (!chain.covers(afterStreamSeq)) return await this.next(pipeId, afterStreamSeq)
      const frame = chain.firstAfter(afterStreamSeq)
      if (frame !== undefined) return frame
    }
    const reading = this.#read(chain)
    chain.reading = reading
    try {
      return await reading
    } finally {
      chain.reading = null
      chain.usedAt = performance.now()
    }
  }

  async #read(chain: Chain): Promise<StoredFrame | null> {
    for (;;) {
      const message = await chain.stream.next()
      if (message === null) return null
      const frame = this.#keep(chain, message)
      if (frame !== null) return frame
    }
  }

  /** Null when the message is not a frame of ours. */
  #keep(chain: Chain, message: StreamMessage): StoredFrame | null {
    const frame = storedFrame(message)
    if (frame === null) return null
    chain.push(frame)
    this.#bytes += frame.memoryBytes
    this.#order.push(chain)
    while (this.#bytes > maxBytes) if (!this.#dropOldest()) break
    return frame
  }

  #dropOldest(): boolean {
    const chain = this.#order[this.#orderStart]
    if (chain === undefined) return false
    this.#orderStart += 1
    this.#bytes -= chain.dropFirst()?.memoryBytes ?? 0
    if (this.#orderStart >= 4_096) {
      this.#order = this.#order.slice(this.#orderStart)
      this.#orderStart = 0
    }
    return true
  }

  #forgetIdle(): void {
    const before = performance.now() - idleChainMs
    for (const [pipeId, chains] of this.#chains) {
      const kept = chains.filter((chain) => chain.reading !== null || chain.usedAt >= before)
      for (const chain of chains) if (!kept.includes(chain)) this.#forget(chain)
      if (kept.length === 0) this.#chains.delete(pipeId)
      else if (kept.length < chains.length) this.#chains.set(pipeId, kept)
    }
    if (this.#chains.size > 0 || this.#sweep === null) return
    clearInterval(this.#sweep)
    this.#sweep = null
    this.#order = []
    this.#orderStart = 0
  }

  #forget(chain: Chain): void {
    this.#bytes -= chain.bytes
    chain.bytes = 0
    chain.start = chain.frames.length = 0
    chain.stream.rest()
  }
}
