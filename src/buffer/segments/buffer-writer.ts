/**
 * The writer: frames in, durable messages out; seals, drops and guards the disk. It knows no threads, so that the
 * order of its steps can be read here: what is answered is committed, fsynced and below the high-water mark.
 *
 *            ┌────────────── refusing = null ◀───────────────┐
 *   write ──▶│ commit ─▶ high-water mark ─▶ keys ─▶ answer   │ there is room again (looked at each second)
 *            └── over the quota, low disk space, disk full ──▶ refusing = why: every frame is refused unwritten
 *
 * A full disk fails the frame and nothing else. Any other error is thrown and must end the process.
 */
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import type { Logger } from '../../log.ts'
import type { PipePosition } from '../buffer.ts'
import type { Frame } from '../frame.ts'
import { startClock } from './clock.ts'
import { openDiskGuard } from './disk-guard.ts'
import { openHighWater } from './high-water.ts'
import { openIdempotencyKeys } from './idempotency.ts'
import { fileBytes, fsyncDirectory } from './layout.ts'
import type { RefusalReason } from './refusal.ts'
import { type Drop, type FloorReport, isDeletedPipe, planDrops } from './retention.ts'
import { type CommittedFrame, openSegmentLog } from './segment-log.ts'
import { isDiskFull } from './sqlite-errors.ts'
import type { BufferStatus, WriterSettings } from './writer-protocol.ts'

const MiB = 1024 * 1024
/** About 1,000 pages: the size at which a checkpoint costs little more than its fsync (SQLite's own default). */
const largestWalBytes = 4 * MiB
/** The disk is looked at after this much has been written, not only each second. */
const growthBytes = 8 * MiB
const settleKeysEveryMs = 60_000

export type WriteResult = { ok: true; committed: CommittedFrame } | { ok: false; reason: RefusalReason }

export interface BufferWriter {
  readonly headSeq: number
  /** Acknowledged messages that an earlier run had and this one did not find. */
  readonly missingAcknowledged: number
  readonly refusing: RefusalReason | null
  write(frame: Frame): WriteResult
  /** What can wait until the frame is answered: checkpoint, sealing. */
  tidy(): void
  /** Each second: age, space, retention. */
  maintain(): void
  setFloors(report: FloorReport): void
  status(): BufferStatus
  totals(): Map<string, PipePosition>
  close(): void
}

/** `onDropped` is called after segments were unlinked. */
export function openBufferWriter(settings: WriterSettings, log: Logger, onDropped: () => void): BufferWriter {
  const { dir, maxBytes, minFreeBytes } = settings
  // Made just now: its name must survive a power cut too.
  if (mkdirSync(dir, { recursive: true, mode: 0o700 }) !== undefined) fsyncDirectory(path.dirname(dir))
  const guard = openDiskGuard(dir, path.join(dir, 'ballast'))
  // First of all: on a disk filled to the last byte nothing below would work.
  guard.keepBallast(guard.freeBytes())
  const highWater = openHighWater(path.join(dir, 'high-water'))
  const segments = openSegmentLog(dir, highWater.seq, highWater.clockMs)
  const clock = startClock(segments.lastClockMs)
  const keysFile = path.join(dir, 'idempotency.db')
  const keys = openIdempotencyKeys(dir, keysFile, segments.headSeq - segments.missingMessages)
  const walLimitBytes = Math.min(largestWalBytes, settings.segmentMaxBytes / 2)

  let report: FloorReport | null = null
  let refusing: RefusalReason | null = null
  let usedBytes = 0
  let freeBytes = 0
  let walBytes = 0
  let grownBytes = 0
  let keysSettledMs = 0
  let keysSettledSeq = -1

  function write(frame: Frame): WriteResult {
    if (refusing === null && usedBytes + frame.length > maxBytes) {
      maintainFor(frame.length)
      if (usedBytes + frame.length > maxBytes) return refused('over_quota')
    }
    if (refusing !== null) return refused(refusing)
    let committed: CommittedFrame
    try {
      committed = segments.commit(frame, clock(), keys.find)
    } catch (error) {
      if (!isDiskFull(error)) throw error
      onDiskFull()
      return refused('write_failed')
    }
    markHighWater()
    keys.remember(committed.keyed)
    usedBytes += frame.length
    walBytes += frame.length
    grownBytes += frame.length
    return { ok: true, committed }
  }

  function refused(reason: RefusalReason): WriteResult {
    return { ok: false, reason }
  }

  function onDiskFull(): void {
    guard.releaseBallast()
    setRefusing('low_disk_space')
  }

  function setRefusing(reason: RefusalReason | null): void {
    if (reason === refusing) return
    refusing = reason
    if (reason === null) log.info({ bytes: usedBytes, free_bytes: freeBytes }, 'buffer.accepting')
    else log.warn({ reason, bytes: usedBytes, free_bytes: freeBytes }, 'buffer.refusing')
  }

  /** In place, without growing: works on a full disk too, except where the file system copies on write. */
  function markHighWater(): void {
    try {
      highWater.write(segments.headSeq, clock())
    } catch (error) {
      if (!isDiskFull(error)) throw error
    }
  }

  function tidy(): void {
    if (walBytes > walLimitBytes) checkpoint()
    if (segments.current().bytes >= settings.segmentMaxBytes) roll()
    if (grownBytes > Math.min(growthBytes, maxBytes / 16)) maintain()
  }

  function checkpoint(): void {
    walBytes = 0
    try {
      segments.checkpoint()
    } catch (error) {
      if (!isDiskFull(error)) throw error
      onDiskFull()
    }
  }

  /** False when there was no room for a new segment. */
  function roll(): boolean {
    const { firstSeq, messages, bytes } = segments.current()
    try {
      segments.roll(clock(), (pipeId, lastSeq) => isDeletedPipe(pipeId, lastSeq, report))
    } catch (error) {
      if (!isDiskFull(error)) throw error
      onDiskFull()
      return false
    }
    walBytes = 0
    log.debug({ first_seq: firstSeq, last_seq: segments.headSeq, messages, bytes }, 'buffer.segment_sealed')
    return true
  }

  function maintain(): void {
    maintainFor(0)
    const nowMs = Date.now()
    if (segments.headSeq === keysSettledSeq || Math.abs(nowMs - keysSettledMs) < settleKeysEveryMs) return
    keys.settle(segments.headSeq, nowMs)
    keysSettledMs = nowMs
    keysSettledSeq = segments.headSeq
  }

  /** `wantedBytes`: of a frame that waits to be written. */
  function maintainFor(wantedBytes: number): void {
    grownBytes = 0
    markHighWater()
    const { messages, begunClockMs } = segments.current()
    if (messages > 0 && clock() - begunClockMs >= settings.segmentMaxSeconds * 1000) roll()
    measure()
    const ballastLackBytes = guard.keepBallast(freeBytes)
    const neededBytes = Math.max(
      usedBytes + wantedBytes - maxBytes,
      minFreeBytes - freeBytes,
      ballastLackBytes,
    )
    if (dropWhatMay(neededBytes) > 0) measure()
    // Readers close dropped files within a second; until then the disk does not show what came back.
    const isLow = freeBytes < minFreeBytes || guard.keepBallast(freeBytes) > 0
    setRefusing(usedBytes >= maxBytes ? 'over_quota' : isLow ? 'low_disk_space' : null)
  }

  function measure(): void {
    usedBytes = segments.diskBytes() + fileBytes(keysFile) + fileBytes(`${keysFile}-wal`)
    freeBytes = guard.freeBytes()
  }

  /** Answers how many segments went. */
  function dropWhatMay(neededBytes: number): number {
    let dropped = 0
    for (const drop of planDrops(segments.facts(), report, settings, clock(), neededBytes)) {
      if (drop.firstSeq === segments.current().firstSeq && !roll()) break
      logDrop(drop)
      segments.drop(drop.firstSeq)
      dropped += 1
    }
    if (dropped > 0) onDropped()
    return dropped
  }

  function logDrop({ firstSeq, reason }: Drop): void {
    const facts = segments.facts().find((segment) => segment.firstSeq === firstSeq)
    const counts = [...(facts?.pipes ?? [])].slice(0, 20)
    const fields = {
      first_seq: firstSeq,
      reason,
      bytes: facts?.bytes,
      messages: facts?.messages,
      pipes: Object.fromEntries(counts.map(([pipeId, { messages }]) => [pipeId, messages])),
      pipes_count: facts?.pipes.size,
    }
    // Only `age` can take messages that a lane has not delivered.
    if (reason === 'age') log.warn(fields, 'buffer.segment_dropped')
    else log.info(fields, 'buffer.segment_dropped')
  }

  maintainFor(0)
  if (segments.missingMessages > 0) {
    log.error(
      { high_water_seq: segments.headSeq, missing_messages: segments.missingMessages },
      'buffer.acknowledged_messages_missing',
    )
  }

  return {
    get headSeq() {
      return segments.headSeq
    },
    missingAcknowledged: segments.missingMessages,
    get refusing() {
      return refusing
    },
    write,
    tidy,
    maintain,
    setFloors(newReport) {
      report = newReport
    },
    status() {
      return {
        bytes: usedBytes,
        segments: segments.segmentCount,
        oldestMs: segments.oldestReceivedMs,
        freeBytes,
        refusing,
      }
    },
    totals: () => segments.totals(),
    close() {
      keys.settle(segments.headSeq, Date.now())
      keys.close()
      try {
        segments.close()
      } catch (error) {
        // The WAL keeps what could not be moved.
        if (!isDiskFull(error)) throw error
      }
      markHighWater()
      highWater.close()
    },
  }
}
