/**
 * The buffer's directory: which files there are, how they are named, and what a crash can leave.
 *
 *   00000000000000000001.db      a segment: every seq in it is at least its name and less than the next segment's name
 *   00000000000000000001.2.db    the same segment after two compactions or salvages
 *   …-wal, …-shm                 SQLite's files of the segment being written, and of one that had an open reader
 *                                when it was rolled; a sealed segment has none: see sealing.ts
 *   next-segment.tmp             a segment being created; it is renamed when it is complete and fsynced
 *   compacted-segment.tmp        a segment being compacted, likewise: see compaction.ts
 *   salvaged-segment.tmp         the readable content of a damaged segment, likewise: see salvage.ts
 *   high-water                   newest acknowledged seq and the buffer's clock: see high-water.ts
 *   idempotency.db               derived look-up of idempotency keys
 *   ….set-aside-…                a derived file that could not be read, until the operator removes it
 *   ballast                      disk space to release when the disk is full
 *
 * A new segment is named (last seq of the one before) + 1, so a reader finds it by opening that file.
 *
 * The state after a crash, step by step, and the action of the next start:
 *
 *   rolling to a new segment                        found after a crash right after it
 *   1 write next-segment.tmp, move its WAL into     a .tmp file and its WAL: removed; the old segment continues
 *     it, fsync it, check that it is complete
 *   2 rename it to its name                         both segments; the new one is empty (or, after a power cut, the
 *                                                   rename is undone: as after 1). No message can be in it yet
 *   3 fsync the directory                           both segments: the new one is written from here on
 *   4 open the new one: its -wal and its -shm       as after 3
 *     where a full disk has no room for them: unlink  the old one continues with seqs that the new name claims. A
 *     it, fsync the directory, and end here           new one that comes back (a power cut undid the unlink) is empty
 *                                                     and begins within the old one: removed at the start
 *   5 write the old one's end into it, move its     as after 3: the end is estimated, the WAL is moved at the start
 *     WAL into it, leave WAL mode, close it
 *   6 write and fsync high-water                    it is older than the log
 *   7 first commit in the new one                   normal
 *   (while the old one has a reader, or a full disk has no room for the content of its WAL, step 5 waits; the others do not)
 *
 *   dropping a segment
 *   1 record, fsynced, that it is dropped: in       the segment is there, inside a hole or below the oldest kept seq:
 *     high-water when it is the oldest, else as a   it is dropped again. (A full disk can leave 1 out: then a crash
 *     hole in the segment being written             before the next roll makes its range look missing, not dropped)
 *   2 unlink .db                                    -wal and -shm without a .db: removed
 *   3 unlink -wal, 4 unlink -shm                    as above
 *   (a power cut can undo an unlink: the segment is there again, and is dropped again)
 *
 *   compacting a segment: compaction.ts
 *
 *   committing a frame
 *   1 COMMIT (fsync of the WAL)                     the messages are there, without a response: they are delivered;
 *                                                   their idempotency keys are derived again from the rows
 *   2 write high-water, 3 derive keys, 4 respond    the messages are there
 *   Killed within 1, the messages can be in a WAL that was never synced: the start makes them durable before anything
 *   reads them. See open-segment-log.ts.
 */
import { randomUUID } from 'node:crypto'
import { existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'

const segmentName = /^(\d{20})(?:\.([1-9]\d{0,8}))?\.db$/
const strayName = /^(\d{20}(?:\.\d+)?\.db)-(?:wal|shm|journal)$/
export const unfinishedName = 'next-segment.tmp'
export const compactedName = 'compacted-segment.tmp'
export const salvagedName = 'salvaged-segment.tmp'

/** SQLite's default, for segments of small messages, for small segments and for rewritten ones. */
export const smallPageBytes = 4096

/**
 * A message of 50 KB takes 12 pages of 4 KiB, and each page is written to the WAL and moved out of it by separate
 * calls: 81 µs of CPU, 44 µs with 16 KiB. Small messages share their pages with others, and a commit writes whole pages.
 * Bytes written per byte of the bodies, with 4 and 16 KiB, 32 messages per commit: 3.2 and 4.9 for 600 bytes, 2.5 and 2.7
 * for 4 KB, 2.1 and 2.4 for 16 KB, 2.1 and 2.1 for 50 KB.
 */
export const largePageBytes = 16_384
const minMeanForLargePages = 32 * 1024

/** A smaller segment would consist of little more than the first page of each of its tables. */
const minBytesForLargePages = 16 * 1024 * 1024

/** The page size of a new segment. `meanBytes` is the mean size of the messages in the one before; 0 if there is none. */
export function pageBytesFor(segmentMaxBytes: number, meanBytes: number): number {
  const isLarge = segmentMaxBytes >= minBytesForLargePages && meanBytes >= minMeanForLargePages
  return isLarge ? largePageBytes : smallPageBytes
}

/** A WAL of this size has no frames. */
const walHeaderBytes = 32

export interface SegmentName {
  firstSeq: number
  /** The number of compactions and salvages. The highest generation is the segment; lower ones are leftovers. */
  generation: number
}

export function segmentFile(dir: string, { firstSeq, generation }: SegmentName): string {
  const suffix = generation === 0 ? '' : `.${generation}`
  return path.join(dir, `${String(firstSeq).padStart(20, '0')}${suffix}.db`)
}

/** All segments in order, each in its newest generation. */
export function listSegments(dir: string): SegmentName[] {
  const newest = new Map<number, SegmentName>()
  for (const name of allSegmentFiles(dir)) {
    const known = newest.get(name.firstSeq)
    if (known === undefined || known.generation < name.generation) newest.set(name.firstSeq, name)
  }
  return [...newest.values()].sort((a, b) => a.firstSeq - b.firstSeq)
}

/** The files of every generation. */
export function allSegmentFiles(dir: string): SegmentName[] {
  return readdirSync(dir).flatMap((file) => {
    const name = parseSegmentName(file)
    return name === null ? [] : [name]
  })
}

/** Null when the file is not a segment. */
function parseSegmentName(file: string): SegmentName | null {
  const match = segmentName.exec(file)
  return match === null ? null : { firstSeq: Number(match[1]), generation: Number(match[2] ?? 0) }
}

/**
 * Segments whose file is missing although their WAL has frames, oldest first. A crash leaves such a WAL only when
 * another generation replaced the file, or when the segment was dropped: see the tables above.
 */
export function lostFiles(dir: string): SegmentName[] {
  const kept = new Set(allSegmentFiles(dir).map(({ firstSeq }) => firstSeq))
  return readdirSync(dir)
    .flatMap((file) => {
      const name = file.endsWith('-wal') ? parseSegmentName(file.slice(0, -'-wal'.length)) : null
      const isLost =
        name !== null && !kept.has(name.firstSeq) && fileBytes(path.join(dir, file)) > walHeaderBytes
      return isLost ? [name] : []
    })
    .sort((a, b) => a.firstSeq - b.firstSeq)
}

/** Removes files that a crash left half created or half dropped. Only the writer calls this, before it opens anything. */
export function removeLeftovers(dir: string): void {
  const kept = new Map(listSegments(dir).map(({ firstSeq, generation }) => [firstSeq, generation]))
  for (const name of allSegmentFiles(dir)) {
    if (kept.get(name.firstSeq) !== name.generation) unlinkSegment(dir, name)
  }
  for (const name of readdirSync(dir)) {
    const ofSegment = strayName.exec(name)?.[1]
    const isStray = ofSegment !== undefined && !existsSync(path.join(dir, ofSegment))
    const isUnfinished = [unfinishedName, compactedName, salvagedName].some((tmp) => name.startsWith(tmp))
    if (isStray || isUnfinished) rmSync(path.join(dir, name))
  }
}

/**
 * Renames a derived file that cannot be read. It is not deleted, because its bad sectors would be assigned to the next
 * file. The operator deletes it.
 */
export function setAsideUnreadable(file: string): void {
  renameSync(file, `${file}.set-aside-${randomUUID()}`)
}

/** Removes the .db first: without it, the other files are recognized as leftovers. */
export function unlinkSegment(dir: string, name: SegmentName): void {
  const file = segmentFile(dir, name)
  for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true })
}

/** Disk space of a segment including its WAL; 0 when it is gone. */
export function segmentBytes(dir: string, name: SegmentName): number {
  const file = segmentFile(dir, name)
  return fileBytes(file) + fileBytes(`${file}-wal`)
}

export function fileBytes(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0
}
