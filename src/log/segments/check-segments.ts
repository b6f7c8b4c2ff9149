/**
 * Verifies all segments of a buffer, several in parallel in threads of their own. A running daemon can drop or compact
 * segments meanwhile: then the list is read again and new segments are checked too.
 */
import { availableParallelism } from 'node:os'
import { Thread, threadEntry } from '../../platform/threads.ts'
import { inspectSegment, type SegmentCheck } from './check-segment.ts'
import type { CheckCalls, CheckProgressCalls } from './check-thread.ts'
import { listSegments, type SegmentName, segmentBytes } from './layout.ts'
import { isGone } from './sqlite-errors.ts'

/** More threads only cause disk seeks. */
const maxThreads = 4

export interface CheckProgress {
  doneBytes: number
  totalBytes: number
}

/** In the order of their names. */
export async function checkSegments(
  dir: string,
  onProgress: (progress: CheckProgress) => void,
): Promise<SegmentCheck[]> {
  const checked = new Map<string, SegmentCheck>()
  const progress = { doneBytes: 0, totalBytes: 0 }
  for (;;) {
    const names = listSegments(dir)
    const missing = names.filter((name) => !checked.has(keyOf(name)))
    progress.totalBytes += missing.reduce((sum, name) => sum + segmentBytes(dir, name), 0)
    const found = await checkAll(dir, missing, (bytes) => {
      progress.doneBytes += bytes
      onProgress(progress)
    })
    for (const check of found) checked.set(keyOf(check.name), check)
    // There is nothing new, or the new segment is gone again: report on the current list.
    if (found.length === missing.length) return names.flatMap((name) => checked.get(keyOf(name)) ?? [])
  }
}

/** Checks only whether each segment can be opened, and what it says about itself. Takes milliseconds for a whole buffer. */
export function inspectSegments(dir: string): SegmentCheck[] {
  return listSegments(dir).flatMap((name) => {
    try {
      return [inspectSegment(dir, name)]
    } catch (error) {
      if (!isGone(error)) throw error
      return []
    }
  })
}

const keyOf = ({ firstSeq, generation }: SegmentName) => `${firstSeq}.${generation}`

/** Checks the listed segments and skips those that are gone. */
async function checkAll(
  dir: string,
  names: readonly SegmentName[],
  onBytes: (bytes: number) => void,
): Promise<SegmentCheck[]> {
  const waiting = [...names]
  const found: SegmentCheck[] = []
  const threads = Math.min(maxThreads, availableParallelism(), names.length)
  await Promise.all(
    Array.from({ length: threads }, () =>
      runThread(dir, () => waiting.shift() ?? null, { onBytes, onChecked: (check) => found.push(check) }),
    ),
  )
  return found
}

interface Found {
  onBytes(bytes: number): void
  onChecked(check: SegmentCheck): void
}

/** Runs one thread until no segment is left. */
async function runThread(dir: string, next: () => SegmentName | null, to: Found): Promise<void> {
  let reported = 0
  const thread = new Thread<CheckCalls, CheckProgressCalls>({
    name: 'segment-check',
    entry: threadEntry(import.meta.url, './check-thread'),
    data: dir,
    host: {
      progress(bytes) {
        reported += bytes
        to.onBytes(bytes)
      },
    },
    // The caller receives the error that ended the thread.
    interrupted: (reason, cause) => cause ?? new Error(reason),
  })
  try {
    for (let name = next(); name !== null; name = next()) {
      reported = 0
      const check = await thread.call('check', [name])
      // Bodies are only a part of the pages; the difference is reported at the end.
      to.onBytes(Math.max(0, (check?.bytes ?? 0) - reported))
      if (check !== null) to.onChecked(check)
    }
  } finally {
    await thread.terminate('every segment is checked')
  }
}
