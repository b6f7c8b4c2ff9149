/**
 * Tracks damaged segments until they are salvaged. Damage is found at the start, by a reader, by the scrub, by
 * compaction or while writing. Salvage runs in slices between frames. Readers of the segment's messages wait meanwhile;
 * other readers and segments are not affected.
 *
 *   reported ──▶ waiting ──▶ being salvaged ──▶ sound again, with gaps where messages are lost
 *                   ▲              │     └────▶ missing: foreign, or nothing in it could be read
 *                   └── disk full ─┘     (retention may drop it at any point)
 */
import type { Logger } from '../../platform/log.ts'
import { type SegmentName, segmentFile } from './layout.ts'
import type { Salvage, SalvagedSegment } from './salvage.ts'
import type { SegmentLog } from './segment-log.ts'
import { isDiskFull } from './sqlite-errors.ts'

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

export interface DamageDeps {
  segments: SegmentLog
  dir: string
  quarantineDir: string
  /** The buffer's clock. */
  clock(): number
  /** A segment has a new generation, or was removed. */
  onChanged(name: SegmentName): void
}

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
