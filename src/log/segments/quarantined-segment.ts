/**
 * Keeps the files of a damaged segment for inspection, in `segments` in the quarantine directory. They get a hard link
 * there, which takes no space and works on a full disk; the caller removes the original name. Only the operator deletes
 * them.
 */
import { copyFileSync, existsSync, linkSync, mkdirSync, statSync } from 'node:fs'
import path from 'node:path'
import { errorCode } from '../../platform/error-code.ts'
import { fsyncDirectory, fsyncFile } from '../../platform/fsync.ts'
import { fileBytes, type SegmentName, segmentFile } from './layout.ts'

/** Error codes of file systems where the hard link cannot be created. */
const linklessCodes = new Set(['EXDEV', 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'EMLINK'])

export function quarantineSegment(dir: string, name: SegmentName, quarantineDir: string): void {
  const file = segmentFile(dir, name)
  const base = path.basename(file)
  const target = path.join(quarantineDir, 'segments')
  if (mkdirSync(target, { recursive: true, mode: 0o700 }) !== undefined) {
    fsyncDirectory(path.dirname(quarantineDir))
    fsyncDirectory(quarantineDir)
  }
  // The WAL can be the only file that is left.
  if (existsSync(file)) keep(file, path.join(target, base))
  if (fileBytes(`${file}-wal`) > 0) keep(`${file}-wal`, path.join(target, `${base}-wal`))
  fsyncDirectory(target)
}

/** Uses another name when the name is taken by a different file. Does nothing when the file is already there. */
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
