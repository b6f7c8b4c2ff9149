/**
 * Retention of delivered messages. (The stream's own `max_age` drops everything older than `undeliveredHours`.) The
 * node that delivers a pipe decides for it, by the low watermarks that its lanes report. A report counts for 15 s, and
 * only while the node owns the pipe with the report's epoch: the lease is checked before each purge, so a paused
 * process purges nothing. A purge in progress when the lease ends cannot be undone. It removes only messages before a
 * saved watermark, so no undelivered message is lost; at most a later rewind finds less history.
 *
 *   delivered, and older than `deliveredHours`                            every half hour, or more often where hours are few
 *   delivered, and all delivered history is over `deliveredMaxBytes`      every 10 s, each pipe in proportion, oldest first
 *   delivered, and the stream is nearly full                              every 2 s, likewise
 *   not delivered                                                         never here
 *
 * Only the oldest frames of a pipe are removed, without holes. The frame that contains a watermark stays. A frame with
 * unsettled idempotency keys stays too, because its existence decides their outcome (settlement.ts). Claims are read
 * after the watermarks of a pass: frames of later claims are after all of these watermarks.
 *
 * When the stream is nearly full and has no delivered messages left, fair shares apply (shares.ts).
 */
import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import type { Backlog, BufferReader, LowWatermark } from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import { pressedFrom } from '../../log/fair-share.ts'
import type { Attempt } from '../../log/key-store.ts'
import type { Logger } from '../../platform/log.ts'
import { hourMs } from '../../platform/quantities.ts'
import { Repeated } from '../../platform/repeated.ts'
import { slices } from '../../platform/slices.ts'
import { connectNats } from '../nats/connect.ts'
import type { NatsConnection } from '../nats/headers.ts'
import { droppedSubject, messagesPerFrame, seqOf, sharesSubject, streamName, streamSeqOf } from './frames.ts'
import { storedFrameOf } from './settlement.ts'
import { messageHeadBytes, pipesPerReport, Shares, type SharesReport } from './shares.ts'
import { StreamClient } from './stream-client.ts'
import { StreamPurge } from './stream-purge.ts'

const passMs = 2_000
const measureMs = 10_000
const reportLivesMs = 15_000
const requestTimeoutMs = 5_000
const longestAgePassMs = 30 * 60_000
/** Parts of `max_bytes`: above the first mark, delivered messages are dropped until the second mark is reached. */
const nearlyFull = 0.9
const roomy = 0.85
/** The second purge catches appends to a deleted pipe that were in progress. */
const secondPurgeAfterMs = 60_000
/** The number of probes for the frame up to which a purge frees its target. */
const probes = 8
const minPurgedBytes = 64 * 1024
/** The limit of the ratio between the space that frames take and the counted bytes of their messages. */
const maxScale = 4

/** Reads a pipe's totals. */
export type TotalsReader = Pick<BufferReader, 'earliest' | 'cursorAt' | 'backlog'>

/** The epoch with which this process owns the pipe now; null when it does not. */
export type OwnedEpoch = (pipeId: string) => number | null

/** The frames that unsettled idempotency keys can be in. */
export type KeyAttempts = () => Promise<readonly Attempt[]>

interface Held {
  pipeId: string
  workspaceId: string
  watermark: number
  /** Approximate bytes on disk. */
  undelivered: number
  delivered: number
}

/** For the process that delivers. It has its own connection. */
export async function openRetentionKeeper(
  spec: JetStreamSpec,
  reader: TotalsReader,
  log: Logger,
  { owned = () => 1, keyAttempts = async () => [] }: RetentionOptions = {},
): Promise<RetentionKeeper> {
  const connection = await connectNats(spec.nats)
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: requestTimeoutMs })
  return new RetentionKeeper({ spec, reader, log, owned, keyAttempts, connection, manager })
}

export interface RetentionOptions {
  owned?: OwnedEpoch | undefined
  keyAttempts?: KeyAttempts | undefined
}

interface Deps {
  spec: JetStreamSpec
  reader: TotalsReader
  log: Logger
  owned: OwnedEpoch
  keyAttempts: KeyAttempts
  connection: NatsConnection
  manager: JetStreamManager
}

export class RetentionKeeper {
  readonly #deps: Deps
  readonly #node = crypto.randomUUID()
  readonly #purge: StreamPurge
  readonly #shares: Shares
  readonly #client: StreamClient
  /** By pipe, of the current pass. */
  #attempts = new Map<string, Attempt[]>()
  readonly #watermarks = new Map<string, LowWatermark & { at: number; epoch: number }>()
  /** By pipe: all earlier frames are purged. */
  readonly #purged = new Map<string, number>()
  /** By deleted pipe: the time of its next purge. */
  readonly #deleted = new Map<string, number>()
  #onReportWanted: () => void = () => {}
  #agedAt = Number.NEGATIVE_INFINITY
  #measuredAt = Number.NEGATIVE_INFINITY
  #reports = 0
  readonly #passes = new Repeated(passMs, () => this.#pass())
  #isFailing = false

  constructor(deps: Deps) {
    this.#deps = deps
    const { spec, connection, manager } = deps
    this.#purge = new StreamPurge(manager, spec.cluster)
    this.#shares = new Shares(connection, spec.cluster, spec.maxBytes)
    this.#client = new StreamClient(connection, streamName(spec.cluster), spec.replicas)
  }

  /** The newest report of each pipe counts, and only while reports arrive. */
  report(watermarks: readonly LowWatermark[]): void {
    const at = performance.now()
    for (const one of watermarks) {
      const epoch = this.#deps.owned(one.pipeId)
      if (epoch !== null) this.#watermarks.set(one.pipeId, { ...one, at, epoch })
    }
  }

  /** Final: pipe ids are never reused. */
  pipeDeleted(pipeId: string): void {
    this.#watermarks.delete(pipeId)
    this.#deleted.set(pipeId, 0)
  }

  /** The stream is getting full, so a current report of delivered positions is needed. */
  onReportWanted(listener: () => void): void {
    this.#onReportWanted = listener
  }

  close(): void {
    void this.#passes.close()
    this.#shares.close()
    void this.#deps.connection.close()
  }

  async #pass(): Promise<void> {
    try {
      await this.#purgeDeleted()
      await this.#purgeAged()
      await this.#keepRoom()
      this.#isFailing = false
    } catch (error) {
      if (!this.#isFailing && !this.#passes.isClosed)
        this.#deps.log.warn({ err: error }, 'buffer.retention_failed')
      this.#isFailing = true
    }
  }

  async #purgeDeleted(): Promise<void> {
    const now = performance.now()
    let purged = 0
    for (const [pipeId, dueAt] of this.#deleted) {
      if (dueAt > now) continue
      purged += await this.#purge.pipe(pipeId)
      this.#purged.delete(pipeId)
      if (dueAt === 0) this.#deleted.set(pipeId, now + secondPurgeAfterMs)
      else this.#deleted.delete(pipeId)
    }
    this.#dropped(purged, 'pipe_deleted')
  }

  async #purgeAged(): Promise<void> {
    const { deliveredHours } = this.#deps.spec
    const everyMs = Math.min(longestAgePassMs, Math.max(passMs, (deliveredHours * hourMs) / 48))
    const watermarks = this.#fresh()
    if (watermarks.length === 0 || performance.now() - this.#agedAt < everyMs) return
    const agedSeq = (await this.#purge.lastBefore(Date.now() - deliveredHours * hourMs)) + 1
    await this.#readAttempts()
    let purged = 0
    for (const { pipeId, seq } of watermarks)
      purged += await this.#purgeBefore(pipeId, Math.min(agedSeq, streamSeqOf(seq)))
    this.#agedAt = performance.now()
    this.#dropped(purged, 'delivered_age')
  }

  /** `streamSeq` is the first frame that stays, or an earlier one. */
  async #purgeBefore(pipeId: string, streamSeq: number): Promise<number> {
    if (streamSeq <= (this.#purged.get(pipeId) ?? 1)) return 0
    const before = Math.min(streamSeq, await this.#firstUnsettled(pipeId, streamSeq))
    // Checked last, because the statements before took time.
    if (!this.#isFresh(pipeId)) return 0
    const purged = await this.#purge.before(pipeId, before)
    // If a claim stopped the purge earlier, it is tried again.
    if (before === streamSeq) this.#purged.set(pipeId, streamSeq)
    return purged
  }

  /** Must run after the watermarks that it is used with are read. */
  async #readAttempts(): Promise<void> {
    this.#attempts = new Map()
    for (const attempt of await this.#deps.keyAttempts())
      this.#attempts.set(attempt.pipeId, [...(this.#attempts.get(attempt.pipeId) ?? []), attempt])
  }

  /** The first frame before `streamSeq` with unsettled keys. */
  async #firstUnsettled(pipeId: string, streamSeq: number): Promise<number> {
    let first = streamSeq
    for (const attempt of this.#attempts.get(pipeId) ?? []) {
      if (attempt.afterSeq >= first) continue
      const frame = await storedFrameOf({ cluster: this.#deps.spec.cluster, client: this.#client }, attempt)
      if (frame !== null) first = Math.min(first, frame.streamSeq)
    }
    return first
  }

  async #keepRoom(): Promise<void> {
    const { spec } = this.#deps
    const { state, config } = await this.#purge.info()
    const maxBytes = config.max_bytes > 0 ? config.max_bytes : spec.maxBytes
    const isPressing = state.bytes > maxBytes * pressedFrom
    if (isPressing) this.#onReportWanted()
    const isDue = isPressing || performance.now() - this.#measuredAt >= measureMs
    if (!isDue || (!isPressing && state.bytes <= spec.deliveredMaxBytes)) return
    this.#measuredAt = performance.now()
    const held = await this.#measure(state.bytes)
    const own = sumOf(held)
    const others = this.#shares.othersThan(this.#node)
    const delivered = own.delivered + others.delivered
    const neededBytes = state.bytes > maxBytes * nearlyFull ? state.bytes - maxBytes * roomy : 0
    const overBytes = Math.min(delivered, Math.max(neededBytes, delivered - spec.deliveredMaxBytes))
    this.#publish(held, own, state.bytes - delivered > maxBytes * pressedFrom)
    if (overBytes <= 0) return
    await this.#readAttempts()
    let purged = 0
    for (const one of held) purged += await this.#free(one, overBytes / delivered)
    this.#dropped(purged, neededBytes > 0 ? 'space' : 'delivered_size')
  }

  /** The bytes that each pipe of this process holds, scaled to the actual size of the stream. */
  async #measure(streamBytes: number): Promise<Held[]> {
    const { reader } = this.#deps
    const held: Held[] = []
    for (const { pipeId, workspaceId, seq: watermark } of this.#fresh()) {
      const kept = roomOf(await reader.backlog(pipeId, await reader.earliest(pipeId)))
      const undelivered =
        watermark === 0
          ? kept
          : Math.min(kept, roomOf(await reader.backlog(pipeId, await reader.cursorAt(pipeId, watermark))))
      held.push({ pipeId, workspaceId, watermark, undelivered, delivered: kept - undelivered })
    }
    const own = sumOf(held)
    const others = this.#shares.othersThan(this.#node)
    const counted = own.undelivered + own.delivered
    const ownBytes = streamBytes - others.undelivered - others.delivered
    const scale = counted === 0 ? 1 : Math.min(maxScale, Math.max(1, ownBytes / counted))
    for (const one of held) {
      one.undelivered *= scale
      one.delivered *= scale
    }
    return held
  }

  /** Purges approximately this part of the pipe's delivered messages. */
  async #free({ pipeId, watermark, delivered }: Held, part: number): Promise<number> {
    const { reader } = this.#deps
    const wantedBytes = delivered * part
    if (wantedBytes < Math.min(minPurgedBytes, delivered / 2)) return 0
    let high = streamSeqOf(watermark)
    const earliest = await reader.earliest(pipeId)
    const all = roomOf(await reader.backlog(pipeId, earliest, watermark))
    if (all === 0) return 0
    if (part < 1) {
      let low = streamSeqOf(earliest.seq)
      for (let probe = 0; probe < probes && high - low > 1; probe += 1) {
        const middle = Math.floor((low + high) / 2)
        const through = seqOf(middle, messagesPerFrame - 1)
        if (roomOf(await reader.backlog(pipeId, earliest, through)) < all * part) low = middle
        else high = middle
      }
    }
    return await this.#purgeBefore(pipeId, high)
  }

  #publish(
    held: readonly Held[],
    { undelivered, delivered }: ReturnType<typeof sumOf>,
    isPressed: boolean,
  ): void {
    const { connection, spec } = this.#deps
    if (connection.isClosed()) return
    this.#reports += 1
    const pipes: SharesReport['pipes'] = isPressed
      ? held.map((one) => [one.pipeId, one.workspaceId, Math.round(one.undelivered)])
      : []
    const report = { node: this.#node, report: this.#reports, undelivered, delivered, isPressed }
    for (const some of pipes.length === 0 ? [[]] : slices(pipes, pipesPerReport)) {
      const part: SharesReport = { ...report, pipes: some }
      connection.publish(sharesSubject(spec.cluster), JSON.stringify(part))
    }
  }

  #fresh(): LowWatermark[] {
    for (const pipeId of this.#watermarks.keys()) if (!this.#isFresh(pipeId)) this.#watermarks.delete(pipeId)
    return [...this.#watermarks.values()]
  }

  /** True while the pipe's last report counts. */
  #isFresh(pipeId: string): boolean {
    const report = this.#watermarks.get(pipeId)
    if (report === undefined || report.at < performance.now() - reportLivesMs) return false
    return this.#deps.owned(pipeId) === report.epoch
  }

  #dropped(frames: number, reason: string): void {
    if (frames === 0) return
    const { connection, spec, log } = this.#deps
    log.info({ frames, reason }, 'buffer.purged')
    if (!connection.isClosed()) connection.publish(droppedSubject(spec.cluster))
  }
}

function sumOf(held: readonly Held[]): { undelivered: number; delivered: number } {
  let undelivered = 0
  let delivered = 0
  for (const one of held) {
    undelivered += one.undelivered
    delivered += one.delivered
  }
  return { undelivered, delivered }
}

function roomOf({ messages, bytes }: Backlog): number {
  return bytes + messages * messageHeadBytes
}
