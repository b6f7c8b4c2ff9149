/**
 * Quarantines segment files that have the name of another segment, because a person or a file system repair moved or
 * swapped them. The start does this before it reads or removes anything by name: under a higher generation such a file
 * would hide a sound segment, which would then be removed as a leftover. The messages of the file count as missing
 * until the operator restores its name: docs/damaged-disk.md.
 *
 *   step                                       found after a crash right after it
 *   1 link .db and -wal into the quarantine,   the file is still there and misnamed: repeated, existing links are reused
 *     fsync the directories
 *   2 unlink .db, -wal, -shm                   as after 1, or the file is gone. A power cut can undo an unlink: as after 1
 *   3 fsync the directory                      the file is gone
 *
 * The identity is read from the file itself, without SQLite: SQLite would also read a WAL of the same name, which can
 * belong to another segment.
 */
import path from 'node:path'
import { fsyncDirectory } from '../../platform/fsync.ts'
import type { Logger } from '../../platform/log.ts'
import type { BufferIdentity } from '../buffer.ts'
import { allSegmentFiles, type SegmentName, segmentFile, unlinkSegment } from './layout.ts'
import { PageFile } from './page-file.ts'
import { pageBytesOf } from './page-size.ts'
import { quarantineSegment } from './quarantined-segment.ts'
import { closeReadable, openReadable } from './readable-file.ts'
import { findHead } from './recover-rows.ts'
import type { SegmentIdentity } from './segment-file.ts'
import { noOverlay } from './wal-overlay.ts'

/** The schema and the first table, which holds the segment's identity. They are written before the segment has a WAL. */
const headPages = 2

interface LogDirectory {
  dir: string
  quarantineDir: string
  identity?: BufferIdentity
}

/**
 * Returns the quarantined segments. When no file belongs to this data directory, nothing is moved: the whole buffer is
 * in the wrong place, and the start rejects it. Only the writer calls this, before it opens anything.
 */
export function setMisnamedAside(log: LogDirectory, logger: Logger): SegmentName[] {
  const files = allSegmentFiles(log.dir).map((name) => ({ name, identity: readIdentity(log.dir, name) }))
  const isOwn = ({ dataDirId }: SegmentIdentity) =>
    log.identity === undefined || dataDirId === null || dataDirId === log.identity.dataDirId
  if (!files.some(({ identity }) => identity !== null && isOwn(identity))) return []
  return files.flatMap(({ name, identity }) => {
    if (identity === null || identity.firstSeq === name.firstSeq) return []
    setAside(log, name, logger, { reason: 'misnamed', own_first_seq: identity.firstSeq })
    return [name]
  })
}

/** Moves a segment's files to the quarantine and logs it with `details`. Can be repeated after a crash. */
export function setAside(
  { dir, quarantineDir }: LogDirectory,
  name: SegmentName,
  logger: Logger,
  details: { reason: 'stray' | 'misnamed'; own_first_seq?: number },
): void {
  quarantineSegment(dir, name, quarantineDir)
  unlinkSegment(dir, name)
  fsyncDirectory(dir)
  const file = path.basename(segmentFile('', name))
  logger.error(
    { first_seq: name.firstSeq, file, quarantine: quarantineDir, ...details },
    'buffer.segment_set_aside',
  )
}

/** Null when the file does not state it. */
function readIdentity(dir: string, name: SegmentName): SegmentIdentity | null {
  const file = openReadable(segmentFile(dir, name))
  try {
    const pageBytes = pageBytesOf(file, null)
    const head = { ...file, bytes: Math.min(file.bytes, headPages * pageBytes) }
    const search = findHead(new PageFile(head, pageBytes, null, noOverlay))
    let step = search.next()
    while (step.done !== true) step = search.next()
    return step.value.identity
  } finally {
    closeReadable(file)
  }
}
