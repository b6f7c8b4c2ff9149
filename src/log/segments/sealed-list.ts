/**
 * The sealed segments of the log, oldest first, as the writer knows them, with the operations on them: leaving WAL mode,
 * dropping, compaction (rewriting without delivered messages) and salvage (rewriting what can be read). Those that are
 * damaged wait for their salvage in `DamagedSegments`, at the end.
 */
import assert from 'node:assert'
import type { Logger } from '../../platform/log.ts'
import type { BufferIdentity } from '../buffer.ts'
import { Compaction, type CompactionPlan } from './compaction.ts'
import { type SegmentName, segmentBytes, segmentFile, unlinkSegment } from './layout.ts'
import type { PipeInSegment, PipePosition } from './position.ts'
import { Salvage, type SalvagedSegment, type SalvageResult } from './salvage.ts'
import type { SealedEnd, Sealing } from './sealing.ts'
import { readContentIfUsable, readSegmentContent, type SegmentFacts, segmentFacts } from './segment-facts.ts'
import { openReadOnly, type SeqRange } from './segment-file.ts'
import type { SegmentWriter } from './segment-writer.ts'
import { isDamage, isDiskFull } from './sqlite-errors.ts'

/** A damaged sealed segment and its error; the error is null when the start found it. */
export interface DamageFound {
  name: SegmentName
  error: unknown
}

/** The segment being written, which follows the newest sealed one. */
interface Newest {
  firstSeq: number
  pipes: readonly PipeInSegment[]
}

interface Found {
  segments: SegmentFacts[]
  /** The segments that could not be opened. */
  damaged: readonly SegmentName[]
  sealing: Sealing
}

export class SealedList {
  readonly #dir: string
  readonly #identity: BufferIdentity | null
  readonly #segments: SegmentFacts[]
  readonly #sealing: Sealing
  #damage: DamageFound[]

  constructor(dir: string, identity: BufferIdentity | null, { segments, damaged, sealing }: Found) {
    this.#dir = dir
    this.#identity = identity
    this.#segments = segments
    this.#sealing = sealing
    this.#damage = damaged.map((name) => ({ name, error: null }))
  }

  get count(): number {
    return this.#segments.length
  }

  get oldest(): SegmentFacts | undefined {
    return this.#segments[0]
  }

  facts(): SegmentFacts[] {
    return [...this.#segments]
  }

  /** Disk space, including WALs. */
  bytes(): number {
    return this.#segments.reduce((sum, segment) => sum + segment.bytes, 0)
  }

  has(firstSeq: number): boolean {
    return this.#segments.some((segment) => segment.firstSeq === firstSeq)
  }

  /** The segment's newest generation; null when it does not exist or is the one being written. */
  nameOf(firstSeq: number): SegmentName | null {
    const segment = this.#segments.find((one) => one.firstSeq === firstSeq)
    return segment === undefined ? null : { firstSeq, generation: segment.generation }
  }

  /** Returns the segments found damaged since the last call. */
  takeDamage(): DamageFound[] {
    return this.#damage.splice(0)
  }

  /** Adds the segment that was written until now. No message can go to it any more. */
  seal(facts: SegmentFacts, writer: SegmentWriter, end: SealedEnd): void {
    try {
      this.#sealing.seal(facts, writer, end)
    } catch (error) {
      if (!isDamage(error)) throw error
      writer.abandon()
      this.#damage.push({ name: { firstSeq: facts.firstSeq, generation: 0 }, error })
    }
    this.#segments.push({ ...facts, bytes: segmentBytes(this.#dir, facts) })
  }

  /** Adds the segment that was written until now and is damaged. */
  setAside(facts: SegmentFacts, writer: SegmentWriter, error: unknown): void {
    this.#segments.push({ ...facts, bytes: segmentBytes(this.#dir, facts) })
    writer.abandon()
    this.#damage.push({ name: { firstSeq: facts.firstSeq, generation: 0 }, error })
  }

  /** Seals segments that had readers when they were rolled. */
  sealWaiting(): void {
    const onDamaged = (name: SegmentName, error: unknown) => this.#damage.push({ name, error })
    for (const { firstSeq } of this.#sealing.retry(onDamaged)) {
      const segment = this.#segments.find((one) => one.firstSeq === firstSeq)
      if (segment !== undefined) segment.bytes = segmentBytes(this.#dir, segment)
    }
  }

  /** Returns the segment to drop and the next one; `newer` is null when the next one is being written. */
  beforeDrop(firstSeq: number): { segment: SegmentFacts; newer: SegmentFacts | null } {
    const at = this.#indexOf(firstSeq)
    return { segment: this.#segments[at]!, newer: this.#segments[at + 1] ?? null }
  }

  /** Unlinks the segment. The caller has recorded the drop before. */
  drop(firstSeq: number): void {
    const at = this.#indexOf(firstSeq)
    this.#sealing.forget(firstSeq)
    unlinkSegment(this.#dir, this.#segments[at]!)
    this.#segments.splice(at, 1)
  }

  startCompaction(
    firstSeq: number,
    newest: Newest,
    deliveredThrough: CompactionPlan['deliveredThrough'],
    rewritten?: CompactionPlan['rewritten'],
  ): Compaction {
    const at = this.#indexOf(firstSeq)
    const { generation, lastSeq, lastClockMs } = this.#segments[at]!
    const newer = this.#segments[at + 1]
    const behind = newer === undefined ? newest.pipes : this.#pipesOf(newer)
    return new Compaction({
      dir: this.#dir,
      source: { firstSeq, generation },
      lastSeq,
      lastClockMs,
      behind: positions(behind, 'base') ?? new Map(),
      deliveredThrough,
      rewritten,
    })
  }

  /** Replaces the old segment with the compacted one and unlinks the old one. */
  finishCompaction(compaction: Compaction): void {
    const { source, target } = compaction
    const at = this.#indexOf(source.firstSeq)
    compaction.swap()
    this.#sealing.forget(source.firstSeq)
    unlinkSegment(this.#dir, source)
    this.#replace(at, target)
  }

  /** Starts to salvage a damaged segment. Throws errors of SQLite and the file system. */
  startSalvage(firstSeq: number, newest: Newest, quarantineDir: string): Salvage {
    const at = this.#indexOf(firstSeq)
    const segment = this.#segments[at]!
    const older = this.#segments[at - 1]
    const newer = this.#segments[at + 1]
    const isOlderAdjacent = older !== undefined && older.lastSeq + 1 === firstSeq
    const isNewerAdjacent = segment.lastSeq + 1 === (newer ?? newest).firstSeq
    const pipesBehind = newer === undefined ? newest.pipes : this.#pipesOf(newer)
    // Its connection is no longer needed, and its file must not be changed.
    this.#sealing.forget(firstSeq)
    return new Salvage({
      dir: this.#dir,
      quarantineDir,
      source: { firstSeq, generation: segment.generation },
      lastSeq: segment.lastSeq,
      knownSeq: segment.lastSeq,
      begunClockMs: older?.lastClockMs ?? segment.lastClockMs,
      lastClockMs: segment.lastClockMs,
      identity: this.#identity,
      before: positions(isOlderAdjacent ? this.#pipesOf(older) : null, 'last') ?? new Map(),
      after: positions(isNewerAdjacent ? pipesBehind : null, 'base'),
    })
  }

  /** Replaces the damaged segment with the salvaged one. If nothing was salvaged, the segment is missing from now on. */
  finishSalvage(salvage: Salvage): SalvageResult {
    const { source, target } = salvage
    const at = this.#indexOf(source.firstSeq)
    const result = salvage.finish()
    unlinkSegment(this.#dir, source)
    if (result.outcome === 'salvaged') this.#replace(at, target)
    else this.#segments.splice(at, 1)
    return result
  }

  close(): void {
    this.#sealing.close()
  }

  /** See SegmentLog. */
  abandon(): void {
    this.#sealing.abandon()
  }

  /** Null when this segment cannot be read either. */
  #pipesOf(name: SegmentName): PipeInSegment[] | null {
    return readContentIfUsable(this.#dir, name, this.#identity)?.pipes ?? null
  }

  #replace(at: number, target: SegmentName): void {
    const db = openReadOnly(this.#dir, target)
    const content = readSegmentContent(db)
    db.close()
    const { lastClockMs } = this.#segments[at]!
    this.#segments[at] = segmentFacts(target, segmentBytes(this.#dir, target), content, lastClockMs)
  }

  #indexOf(firstSeq: number): number {
    const at = this.#segments.findIndex((segment) => segment.firstSeq === firstSeq)
    assert(at >= 0, 'the segment is sealed')
    return at
  }
}

function positions(
  pipes: readonly PipeInSegment[] | null,
  end: 'base' | 'last',
): Map<string, PipePosition> | null {
  return pipes === null ? null : new Map(pipes.map((pipe) => [pipe.pipeId, pipe[end]]))
}

/** The wait after a salvage that failed because the disk was full. */
const retryMs = 2_000

export interface DamageStatus {
  /** Segments waiting to be salvaged. */
  damagedSegments: number
  /** Segments neither present nor dropped by retention, found since the start. */
  missingSegments: number
  /** Messages in salvaged or missing segments, counted since the start. */
  lostMessages: number
}

/** The part of SegmentLog that salvage uses. */
interface SalvagingLog {
  readonly found: { salvaged: readonly SalvagedSegment[]; missing: readonly SeqRange[] }
  readonly missingMessages: number
  readonly sealed: SealedList
  startSalvage(firstSeq: number, quarantineDir: string): Salvage
}

export interface DamageDeps {
  segments: SalvagingLog
  dir: string
  quarantineDir: string
  /** The buffer's clock. */
  clock(): number
  /** A segment has a new generation, or was removed. */
  onChanged(name: SegmentName): void
}

/**
 * Tracks damaged segments until they are salvaged. Damage is found at the start, by a reader, by the scrub, by
 * compaction or while writing. Salvage runs in slices between frames. Readers of the segment's messages wait meanwhile;
 * other readers and segments are not affected.
 *
 *   reported ──▶ waiting ──▶ being salvaged ──▶ sound again, with gaps where messages are lost
 *                   ▲              │     └────▶ missing: foreign, or nothing in it could be read
 *                   └── disk full ─┘     (retention may drop it at any point)
 */
export class DamagedSegments {
  readonly #log: Logger
  readonly #deps: DamageDeps
  readonly #waiting = new Map<number, SegmentName>()
  #salvage: Salvage | null = null
  #retryAtMs = 0
  #missingSegments = 0
  #lostMessages = 0

  constructor(log: Logger, deps: DamageDeps) {
    this.#log = log
    this.#deps = deps
    const { salvaged, missing } = deps.segments.found
    for (const segment of salvaged) {
      this.#logDamaged(segment.name, null)
      this.#logOutcome(segment)
      // The log already counts messages that are missing at its end.
      const isCounted = segment.outcome !== 'salvaged' && deps.segments.missingMessages > 0
      if (!isCounted) this.#lostMessages += segment.lostMessages
    }
    for (const range of missing) this.#countMissing(range.firstSeq, range.lastSeq)
  }

  /** Reports a sealed segment as damaged. Ignored if it has a newer generation, or is gone. */
  report(name: SegmentName, error: unknown): void {
    const { firstSeq, generation } = name
    const isCurrent = this.#deps.segments.sealed.nameOf(firstSeq)?.generation === generation
    if (!isCurrent || this.#waiting.has(firstSeq)) return
    this.#waiting.set(firstSeq, name)
    this.#logDamaged(name, error)
  }

  has(firstSeq: number): boolean {
    return this.#waiting.has(firstSeq)
  }

  /** True when a segment can be salvaged now. After a full disk there is a pause. */
  get hasWork(): boolean {
    this.#take()
    return this.#waiting.size > 0 && this.#deps.clock() >= this.#retryAtMs
  }

  status(): DamageStatus {
    this.#take()
    return {
      damagedSegments: this.#waiting.size,
      missingSegments: this.#missingSegments,
      lostMessages: this.#lostMessages,
    }
  }

  /** Does a few milliseconds of salvage. */
  slice(): void {
    try {
      this.#salvage ??= this.#begin()
      if (this.#salvage?.step() === true) this.#finish(this.#salvage)
    } catch (error) {
      this.#salvage?.abandon()
      this.#salvage = null
      if (!isDiskFull(error)) throw error
      this.#retryAtMs = this.#deps.clock() + retryMs
    }
  }

  /** Retention drops the segment as it is. */
  dropped(firstSeq: number): void {
    if (this.#salvage?.source.firstSeq === firstSeq) this.close()
    this.#waiting.delete(firstSeq)
  }

  close(): void {
    this.#salvage?.abandon()
    this.#salvage = null
  }

  /** Collects the damage that the log itself has found. */
  #take(): void {
    for (const { name, error } of this.#deps.segments.sealed.takeDamage()) this.report(name, error)
  }

  /**
   * Salvages the newest segment first: the position of a pipe after a segment is read from the next one, which must be
   * sound.
   */
  #begin(): Salvage | null {
    const firstSeq = Math.max(...this.#waiting.keys())
    return this.#deps.segments.startSalvage(firstSeq, this.#deps.quarantineDir)
  }

  #finish(salvage: Salvage): void {
    const name = salvage.source
    const result = this.#deps.segments.sealed.finishSalvage(salvage)
    this.#salvage = null
    this.#waiting.delete(name.firstSeq)
    this.#logOutcome({ name, ...result })
    if (result.outcome === 'salvaged') this.#lostMessages += result.lostMessages
    else this.#countMissing(name.firstSeq, result.lastSeq)
    this.#deps.onChanged(name)
  }

  #logOutcome({ name, outcome, keptMessages, lostMessages, unreadablePages }: SalvagedSegment): void {
    const fields = { first_seq: name.firstSeq, quarantine: this.#deps.quarantineDir }
    const counts = {
      kept_messages: keptMessages,
      lost_messages: lostMessages,
      unreadable_pages: unreadablePages,
    }
    if (outcome === 'salvaged') this.#log.warn({ ...fields, ...counts }, 'buffer.segment_salvaged')
    else this.#log.error({ ...fields, reason: outcome }, 'buffer.segment_set_aside')
  }

  #countMissing(firstSeq: number, lastSeq: number): void {
    if (lastSeq < firstSeq) return
    this.#missingSegments += 1
    this.#lostMessages += lastSeq - firstSeq + 1
    this.#log.error({ first_seq: firstSeq, last_seq: lastSeq }, 'buffer.segment_missing')
  }

  #logDamaged(name: SegmentName, error: unknown): void {
    const file = segmentFile(this.#deps.dir, name)
    this.#log.error({ first_seq: name.firstSeq, file, err: error ?? undefined }, 'buffer.segment_damaged')
  }
}
