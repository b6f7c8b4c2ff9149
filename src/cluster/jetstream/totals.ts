/**
 * The totals of pipes: how many messages, records and bytes a pipe has had up to a place, from its first message on. Nobody
 * counts at append, where many nodes write: readers add up the heads of frames, from a place whose totals are known.
 *
 *   ──────C────────────C────────────C────e──e─e─e─e▶     C checkpoints, in a stream of their own, by the pipe's owner
 *                                                 head    e places of this reader, dense where it counted last
 *
 * A look-up counts from the nearest such place, forward, or backward where messages before it are dropped: at most what lies
 * between two checkpoints. The head is counted on from where it was last, with the bodies that a lane reads anyway or with
 * headers alone. A pipe without any checkpoint begins with zero before its oldest frame.
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

/** A place that was counted; `nextSeq`: of the next frame, where it is known. */
interface Place extends PipePosition {
  nextSeq: number | null
}

/** The known totals of one pipe. */
interface PipeTotals {
  /** Ascending, each at a frame's end; the last one is how far it was counted. */
  places: Place[]
  /** The result of `checkpoints.all`, read when first needed. */
  checkpoints: PipePosition[] | null
  headers: FrameStream | null
  /** The newest checkpoint of this pipe that is written, when (ms since the epoch), and frames since. */
  writtenSeq: number
  writtenMs: number
  uncheckpointed: number
  queue: SerialQueue
  usedAt: number
}

const densePlaces = 64
const mostPlaces = 128
const framesPerCheckpoint = 4_096
const checkpointMs = 30_000
/** Well before the stream of checkpoints drops it, which it does a day after the messages. */
const writeAgainMs = 12 * hourMs
const longestCloseMs = 5_000
/** A lane that far behind reads at its own pace: the head is counted with headers. */
const aheadBytes = 1024 * 1024
const mostPipes = 20_000

export class Totals {
  readonly #client: StreamClient
  readonly #room: PullRoom
  readonly #chains: FrameChains
  readonly #checkpoints: Checkpoints
  readonly #cluster: string
  readonly #owns: (pipeId: string) => boolean
  readonly #log: Logger
  readonly #pipes = new Map<string, PipeTotals>()
  readonly #timer: NodeJS.Timeout
  readonly #writing = new SerialQueue()

  constructor(deps: {
    client: StreamClient
    room: PullRoom
    chains: FrameChains
    checkpoints: Checkpoints
    cluster: string
    owns: (pipeId: string) => boolean
    log: Logger
  }) {
    this.#client = deps.client
    this.#room = deps.room
    this.#chains = deps.chains
    this.#checkpoints = deps.checkpoints
    this.#cluster = deps.cluster
    this.#owns = deps.owns
    this.#log = deps.log
    this.#timer = setInterval(() => this.#writeDue(), checkpointMs).unref()
  }

  /** Just after the pipe's newest message. */
  head(pipeId: string): Promise<PipePosition> {
    return this.#inTurn(pipeId, async (pipe) => {
      await this.#advance(pipeId, pipe)
      return highOf(pipe)
    })
  }

  /** Just after the newest message up to this one. Where all before it are dropped, its totals are those of the drop. */
  at(pipeId: string, seq: number): Promise<PipePosition> {
    return this.#inTurn(pipeId, async (pipe) => {
      if (seq >= highOf(pipe).seq) await this.#advance(pipeId, pipe)
      const high = highOf(pipe)
      return seq >= high.seq ? high : await this.#within(pipeId, pipe, seq)
    })
  }

  /** Before this frame, by what was counted after it where there is any: also what is missing before it is counted then. */
  beforeFrame(pipeId: string, streamSeq: number): Promise<PipePosition> {
    return this.#inTurn(pipeId, async (pipe) => {
      if (highOf(pipe).streamSeq < streamSeq) await this.#advance(pipeId, pipe)
      return await this.#backward(pipeId, pipe, seqOf(streamSeq, 0) - 1)
    })
  }

  /** The next checkpoints are written now. */
  async flush(): Promise<void> {
    this.#writeDue()
    await this.#writing.ended()
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    // Servers that do not answer keep no process from ending: the next owner counts from the checkpoint before.
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

  /** Where counting begins: the newest checkpoint, else before the oldest frame. */
  async #begin(pipeId: string, pipe: PipeTotals): Promise<void> {
    const newest = await this.#checkpoints.newest(pipeId)
    const { lastSeq } = await this.#client.state()
    if (newest !== null && newest.streamSeq <= lastSeq) {
      const { storedMs, ...position } = newest
      pipe.writtenSeq = newest.seq
      pipe.writtenMs = storedMs
      pipe.places = [{ ...position, nextSeq: null }]
      return
    }
    if (newest !== null) {
      // Checkpoints beyond the end of a stream that has lost its end do not count.
      const all = await this.#checkpoints.all(pipeId)
      pipe.checkpoints = all.filter(({ streamSeq }) => streamSeq <= lastSeq)
    }
    pipe.places = [{ ...(pipe.checkpoints?.at(-1) ?? zeroPosition), nextSeq: null }]
  }

  /** Counts on, up to the newest frame that the leader knows. */
  async #advance(pipeId: string, pipe: PipeTotals): Promise<void> {
    for (;;) {
      const high = highOf(pipe)
      const inMemory = this.#chains.peek(pipeId, high.streamSeq)
      if (inMemory !== undefined) {
        this.#count(pipeId, pipe, inMemory.streamSeq, inMemory.head)
        continue
      }
      if (this.#chains.isReadAt(pipeId, high.streamSeq, aheadBytes)) {
        const frame = await this.#chains.next(pipeId, high.streamSeq)
        if (frame === null) return
        this.#count(pipeId, pipe, frame.streamSeq, frame.head)
        continue
      }
      const headers = this.#headersAfter(pipeId, pipe, high.streamSeq)
      const message = headers.shift() ?? (await headers.next())
      if (message === null) return
      const head = headOf(message)
      if (head !== null) this.#count(pipeId, pipe, message.streamSeq, head)
      // None of ours: counting goes on after it all the same.
      else high.streamSeq = message.streamSeq
    }
  }

  #count(pipeId: string, pipe: PipeTotals, streamSeq: number, head: FrameHead): void {
    const high = highOf(pipe)
    high.nextSeq = streamSeq
    const seq = seqOf(streamSeq, head.messages - 1)
    pipe.places.push({ ...plus(high, head), streamSeq, seq, nextSeq: null })
    if (pipe.places.length > mostPlaces) pipe.places = thinned(pipe.places)
    pipe.uncheckpointed += 1
    if (pipe.uncheckpointed >= framesPerCheckpoint) this.#write(pipeId, pipe)
  }

  /** A place before the head. */
  async #within(pipeId: string, pipe: PipeTotals, seq: number): Promise<PipePosition> {
    const streamSeq = streamSeqOf(seq)
    const frame = this.#chains.frameAt(pipeId, streamSeq)
    if (frame !== undefined && frame.base !== null) return inFrame(frame, frame.base, indexOf(seq))
    let before = placeBefore(pipe.places, seq)
    if (
      before !== null &&
      (before.seq === seq || (before.nextSeq !== null && seq < seqOf(before.nextSeq, 0)))
    )
      return before
    // Few frames have been counted since this one: no need to know more.
    if (before === null || isFar(pipe.places, before)) {
      const checkpoint = placeBefore(await this.#allCheckpoints(pipeId, pipe), seq)
      if (checkpoint !== null && checkpoint.seq > (before?.seq ?? 0))
        before = { ...checkpoint, nextSeq: null }
    }
    if (before === null || (await this.#isDroppedAfter(pipeId, before)))
      return await this.#backward(pipeId, pipe, seq)
    return await this.#forward(pipeId, before, seq)
  }

  /** Messages that were dropped after a position cannot be counted from there. */
  async #isDroppedAfter(pipeId: string, { streamSeq }: PipePosition): Promise<boolean> {
    if (streamSeq === 0) return false
    const { firstSeq } = await this.#client.state()
    if (firstSeq > streamSeq + 1) return true
    const first = await this.#client.nextOfLeader(pipeSubjects(this.#cluster, pipeId), 1)
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

  /** The heads of the frames after the first and up to the second sequence. */
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
    const filter = pipeSubjects(this.#cluster, pipeId)
    return new FrameStream(this.#client, this.#room, {
      filter,
      afterStreamSeq,
      headersOnly: true,
      isEndLikely,
    })
  }

  /** Null: it is gone meanwhile. */
  async #frame(pipeId: string, streamSeq: number): Promise<StoredFrame | null> {
    const inMemory = this.#chains.frameAt(pipeId, streamSeq)
    if (inMemory !== undefined) return inMemory
    const message = await this.#client.next(pipeSubjects(this.#cluster, pipeId), streamSeq)
    return message?.streamSeq === streamSeq ? storedFrame(message) : null
  }

  async #allCheckpoints(pipeId: string, pipe: PipeTotals): Promise<PipePosition[]> {
    pipe.checkpoints ??= (await this.#checkpoints.all(pipeId)).filter(({ seq }) => seq <= highOf(pipe).seq)
    return pipe.checkpoints
  }

  /** Also what is the same still, before the stream of checkpoints drops it. */
  #writeDue(): void {
    const againMs = Date.now() - writeAgainMs
    for (const [pipeId, pipe] of this.#pipes) {
      const { places, uncheckpointed, writtenMs } = pipe
      if (places.length > 0 && (uncheckpointed > 0 || writtenMs < againMs)) this.#write(pipeId, pipe)
    }
  }

  /** One after the other, and not waited for: a later one says the same and more. */
  #write(pipeId: string, pipe: PipeTotals): void {
    if (!this.#owns(pipeId)) return
    const position = highOf(pipe)
    if (position.messages === 0) return
    const isNew = position.seq > pipe.writtenSeq
    if (!isNew && pipe.writtenMs >= Date.now() - writeAgainMs) return
    pipe.uncheckpointed = 0
    pipe.writtenMs = Date.now()
    void this.#writing.run(async () => {
      try {
        await this.#checkpoints.write(pipeId, position)
        pipe.writtenSeq = position.seq
        const { nextSeq: _, ...checkpoint } = position
        if (isNew) pipe.checkpoints?.push(checkpoint)
      } catch (error) {
        pipe.uncheckpointed += 1
        pipe.writtenMs = 0
        this.#log.warn({ pipe_id: pipeId, err: error }, 'buffer.checkpoint_failed')
      }
    })
  }

  /** Pipes that nobody has asked for in a long time: they begin again with their newest checkpoint. */
  #forgetSome(): void {
    if (this.#pipes.size < mostPipes) return
    const byUse = [...this.#pipes].sort(([, a], [, b]) => a.usedAt - b.usedAt)
    for (const [pipeId, pipe] of byUse.slice(0, mostPipes / 10)) {
      this.#write(pipeId, pipe)
      pipe.headers?.rest()
      this.#pipes.delete(pipeId)
    }
  }
}

function highOf({ places }: PipeTotals): Place {
  return places.at(-1)!
}

/** Every second one of the older ones goes. */
function thinned(places: readonly Place[]): Place[] {
  const dense = places.length - densePlaces
  return places.filter((_, index) => index >= dense || index % 2 === 0)
}

function placeBefore<P extends PipePosition>(places: readonly P[], seq: number): P | null {
  let low = 0
  let high = places.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (places[middle]!.seq <= seq) low = middle + 1
    else high = middle
  }
  return places[low - 1] ?? null
}

/** Among the thinned ones. */
function isFar(places: readonly Place[], place: Place): boolean {
  return places.indexOf(place) < places.length - densePlaces
}

/** Just after the message with this index, or the frame's last. */
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
