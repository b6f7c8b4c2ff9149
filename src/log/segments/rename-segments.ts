/**
 * Gives segment files the names that they should have, before the start reads or removes anything by name: which, says
 * misplaced-segments.ts. Two files that were exchanged have to pass each other, so each goes by way of a name that says
 * where it is going: `<name>.renaming`.
 *
 *   step                                             found after a crash right after it
 *   1 link what is in the way and no segment into    the names in the quarantine stay and are used again
 *     the quarantine, unlink it
 *   2 rename each to <its name>.renaming, its -wal   some on the way, the others where they were: all say which they
 *     before it, those that give way first           are, and a file that does not is on the way already. The same plan
 *   3 fsync the directory                            as above. Only now may a name be used that another one had: before,
 *                                                    a power cut could undo its leaving
 *   4 rename each to its name, its -wal before it    what is still on the way goes on; a -wal waits for its file
 *   5 fsync the directory                            all are in their places (a power cut: as after 3)
 *
 * Identities are read from the file itself, without SQLite: that would take a -wal that lies under the same name, and
 * may be another segment's. Only one of those that may own it is in WAL mode (a sealed one is not: see sealing.ts);
 * where both are, or none, nothing is renamed.
 */
import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fsyncDirectory } from '../../platform/fsync.ts'
import type { Logger } from '../../platform/log.ts'
import type { BufferIdentity } from '../buffer.ts'
import { findHead } from './found-rows.ts'
import {
  allSegmentFiles,
  fileBytes,
  parseSegmentName,
  type SegmentName,
  segmentFile,
  unlinkSegment,
} from './layout.ts'
import { type NamedSegment, type OwnRange, planRenamings, type Renaming } from './misplaced-segments.ts'
import { PageFile } from './page-file.ts'
import { pageBytesOf } from './page-size.ts'
import { quarantineFile, quarantineSegment } from './quarantined-segment.ts'
import { closeReadable, openReadable, readAt } from './readable-file.ts'
import { noOverlay } from './wal-overlay.ts'

/** The schema, and the first table: what a segment says of itself. It is written before there is a WAL. */
const headPages = 2
const onItsWay = '.renaming'
const walModeVersion = 2

interface Place {
  dir: string
  quarantineDir: string
  identity?: BufferIdentity
}

/** Only for the writer, before it opens anything. */
export function renameSegments({ dir, quarantineDir, identity }: Place, log: Logger): void {
  const found = allSegmentFiles(dir).map(
    (name): NamedSegment => ({ name, own: ownRange(dir, name, identity ?? null) }),
  )
  // A file that was under way to its WAL, or whose WAL has gone before it, must be given the same name again.
  const lonelyWals = [
    ...namesIn(dir, '-wal').filter((name) => !existsSync(segmentFile(dir, name))),
    ...namesIn(dir, `${onItsWay}-wal`).filter((name) => !existsSync(parked(dir, name))),
  ]
  const onTheWay = namesIn(dir, onItsWay)
  const { renamings, strays } = planRenamings(found, onTheWay, lonelyWals)
  if (renamings.length + strays.length + onTheWay.length === 0) return
  const moves = ownWals(dir, renamings)
  if (moves === null) {
    log.error(
      { segments: renamings.map(({ from }) => path.basename(segmentFile(dir, from))) },
      'buffer.segments_not_renamed',
    )
    return
  }
  for (const name of strays) setAside({ dir, quarantineDir }, name, log)
  for (const { from, to, hasWal } of moves) {
    const file = segmentFile(dir, from)
    log.warn(
      { first_seq: to.firstSeq, from: path.basename(file), to: path.basename(segmentFile(dir, to)) },
      'buffer.segment_renamed',
    )
    rmSync(`${file}-shm`, { force: true })
    if (hasWal) renameSync(`${file}-wal`, `${parked(dir, to)}-wal`)
    renameSync(file, parked(dir, to))
  }
  fsyncDirectory(dir)
  for (const name of namesIn(dir, onItsWay)) arrive({ dir, quarantineDir }, name)
  fsyncDirectory(dir)
}

/** After a crash between the two names of the file it is done again. */
export function setAside({ dir, quarantineDir }: Place, name: SegmentName, log: Logger): void {
  quarantineSegment(dir, name, quarantineDir)
  unlinkSegment(dir, name)
  fsyncDirectory(dir)
  const fields = { first_seq: name.firstSeq, quarantine: quarantineDir, reason: 'stray' }
  log.error(fields, 'buffer.segment_set_aside')
}

/** Null: it is not known, or of another owner. Of format 1, which does not say, it is what its name says. */
function ownRange(dir: string, name: SegmentName, owner: BufferIdentity | null): OwnRange | null {
  const file = openReadable(segmentFile(dir, name))
  try {
    const pageBytes = pageBytesOf(file, null)
    const head = { ...file, bytes: Math.min(file.bytes, headPages * pageBytes) }
    const pages = new PageFile(head, pageBytes, null, noOverlay)
    const search = findHead(pages)
    let step = search.next()
    while (step.done !== true) step = search.next()
    const { format, identity, lastSeq } = step.value
    if (format === 1) return { firstSeq: name.firstSeq, lastSeq }
    const dataDirId = identity?.dataDirId ?? null
    const isOwn = owner === null || dataDirId === null || dataDirId === owner.dataDirId
    return identity === null || !isOwn ? null : { firstSeq: identity.firstSeq, lastSeq }
  } finally {
    closeReadable(file)
  }
}

interface Move extends Renaming {
  /** The WAL beside it is its own, and goes with it. */
  hasWal: boolean
}

/** Null: a WAL can be of two. */
function ownWals(dir: string, renamings: readonly Renaming[]): Move[] | null {
  const files = new Set(renamings.flatMap(({ from, to }) => [segmentFile(dir, from), segmentFile(dir, to)]))
  const moving = new Set<string>()
  for (const file of files) {
    if (fileBytes(`${file}-wal`) === 0) {
      rmSync(`${file}-wal`, { force: true })
      continue
    }
    const leaving = existsSync(file)
    const coming = renamings.find(({ to }) => segmentFile(dir, to) === file)
    const comingFile = coming === undefined ? file + onItsWay : segmentFile(dir, coming.from)
    const isOfLeaving = leaving && isInWalMode(file)
    const isOfComing = existsSync(comingFile) && isInWalMode(comingFile)
    if (isOfLeaving === isOfComing && leaving) return null
    if (isOfLeaving) moving.add(file)
    // Of a segment that was dropped.
    else if (!isOfComing) rmSync(`${file}-wal`)
  }
  return renamings.map((one) => ({ ...one, hasWal: moving.has(segmentFile(dir, one.from)) }))
}

function isInWalMode(file: string): boolean {
  const readable = openReadable(file)
  try {
    return readAt(readable, 0, 20)?.[18] === walModeVersion
  } finally {
    closeReadable(readable)
  }
}

function parked(dir: string, name: SegmentName): string {
  return `${segmentFile(dir, name)}${onItsWay}`
}

/** Of the files with this ending after the name of a segment. */
function namesIn(dir: string, ending: string): SegmentName[] {
  return readdirSync(dir).flatMap((file) => {
    const name = file.endsWith(ending) ? parseSegmentName(file.slice(0, -ending.length)) : null
    return name === null ? [] : [name]
  })
}

function arrive({ dir, quarantineDir }: Place, name: SegmentName): void {
  const [from, to] = [parked(dir, name), segmentFile(dir, name)]
  if (existsSync(to)) {
    // Somebody put another one there meanwhile.
    quarantineFile(from, path.basename(to), quarantineDir)
    for (const suffix of ['', '-wal']) rmSync(from + suffix, { force: true })
    return
  }
  rmSync(`${to}-shm`, { force: true })
  if (existsSync(`${from}-wal`)) renameSync(`${from}-wal`, `${to}-wal`)
  renameSync(from, to)
}
