import { mkdirSync } from 'node:fs'
import { largePageBytes } from '../../src/log/segments/layout.ts'
import { createSegment, newIdentity } from '../../src/log/segments/segment-file.ts'

/** Makes a buffer whose first segment has large pages, which otherwise only follows a segment of large messages. */
export function beginWithLargePages(dir: string): void {
  mkdirSync(dir, { recursive: true })
  const identity = newIdentity(null, 1, null)
  createSegment(dir, { pageBytes: largePageBytes, identity, begunClockMs: 0, bases: [], holes: [] })
}
