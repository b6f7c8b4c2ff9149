/**
 * The totals of a pipe up to a position: the number of messages, records and bytes since its first message. Appends are
 * not counted, because many nodes write. Readers add up the headers of frames, starting at a position with known
 * totals.
 *
 *   ──────C────────────C────────────C────e──e─e─e─e▶     C checkpoints, in a stream of their own, by the pipe's owner
 *                                                 head    e positions of this reader, dense where it counted last
 *
 * A lookup counts from the nearest known position forward, or backward when earlier messages are dropped, at most the
 * distance between two checkpoints. The head is counted on from its last position, using frames that a lane reads
 * anyway, or only headers. A pipe without a checkpoint starts at zero before its oldest frame.
 */
import { setTimeout as wait } from 'node:timers/promises'
import type { Backlog } from '../../log/buffer.ts'
import type { Logger } from '../../platform/log.ts'
import { hourMs } from '../../platform/quantities.ts'
import { SerialQueue } from '../../platform/serial-queue.ts'
import type { Checkpoints } from './checkpoints.ts'
import type { FrameChains } from './frame-chains.ts'
import { FrameStream, type PullRoom } from './frame-stream.ts'
import { type FrameHead, indexOf, pipeSubjects, seqOf, streamSeqOf } from './frames.ts'
import { minus, type PipePosition, plus, zeroCounts, zeroPosition } from './position.ts'
import { headOf, type StoredFrame, storedFrame } from './stored-frame.ts'
import type { StreamClient } from './stream-client.ts'

/** A counted position. `nextSeq` is the sequence of the next frame, if known. */
interface CountedPosition extends PipePosition {
  nextSeq: number | null
}

/** The known totals of one pipe. */
interface PipeTotals {
  /** Ascending, each at the end of a frame. The last one is how far the pipe was counted. */
  places: CountedPosition[]
  /** The result of `checkpoints.all`, read on demand. */
  checkpoints: PipePosition[] | null
  headers: FrameStream | null
  /** This pipe's newest written checkpoint, its time (ms since the epoch), and the frames since then. */
  writtenSeq: number
  writtenMs: number
  uncheckpointed: number
  queue: SerialQueue
  usedAt: number
}

const densePositions = 64
const maxPlaces = 128
const framesPerCheckpoint = 4_096
const checkpointMs = 30_000
/** Well before the stream of checkpoints drops it, one day after the messages. */
const rewriteAfterMs = 12 * hourMs
const longestCloseMs = 5_000
/** A lane this far behind reads at its own pace, and the head is counted with headers. */
const aheadBytes = 1024 * 1024
const maxPipes = 20_000

interface TotalsDeps {
  client: StreamClient
  room: PullRoom
  chains: FrameChains
  checkpoints: Checkpoints
  cluster: string
  owns: (pipeId: string) => boolean
  log: Logger
}

export class Totals {
  readonly #deps: TotalsDeps
  readonly #pipes = new Map<string, PipeTotals>()
  readonly #timer: NodeJS.Timeout
  readonly #writing = new SerialQueue()

  constructor(deps: TotalsDeps) {
    this.#deps = deps
    this.#timer = setInterval(() => this.#writeDue(), checkpointMs).unref()
  }

  /** The position just after the pipe's newest message. */
  head(pipeId: string): Promise<PipePosition> {
    return this.#inTurn(pipeId, async (pipe) => {
      await this.#advance(pipeId, pipe)
      return highOf(pipe)
    })
  }

  /**
   * The position just after the newest message up to this seq. If all earlier messages are dropped, its totals are those
   * at the drop.
   */
  at(pipeId: string, seq: number): Promise<PipePosition> {
    return this.#inTurn(pipeId, async (pipe) => {
      if (seq >= highOf(pipe).seq) await this.#advance(pipeId, pipe)
      const high = highOf(pipe)
      return seq >= high.seq ? high : await this.#within(pipeId, pipe, seq)
    })
  }

  /**
   * The position before this frame. It is derived from later counts if there are any, so that messages missing before
   * the frame are counted too.
   */
  beforeFrame(pipeId: string, streamSeq: number): Promise<PipePosition> {
    return this.#inTurn(pipeId, async (pipe) => {
      if (highOf(pipe).streamSeq < streamSeq) await this.#advance(pipeId, pipe)
      return await this.#backward(pipeId, pipe, seqOf(streamSeq, 0) - 1)
    })
  }

  /** Writes the due checkpoints now. */
  async flush(): Promise<void> {
    this.#writeDue()
    await this.#writing.ended()
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    // The process does not wait for servers that do not respond: the next owner counts from the previous checkpoint.
    await Promise.race([this.flush(), wait(longestCloseMs, undefined, { ref: false })])
    for (const { headers } of this.#pipes.values()) headers?.rest()
  }

  async #inTurn<T>(pipeId: string, run: (pipe: PipeTotals) => Promise<T>): Promise<T> {
    let pipe = this.#pipes.get(pipeId)
    if (pipe === undefined) {
      pipe = {
        places: [],
        checkpoints: null,
        headers: null,
        writtenSeq: 0,
        writtenMs: 0,
        uncheckpointed: 0,
        queue: new SerialQueue(),
        usedAt: 0,
      }
      this.#forgetSome()
      this.#pipes.set(pipeId, pipe)
    }
    const known = pipe
    known.usedAt = performance.now()
    return await known.queue.run(async () => {
      if (known.places.length === 0) await this.#begin(pipeId, known)
      return await run(known)
    })
  }

  /** Determines where counting starts: the newest checkpoint, otherwise before the oldest frame. */
  async #begin(pipeId: string, pipe: PipeTotals): Promise<void> {
    const newest = await this.#deps.checkpoints.newest(pipeId)
    const { lastSeq } = await this.#deps.client.state()
    if (newest !== null && newest.streamSeq <= lastSeq) {
      const { storedMs, ...position } = newest
      pipe.writtenSeq = newest.seq
      pipe.writtenMs = storedMs
      pipe.places = [{ ...position, nextSeq: null }]
      return
    }
    if (newest !== null) {
      // Checkpoints beyond the end of a stream that lost its end do not count.
      const all = await this.#deps.checkpoints.all(pipeId)
      pipe.checkpoints = all.filter(({ streamSeq }) => streamSeq <= lastSeq)
    }
    pipe.places = [{ ...(pipe.checkpoints?.at(-1) ?? zeroPosition), nextSeq: null }]
  }

  /** Counts up to the newest frame that the leader knows. */
  async #advance(pipeId: string, pipe: PipeTotals): Promise<void> {
    for (;;) {
      const high = highOf(pipe)
      const inMemory = this.#deps.chains.peek(pipeId, high.streamSeq)
      if (inMemory !== undefined) {
        this.#count(pipeId, pipe, inMemory.streamSeq, inMemory.head)
        continue
      }
      if (this.#deps.chains.isReadAt(pipeId, high.streamSeq, aheadBytes)) {
        const frame = await this.#deps.chains.next(pipeId, high.streamSeq)
        if (frame === null) return
        this.#count(pipeId, pipe, frame.streamSeq, frame.head)
        continue
      }
      const headers = this.#headersAfter(pipeId, pipe, high.streamSeq)
      const message = headers.shift() ?? (await headers.next())
      if (message === null) return
      const head = headOf(message)
      if (head !== null) this.#count(pipeId, pipe, message.streamSeq, head)
      // Not a frame of ours: counting continues after it.
      else high.streamSeq = message.streamSeq
    }
  }

  #count(pipeId: string, pipe: PipeTotals, streamSeq: number, head: FrameHead): void {
    const high = highOf(pipe)
    high.nextSeq = streamSeq
    const seq = seqOf(streamSeq, head.messages - 1)
    pipe.places.push({ ...plus(high, head), streamSeq, seq, nextSeq: null })
    if (pipe.places.length > maxPlaces) pipe.places = thinned(pipe.places)
    pipe.uncheckpointed += 1
    if (pipe.uncheckpointed >= framesPerCheckpoint) this.#write(pipeId, pipe)
  }

  /** A position before the head. */
  async #within(pipeId: string, pipe: PipeTotals, seq: number): Promise<PipePosition> {
    const streamSeq = streamSeqOf(seq)
    const frame = this.#deps.chains.frameAt(pipeId, streamSeq)
    if (frame !== undefined && frame.base !== null) return inFrame(frame, frame.base, indexOf(seq))
    let before = positionBefore(pipe.places, seq)
    if (
      before !== null &&
      (before.seq === seq || (before.nextSeq !== null && seq < seqOf(before.nextSeq, 0)))
    )
      return before
    // Few frames were counted since this position, so more precision is not needed.
    if (before === null || isFar(pipe.places, before)) {
      const checkpoint = positionBefore(await this.#allCheckpoints(pipeId, pipe), seq)
      if (checkpoint !== null && checkpoint.seq > (before?.seq ?? 0))
        before = { ...checkpoint, nextSeq: null }
    }
    if (before === null || (await this.#isDroppedAfter(pipeId, before)))
      return await this.#backward(pipeId, pipe, seq)
    return await this.#forward(pipeId, before, seq)
  }

  /** Messages that were dropped after a position cannot be counted from it. */
  async #isDroppedAfter(pipeId: string, { streamSeq }: PipePosition): Promise<boolean> {
    if (streamSeq === 0) return false
    const { firstSeq } = await this.#deps.client.state()
    if (firstSeq > streamSeq + 1) return true
    const first = await this.#deps.client.nextOfLeader(
      pipeSubjects({ cluster: this.#deps.cluster, pipeId }),
      1,
    )
    return first === null || first.streamSeq > streamSeq + 1
  }

  async #forward(pipeId: string, from: PipePosition, seq: number): Promise<PipePosition> {
    const to = streamSeqOf(seq)
    let position: PipePosition = from
    for (const { streamSeq, head } of await this.#heads(pipeId, from.streamSeq, to)) {
      if (streamSeq === to && indexOf(seq) < head.messages - 1) {
        const frame = await this.#frame(pipeId, to)
        return frame === null ? position : inFrame(frame, position, indexOf(seq))
      }
      position = { ...plus(position, head), streamSeq, seq: seqOf(streamSeq, head.messages - 1) }
    }
    return position
  }

  async #backward(pipeId: string, pipe: PipeTotals, seq: number): Promise<PipePosition> {
    const to = streamSeqOf(seq)
    const places = [...(await this.#allCheckpoints(pipeId, pipe)), ...pipe.places]
    const later = places.reduce<PipePosition>(
      (best, place) => (place.seq >= seq && place.seq < best.seq ? place : best),
      highOf(pipe),
    )
    const heads = await this.#heads(pipeId, to - 1, later.streamSeq)
    const own = heads[0]?.streamSeq === to ? heads.shift() : undefined
    const after = heads.reduce((sum, { head }) => plus(sum, head), zeroCounts)
    const end = minus(later, after)
    if (own === undefined) return { ...end, streamSeq: to, seq: end.messages === 0 ? 0 : seq }
    const frame = indexOf(seq) < own.head.messages - 1 ? await this.#frame(pipeId, to) : null
    if (frame === null) return { ...end, streamSeq: to, seq: seqOf(to, own.head.messages - 1) }
    return inFrame(frame, minus(end, own.head), indexOf(seq))
  }

  /** The headers of the frames after `after`, up to `to`. */
  async #heads(pipeId: string, after: number, to: number): Promise<{ streamSeq: number; head: FrameHead }[]> {
    const found: { streamSeq: number; head: FrameHead }[] = []
    if (to <= after) return found
    const stream = this.#headers(pipeId, after, false)
    try {
      for (;;) {
        const message = stream.shift() ?? (await stream.next())
        if (message === null || message.streamSeq > to) return found
        const head = headOf(message)
        if (head !== null) found.push({ streamSeq: message.streamSeq, head })
        if (message.streamSeq === to) return found
      }
    } finally {
      stream.rest()
    }
  }

  #headersAfter(pipeId: string, pipe: PipeTotals, streamSeq: number): FrameStream {
    if (pipe.headers?.lastSeq === streamSeq) return pipe.headers
    pipe.headers?.rest()
    pipe.headers = this.#headers(pipeId, streamSeq, true)
    return pipe.headers
  }

  #headers(pipeId: string, afterStreamSeq: number, isEndLikely: boolean): FrameStream {
    const filter = pipeSubjects({ cluster: this.#deps.cluster, pipeId })
    return new FrameStream(this.#deps.client, this.#deps.room, {
      filter,
      afterStreamSeq,
      headersOnly: true,
      isEndLikely,
    })
  }

  /** Null when it is gone meanwhile. */
  async #frame(pipeId: string, streamSeq: number): Promise<StoredFrame | null> {
    const inMemory = this.#deps.chains.frameAt(pipeId, streamSeq)
    if (inMemory !== undefined) return inMemory
    const message = await this.#deps.client.next(
      pipeSubjects({ cluster: this.#deps.cluster, pipeId }),
      streamSeq,
    )
    return message?.streamSeq === streamSeq ? storedFrame(message) : null
  }

  async #allCheckpoints(pipeId: string, pipe: PipeTotals): Promise<PipePosition[]> {
    pipe.checkpoints ??= (await this.#deps.checkpoints.all(pipeId)).filter(
      ({ seq }) => seq <= highOf(pipe).seq,
    )
    return pipe.checkpoints
  }

  /** Writes new checkpoints, and unchanged ones again before the stream drops them. */
  #writeDue(): void {
    const againMs = Date.now() - rewriteAfterMs
    for (const [pipeId, pipe] of this.#pipes) {
      const { places, uncheckpointed, writtenMs } = pipe
      if (places.length > 0 && (uncheckpointed > 0 || writtenMs < againMs)) this.#write(pipeId, pipe)
    }
  }

  /** Writes run in order and are not waited for, because a later checkpoint supersedes an earlier one. */
  #write(pipeId: string, pipe: PipeTotals): void {
    if (!this.#deps.owns(pipeId)) return
    const position = highOf(pipe)
    if (position.messages === 0) return
    const isNew = position.seq > pipe.writtenSeq
    if (!isNew && pipe.writtenMs >= Date.now() - rewriteAfterMs) return
    pipe.uncheckpointed = 0
    pipe.writtenMs = Date.now()
    void this.#writing.run(async () => {
      try {
        await this.#deps.checkpoints.write(pipeId, position)
        pipe.writtenSeq = position.seq
        const { nextSeq: _, ...checkpoint } = position
        if (isNew) pipe.checkpoints?.push(checkpoint)
      } catch (error) {
        pipe.uncheckpointed += 1
        pipe.writtenMs = 0
        this.#deps.log.warn({ pipe_id: pipeId, err: error }, 'buffer.checkpoint_failed')
      }
    })
  }

  /** Removes pipes that were not used for a long time; they start again at their newest checkpoint. */
  #forgetSome(): void {
    if (this.#pipes.size < maxPipes) return
    const byUse = [...this.#pipes].sort(([, a], [, b]) => a.usedAt - b.usedAt)
    for (const [pipeId, pipe] of byUse.slice(0, maxPipes / 10)) {
      this.#write(pipeId, pipe)
      pipe.headers?.rest()
      this.#pipes.delete(pipeId)
    }
  }
}

function highOf({ places }: PipeTotals): CountedPosition {
  return places.at(-1)!
}

/** Removes every second one of the older positions. */
function thinned(places: readonly CountedPosition[]): CountedPosition[] {
  const dense = places.length - densePositions
  return places.filter((_, index) => index >= dense || index % 2 === 0)
}

function positionBefore<P extends PipePosition>(places: readonly P[], seq: number): P | null {
  let low = 0
  let high = places.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (places[middle]!.seq <= seq) low = middle + 1
    else high = middle
  }
  return places[low - 1] ?? null
}

/** True when the position is among the thinned ones. */
function isFar(places: readonly CountedPosition[], place: CountedPosition): boolean {
  return places.indexOf(place) < places.length - densePositions
}

/** The position just after the message with this index, or after the frame's last message. */
function inFrame(frame: StoredFrame, base: Backlog, index: number): PipePosition {
  const { streamSeq, head } = frame
  const messages = frame.messages()
  if (index >= head.messages - 1 || messages === null)
    return { ...plus(base, head), streamSeq, seq: seqOf(streamSeq, head.messages - 1) }
  let counts = base
  for (const { recordCount, body } of messages.slice(0, index + 1))
    counts = plus(counts, { messages: 1, records: recordCount, bytes: body.length })
  return { ...pick(counts), streamSeq, seq: seqOf(streamSeq, index) }
}

function pick({ messages, records, bytes }: Backlog): Backlog {
  return { messages, records, bytes }
}
