/** Lists the segment files that never change again, so that they can be copied byte by byte. */
import { existsSync } from 'node:fs'
import { onFile } from '../../platform/storage-error.ts'
import { fileBytes, listSegments, type SegmentName, segmentFile } from './layout.ts'
import { openReadOnly } from './segment-file.ts'
import { isGone, isUnusable } from './sqlite-errors.ts'

export interface SealedFile {
  firstSeq: number
  /** The newest seq that it ever had, including messages that compaction removed. */
  lastSeq: number
  generation: number
  file: string
  bytes: number
}

/**
 * Oldest first. A segment that is rolled and still has a WAL is left out (sealing.ts), and one that cannot be read until
 * it is salvaged. `known` keeps what was read; the caller passes the same one with every call.
 */
export function sealedFiles(dir: string, known: Map<string, SealedFile>): SealedFile[] {
  // The newest segment is being written.
  const names = listSegments(dir).slice(0, -1)
  const files = new Set(names.map((name) => segmentFile(dir, name)))
  for (const file of known.keys()) if (!files.has(file)) known.delete(file)
  return names.flatMap((name) => {
    const file = segmentFile(dir, name)
    const sealed = known.get(file) ?? readSealed(dir, name)
    if (sealed !== null) known.set(file, sealed)
    return sealed ?? []
  })
}

/**
 * Null when the file is not sealed or cannot be read. The file is only opened with SQLite: closing another descriptor of
 * it would release the locks that this process holds on it.
 */
function readSealed(dir: string, name: SegmentName): SealedFile | null {
  const file = segmentFile(dir, name)
  if (existsSync(`${file}-wal`)) return null
  try {
    const db = openReadOnly(dir, name)
    try {
      return onFile('reading', file, () => {
        if (db.pragma('journal_mode', { simple: true }) === 'wal') return null
        const last = db
          .prepare('SELECT coalesce(last_seq, (SELECT max(seq) FROM message)) FROM segment')
          .pluck()
        const lastSeq = (last.get() as number | null) ?? name.firstSeq - 1
        return { ...name, lastSeq, file, bytes: fileBytes(file) }
      })
    } finally {
      db.close()
    }
  } catch (error) {
    if (isGone(error) || isUnusable(error)) return null
    throw error
  }
}
