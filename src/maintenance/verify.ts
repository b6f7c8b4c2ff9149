/**
 * `pipectl verify`: reads everything in a data directory and reports data that differs from what was written. It
 * changes nothing and can run next to the daemon. Files that change meanwhile are read in the order in which the
 * daemon writes them: lanes and the mark before the log, which can only be ahead of them; the ranges dropped by
 * retention after the log.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { checkChain, endOf } from '../log/segments/check-chain.ts'
import { checkIdempotencyKeys, checkMark, type MarkCheck } from '../log/segments/check-derived.ts'
import { holesIn, type SegmentCheck } from '../log/segments/check-segment.ts'
import { type CheckProgress, checkSegments, inspectSegments } from '../log/segments/check-segments.ts'
import { fileBytes, segmentFile } from '../log/segments/layout.ts'
import { without } from '../log/segments/missing-segments.ts'
import type { SeqRange } from '../log/segments/segment-file.ts'
import { checkMetadata, type MetadataCheck } from '../metadata/sqlite/check.ts'
import { type DataDir, dataDirAt } from './data-dir.ts'
import { DataDirError } from './errors.ts'
import { readKnownLosses } from './known-losses.ts'
import { isDaemonRunning } from './lock.ts'
import { type CheckedTableFile, checkTableFiles } from './table-files.ts'

export interface VerifiedFile {
  /** Relative to the data directory. */
  file: string
  result: 'ok' | 'damaged'
  /** The number of messages in a segment. */
  messages: number | null
  bytes: number
  problems: string[]
}

export interface VerifyReport {
  data_dir: string
  is_daemon_running: boolean
  files: VerifiedFile[]
  /** Ranges of the log that are neither stored nor dropped by retention. */
  missing: ShownRange[]
  /**
   * Earlier losses that are already counted: ranges recorded by `repair`, and messages that could not be salvaged.
   */
  known_losses: { ranges: ShownRange[]; messages: number }
  totals: { segments: number; messages: number; bytes: number; problems: number }
}

export interface ShownRange {
  first_stream_seq: number
  last_stream_seq: number
}

/** The report, and the details that `repair` needs. */
export interface Verified {
  report: VerifyReport
  metadata: MetadataCheck
  segments: SegmentCheck[]
  missing: SeqRange[]
  mark: MarkCheck
  keysProblem: string | null
}

/** Throws DataDirError if there is no data directory. */
export async function verifyDataDir(
  root: string,
  onProgress: (progress: CheckProgress) => void = () => {},
): Promise<Verified> {
  const before = readBefore(root)
  const { bufferDir } = before.dir
  const segments = existsSync(bufferDir) ? await checkSegments(bufferDir, onProgress) : []
  return compare(before, segments, checkTableFiles(root))
}

/**
 * The same without reading messages: whether segments can be opened, which are missing, and whether lanes match the
 * log.
 */
export function glanceAtDataDir(root: string): Verified {
  const before = readBefore(root)
  const { bufferDir } = before.dir
  return compare(before, existsSync(bufferDir) ? inspectSegments(bufferDir) : [])
}

/** Reads the files that the daemon writes before the log. */
function readBefore(root: string) {
  requireDataDir(root)
  const dir = dataDirAt(root)
  const markFile = path.join(dir.bufferDir, 'high-water')
  return { dir, markFile, metadata: checkMetadata(dir.metadataFile), mark: checkMark(markFile) }
}

function compare(
  { dir, markFile, metadata, mark }: ReturnType<typeof readBefore>,
  segments: SegmentCheck[],
  tableFiles: CheckedTableFile[] = [],
): Verified {
  const keysProblem = checkIdempotencyKeys(path.join(dir.bufferDir, 'idempotency.db'))
  const gaps = [
    ...checkChain(segments, metadata.dataDirId),
    ...missingEnds(segments, mark, checkMark(markFile)),
  ]
  const known = readKnownLosses(dir.quarantineDir)
  const newest = segments.findLast((check) => !check.isForeign)
  const dropped = gaps.length === 0 || newest === undefined ? [] : holesIn(dir.bufferDir, newest.name)
  const missing = gaps.flatMap((gap) => without(gap, [...known, ...dropped]))
  const verified = { metadata, segments, missing, mark, keysProblem }
  const problems = [...metadata.problems, ...laneProblems(metadata, segments, mark)]
  const parts = { ...verified, tableFiles }
  return { ...verified, report: reportOf(dir, parts, problems, known) }
}

/** Throws DataDirError. */
export function requireDataDir(root: string): void {
  const dir = dataDirAt(root)
  if (existsSync(dir.metadataFile) || existsSync(dir.bufferDir)) return
  throw new DataDirError(
    'missing',
    `${dir.root} is not a data directory of pipectl: it has neither metadata.db nor buffer/`,
    'name it with --data-dir, or PIPECTL_DATA_DIR',
  )
}

/** Missing ranges before the oldest and after the newest segment, according to the mark. */
function missingEnds(segments: readonly SegmentCheck[], before: MarkCheck, after: MarkCheck): SeqRange[] {
  const own = segments.filter((check) => !check.isForeign)
  const [oldest, newest] = [own[0], own.at(-1)]
  const ranges: SeqRange[] = []
  if (after.oldestKeptSeq !== null && oldest !== undefined) {
    ranges.push({ firstSeq: after.oldestKeptSeq, lastSeq: oldest.name.firstSeq - 1 })
  }
  // A segment that cannot be read does not reveal where it ends.
  if (before.seq !== null && newest?.identity !== null) {
    ranges.push({ firstSeq: newest === undefined ? 1 : endOf(newest) + 1, lastSeq: before.seq })
  }
  return ranges.filter(({ firstSeq, lastSeq }) => firstSeq <= lastSeq)
}

function laneProblems(
  { lanes }: MetadataCheck,
  segments: readonly SegmentCheck[],
  mark: MarkCheck,
): string[] {
  const newest = segments.findLast((check) => !check.isForeign)
  // If the newest segment cannot be read, its end is unknown.
  const end = newest?.identity === null ? Number.POSITIVE_INFINITY : newest === undefined ? 0 : endOf(newest)
  const head = Math.max(end, mark.seq ?? 0)
  return lanes.flatMap(({ destinationId, pipeName, cursorSeq, isIntact }) => {
    const lane = `the lane of ${destinationId} (pipe ${pipeName})`
    if (!isIntact) return [`${lane} has changed since it was written`]
    return cursorSeq > head ? [`${lane} is at stream_seq ${cursorSeq}, the log ends at ${head}`] : []
  })
}

function reportOf(
  dir: DataDir,
  {
    segments,
    missing,
    mark,
    keysProblem,
    tableFiles,
  }: Omit<Verified, 'report'> & { tableFiles: readonly CheckedTableFile[] },
  metadataProblems: string[],
  known: readonly SeqRange[],
): VerifyReport {
  const entry = (file: string, problems: string[]): VerifiedFile => ({
    file,
    result: problems.length === 0 ? 'ok' : 'damaged',
    messages: null,
    bytes: fileBytes(path.join(dir.root, file)),
    problems,
  })
  const files = [
    entry('metadata.db', metadataProblems),
    entry('buffer/high-water', listed(mark.problem)),
    entry('buffer/idempotency.db', listed(keysProblem)),
    ...tableFiles.map(({ file, bytes, problems }) => ({ ...entry(file, problems), bytes })),
    ...segments.map(({ name, messages, bytes, problems }) => ({
      ...entry(path.relative(dir.root, segmentFile(dir.bufferDir, name)), problems),
      messages,
      bytes,
    })),
  ]
  const sum = (of: (check: SegmentCheck) => number) => segments.reduce((total, check) => total + of(check), 0)
  return {
    data_dir: dir.root,
    is_daemon_running: isDaemonRunning(dir),
    files,
    missing: missing.map(shown),
    known_losses: { ranges: known.map(shown), messages: sum((check) => check.lostMessages) },
    totals: {
      segments: segments.length,
      messages: sum((check) => check.messages),
      bytes: sum((check) => check.bytes),
      problems: missing.length + files.reduce((total, { problems }) => total + problems.length, 0),
    },
  }
}

const listed = (problem: string | null) => (problem === null ? [] : [problem])

const shown = ({ firstSeq, lastSeq }: SeqRange) => ({ first_stream_seq: firstSeq, last_stream_seq: lastSeq })
