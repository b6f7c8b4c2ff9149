/**
 * The writer makes frames durable, seals, drops and compacts segments, and guards the disk. It knows no threads, so the
 * order of its steps is visible here: an acknowledged message is committed, fsynced and not above the high-water mark.
 *
 *            ┌────────── unavailableReason = null ◀──────────┐
 *   write ──▶│ commit ─▶ high-water mark ─▶ keys ─▶ respond  │ there is room again (checked each second)
 *            └── over the quota, low disk space, disk full ──▶ unavailableReason: frames are rejected, nothing is written
 *
 * A full disk fails the frame and nothing else. Any other error is thrown and must end the process.
 */
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { fsyncDirectory } from '../../platform/fsync.ts'
import type { Logger } from '../../platform/log.ts'
import type { Appended, Backlog, BufferStatus, Idempotency, LowWatermark } from '../buffer.ts'
import type { Frame } from '../frame.ts'
import { type DiskGuard, openDiskGuard } from './disk-guard.ts'
import type { ErasureOutcome, SegmentErasure } from './erasing.ts'
import { startClock } from './high-water.ts'
import { type IdempotencyKeys, openIdempotencyKeys } from './idempotency.ts'
import type { StartIndex } from './index-threads.ts'
import type { SegmentName } from './layout.ts'
import { openSegmentLog } from './open-segment-log.ts'
import type { SegmentsSpec, UnavailableReason } from './protocol.ts'
import { LowWatermarks } from './retention.ts'
import { DamagedSegments } from './sealed-list.ts'
import type { SegmentLog } from './segment-log.ts'
import type { CommitRules, CommittedFrame } from './segment-writer.ts'
import { SpaceKeeper } from './space-keeper.ts'
import { isDamage, isDiskFull } from './sqlite-errors.ts'

const MiB = 1024 * 1024
/**
 * The pages in the WAL that trigger a checkpoint. A checkpoint delays the frames behind it by 4 to 5 µs a page, whatever
 * the size of a page, and by two fsyncs. Single records fill 512 pages of 4 KiB in 40 ms at 50,000/s, so that more than
 * one in a hundred waits for a checkpoint: with 2,048 pages each took 9 ms, with 512 it takes 2.9 ms, for 2 % more CPU
 * per record.
 */
const largestWalPages = 512
/**
 * A segment is sealed at this number of messages too. It bounds the list of messages that each reader of the newest
 * segment keeps, and the time in which it is made: see `PipeRows`.
 */
const maxSegmentMessages = 262_144
/** Free space is measured after this much has been written, and each second. */
const growthBytes = 8 * MiB
/**
 * Free space is also measured after this part of the buffer, which is therefore the precision of the quota and of fair
 * share.
 */
const growthPart = 1 / 64
const flushKeysEveryMs = 60_000

export type WriteResult = { ok: true; committed: CommittedFrame } | { ok: false; reason: UnavailableReason }

export interface WriterEvents {
  /** A frame with new messages is durable. */
  onCommitted(frame: Frame, commitMs: number): void
  /** Segments were dropped or compacted. */
  onDropped(): void
  /** A segment was rewritten without deleted records. */
  onErased(): void
  /** Free space depends on a current report of the lanes' positions. */
  onReportWanted(): void
  /** A sign of life between the slices of a compaction that a write waits for. */
  onSlice(): void
}

/** Throws when the directory cannot be used. See `openSegmentLog` for `startIndex`. */
export function openBufferWriter(
  spec: SegmentsSpec,
  log: Logger,
  events: WriterEvents,
  startIndex: StartIndex | null = null,
): BufferWriter {
  const { dir } = spec
  // The directory was just created: its name must survive a power cut too.
  if (mkdirSync(dir, { recursive: true, mode: 0o700 }) !== undefined) fsyncDirectory(path.dirname(dir))
  const guard = openDiskGuard(dir)
  // Comes first: on a completely full disk nothing below would work.
  guard.keepBallast(guard.freeBytes())
  const segments = openSegmentLog(spec, log, startIndex)
  let keys: IdempotencyKeys | null = null
  try {
    const known = { headSeq: segments.lastRowSeq, clockMs: segments.lastClockMs }
    keys = openIdempotencyKeys({ dir, file: keysFileIn(dir), maxBytes: spec.maxBytes, ...known }, log)
    return new BufferWriter(spec, log, events, { guard, segments, keys })
  } catch (error) {
    // Closed explicitly: a leaked connection that is garbage-collected deletes -wal and -shm files by name, even those
    // of a newer file.
    keys?.close()
    segments.abandon()
    throw error
  }
}

interface WriterParts {
  guard: DiskGuard
  segments: SegmentLog
  keys: IdempotencyKeys
}

export class BufferWriter {
  readonly #spec: SegmentsSpec
  readonly #log: Logger
  readonly #guard: DiskGuard
  readonly #segments: SegmentLog
  readonly #keys: IdempotencyKeys
  readonly #clock: () => number
  readonly #watermarks = new LowWatermarks()
  readonly #damaged: DamagedSegments
  readonly #space: SpaceKeeper
  readonly #walLimitBytes: number
  readonly #onCommitted: WriterEvents['onCommitted']
  #unavailableReason: UnavailableReason | null = null
  #grownBytes = 0
  #keysFlushedMs = 0

  constructor(spec: SegmentsSpec, log: Logger, events: WriterEvents, parts: WriterParts) {
    this.#spec = spec
    this.#log = log
    this.#onCommitted = events.onCommitted
    this.#guard = parts.guard
    this.#segments = parts.segments
    this.#keys = parts.keys
    this.#clock = startClock(parts.segments.lastClockMs)
    this.#damaged = new DamagedSegments(log, {
      segments: parts.segments,
      dir: spec.dir,
      quarantineDir: spec.quarantineDir,
      clock: this.#clock,
      onChanged: events.onDropped,
    })
    this.#space = new SpaceKeeper(spec, log, {
      ...parts,
      damaged: this.#damaged,
      watermarks: this.#watermarks,
      clock: this.#clock,
      roll: () => this.#roll(),
      onDropped: events.onDropped,
      onErased: events.onErased,
      onReportWanted: events.onReportWanted,
      onSlice: events.onSlice,
    })
    // Commits to a small segment rewrite most of its pages several times.
    this.#walLimitBytes = 2 * spec.segmentMaxBytes
    this.#makeRoom(0)
    if (this.#segments.missingMessages > 0) {
      log.error(
        { high_water_seq: this.#segments.headSeq, missing_messages: this.#segments.missingMessages },
        'buffer.acknowledged_messages_missing',
      )
    }
  }

  get headSeq(): number {
    return this.#segments.headSeq
  }

  get unavailableReason(): UnavailableReason | null {
    return this.#unavailableReason
  }

  write(frame: Frame): WriteResult {
    if (this.#unavailableReason === null && this.#space.isOver(frame.length)) {
      this.#makeRoom(frame.length)
      if (this.#space.isOver(frame.length)) return { ok: false, reason: 'over_quota' }
    }
    if (this.#unavailableReason !== null) return { ok: false, reason: this.#unavailableReason }
    let committed: CommittedFrame
    try {
      committed = this.#commit(frame)
    } catch (error) {
      if (!isDiskFull(error)) throw error
      this.#onDiskFull()
      return { ok: false, reason: 'write_failed' }
    }
    if (committed.pipes.length > 0) this.#onCommitted(frame, this.#segments.commitMs)
    this.#segments.markHighWater(this.#clock())
    if (committed.keyed.length > 0) this.#keys.remember(committed.keyed, this.#clock())
    this.#space.grew(frame.length)
    this.#grownBytes += frame.length
    return { ok: true, committed }
  }

  /** When the segment turns out to be damaged, the frame is committed to a new one. */
  #commit(frame: Frame): CommittedFrame {
    const rules: CommitRules = {
      findKey: (key) => this.#keys.find(key, this.#clock()),
      takeShare: (pipeId, bytes) => this.#space.takeShare(pipeId, bytes),
      takeKey: (pipeId) => this.#keys.takeShare(pipeId),
    }
    try {
      return this.#segments.commit(frame, this.#clock(), rules)
    } catch (error) {
      if (!isDamage(error)) throw error
      this.#setAside(error)
      return this.#segments.commit(frame, this.#clock(), rules)
    }
  }

  /** Does the work that can wait until the frame has its response: checkpoints and sealing. */
  afterCommit(): void {
    this.#isolateDamage(() => this.#maintain())
  }

  #maintain(): void {
    const wal = this.#segments.wal()
    if (wal.pages > largestWalPages || wal.bytes > this.#walLimitBytes) this.#checkpoint()
    const { bytes, messages } = this.#segments.current()
    if (bytes >= this.#spec.segmentMaxBytes || messages >= maxSegmentMessages) this.#roll()
    if (this.#grownBytes > Math.min(growthBytes, this.#spec.maxBytes * growthPart)) this.housekeep()
  }

  /**
   * Runs an action. If it finds the segment being written damaged, the segment is set aside; the action is repeated at
   * the next occasion, at the latest in the next second.
   */
  #isolateDamage(action: () => void): void {
    try {
      action()
    } catch (error) {
      if (!isDamage(error)) throw error
      this.#setAsideWithSpace(error)
    }
  }

  /** Runs each second: segment age, disk space, retention. */
  housekeep(): void {
    this.#isolateDamage(() => this.#housekeep())
  }

  #housekeep(): void {
    this.#segments.sealed.sealWaiting()
    this.#makeRoom(0)
    this.#keys.measure(this.#watermarks.workspaces())
    const clockMs = this.#clock()
    if (clockMs - this.#keysFlushedMs < flushKeysEveryMs) return
    this.#keys.flush(this.#segments.headSeq, clockMs)
    this.#keysFlushedMs = clockMs
  }

  /** True while a segment is being compacted or salvaged and `rewriteSlice` has work. */
  get isRewriting(): boolean {
    return this.#damaged.hasWork || this.#space.isCompacting
  }

  /** Does a few milliseconds of that work. Salvage comes first because readers wait for it. */
  rewriteSlice(): void {
    this.#isolateDamage(() => {
      if (this.#damaged.hasWork) this.#damaged.slice()
      // Looks for the next segment immediately; otherwise only one segment per second would be compacted.
      else if (this.#space.compactSlice()) this.#makeRoom(0)
    })
  }

  /** See SpaceKeeper. */
  erase(erasure: SegmentErasure): Promise<ErasureOutcome> {
    return this.#space.erase(erasure)
  }

  /** A reader reported this segment as damaged. Ignored if a newer generation exists. */
  segmentDamaged(name: SegmentName, error: unknown): void {
    if (name.firstSeq === this.#segments.currentFirstSeq) this.#setAsideWithSpace(error)
    else this.#reportDamaged(name, error)
  }

  #reportDamaged(name: SegmentName, error: unknown): void {
    this.#space.leave(name.firstSeq)
    this.#damaged.report(name, error)
  }

  /** A full disk postpones this until the damage is met again. */
  #setAsideWithSpace(error: unknown): void {
    try {
      this.#setAside(error)
    } catch (failure) {
      if (!isDiskFull(failure)) throw failure
      this.#onDiskFull()
    }
  }

  /** Sets the segment being written aside and starts a new one. */
  #setAside(error: unknown): void {
    const isDeleted = (pipeId: string) => this.#watermarks.isDeleted(pipeId)
    const { quarantineDir } = this.#spec
    this.#segments.setAside(this.#clock(), isDeleted, { quarantineDir, error })
  }

  reportLowWatermarks(watermarks: readonly LowWatermark[]): void {
    this.#watermarks.report(watermarks)
    // While appends are rejected, nothing else triggers a check, and delivered messages must not wait for the next
    // second.
    if (this.#space.reported()) this.#isolateDamage(() => this.#setUnavailable(this.#space.makeRoom(0, true)))
  }

  pipeDeleted(pipeId: string): void {
    this.#watermarks.pipeDeleted(pipeId)
  }

  /** See Appender.findRepeat. */
  findRepeat(pipeId: string, { key, bodyHash }: Idempotency): Appended | 'reused' | null {
    const first = this.#keys.find({ pipeId, key }, this.#clock())
    if (first === null) return null
    if (bodyHash !== first.bodyHash) return 'reused'
    const { seq, msgId, recordCount } = first
    return { seq, msgId, recordCount, repeated: true }
  }

  status(): BufferStatus {
    return {
      bytes: this.#space.usedBytes,
      idempotencyBytes: this.#keys.bytes,
      segments: this.#segments.segmentCount,
      oldestMs: this.#segments.oldestReceivedMs,
      freeBytes: this.#space.freeBytes,
      unavailableReason: this.#unavailableReason,
      missingAcknowledged: this.#segments.missingMessages,
      ...this.#damaged.status(),
    }
  }

  /** Totals of everything ever appended, per pipe. */
  appended(): Map<string, Backlog> {
    return this.#segments.appended()
  }

  close(): void {
    this.#space.close()
    this.#damaged.close()
    this.#keys.flush(this.#segments.headSeq, this.#clock())
    this.#keys.close()
    this.#segments.close(this.#clock())
  }

  #onDiskFull(): void {
    this.#guard.releaseBallast()
    this.#setUnavailable('low_disk_space')
  }

  #setUnavailable(reason: UnavailableReason | null): void {
    if (reason === this.#unavailableReason) return
    this.#unavailableReason = reason
    const fields = { bytes: this.#space.usedBytes, free_bytes: this.#space.freeBytes }
    if (reason === null) this.#log.info(fields, 'buffer.accepting')
    else this.#log.warn({ reason, ...fields }, 'buffer.rejecting')
  }

  #checkpoint(): void {
    try {
      this.#segments.checkpoint()
    } catch (error) {
      if (!isDiskFull(error)) throw error
      this.#onDiskFull()
    }
  }

  /** Returns false when there was no room for a new segment. */
  #roll(): boolean {
    const { firstSeq, messages, bytes } = this.#segments.current()
    try {
      this.#segments.roll(this.#clock(), (pipeId) => this.#watermarks.isDeleted(pipeId))
    } catch (error) {
      if (!isDiskFull(error)) throw error
      this.#onDiskFull()
      return false
    }
    this.#watermarks.forgetDeleted((pipeId) => this.#segments.isCarried(pipeId))
    this.#log.debug(
      { first_seq: firstSeq, last_seq: this.#segments.headSeq, messages, bytes },
      'buffer.segment_sealed',
    )
    return true
  }

  /** `wantedBytes` is the size of a frame that waits to be written. */
  #makeRoom(wantedBytes: number): void {
    this.#grownBytes = 0
    this.#segments.markHighWater(this.#clock())
    const { messages, begunClockMs } = this.#segments.current()
    if (messages > 0 && this.#clock() - begunClockMs >= this.#spec.segmentMaxSeconds * 1000) this.#roll()
    this.#setUnavailable(this.#space.makeRoom(wantedBytes))
  }
}

function keysFileIn(dir: string): string {
  return path.join(dir, 'idempotency.db')
}
