/**
 * The segments as a reader sees them: the list of names, and connections opened when needed and closed when idle.
 *
 * The list grows at the newest end and shrinks anywhere, while nobody tells the reader. A segment that follows the
 * newest known one is named (its last seq + 1), so asking for that file is enough to find it. A connection to a
 * dropped segment keeps its disk space: it is closed within a second.
 */
import { existsSync } from 'node:fs'
import { listSegments, segmentFile } from './layout.ts'
import { openSegmentReader, type SegmentReader } from './segment-reader.ts'

const sweepEveryMs = 500
const idleMs = 30_000
const openAtMost = 64

export interface OpenSegments {
  /** First seqs, ascending. Valid until the next refresh. */
  names(): readonly number[]
  /** Throws SQLITE_CANTOPEN when it is gone. */
  open(firstSeq: number): SegmentReader
  /** True when there is a segment after the newest known one: the list was read anew. */
  findNewer(): boolean
  refresh(): void
  close(): void
}

/** `onChanged` is called whenever the list is another one than before. */
export function openSegments(dir: string, onChanged: () => void): OpenSegments {
  let names: readonly number[] = listSegments(dir)
  const readers = new Map<number, { reader: SegmentReader; usedMs: number }>()

  function closeReader(firstSeq: number): void {
    readers.get(firstSeq)?.reader.close()
    readers.delete(firstSeq)
  }

  function refresh(): void {
    const listed = listSegments(dir)
    if (listed.length === names.length && listed.every((name, index) => name === names[index])) return
    names = listed
    const kept = new Set(listed)
    for (const firstSeq of [...readers.keys()]) if (!kept.has(firstSeq)) closeReader(firstSeq)
    onChanged()
  }

  function open(firstSeq: number): SegmentReader {
    const nowMs = Date.now()
    const found = readers.get(firstSeq)
    if (found !== undefined) {
      found.usedMs = nowMs
      return found.reader
    }
    if (readers.size >= openAtMost) closeLongestIdle()
    const reader = openSegmentReader(dir, firstSeq)
    readers.set(firstSeq, { reader, usedMs: nowMs })
    return reader
  }

  function closeLongestIdle(): void {
    const [oldest] = [...readers].sort(([, a], [, b]) => a.usedMs - b.usedMs)
    if (oldest !== undefined) closeReader(oldest[0])
  }

  const sweep = setInterval(() => {
    refresh()
    const nowMs = Date.now()
    for (const [firstSeq, { usedMs }] of [...readers]) {
      if (Math.abs(nowMs - usedMs) > idleMs) closeReader(firstSeq)
    }
  }, sweepEveryMs)
  sweep.unref()

  return {
    names: () => names,
    open,
    findNewer() {
      const newest = names.at(-1)
      if (newest !== undefined) {
        const lastSeq = open(newest).lastSeq()
        const isOld =
          (lastSeq !== null && existsSync(segmentFile(dir, lastSeq + 1))) ||
          !existsSync(segmentFile(dir, newest))
        if (!isOld) return false
      }
      refresh()
      return names.at(-1) !== newest
    },
    refresh,
    close() {
      clearInterval(sweep)
      for (const firstSeq of [...readers.keys()]) closeReader(firstSeq)
    },
  }
}
