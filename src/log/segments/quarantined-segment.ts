/**
 * Where the files of a damaged segment are kept for whoever wants to look at them: `segments` in the quarantine
 * directory. They get a second name there, which costs no space and works on a full disk; the caller takes the first one
 * away. They are deleted by nobody but the operator.
 */
import { copyFileSync, existsSync, linkSync, mkdirSync, statSync } from 'node:fs'
import path from 'node:path'
import { errorCode } from '../../platform/error-code.ts'
import { fsyncDirectory, fsyncFile } from '../../platform/fsync.ts'
import { fileBytes, type SegmentName, segmentFile } from './layout.ts'

/** Where hard links cannot be made: another file system, or one that has none. */
const linklessCodes = new Set(['EXDEV', 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'EMLINK'])

export function quarantineSegment(dir: string, name: SegmentName, quarantineDir: string): void {
  const file = segmentFile(dir, name)
  const base = path.basename(file)
  const target = path.join(quarantineDir, 'segments')
  if (mkdirSync(target, { recursive: true, mode: 0o700 }) !== undefined) {
    fsyncDirectory(path.dirname(quarantineDir))
    fsyncDirectory(quarantineDir)
  }
  // Its WAL can be all that is left of it.
  if (existsSync(file)) keep(file, path.join(target, base))
  if (fileBytes(`${file}-wal`) > 0) keep(`${file}-wal`, path.join(target, `${base}-wal`))
  fsyncDirectory(target)
}

/** Under another name when that one is taken by another file; not again when it is there already. */
function keep(file: string, wanted: string): void {
  const { ino } = statSync(file)
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? wanted : `${wanted}-${number}`
    const there = statSync(name, { throwIfNoEntry: false })
    if (there?.ino === ino) return
    if (there !== undefined) continue
    linkOrCopy(file, name)
    return
  }
}

function linkOrCopy(file: string, name: string): void {
  try {
    linkSync(file, name)
  } catch (error) {
    if (!linklessCodes.has(errorCode(error) ?? '')) throw error
    copyFileSync(file, name)
    fsyncFile(name)
  }
}
