/**
 * Checks all segments of a buffer, several at a time in threads of their own. Beside a running daemon a segment may be
 * dropped or compacted meanwhile: then the list is read again, and what is new in it is checked.
 */
import { availableParallelism } from 'node:os'
import { Thread, threadEntry } from '../../platform/threads.ts'
import { glanceAtSegment, type SegmentCheck } from './check-segment.ts'
import type { CheckCalls, CheckProgressCalls } from './check-thread.ts'
import { listSegments, type SegmentName, segmentBytes } from './layout.ts'
import { isGone } from './sqlite-errors.ts'

/** More only make the disk seek. */
const mostThreads = 4

export interface CheckProgress {
  doneBytes: number
  totalBytes: number
}

/** In order of their names. */
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
    // Nothing new, or what is new went away again: the list of now is what counts.
    if (found.length === missing.length) return names.flatMap((name) => checked.get(keyOf(name)) ?? [])
  }
}

/** Only whether each can be opened, and what it says about itself: milliseconds, for a whole buffer. */
export function glanceAtSegments(dir: string): SegmentCheck[] {
  return listSegments(dir).flatMap((name) => {
    try {
      return [glanceAtSegment(dir, name)]
    } catch (error) {
      if (!isGone(error)) throw error
      return []
    }
  })
}

const keyOf = ({ firstSeq, generation }: SegmentName) => `${firstSeq}.${generation}`

/** Checks the given segments, except those that are gone. */
async function checkAll(
  dir: string,
  names: readonly SegmentName[],
  onBytes: (bytes: number) => void,
): Promise<SegmentCheck[]> {
  const waiting = [...names]
  const found: SegmentCheck[] = []
  const threads = Math.min(mostThreads, availableParallelism(), names.length)
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

/** One thread until there is no next one. */
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
    // The caller gets the error that ended it.
    interrupted: (reason, cause) => cause ?? new Error(reason),
  })
  try {
    for (let name = next(); name !== null; name = next()) {
      reported = 0
      const check = await thread.call('check', [name])
      // Pages hold more than bodies.
      to.onBytes(Math.max(0, (check?.bytes ?? 0) - reported))
      if (check !== null) to.onChecked(check)
    }
  } finally {
    await thread.terminate('every segment is checked')
  }
}
