/**
 * The writer's view of the whole log: the sealed segments, the newest one open for writing, and every pipe's running
 * totals. The caller decides when to seal and what to drop or compact; `layout.ts` and `compaction.ts` list the states
 * after a crash. open-segment-log.ts opens it.
 */
import assert from 'node:assert'
import { inWords, onFile } from '../../platform/storage-error.ts'
import type { Backlog, BufferIdentity } from '../buffer.ts'
import type { Frame } from '../frame.ts'
import type { Compaction, CompactionPlan } from './compaction.ts'
import type { HighWater } from './high-water.ts'
import { pageBytesFor, type SegmentName, segmentBytes, unlinkSegment } from './layout.ts'
import { type PipeInSegment, PipeTable } from './position.ts'
import { quarantineSegment } from './quarantined-segment.ts'
import type { Salvage, SalvagedSegment } from './salvage.ts'
import { SealedList } from './sealed-list.ts'
import type { Sealing } from './sealing.ts'
import { meanMessageBytes, type SegmentContent, type SegmentFacts, segmentFacts } from './segment-facts.ts'
import { type NewSegment, newIdentity, type SeqRange } from './segment-file.ts'
import {
  beginSegment,
  type CommitRules,
  type CommittedFrame,
  commitFrame,
  type SegmentWriter,
  type WrittenFrame,
} from './segment-writer.ts'
import { isDamage, isDiskFull } from './sqlite-errors.ts'

/** The state that the log is opened with: see open-segment-log.ts. */
export interface LogStart {
  dir: string
  segmentMaxBytes: number
  identity: BufferIdentity | null
  /** The writer of the newest segment, and that segment's content. */
  writer: SegmentWriter
  content: SegmentContent
  sealed: SegmentFacts[]
  holes: SeqRange[]
  /** The sealed segments that could not be opened. */
  damaged: SegmentName[]
  /** The outcome for each newest segment that could not be opened. */
  salvaged: SalvagedSegment[]
  /** Quarantined files that had the name of another segment. */
  misnamed: SegmentName[]
  /** Ranges neither present nor dropped by retention. */
  missing: SeqRange[]
  openedClockMs: number
  /** Both can be ahead of the content of the segments. */
  knownSeq: number
  nextSeqAtLeast: number
  missingMessages: number
  mark: HighWater
  sealing: Sealing
}

export class SegmentLog {
  /** Known messages that were not found when the log was opened. */
  readonly missingMessages: number
  /** The state at opening: see LogStart. */
  readonly found: Pick<LogStart, 'salvaged' | 'misnamed' | 'missing'>
  /** The sealed segments. Operations that also affect the segment being written are methods of this log. */
  readonly sealed: SealedList
  readonly #dir: string
  readonly #segmentMaxBytes: number
  readonly #identity: BufferIdentity | null
  /** The id of the segment being written. */
  #segmentId: string
  #holes: SeqRange[]
  readonly #mark: HighWater
  readonly #pipes: PipeTable
  #writer: SegmentWriter
  #begunClockMs: number
  #firstReceivedMs: number | null
  #messages: number
  #lastClockMs: number
  #headSeq: number
  /** The newest seq reported outside the log. At the beginning of an epoch the head is ahead of it. */
  #acknowledgedSeq: number
  /** Readers find the next segment by this segment's last row, which is older than the head while messages are missing. */
  #lastRowSeq: number

  constructor({ dir, identity, writer, content, sealed, holes, openedClockMs, ...start }: LogStart) {
    this.found = start
    this.#dir = dir
    this.#segmentMaxBytes = start.segmentMaxBytes
    this.#identity = identity
    this.#segmentId = content.identity.segmentId
    this.#holes = holes
    this.#pipes = new PipeTable(content.pipes)
    const { damaged, sealing } = start
    this.sealed = new SealedList(dir, identity, { segments: sealed, damaged, sealing })
    this.#writer = writer
    this.#begunClockMs = content.begunClockMs
    this.#firstReceivedMs = content.firstReceivedMs
    this.#messages = content.pipes.reduce((sum, pipe) => sum + pipe.last.messages - pipe.base.messages, 0)
    // For messages of an earlier run, this is an upper bound.
    this.#lastClockMs = Math.max(openedClockMs, content.begunClockMs)
    this.#lastRowSeq = content.lastSeq ?? writer.firstSeq - 1
    this.#acknowledgedSeq = Math.max(this.#lastRowSeq, start.knownSeq)
    this.#headSeq = Math.max(this.#acknowledgedSeq, start.nextSeqAtLeast - 1)
    this.missingMessages = start.missingMessages
    this.#mark = start.mark
  }

  /** The seq of the newest stored message, which remains when its segment is dropped. */
  get lastRowSeq(): number {
    return this.#lastRowSeq
  }

  get headSeq(): number {
    return this.#headSeq
  }

  /** The buffer's clock at the last commit. */
  get lastClockMs(): number {
    return this.#lastClockMs
  }

  get segmentCount(): number {
    return this.sealed.count + 1
  }

  /** Time at which the oldest kept message was received. */
  get oldestReceivedMs(): number | null {
    return this.sealed.oldest?.firstReceivedMs ?? this.#firstReceivedMs
  }

  /** The first seq of the segment being written. */
  get currentFirstSeq(): number {
    return this.#writer.firstSeq
  }

  /** The segment being written. */
  current(): { firstSeq: number; bytes: number; messages: number; begunClockMs: number } {
    const { firstSeq } = this.#writer
    const [bytes, messages, begunClockMs] = [this.#writer.bytes(), this.#messages, this.#begunClockMs]
    return { firstSeq, bytes, messages, begunClockMs }
  }

  /** How long the last COMMIT took. */
  get commitMs(): number {
    return this.#writer.commitMs
  }

  /** Throws errors of SQLite; then nothing of the frame is stored. */
  commit(frame: Frame, clockMs: number, rules: CommitRules): CommittedFrame {
    const { committed, lastSeq, firstReceivedMs } = this.#commitFrame(frame, rules)
    if (lastSeq > this.#headSeq) this.#lastRowSeq = this.#acknowledgedSeq = lastSeq
    this.#messages += lastSeq - this.#headSeq
    this.#headSeq = lastSeq
    this.#lastClockMs = clockMs
    this.#firstReceivedMs ??= firstReceivedMs
    return committed
  }

  #commitFrame(frame: Frame, rules: CommitRules): WrittenFrame {
    try {
      return commitFrame(frame, this.#headSeq, { writer: this.#writer, pipes: this.#pipes }, rules)
    } catch (error) {
      throw inWords(error, 'writing', this.#writer.file)
    }
  }

  /**
   * Starts a new segment and seals the one being written, which must hold a message. Throws a disk-full error when there
   * is no room for a new one; then the old one continues.
   */
  roll(clockMs: number, isDeleted: (pipeId: string) => boolean): void {
    assert(this.#messages > 0, 'an empty segment is not sealed')
    const next = this.#next(clockMs, isDeleted)
    const writer = beginSegment(this.#dir, next)
    // Readers can see the new segment: no message can go to the old one any more.
    const end = { clockMs: this.#lastClockMs, lastSeq: this.#lastRowSeq }
    this.sealed.seal(this.#currentFacts(0), this.#writer, end)
    this.#switchTo(writer, next)
  }

  /**
   * The segment being written is damaged: starts a new one. The old one counts as sealed until it is salvaged; its facts
   * are known from memory. Throws like `roll`.
   */
  setAside(
    clockMs: number,
    isDeleted: (pipeId: string) => boolean,
    { quarantineDir, error }: { quarantineDir: string; error: unknown },
  ): void {
    if (this.#messages === 0) {
      this.#replaceEmpty(clockMs, isDeleted, quarantineDir)
      return
    }
    const next = this.#next(clockMs, isDeleted)
    const writer = beginSegment(this.#dir, next)
    this.sealed.setAside(this.#currentFacts(0), this.#writer, error)
    this.#switchTo(writer, next)
  }

  /**
   * The new segment gets the name of the old one, which is empty. A failure in between is fatal; the next start creates
   * a segment.
   */
  #replaceEmpty(clockMs: number, isDeleted: (pipeId: string) => boolean, quarantineDir: string): void {
    const name = { firstSeq: this.#writer.firstSeq, generation: 0 }
    quarantineSegment(this.#dir, name, quarantineDir)
    this.#writer.abandon()
    try {
      unlinkSegment(this.#dir, name)
      const next = this.#next(clockMs, isDeleted)
      this.#switchTo(beginSegment(this.#dir, next), next)
    } catch (error) {
      throw new Error('the new buffer segment could not be opened', { cause: error })
    }
  }

  #next(clockMs: number, isDeleted: (pipeId: string) => boolean): NewSegment {
    const oldestKept = this.sealed.oldest?.firstSeq ?? this.#writer.firstSeq
    // A deleted pipe is carried over while messages of it are kept.
    const pipes = this.#pipes.inSegment()
    const bases = pipes
      .filter(({ pipeId, last }) => last.seq >= oldestKept || !isDeleted(pipeId))
      .map(({ pipeId, last }) => ({ pipeId, position: last }))
    const identity = newIdentity(this.#identity, this.#lastRowSeq + 1, this.#segmentId)
    // A range before all kept messages is no longer a hole.
    const holes = this.#holes.filter(({ lastSeq }) => lastSeq >= oldestKept)
    const pageBytes = pageBytesFor(this.#segmentMaxBytes, meanMessageBytes(pipes))
    return { pageBytes, identity, begunClockMs: clockMs, bases, holes }
  }

  #switchTo(writer: SegmentWriter, { identity, begunClockMs, bases, holes }: NewSegment): void {
    this.#writer = writer
    this.markHighWater(begunClockMs)
    this.#mark.sync()
    this.#segmentId = identity.segmentId
    this.#holes = [...holes]
    this.#pipes.restart(bases.map(({ pipeId }) => pipeId))
    this.#begunClockMs = begunClockMs
    this.#firstReceivedMs = null
    this.#messages = 0
  }

  /** The facts of all segments with messages; the segment being written is last. */
  facts(): SegmentFacts[] {
    const sealed = this.sealed.facts()
    return this.#messages === 0 ? sealed : [...sealed, this.#currentFacts(this.#writer.bytes())]
  }

  /** Unlinks a sealed segment. If older segments are kept, it is recorded as a hole first. */
  drop(firstSeq: number): void {
    const { segment, newer } = this.sealed.beforeDrop(firstSeq)
    if (segment !== this.sealed.oldest) this.#addHole(segment)
    else this.#mark.raiseOldestKept((newer ?? this.#writer).firstSeq)
    this.sealed.drop(firstSeq)
  }

  /** Starts to compact a sealed segment: see SealedList. */
  startCompaction(
    firstSeq: number,
    deliveredThrough: CompactionPlan['deliveredThrough'],
    rewritten?: CompactionPlan['rewritten'],
  ): Compaction {
    return this.sealed.startCompaction(firstSeq, this.#newest(), deliveredThrough, rewritten)
  }

  /** Starts to salvage a sealed segment: see SealedList. */
  startSalvage(firstSeq: number, quarantineDir: string): Salvage {
    return this.sealed.startSalvage(firstSeq, this.#newest(), quarantineDir)
  }

  #newest(): { firstSeq: number; pipes: PipeInSegment[] } {
    return { firstSeq: this.#writer.firstSeq, pipes: this.#pipes.inSegment() }
  }

  /** Disk space, including WALs. */
  diskBytes(): number {
    const current = segmentBytes(this.#dir, { firstSeq: this.#writer.firstSeq, generation: 0 })
    return this.sealed.bytes() + current
  }

  /** True when messages of the pipe are possibly kept. */
  isCarried(pipeId: string): boolean {
    return this.#pipes.has(pipeId)
  }

  /** Totals of everything ever appended, per pipe. */
  appended(): Map<string, Backlog> {
    return this.#pipes.appended()
  }

  /** See SegmentWriter. */
  wal(): { pages: number; bytes: number } {
    return this.#writer.wal()
  }

  checkpoint(): void {
    onFile('writing', this.#writer.file, () => this.#writer.checkpoint())
  }

  /** Called after each commit, before it is acknowledged, and periodically to save the clock. */
  markHighWater(clockMs: number): void {
    this.#mark.write(this.#acknowledgedSeq, clockMs)
  }

  /** After a failure: closes every connection without writing. Throws nothing. */
  abandon(): void {
    this.sealed.abandon()
    this.#writer.abandon()
    this.#mark.abandon()
  }

  close(clockMs: number): void {
    this.sealed.close()
    try {
      onFile('closing', this.#writer.file, () => this.#writer.close())
    } catch (error) {
      // The part that could not be moved stays in the WAL; the start checks whether it can be read.
      if (!isDiskFull(error) && !isDamage(error)) throw error
    }
    this.markHighWater(clockMs)
    this.#mark.close()
  }

  #addHole({ firstSeq, lastSeq }: SeqRange): void {
    if (lastSeq < firstSeq) return
    this.#holes = [...this.#holes, { firstSeq, lastSeq }].sort((a, b) => a.firstSeq - b.firstSeq)
    try {
      onFile('writing', this.#writer.file, () => this.#writer.writeHoles(this.#holes))
    } catch (error) {
      // Dropping frees the missing space, and the next segment starts with every hole.
      if (!isDiskFull(error)) throw error
      this.#writer.rollback()
    }
  }

  #currentFacts(bytes: number): SegmentFacts {
    const known = {
      identity: null,
      sealedClockMs: null,
      lastSeq: this.#lastRowSeq,
      firstReceivedMs: this.#firstReceivedMs,
      pipes: this.#pipes.inSegment(),
    }
    const name = { firstSeq: this.#writer.firstSeq, generation: 0 }
    return segmentFacts(name, bytes, known, this.#lastClockMs)
  }
}
