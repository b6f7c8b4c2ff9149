/**
 * Reads the buffer in JetStream for delivery: BufferReader over a stream that any node writes, and that drops on its own.
 *
 *   lane ──read──▶ FrameChains ──one by one, or pulled──▶ stream     what is in memory is read from there
 *        ──backlog─▶ Totals ──headers──▶ stream, checkpoints
 *        ──earliest▶ Earliest ──first sequence──▶ the stream's leader
 *
 * Where a pipe ends, and what is still kept, is the leader's word; messages may come from any replica. Everything rejects with
 * BufferReadUnavailableError while nobody answers. An idle pipe costs a few hundred bytes, and no consumer.
 */
import type { Backlog, BufferReader, Cursor, Heads, MessageRun, ReadLimits } from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import type { Logger } from '../../platform/log.ts'
import { hourMs } from '../../platform/quantities.ts'
import { connectNats } from '../nats/connect.ts'
import type { NatsConnection, Subscription } from '../nats/headers.ts'
import { Checkpoints } from './checkpoints.ts'
import { putAside } from './damaged.ts'
import { Earliest } from './earliest.ts'
import { FrameChains } from './frame-chains.ts'
import { PullRoom } from './frame-stream.ts'
import {
  bufferSubjects,
  droppedSubject,
  indexOf,
  messagesPerFrame,
  pipeIdOf,
  pipeSubjects,
  seqOf,
  streamName,
  streamSeqOf,
} from './frames.ts'
import { PipeHeads } from './pipe-heads.ts'
import { firstReceivedFrom } from './pipe-times.ts'
import { countsOf, cursorOf, difference, type PipePosition } from './position.ts'
import { ReadRun } from './read-run.ts'
import type { StoredFrame } from './stored-frame.ts'
import { StreamClient } from './stream-client.ts'
import { Totals } from './totals.ts'

/** Messages that are so near to the end of their lifetime may be dropped while they are read. */
const nearEndMs = 5 * 60_000

export async function openJetStreamReader(
  spec: JetStreamSpec,
  log: Logger,
  { owns = () => false }: { owns?(pipeId: string): boolean } = {},
): Promise<BufferReader> {
  const nats = await connectNats(spec.nats)
  return new JetStreamReader(spec, log, nats, owns)
}

class JetStreamReader implements BufferReader {
  readonly #log: Logger
  readonly #nats: NatsConnection
  readonly #cluster: string
  readonly #quarantineDir: string
  readonly #nearEndMs: number
  readonly #client: StreamClient
  readonly #room = new PullRoom()
  readonly #chains: FrameChains
  readonly #totals: Totals
  readonly #earliest: Earliest
  readonly #heads: PipeHeads
  readonly #dropped: Subscription

  constructor(spec: JetStreamSpec, log: Logger, nats: NatsConnection, owns: (pipeId: string) => boolean) {
    const { cluster, replicas, quarantineDir, undeliveredHours } = spec
    this.#log = log
    this.#nats = nats
    this.#cluster = cluster
    this.#quarantineDir = quarantineDir
    const keptMs = undeliveredHours * hourMs
    this.#nearEndMs = keptMs - Math.min(nearEndMs, keptMs / 2)
    const client = new StreamClient(nats, streamName(cluster), replicas)
    const room = this.#room
    const checkpoints = new Checkpoints(nats, spec, room, log)
    this.#client = client
    this.#chains = new FrameChains(client, room, cluster)
    this.#totals = new Totals({ client, room, chains: this.#chains, checkpoints, cluster, owns, log })
    this.#earliest = new Earliest(client, this.#totals, cluster)
    this.#heads = new PipeHeads(client, room, cluster)
    this.#dropped = nats.subscribe(droppedSubject(cluster), { callback: () => this.#earliest.forget() })
  }

  async read(pipeId: string, afterSeq: number, limits: ReadLimits): Promise<MessageRun> {
    const given = limits.afterMark ? countsOf(limits.afterMark) : null
    const counts = given ?? (await this.#totals.at(pipeId, afterSeq))
    const run = new ReadRun(pipeId, limits, counts, (message) =>
      putAside(this.#quarantineDir, message, this.#log),
    )
    if (await this.#fill(run, pipeId, afterSeq, given !== null)) this.#earliest.doubt(pipeId)
    return run.run
  }

  /** `isCounted`: the reader gave the totals at `afterSeq`, so that lost messages show. True: retention is near what was read. */
  async #fill(run: ReadRun, pipeId: string, afterSeq: number, isCounted: boolean): Promise<boolean> {
    let after = this.#framesAfter(pipeId, afterSeq)
    // In a part that was read before nothing can be missing that was not missing then.
    let isNew = isCounted && !this.#chains.covers(pipeId, after)
    let isNearEnd = this.#isNearEnd(this.#chains.frameAt(pipeId, streamSeqOf(afterSeq)))
    for (;;) {
      const next = this.#chains.next(pipeId, after)
      const frame = next instanceof Promise ? await next : next
      if (frame === null) break
      if (isNew && frame.streamSeq > streamSeqOf(afterSeq)) {
        isNew = false
        if (await this.#addLost(pipeId, afterSeq, run, frame)) break
      }
      isNearEnd ||= this.#isNearEnd(frame)
      if (run.take(frame, afterSeq)) break
      after = frame.streamSeq
    }
    return isNearEnd
  }

  async head(pipeId: string): Promise<Cursor> {
    return cursorOf(await this.#totals.head(pipeId))
  }

  heads(afterSeq: number): Promise<Heads | null> {
    return this.#heads.after(afterSeq)
  }

  async earliest(pipeId: string): Promise<Cursor> {
    return cursorOf(await this.#earliest.of(pipeId))
  }

  async cursorAt(pipeId: string, seq: number): Promise<Cursor> {
    return cursorOf(await this.#positionAt(pipeId, seq))
  }

  async cursorAtTime(pipeId: string, timeMs: number): Promise<number> {
    // Before it is looked for: what comes meanwhile is of a later time.
    const head = await this.#totals.head(pipeId)
    const filter = pipeSubjects(this.#cluster, pipeId)
    const first = await firstReceivedFrom(this.#client, this.#room, filter, timeMs)
    const cursor = first === null ? head.seq : first - 1
    return Math.max(cursor, (await this.#earliest.of(pipeId)).seq)
  }

  async backlog(pipeId: string, after: Cursor, throughSeq?: number): Promise<Backlog> {
    const from = countsOf(after.mark) ?? (await this.#totals.at(pipeId, after.seq))
    const to =
      throughSeq === undefined ? await this.#totals.head(pipeId) : await this.#positionAt(pipeId, throughSeq)
    return difference(to, from)
  }

  async relocate(pipeId: string, cursor: Cursor): Promise<{ cursor: Cursor; missing: number }> {
    const counted = countsOf(cursor.mark)?.messages ?? 0
    const position = await this.#positionAt(pipeId, cursor.seq)
    const missing = counted - position.messages
    if (missing <= 0) return { cursor, missing: 0 }
    return { cursor: { seq: cursor.seq, mark: cursorOf(position).mark }, missing }
  }

  async pipeIds(): Promise<string[]> {
    const ids = new Set<string>()
    for await (const subjects of this.#client.subjects(bufferSubjects(this.#cluster)))
      for (const subject of subjects) ids.add(pipeIdOf(this.#cluster, subject))
    return [...ids]
  }

  async close(): Promise<void> {
    await this.#totals.close()
    this.#dropped.unsubscribe()
    this.#chains.close()
    this.#room.close()
    await this.#nats.close()
  }

  /** Clamped to what is kept. */
  async #positionAt(pipeId: string, seq: number): Promise<PipePosition> {
    const earliest = await this.#earliest.of(pipeId)
    return seq <= earliest.seq ? earliest : await this.#totals.at(pipeId, seq)
  }

  /** A cursor may lie in the middle of its frame, which is read once more, unless it is known to end there. */
  #framesAfter(pipeId: string, afterSeq: number): number {
    const streamSeq = streamSeqOf(afterSeq)
    if (indexOf(afterSeq) === messagesPerFrame - 1) return streamSeq
    const frame = this.#chains.frameAt(pipeId, streamSeq)
    const isDone = frame !== undefined && frame.lastSeq <= afterSeq
    return isDone ? streamSeq : Math.max(0, streamSeq - 1)
  }

  /** True: there were messages between the cursor and this frame, which are gone. */
  async #addLost(pipeId: string, afterSeq: number, run: ReadRun, frame: StoredFrame): Promise<boolean> {
    const before = await this.#totals.beforeFrame(pipeId, frame.streamSeq)
    const messages = before.messages - run.counts.messages
    if (messages <= 0) return false
    const to = { ...cursorOf(before), seq: seqOf(frame.streamSeq, 0) - 1 }
    run.run.lost.push({ firstSeq: afterSeq + 1, to, messages })
    run.run.more = true
    return true
  }

  /** The stream may drop what follows it before that is read: then what is kept is asked for once more. */
  #isNearEnd(frame: StoredFrame | undefined): boolean {
    return frame === undefined || Date.now() - frame.head.lastMs > this.#nearEndMs
  }
}
