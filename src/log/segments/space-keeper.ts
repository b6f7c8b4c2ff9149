/**
 * The space of the buffer: how much there is, what is freed for more (retention, compaction), and who may still
 * append when it runs short. It decides and carries out; when to look is the writer's business.
 */
import type { Logger } from '../../platform/log.ts'
import { FairShare, pressedFrom } from '../fair-share.ts'
import type { Compaction } from './compaction.ts'
import type { DamagedSegments } from './damaged-segments.ts'
import { lookUpDelivered, undeliveredBytes } from './delivered-part.ts'
import type { DiskGuard } from './disk-guard.ts'
import type { IdempotencyKeys } from './idempotency.ts'
import type { SegmentName } from './layout.ts'
import type { SegmentsSpec, UnavailableReason } from './protocol.ts'
import { type LowWatermarks, planReclaim, type Reclaim } from './retention.ts'
import type { SegmentFacts } from './segment-facts.ts'
import type { SegmentLog } from './segment-log.ts'
import { isDamage, isDiskFull } from './sqlite-errors.ts'

/**
 * The most work that a write waits for if it finds no room: after that it is rejected, and the compaction continues
 * in the turns of the writer. 16 slices copy or compare 8 MiB: on a disk of 5 MB/s that takes about four seconds.
 */
const slicesAtOnce = 16
/** After a compaction for which the disk was too full. */
const compactionRetryMs = 60_000
/** Delivery responds to a wanted report within milliseconds. After this time the last report counts. */
const reportWaitMs = 1_000

export interface SpaceDeps {
  guard: DiskGuard
  segments: SegmentLog
  keys: IdempotencyKeys
  damaged: DamagedSegments
  watermarks: LowWatermarks
  /** The buffer's clock. */
  clock(): number
  /** Seals the segment being written. False when there is no room for a new one. */
  roll(): boolean
  /** Segments were dropped or compacted. */
  onDropped(): void
  /** Space depends on how far the lanes are. */
  onReportWanted(): void
  /** A slice of a compaction for which others wait was done. */
  onSlice(): void
}

export class SpaceKeeper {
  readonly #spec: SegmentsSpec
  readonly #log: Logger
  readonly #deps: SpaceDeps
  readonly #share: FairShare
  /** Reclaiming begins when less than this is left: compaction takes a while. */
  readonly #headroomBytes: number
  #usedBytes = 0
  #freeBytes = 0
  #compaction: Compaction | null = null
  /** By the buffer's clock: since when a report of the lanes is wanted. Null: it has arrived, or none is wanted. */
  #reportWantedMs: number | null = null
  /** By first seq: could not be compacted, and is not tried again before that time of the buffer's clock. */
  readonly #uncompactableUntil = new Map<number, number>()

  constructor(spec: SegmentsSpec, log: Logger, deps: SpaceDeps) {
    this.#spec = spec
    this.#log = log
    this.#deps = deps
    this.#share = new FairShare(spec.maxBytes)
    this.#headroomBytes = Math.min(spec.maxBytes / 8, spec.segmentMaxBytes * 2)
  }

  get usedBytes(): number {
    return this.#usedBytes
  }

  get freeBytes(): number {
    return this.#freeBytes
  }

  /** Since the last look; the next one measures. */
  grew(bytes: number): void {
    this.#usedBytes += bytes
  }

  isOver(moreBytes: number): boolean {
    return this.#usedBytes + moreBytes > this.#spec.maxBytes
  }

  /** See FairShare. */
  takeShare(pipeId: string, bytes: number): boolean {
    return this.#share.take(pipeId, bytes)
  }

  /** The lanes have reported. True: what can be reclaimed and who may append depends on it now. */
  reported(): boolean {
    const isDue = this.#reportWantedMs !== null || this.#share.isPressed
    this.#reportWantedMs = null
    return isDue && this.#excessBytes() > 0
  }

  /**
   * Measures, and frees what may go. Returns why nothing may be appended; null: there is room. `isReported`: the lanes have
   * just reported, so that no other report is wanted.
   */
  makeRoom(wantedBytes: number, isReported = false): UnavailableReason | null {
    const { maxBytes, minFreeBytes } = this.#spec
    const { guard } = this.#deps
    this.#measure()
    const ballastLackBytes = guard.keepBallast(this.#freeBytes)
    const neededBytes = Math.max(
      this.#usedBytes + wantedBytes - maxBytes,
      minFreeBytes - this.#freeBytes,
      ballastLackBytes,
    )
    if (this.#reclaim(neededBytes)) this.#measure()
    this.#compactNow(wantedBytes)
    this.#measureShares(isReported)
    // Readers close dropped files within a second; until then the disk does not show what came back.
    const isLow = this.#freeBytes < minFreeBytes || guard.keepBallast(this.#freeBytes) > 0
    return this.#usedBytes >= maxBytes ? 'over_quota' : isLow ? 'low_disk_space' : null
  }

  /** Somebody else takes the segment: its compaction ends without a result. */
  leave(firstSeq: number): void {
    if (this.#compaction?.source.firstSeq === firstSeq) this.#endCompaction(this.#compaction, null)
  }

  get isCompacting(): boolean {
    return this.#compaction !== null
  }

  /** A few milliseconds of compaction. True when a segment was finished by it. */
  compactSlice(): boolean {
    if (this.#compaction === null) return false
    this.#compactOn(this.#compaction)
    return this.#compaction === null
  }

  close(): void {
    this.#compaction?.abandon()
  }

  #measure(): void {
    const { segments, guard } = this.#deps
    this.#usedBytes = segments.diskBytes()
    this.#freeBytes = guard.freeBytes()
  }

  #excessBytes(): number {
    return this.#usedBytes - this.#spec.maxBytes * pressedFrom
  }

  /**
   * A pipe whose messages were delivered since the last report holds nothing. So no one is kept back by a report from before
   * the pressure: it is asked for a little earlier, and waited for.
   */
  #measureShares(isReported: boolean): void {
    const { segments, watermarks, onReportWanted, clock } = this.#deps
    const excessBytes = this.#excessBytes()
    if (!isReported && excessBytes + this.#headroomBytes > 0) {
      this.#reportWantedMs ??= clock()
      onReportWanted()
    }
    // Delivered history is no pressure: it goes when space is needed.
    const reclaimable = excessBytes > 0 ? this.#plan(excessBytes) : []
    const reclaimableBytes = reclaimable.reduce((sum, { bytes }) => sum + bytes, 0)
    if (Math.max(0, excessBytes) <= reclaimableBytes) this.#share.release()
    else if (this.#share.isPressed || !this.#isReportAwaited()) {
      const facts = segments.facts()
      for (const segment of facts) this.#lookUp(segment)
      this.#share.measured(undeliveredBytes(facts, watermarks), watermarks.workspaces())
    }
  }

  #isReportAwaited(): boolean {
    return this.#reportWantedMs !== null && this.#deps.clock() - this.#reportWantedMs < reportWaitMs
  }

  /** Messages that were not looked up count as undelivered. */
  #lookUp(segment: SegmentFacts): void {
    const { segments, watermarks, damaged } = this.#deps
    if (damaged.has(segment.firstSeq)) return
    try {
      lookUpDelivered(this.#spec.dir, segment, watermarks)
    } catch (error) {
      if (!isDamage(error) || !segments.sealed.has(segment.firstSeq)) throw error
      damaged.report(segment, error)
    }
  }

  #plan(neededBytes: number): Reclaim[] {
    const state = {
      segments: this.#deps.segments.facts(),
      watermarks: this.#deps.watermarks,
      clockMs: this.#deps.clock(),
      neededBytes,
      lookUp: (segment: SegmentFacts) => this.#lookUp(segment),
    }
    return planReclaim(state, this.#spec)
  }

  /** Drops what may go, and begins to compact. True when segments went. */
  #reclaim(neededBytes: number): boolean {
    const isNearFull = this.#usedBytes > this.#spec.maxBytes - this.#headroomBytes
    let dropped = 0
    for (const reclaim of this.#plan(neededBytes)) {
      if (reclaim.kind === 'compact') continue
      // Its time has come by itself.
      if (this.#compaction?.source.firstSeq === reclaim.firstSeq) this.#endCompaction(this.#compaction, null)
      if (!this.#deps.segments.sealed.has(reclaim.firstSeq) && !this.#deps.roll()) break
      // Keys outlive their messages.
      if (!this.#deps.keys.flush(this.#deps.segments.headSeq, this.#deps.clock())) break
      this.#logReclaim(reclaim)
      this.#deps.damaged.dropped(reclaim.firstSeq)
      this.#deps.segments.drop(reclaim.firstSeq)
      dropped += 1
    }
    if (dropped > 0) this.#deps.onDropped()
    if (this.#compaction === null) {
      // Compaction is begun before the space is needed, dropping only when it is.
      const soonBytes = isNearFull ? this.#headroomBytes - (this.#spec.maxBytes - this.#usedBytes) : 0
      this.#startCompaction(this.#plan(Math.max(neededBytes, soonBytes)))
    }
    return dropped > 0
  }

  #startCompaction(plan: readonly Reclaim[]): void {
    const reclaim = plan.find(({ kind, firstSeq }) => {
      if (this.#deps.damaged.has(firstSeq)) return false
      return kind === 'compact' && (this.#uncompactableUntil.get(firstSeq) ?? 0) <= this.#deps.clock()
    })
    if (reclaim === undefined) return
    const { firstSeq } = reclaim
    if (!this.#deps.segments.sealed.has(firstSeq) && !this.#deps.roll()) return
    try {
      // Keys outlive their messages.
      if (!this.#deps.keys.flush(this.#deps.segments.headSeq, this.#deps.clock())) return
      this.#compaction = this.#deps.segments.startCompaction(firstSeq, (pipeId) =>
        this.#deps.watermarks.of(pipeId),
      )
      this.#logReclaim(reclaim)
    } catch (error) {
      this.#onCompactionFailed(
        this.#deps.segments.sealed.nameOf(firstSeq) ?? { firstSeq, generation: 0 },
        error,
      )
    }
  }

  #compactOn(compaction: Compaction): void {
    try {
      if (!compaction.step()) return
      this.#endCompaction(compaction, () => this.#deps.segments.sealed.finishCompaction(compaction))
      this.#deps.onDropped()
    } catch (error) {
      this.#endCompaction(compaction, null)
      this.#onCompactionFailed(compaction.source, error)
    }
  }

  #endCompaction(compaction: Compaction, finish: (() => void) | null): void {
    this.#compaction = null
    if (finish === null) compaction.abandon()
    else finish()
  }

  /** The segment stays as it is: what is missing is space that may come back. One that is damaged is salvaged instead. */
  #onCompactionFailed(name: SegmentName, error: unknown): void {
    if (isDamage(error)) {
      this.#deps.damaged.report(name, error)
      return
    }
    if (!isDiskFull(error)) throw error
    this.#uncompactableUntil.set(name.firstSeq, this.#deps.clock() + compactionRetryMs)
    this.#log.warn({ first_seq: name.firstSeq, err: error }, 'buffer.compaction_failed')
  }

  /** Clients wait for some slices of compaction rather than being rejected although it will free the space. */
  #compactNow(wantedBytes: number): void {
    for (let slices = 0; slices < slicesAtOnce; slices += 1) {
      const lackBytes = this.#usedBytes + wantedBytes - this.#spec.maxBytes
      if (lackBytes < 0) return
      if (this.#compaction === null) this.#startCompaction(this.#plan(lackBytes))
      if (this.#compaction === null) return
      if (this.compactSlice()) this.#measure()
      this.#deps.onSlice()
    }
  }

  #logReclaim({ kind, firstSeq, reason }: Reclaim): void {
    const facts = this.#deps.segments.facts().find((segment) => segment.firstSeq === firstSeq)
    const pipes = [...(facts?.pipes ?? [])]
    const fields = {
      first_seq: firstSeq,
      reason,
      bytes: facts?.bytes,
      messages: pipes.reduce((sum, [, { messages }]) => sum + messages, 0),
      pipes: Object.fromEntries(pipes.slice(0, 20).map(([pipeId, { messages }]) => [pipeId, messages])),
      pipes_count: pipes.length,
    }
    const event = kind === 'drop' ? 'buffer.segment_dropped' : 'buffer.segment_compacting'
    // Only `age` can take messages that a lane has not delivered.
    if (reason === 'age') this.#log.warn(fields, event)
    else this.#log.info(fields, event)
  }
}
