/**
 * Manages the space of the buffer: measures it, frees it (retention, compaction), and decides who can still append when
 * it runs short. The writer decides when to check.
 */
import { fsyncDirectory } from '../../platform/fsync.ts'
import type { Logger } from '../../platform/log.ts'
import { FairShare, pressedFrom } from '../fair-share.ts'
import type { Compaction } from './compaction.ts'
import { lookUpDelivered, undeliveredBytes } from './delivered-part.ts'
import type { DiskGuard } from './disk-guard.ts'
import { type ErasureOutcome, rowEraser, type SegmentErasure } from './erasing.ts'
import type { IdempotencyKeys } from './idempotency.ts'
import type { SegmentName } from './layout.ts'
import type { SegmentsSpec, UnavailableReason } from './protocol.ts'
import { type LowWatermarks, planReclaim, type Reclaim } from './retention.ts'
import type { DamagedSegments } from './sealed-list.ts'
import type { SegmentFacts } from './segment-facts.ts'
import type { SegmentLog } from './segment-log.ts'
import { isDamage, isDiskFull } from './sqlite-errors.ts'

/**
 * The limit of the compaction that a write without room waits for. After that the write is rejected, and the compaction
 * continues in the writer's turns. 16 slices copy or compare 8 MiB: on a disk of 5 MB/s that takes about four seconds.
 */
const slicesAtOnce = 16
/** The wait after a compaction that failed because the disk was full. */
const compactionRetryMs = 60_000
/** Delivery responds to a requested report within milliseconds. After this time the previous report is used. */
const reportWaitMs = 1_000

export interface SpaceDeps {
  guard: DiskGuard
  segments: SegmentLog
  keys: IdempotencyKeys
  damaged: DamagedSegments
  watermarks: LowWatermarks
  /** The buffer's clock. */
  clock(): number
  /** Seals the segment being written. Returns false when there is no room for a new one. */
  roll(): boolean
  /** Segments were dropped or compacted. */
  onDropped(): void
  /** Free space depends on a current report of the lanes' positions. */
  onReportWanted(): void
  /** A segment was rewritten without deleted records. */
  onErased(): void
  /** A slice of a compaction that a write waits for is done. */
  onSlice(): void
}

interface WaitingErasure {
  erasure: SegmentErasure
  settle(outcome: ErasureOutcome): void
}

export class SpaceKeeper {
  readonly #spec: SegmentsSpec
  readonly #log: Logger
  readonly #deps: SpaceDeps
  /** Null while there is room for all. */
  #share: FairShare | null = null
  /** Reclaiming starts when less than this is left, because compaction takes time. */
  readonly #headroomBytes: number
  #usedBytes = 0
  #freeBytes = 0
  #compaction: Compaction | null = null
  /** Deletions: the first one is under way when `#isErasing`. They have priority over compactions. */
  readonly #erasures: WaitingErasure[] = []
  #isErasing = false
  /** Time of the buffer's clock at which a report of the lanes was requested; null when none is outstanding. */
  #reportWantedMs: number | null = null
  /**
   * Segments that could not be compacted, by first seq, with the time of the buffer's clock before which they are not
   * tried again.
   */
  readonly #uncompactableUntil = new Map<number, number>()

  constructor(spec: SegmentsSpec, log: Logger, deps: SpaceDeps) {
    this.#spec = spec
    this.#log = log
    this.#deps = deps
    this.#headroomBytes = Math.min(spec.maxBytes / 8, spec.segmentMaxBytes * 2)
  }

  get usedBytes(): number {
    return this.#usedBytes
  }

  get freeBytes(): number {
    return this.#freeBytes
  }

  /** Counts bytes since the last measurement. */
  grew(bytes: number): void {
    this.#usedBytes += bytes
  }

  isOver(moreBytes: number): boolean {
    return this.#usedBytes + moreBytes > this.#spec.maxBytes
  }

  /** See FairShare. */
  takeShare(pipeId: string, bytes: number): boolean {
    return this.#share === null || this.#share.take(pipeId, bytes)
  }

  /** The lanes have reported. Returns true when reclaiming or the decision who can append depends on it now. */
  reported(): boolean {
    const isDue = this.#reportWantedMs !== null || this.#share !== null
    this.#reportWantedMs = null
    return isDue && this.#excessBytes() > 0
  }

  /**
   * Measures, and frees what can be dropped. Returns why nothing can be appended, or null when there is room.
   * `isReported`: the lanes have just reported, so no new report is requested.
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
    // Readers close dropped files within a second; until then the freed space is not visible.
    const isLow = this.#freeBytes < minFreeBytes || guard.keepBallast(this.#freeBytes) > 0
    return this.#usedBytes >= maxBytes ? 'over_quota' : isLow ? 'low_disk_space' : null
  }

  /** The segment is handled elsewhere: ends its compaction without a result. */
  leave(firstSeq: number): void {
    if (this.#compaction?.source.firstSeq === firstSeq) this.#endCompaction(this.#compaction, null)
  }

  get isCompacting(): boolean {
    return this.#compaction !== null || this.#erasures.length > 0
  }

  /** Rewrites a segment without the deleted records, in slices. A segment that is being written is sealed first. */
  erase(erasure: SegmentErasure): Promise<ErasureOutcome> {
    return new Promise((settle) => this.#erasures.push({ erasure, settle }))
  }

  /** Does a few milliseconds of compaction. Returns true when that finished a segment. */
  compactSlice(): boolean {
    if (this.#compaction === null) this.#startErasure()
    if (this.#compaction === null) return false
    this.#compactOn(this.#compaction)
    return this.#compaction === null
  }

  close(): void {
    this.#compaction?.abandon()
    for (const { settle } of this.#erasures.splice(0)) settle('later')
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
   * A pipe whose messages were delivered since the last report holds nothing. So that no pipe is limited because of an
   * outdated report, a new one is requested slightly before the limit and waited for.
   */
  #measureShares(isReported: boolean): void {
    const { segments, watermarks, onReportWanted, clock } = this.#deps
    const excessBytes = this.#excessBytes()
    if (!isReported && excessBytes + this.#headroomBytes > 0) {
      this.#reportWantedMs ??= clock()
      onReportWanted()
    }
    // Delivered messages do not count as pressure, because they are dropped when space is needed.
    const reclaimable = excessBytes > 0 ? this.#plan(excessBytes) : []
    const reclaimableBytes = reclaimable.reduce((sum, { bytes }) => sum + bytes, 0)
    if (Math.max(0, excessBytes) <= reclaimableBytes) this.#share = null
    else if (this.#share !== null || !this.#isReportAwaited()) {
      const facts = segments.facts()
      for (const segment of facts) this.#lookUp(segment)
      const held = undeliveredBytes(facts, watermarks)
      this.#share = new FairShare(this.#spec.maxBytes, held, watermarks.workspaces())
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

  /** Drops what can be dropped and starts compactions. Returns true when segments were dropped. */
  #reclaim(neededBytes: number): boolean {
    const isNearFull = this.#usedBytes > this.#spec.maxBytes - this.#headroomBytes
    let dropped = 0
    for (const reclaim of this.#plan(neededBytes)) {
      if (reclaim.kind === 'compact') continue
      // The segment is dropped now, so compacting it is pointless.
      if (this.#compaction?.source.firstSeq === reclaim.firstSeq) this.#endCompaction(this.#compaction, null)
      if (!this.#deps.segments.sealed.has(reclaim.firstSeq) && !this.#deps.roll()) break
      // Keys outlive their messages, so they must be durable first.
      if (!this.#deps.keys.flush(this.#deps.segments.headSeq, this.#deps.clock())) break
      this.#logReclaim(reclaim)
      this.#deps.damaged.dropped(reclaim.firstSeq)
      this.#deps.segments.drop(reclaim.firstSeq)
      dropped += 1
    }
    if (dropped > 0) this.#deps.onDropped()
    if (this.#compaction === null) {
      // Compaction starts before the space is needed, dropping only when it is.
      const soonBytes = isNearFull ? this.#headroomBytes - (this.#spec.maxBytes - this.#usedBytes) : 0
      this.#startCompaction(this.#plan(Math.max(neededBytes, soonBytes)))
    }
    return dropped > 0
  }

  #startCompaction(plan: readonly Reclaim[]): void {
    const possible = plan.filter(({ kind, firstSeq }) => {
      if (this.#deps.damaged.has(firstSeq)) return false
      return kind === 'compact' && (this.#uncompactableUntil.get(firstSeq) ?? 0) <= this.#deps.clock()
    })
    // A compaction for the age of a pipe can keep almost all of a segment. Those that free more space come first.
    const reclaim = possible.find(({ expired }) => expired.size === 0) ?? possible[0]
    if (reclaim === undefined || !this.#hasSpaceFor(reclaim)) return
    const { firstSeq } = reclaim
    if (!this.#deps.segments.sealed.has(firstSeq) && !this.#deps.roll()) return
    try {
      // Keys outlive their messages, so they must be durable first.
      if (!this.#deps.keys.flush(this.#deps.segments.headSeq, this.#deps.clock())) return
      this.#compaction = this.#deps.segments.startCompaction(firstSeq, reclaim.removedThrough)
      this.#logReclaim(reclaim)
    } catch (error) {
      this.#onCompactionFailed(
        this.#deps.segments.sealed.nameOf(firstSeq) ?? { firstSeq, generation: 0 },
        error,
      )
    }
  }

  /**
   * The copy of a compaction for the age of a pipe can be as large as the segment: it must not use up the free space that
   * appends need. Other compactions keep less than half of a segment.
   */
  #hasSpaceFor({ reason, firstSeq, bytes, expired }: Reclaim): boolean {
    if (expired.size === 0) return true
    const segment = this.#deps.segments.facts().find((one) => one.firstSeq === firstSeq)
    const copyBytes = Math.max(0, (segment?.bytes ?? 0) - bytes)
    if (this.#freeBytes - copyBytes >= this.#spec.minFreeBytes) return true
    this.#uncompactableUntil.set(firstSeq, this.#deps.clock() + compactionRetryMs)
    const fields = { first_seq: firstSeq, reason, copy_bytes: copyBytes, free_bytes: this.#freeBytes }
    this.#log.warn(fields, 'buffer.compaction_delayed')
    return false
  }

  /** The first deletion that waits becomes the current compaction. */
  #startErasure(): void {
    const first = this.#erasures[0]
    if (first === undefined) return
    const { erasure } = first
    const { firstSeq } = erasure
    const { segments, damaged, roll } = this.#deps
    this.#isErasing = true
    if (damaged.has(firstSeq)) this.#endErasure('later')
    else if (firstSeq === segments.currentFirstSeq && !roll()) this.#endErasure('disk_full')
    else if (!segments.sealed.has(firstSeq)) this.#endErasure('gone')
    else {
      try {
        this.#compaction = segments.startCompaction(firstSeq, () => 0, rowEraser(erasure))
      } catch (error) {
        const name = segments.sealed.nameOf(firstSeq) ?? { firstSeq, generation: 0 }
        this.#endErasure(isDiskFull(error) ? 'disk_full' : 'later')
        this.#onCompactionFailed(name, error)
      }
    }
  }

  #endErasure(outcome: ErasureOutcome): void {
    if (!this.#isErasing) return
    this.#isErasing = false
    this.#erasures.shift()?.settle(outcome)
  }

  #compactOn(compaction: Compaction): void {
    try {
      if (!compaction.step()) return
      this.#endCompaction(compaction, () => this.#deps.segments.sealed.finishCompaction(compaction))
      this.#deps.onDropped()
      if (this.#isErasing) this.#erased()
    } catch (error) {
      if (isDiskFull(error)) this.#endErasure('disk_full')
      this.#endCompaction(compaction, null)
      this.#onCompactionFailed(compaction.source, error)
    }
  }

  /** The old file is unlinked. Its content must not come back after a power cut. */
  #erased(): void {
    fsyncDirectory(this.#spec.dir)
    this.#deps.onErased()
    this.#endErasure('erased')
  }

  #endCompaction(compaction: Compaction, finish: (() => void) | null): void {
    this.#compaction = null
    if (finish !== null) finish()
    else {
      compaction.abandon()
      this.#endErasure('later')
    }
  }

  /**
   * The segment stays as it is, because the disk was full and space can become free later. A damaged segment is salvaged
   * instead.
   */
  #onCompactionFailed(name: SegmentName, error: unknown): void {
    if (isDamage(error)) {
      this.#deps.damaged.report(name, error)
      return
    }
    if (!isDiskFull(error)) throw error
    this.#uncompactableUntil.set(name.firstSeq, this.#deps.clock() + compactionRetryMs)
    this.#log.warn({ first_seq: name.firstSeq, err: error }, 'buffer.compaction_failed')
  }

  /** Lets a write wait for some slices of compaction instead of rejecting it, because the compaction will free the space. */
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

  #logReclaim({ kind, firstSeq, reason, expired }: Reclaim): void {
    const { segments, watermarks } = this.#deps
    const facts = segments.facts().find((segment) => segment.firstSeq === firstSeq)
    const pipes = [...(facts?.pipes ?? [])]
    const fields = {
      first_seq: firstSeq,
      reason,
      bytes: facts?.bytes,
      messages: pipes.reduce((sum, [, { messages }]) => sum + messages, 0),
      pipes: Object.fromEntries(pipes.slice(0, 20).map(([pipeId, { messages }]) => [pipeId, messages])),
      pipes_count: pipes.length,
      ...(expired.size === 0 ? {} : { expired_pipes: [...expired].slice(0, 20) }),
    }
    const event = kind === 'drop' ? 'buffer.segment_dropped' : 'buffer.segment_compacting'
    const isLate = pipes.some(
      ([pipeId, { lastSeq }]) => expired.has(pipeId) && watermarks.of(pipeId) < lastSeq,
    )
    // Only the age of messages can remove those that a lane has not delivered.
    if (reason === 'age' || isLate) this.#log.warn(fields, event)
    else this.#log.info(fields, event)
  }
}
