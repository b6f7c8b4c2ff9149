/** One pass of the scrub, in a thread of its own. It reports damage to the writer through the feed. */

import { existsSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import type Database from 'better-sqlite3'
import { openLog } from '../../platform/log.ts'
import { ThreadHost } from '../../platform/thread-calls.ts'
import {
  checkedRows,
  hasPipeIndex,
  listSegments,
  type SegmentName,
  segmentBytes,
  segmentFile,
} from './layout.ts'
import type { ScrubberData } from './protocol.ts'
import { FeedChannel } from './reader.ts'
import { openReadOnly, requireKnownFormat } from './segment-file.ts'
import { isGone, isUnusable } from './sqlite-errors.ts'

export interface ScrubCalls {
  scrub(): void
}

const host = new ThreadHost<ScrubberData, ScrubCalls>()

host.serve({
  async scrub() {
    const { spec, log: settings } = host.data
    const log = openLog(settings, 'buffer-scrub')
    const feed = new FeedChannel(spec.channel)
    const result = await scrub(
      spec.dir,
      ({ firstSeq, generation }, error) =>
        feed.post({ kind: 'segment_damaged', firstSeq, generation, error: String(error) }),
      pause,
    )
    feed.close()
    log.info(result, 'buffer.scrubbed')
  },
})

/** Far below what a disk can read, so that lanes and commits are not affected. */
const bytesPerSecond = 20_000_000
const sliceBytes = 1_000_000

export interface ScrubResult {
  segments: number
  bytes: number
  damaged: number
}

/** Runs one pass. `pause` waits for a number of milliseconds. */
export async function scrub(
  dir: string,
  onDamaged: (name: SegmentName, error: unknown) => void,
  pause: (ms: number) => Promise<unknown>,
): Promise<ScrubResult> {
  const result = { segments: 0, bytes: 0, damaged: 0 }
  for (const name of listSegments(dir).slice(0, -1)) {
    const file = segmentFile(dir, name)
    if (existsSync(`${file}-wal`) || existsSync(`${file}-shm`)) continue
    try {
      const bytes = segmentBytes(dir, name)
      await scrubSegment(dir, name, pause)
      result.segments += 1
      result.bytes += bytes
    } catch (error) {
      // The segment was dropped or compacted meanwhile.
      if (isGone(error)) continue
      if (!isUnusable(error) && !(error instanceof DamagedRowError)) throw error
      result.damaged += 1
      onDamaged(name, error)
    }
  }
  return result
}

/** A row whose checksum does not match, or that is missing in an index of the segment. */
class DamagedRowError extends Error {}

async function scrubSegment(
  dir: string,
  name: SegmentName,
  pause: (ms: number) => Promise<unknown>,
): Promise<void> {
  const db = openReadOnly(dir, name)
  try {
    requireKnownFormat(db)
    checkIndex(db)
    for (let slice = { afterSeq: 0, bytes: 0 }; ; ) {
      slice = checkRows(db, slice.afterSeq)
      if (slice.bytes < sliceBytes) return
      await pause((slice.bytes / bytesPerSecond) * 1000)
    }
  } finally {
    db.close()
  }
}

/** Readers use the index, if there is one, and would skip a row that the index lacks. */
function checkIndex(db: Database.Database): void {
  if (!hasPipeIndex(db)) return
  const count = (source: string) =>
    db.prepare(`SELECT count(*), total(seq), total(pipe) FROM message ${source}`).raw().get() as number[]
  const [inTable, inIndex] = [count('NOT INDEXED'), count('INDEXED BY message_by_pipe')]
  if (inTable.some((value, index) => value !== inIndex[index])) {
    throw new DamagedRowError(`${db.name}: the rows of its index are not those of its table`)
  }
}

function checkRows(db: Database.Database, afterSeq: number): { afterSeq: number; bytes: number } {
  const slice = { afterSeq, bytes: 0 }
  for (const { seq, crc, foundCrc, body } of checkedRows(db, afterSeq)) {
    slice.afterSeq = seq
    slice.bytes += body.length + 120
    if (foundCrc !== crc) throw new DamagedRowError(`${db.name}: message ${seq} is not what was written`)
    if (slice.bytes >= sliceBytes) break
  }
  return slice
}
