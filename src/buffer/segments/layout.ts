/**
 * The buffer's directory: which files there are, how they are named, and what a crash can leave.
 *
 *   00000000000000000001.db      a segment: every seq in it is at least its name and less than the next segment's
 *   …-wal, …-shm                 SQLite's own files beside it
 *   next-segment.tmp             a segment being made; it gets its name when it is complete and fsynced
 *   high-water                   newest committed seq and the buffer's clock
 *   idempotency.db               derived look-up of idempotency keys
 *   ballast                      disk space to give up when the disk is full
 *
 * A new segment is named (last seq of the one before) + 1, so a reader finds it by asking for that very file.
 *
 * What a crash leaves, step by step, and what the next start does:
 *
 *   rolling to a new segment                        found after a crash right after it
 *   1 write next-segment.tmp, fsync it              a .tmp file: removed; the old segment goes on
 *   2 rename it to its name                         both segments; the new one is empty (or, after a power cut, the
 *                                                   rename is undone: as after 1). No message can be in it yet
 *   3 fsync the directory                           both segments: the new one is written from here on
 *   4 checkpoint the old segment, close it          old one with a WAL: it is checkpointed at the start
 *   5 first commit in the new one                   normal
 *
 *   dropping a segment
 *   1 unlink .db                                    -wal and -shm without a .db: removed
 *   2 unlink -wal, 3 unlink -shm                    as above
 *   (a power cut can undo an unlink: the segment is there again, and is dropped again)
 *
 *   committing a frame
 *   1 COMMIT (fsync of the WAL)                     the messages are there, without an answer: they are delivered;
 *                                                   their idempotency keys are derived anew from the rows
 *   2 write high-water, 3 derive keys, 4 answer     the messages are there
 */
import { closeSync, existsSync, fsyncSync, openSync, readdirSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'

const segmentName = /^(\d{20})\.db$/
const strayName = /^(\d{20}\.db)-(?:wal|shm|journal)$/
export const unfinishedName = 'next-segment.tmp'

export function segmentFile(dir: string, firstSeq: number): string {
  return path.join(dir, `${String(firstSeq).padStart(20, '0')}.db`)
}

/** First seqs of all segments, ascending. */
export function listSegments(dir: string): number[] {
  const firstSeqs: number[] = []
  for (const name of readdirSync(dir)) {
    const match = segmentName.exec(name)
    if (match !== null) firstSeqs.push(Number(match[1]))
  }
  return firstSeqs.sort((a, b) => a - b)
}

/** Removes what a crash left half made or half dropped. Only for the writer, before it opens anything. */
export function removeLeftovers(dir: string): void {
  for (const name of readdirSync(dir)) {
    const ofSegment = strayName.exec(name)?.[1]
    const isStray = ofSegment !== undefined && !existsSync(path.join(dir, ofSegment))
    if (isStray || name.startsWith(unfinishedName)) rmSync(path.join(dir, name))
  }
}

/** The .db goes first: without it the rest is known to be a leftover. */
export function unlinkSegment(dir: string, firstSeq: number): void {
  const file = segmentFile(dir, firstSeq)
  for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true })
}

/** Bytes of a segment on disk, its WAL included; 0 when it is gone. */
export function segmentBytes(dir: string, firstSeq: number): number {
  const file = segmentFile(dir, firstSeq)
  return fileBytes(file) + fileBytes(`${file}-wal`)
}

export function fileBytes(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0
}

/** Makes renames and new files in the directory survive a power cut. */
export function fsyncDirectory(dir: string): void {
  const fd = openSync(dir, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
