/**
 * Opens the log after any end of the last run: removes half-created files, makes the existing data durable, and reads
 * the facts that retention needs. `layout.ts` lists what a crash can leave.
 *
 * A crash can leave commits in a WAL that was never synced and that a power cut would lose. So nothing is read, served
 * or counted before it is durable:
 *
 *   0 files with the name of another segment go to the quarantine (misnamed-segments.ts); if the file of the newest
 *     segment is missing and its WAL exists, the segment is salvaged from the WAL (salvage.ts: a crash leaves only the
 *     WAL, or both and a newer generation, which makes the WAL a leftover)
 *   1 leftovers are removed; names are fsynced
 *   2 WALs are moved into their segments, fsynced (if a full disk has no room for that, the WAL itself is fsynced)
 *   3 the segments are read; a newest segment that cannot be continued (older epoch, sealed) gets a successor
 *   4 the high-water mark is written and fsynced
 * After a crash between any two steps, the next start repeats them.
 *
 * Damaged segments do not prevent the start. The facts of a damaged sealed segment come from its neighbors, and it is
 * salvaged later. A damaged newest segment is salvaged here (after 1), because new messages continue where it ends.
 */
import path from 'node:path'
import type Database from 'better-sqlite3'
import { fsyncDirectory, fsyncFile } from '../../platform/fsync.ts'
import type { Logger } from '../../platform/log.ts'
import type { BufferIdentity } from '../buffer.ts'
import { type HighWater, openHighWater } from './high-water.ts'
import type { StartIndex } from './index-threads.ts'
import {
  hasPipeIndex,
  listSegments,
  lostFiles,
  pageBytesFor,
  removeLeftovers,
  type SegmentName,
  segmentBytes,
  segmentFile,
  unlinkSegment,
} from './layout.ts'
import { setAside, setMisnamedAside } from './misnamed-segments.ts'
import { missingRanges } from './missing-segments.ts'
import type { SegmentsSpec } from './protocol.ts'
import { Salvage, type SalvagedSegment } from './salvage.ts'
import { readSealedSegments, type SealedSegments } from './sealed-segments.ts'
import { Sealing } from './sealing.ts'
import {
  meanMessageBytes,
  readContentIfUsable,
  type SegmentContent,
  type SegmentFacts,
  segmentFacts,
} from './segment-facts.ts'
import { createSegment, newIdentity, openReadOnly, type SeqRange } from './segment-file.ts'
import { SegmentLog } from './segment-log.ts'
import { openSegmentWriter, type SegmentWriter } from './segment-writer.ts'
import { isDiskFull, isUnusable } from './sqlite-errors.ts'
import { isWalUsable } from './wal-overlay.ts'

type LogSpec = Pick<SegmentsSpec, 'dir' | 'quarantineDir' | 'identity' | 'knownSeq' | 'nextSeqAtLeast'> &
  // `pipectl repair` has no settings; the segments it creates have small pages.
  Partial<Pick<SegmentsSpec, 'segmentMaxBytes'>>

/** Without `startIndex`, indexes of rolled segments are created on this thread. */
export function openSegmentLog(spec: LogSpec, log: Logger, startIndex: StartIndex | null = null): SegmentLog {
  const { dir, identity = null, nextSeqAtLeast = 1, segmentMaxBytes = 0 } = spec
  const misnamed = setMisnamedAside(spec, log)
  const mark = openHighWater(path.join(dir, 'high-water'), identity)
  const { clockMs } = mark.found
  const knownSeq = Math.max(mark.found.seq, spec.knownSeq ?? 0)
  const fromWal = salvageLostFiles(spec, knownSeq, clockMs, log)
  removeLeftovers(dir)
  const salvaged = [...fromWal, ...salvageNewest(spec, knownSeq, clockMs)]
  const isNew = listSegments(dir).length === 0
  if (mark.loss !== null && !(isNew && mark.loss === 'missing')) {
    log.warn({ reason: mark.loss }, 'buffer.high_water_rebuilt')
  }
  if (isNew) {
    const first = newIdentity(identity, Math.max(knownSeq + 1, nextSeqAtLeast), null)
    const pageBytes = pageBytesFor(segmentMaxBytes, 0)
    createSegment(dir, { pageBytes, identity: first, begunClockMs: clockMs, bases: [], holes: [] })
  }
  // Makes a rename durable that the last run could not.
  fsyncDirectory(dir)
  const files: OpenFiles = { sealing: new Sealing(dir, startIndex), writers: [] }
  try {
    return openFound(spec, log, { files, mark, knownSeq, salvaged, misnamed, isNew })
  } catch (error) {
    // See openBufferWriter.
    for (const writer of files.writers) writer.abandon()
    files.sealing.abandon()
    mark.abandon()
    throw error
  }
}

/** The connections of a log that is being opened; closed when opening fails. */
interface OpenFiles {
  sealing: Sealing
  writers: SegmentWriter[]
}

interface Found {
  files: OpenFiles
  mark: HighWater
  knownSeq: number
  salvaged: SalvagedSegment[]
  misnamed: SegmentName[]
  /** There was no segment. */
  isNew: boolean
}

function openFound(
  spec: LogSpec,
  log: Logger,
  { files, mark, knownSeq, salvaged, misnamed, isNew }: Found,
): SegmentLog {
  const { dir, identity = null, nextSeqAtLeast = 1, segmentMaxBytes = 0 } = spec
  const { clockMs } = mark.found
  const { sealing } = files
  const { newest, sealed, damaged, strays } = openSegments(dir, files, identity)
  for (const name of strays) setAside(spec, name, log, { reason: 'stray' })
  const foundSeq = isNew ? mark.found.oldestKeptSeq - 1 : lastSeqOf(newest)
  const missingMessages = countMissing(knownSeq, foundSeq, nextSeqAtLeast)
  const { holes } = newest.content
  const written =
    writable(newest, identity) ??
    startSuccessor(newest, { dir, segmentMaxBytes, identity, files, sealed, holes, clockMs })
  if (mark.oldestKeptSeq === 0) mark.raiseOldestKept(sealed[0]?.firstSeq ?? written.writer.firstSeq)
  const { firstSeq } = written.writer
  const current = { firstSeq, lastSeq: firstSeq, identity: written.content.identity }
  const missing = missingRanges([...sealed, current], holes, mark.oldestKeptSeq)
  const found = { salvaged, misnamed, damaged, missing }
  const start = {
    dir,
    segmentMaxBytes,
    identity,
    ...written,
    sealed,
    holes,
    ...found,
    openedClockMs: clockMs,
    mark,
    sealing,
  }
  const segments = new SegmentLog({ ...start, knownSeq, nextSeqAtLeast, missingMessages })
  segments.markHighWater(segments.lastClockMs)
  mark.sync()
  return segments
}

interface Newest {
  name: SegmentName
  writer: SegmentWriter
  content: SegmentContent
}

interface OpenedSegments extends SealedSegments {
  newest: Newest
}

/** Everything in the segments is durable when this returns. */
function openSegments(dir: string, files: OpenFiles, owner: BufferIdentity | null): OpenedSegments {
  const names = listSegments(dir)
  const name = names.pop()
  if (name === undefined) throw new Error(`${dir}: a segment was created, but there is none`)
  const newest = openNewest(dir, name, files)
  const { sealing } = files
  const { sealed, damaged, strays } = readSealedSegments(dir, names, { newest, sealing, owner })
  const isStale = newest.content.lastSeq === null && (sealed.at(-1)?.lastSeq ?? 0) >= name.firstSeq
  if (!isStale) return { newest, sealed, damaged, strays }
  // The newest segment was created and abandoned for lack of space while its predecessor continued; a power cut undid
  // the removal.
  newest.writer.close()
  unlinkSegment(dir, name)
  fsyncDirectory(dir)
  return openSegments(dir, files, owner)
}

function openNewest(dir: string, name: SegmentName, { writers }: OpenFiles): Newest {
  const writer = openSegmentWriter(dir, name)
  writers.push(writer)
  if (!writer.moveWal()) fsyncFile(`${segmentFile(dir, name)}-wal`)
  return { name, writer, content: writer.content() }
}

function lastSeqOf({ name, content }: Newest): number {
  return content.lastSeq ?? name.firstSeq - 1
}

/** Between two epochs there are seqs that were never assigned. */
function countMissing(knownSeq: number, foundSeq: number, nextSeqAtLeast: number): number {
  const lastOfOlderEpochs = knownSeq >= nextSeqAtLeast ? nextSeqAtLeast - 1 : 0
  return Math.max(0, knownSeq - Math.max(foundSeq, lastOfOlderEpochs, 0))
}

/** Returns null when nothing more can be written to the segment. */
function writable(newest: Newest, owner: BufferIdentity | null): Newest | null {
  const { name, content } = newest
  const isSealed = name.generation > 0 || content.sealedClockMs !== null
  const isOfEpoch = owner === null || content.identity.epoch === owner.epoch
  const isOwned = owner === null || content.identity.dataDirId === owner.dataDirId
  return !isSealed && isOfEpoch && isOwned ? newest : null
}

interface Succession {
  dir: string
  segmentMaxBytes: number
  identity: BufferIdentity | null
  files: OpenFiles
  sealed: SegmentFacts[]
  holes: readonly SeqRange[]
  clockMs: number
}

/**
 * Starts the segment after one that cannot be continued, and seals the old one; an empty one is replaced. After a crash
 * in between, the next start repeats this if the old one is still the newest. On a full disk the old one is continued if
 * possible.
 */
function startSuccessor(newest: Newest, succession: Succession): Newest {
  const { dir, segmentMaxBytes, identity: owner, files, sealed, holes, clockMs } = succession
  const { name, writer, content } = newest
  const isSealed = name.generation > 0 || content.sealedClockMs !== null
  const isEmpty = !isSealed && content.lastSeq === null
  const firstSeq = lastSeqOf(newest) + 1
  const lastClockMs = content.sealedClockMs ?? Math.max(clockMs, content.begunClockMs)
  const previous = isEmpty ? content.identity.previousSegmentId : content.identity.segmentId
  const identity = newIdentity(owner, firstSeq, previous)
  const pageBytes = pageBytesFor(segmentMaxBytes, meanMessageBytes(content.pipes))
  const bases = content.pipes.map(({ pipeId, last }) => ({ pipeId, position: last }))
  try {
    // A new file with the name of an empty segment must not find the old WAL.
    if (isEmpty && !writer.leaveWal()) return newest
    if (isEmpty) writer.close()
    createSegment(dir, { pageBytes, identity, begunClockMs: lastClockMs, bases, holes })
  } catch (error) {
    if (!isDiskFull(error) || isSealed) throw error
    return isEmpty ? openNewest(dir, name, files) : newest
  }
  // Makes the name of the new one durable, which a sealed segment needs after it.
  const successor = openNewest(dir, { firstSeq, generation: 0 }, files)
  if (!isEmpty) {
    files.sealing.seal(name, writer, { clockMs: lastClockMs, lastSeq: firstSeq - 1 })
    sealed.push(segmentFacts(name, segmentBytes(dir, name), content, lastClockMs))
  }
  return successor
}

/** Repeats until the newest segment can be used or none is left. Throws a disk-full error when there is no space for it. */
function salvageNewest(spec: LogSpec, knownSeq: number, clockMs: number): SalvagedSegment[] {
  const { dir } = spec
  const identity = spec.identity ?? null
  const salvaged: SalvagedSegment[] = []
  for (;;) {
    const names = listSegments(dir)
    const newest = names.at(-1)
    if (newest === undefined) return salvaged
    const isUsable = isWalUsable(dir, newest, knownSeq) && readContentIfUsable(dir, newest, identity) !== null
    if (isUsable && areIndexesComplete(dir, newest)) return salvaged
    assertOwned(dir, names, identity)
    salvaged.push(salvageLast(spec, { source: newest, older: names.at(-2), knownSeq, clockMs }))
  }
}

/**
 * Before the first checkpoint the file of the newest segment holds only its tables; every message is in its WAL. An
 * older segment has a WAL only when a reader delayed its sealing. Such a WAL goes to the quarantine, because it can be
 * the rest of a dropped segment. Throws a disk-full error when there is no space to do it.
 */
function salvageLostFiles(spec: LogSpec, knownSeq: number, clockMs: number, log: Logger): SalvagedSegment[] {
  const { dir } = spec
  const lost = lostFiles(dir)
  const newest = listSegments(dir).at(-1)
  const last = lost.at(-1)
  const isNewestLost = last !== undefined && last.firstSeq > (newest?.firstSeq ?? 0)
  for (const name of isNewestLost ? lost.slice(0, -1) : lost) setAside(spec, name, log, { reason: 'stray' })
  return isNewestLost ? [salvageLast(spec, { source: last, older: newest, knownSeq, clockMs })] : []
}

interface LastSegment {
  source: SegmentName
  older: SegmentName | undefined
  knownSeq: number
  clockMs: number
}

/** Rewrites the last segment of the log. The damaged files go to the quarantine. */
function salvageLast(spec: LogSpec, { source, older, knownSeq, clockMs }: LastSegment): SalvagedSegment {
  const { dir, quarantineDir, identity = null } = spec
  const content = older === undefined ? null : readContentIfUsable(dir, older, identity)
  const isAdjacent = content !== null && (content.lastSeq ?? 0) + 1 === source.firstSeq
  const salvage = new Salvage({
    dir,
    quarantineDir,
    source,
    lastSeq: null,
    knownSeq,
    identity,
    after: null,
    begunClockMs: content?.sealedClockMs ?? content?.begunClockMs ?? 0,
    lastClockMs: clockMs,
    before: new Map(isAdjacent ? content.pipes.map(({ pipeId, last }) => [pipeId, last]) : []),
  })
  try {
    while (!salvage.step());
    const result = salvage.finish()
    unlinkSegment(dir, source)
    return { name: source, ...result }
  } catch (error) {
    salvage.abandon()
    throw error
  }
}

/** A row that an index lacks would not be read, and no later row in this segment would show the gap. */
function areIndexesComplete(dir: string, name: SegmentName): boolean {
  let db: Database.Database | null = null
  try {
    db = openReadOnly(dir, name)
    const lackingPipe = `SELECT 1 FROM pipe p NOT INDEXED WHERE NOT EXISTS
      (SELECT 1 FROM pipe i INDEXED BY sqlite_autoindex_pipe_1 WHERE i.pipe_id = p.pipe_id) LIMIT 1`
    const lackingMessage = `SELECT 1 FROM message m NOT INDEXED WHERE NOT EXISTS
      (SELECT 1 FROM message i INDEXED BY message_by_pipe WHERE i.pipe = m.pipe AND i.seq = m.seq) LIMIT 1`
    const lacking = hasPipeIndex(db) ? [lackingPipe, lackingMessage] : [lackingPipe]
    return lacking.every((sql) => db?.prepare(sql).get() === undefined)
  } catch (error) {
    if (!isUnusable(error)) throw error
    return false
  } finally {
    db?.close()
  }
}

/** A single foreign segment is damage. If all are foreign, the directory is in the wrong place. */
function assertOwned(dir: string, names: readonly SegmentName[], identity: BufferIdentity | null): void {
  if (identity === null) return
  const owners = names.map((name) => readContentIfUsable(dir, name, null)?.identity.dataDirId ?? null)
  const isForeign = (owner: string | null) => owner !== null && owner !== identity.dataDirId
  if (owners.some(isForeign) && owners.every((owner) => isForeign(owner) || owner === null)) {
    throw new Error(`${dir}: the buffer of another data directory; put back the one that belongs here`)
  }
}
