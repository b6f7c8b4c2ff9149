/**
 * Reads the buffer in JetStream for delivery: a BufferReader over a stream that every node writes and that drops old
 * messages by itself.
 *
 *   lane ──read──▶ FrameChains ──one by one, or pulled──▶ stream     frames in memory are used first
 *        ──backlog─▶ Totals ──headers──▶ stream, checkpoints
 *        ──earliest▶ Earliest ──first sequence──▶ the stream's leader
 *
 * Only the leader knows where a pipe ends and what is still kept; messages can come from any replica. Every method
 * rejects with BufferReadUnavailableError while the servers do not respond. An idle pipe costs a few hundred bytes and
 * no consumer.
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

/** Messages this close to the end of their lifetime can be dropped while they are read. */
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

  /**
   * `isCounted`: the totals at `afterSeq` are known, so lost messages can be detected. Returns true when retention is
   * close to what was read.
   */
  async #fill(run: ReadRun, pipeId: string, afterSeq: number, isCounted: boolean): Promise<boolean> {
    let after = this.#framesAfter(pipeId, afterSeq)
    // A part that was read before has no new gaps.
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
    // Read first: messages that arrive meanwhile are of a later time.
    const head = await this.#totals.head(pipeId)
    const filter = pipeSubjects({ cluster: this.#cluster, pipeId })
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
      for (const subject of subjects) ids.add(pipeIdOf({ cluster: this.#cluster, subject }))
    return [...ids]
  }

  async close(): Promise<void> {
    await this.#totals.close()
    this.#dropped.unsubscribe()
    this.#chains.close()
    this.#room.close()
    await this.#nats.close()
  }

  /** Clamped to the messages that are kept. */
  async #positionAt(pipeId: string, seq: number): Promise<PipePosition> {
    const earliest = await this.#earliest.of(pipeId)
    return seq <= earliest.seq ? earliest : await this.#totals.at(pipeId, seq)
  }

  /** A cursor can be inside its frame, which is then read again, unless the cursor is known to be at its end. */
  #framesAfter(pipeId: string, afterSeq: number): number {
    const streamSeq = streamSeqOf(afterSeq)
    if (indexOf(afterSeq) === messagesPerFrame - 1) return streamSeq
    const frame = this.#chains.frameAt(pipeId, streamSeq)
    const isDone = frame !== undefined && frame.lastSeq <= afterSeq
    return isDone ? streamSeq : Math.max(0, streamSeq - 1)
  }

  /** Adds a gap and returns true when messages between the cursor and this frame are gone. */
  async #addLost(pipeId: string, afterSeq: number, run: ReadRun, frame: StoredFrame): Promise<boolean> {
    const before = await this.#totals.beforeFrame(pipeId, frame.streamSeq)
    const messages = before.messages - run.counts.messages
    if (messages <= 0) return false
    const to = { ...cursorOf(before), seq: seqOf(frame.streamSeq, 0) - 1 }
    run.run.lost.push({ firstSeq: afterSeq + 1, to, messages })
    run.run.more = true
    return true
  }

  /** True when the stream can drop the following frames before they are read; then the kept range is checked again. */
  #isNearEnd(frame: StoredFrame | undefined): boolean {
    return frame === undefined || Date.now() - frame.head.lastMs > this.#nearEndMs
  }
}
