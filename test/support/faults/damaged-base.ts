/** Damages the oldest segment of a closed buffer, and knows what must be left of it: for scenarios that salvage it. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { listSegments, type SegmentName, segmentFile } from '../../../src/log/segments/layout.ts'
import type { Acknowledged, Verdict } from './store-check.ts'

const pageBytes = 4096

export interface DamagedBase {
  /** All messages but those on the page that is gone. */
  kept: Acknowledged[]
  /** Whether the damaged file is in quarantine as it was, and nowhere else. */
  check(root: string): Verdict
}

/** Its first page is zeroed, by which it is found damaged at the start, and a page with a few messages. */
export function damageOldestSegment(root: string, acknowledged: readonly Acknowledged[]): DamagedBase {
  const dir = path.join(root, 'buffer')
  const [{ firstSeq }, next] = listSegments(dir) as [SegmentName, SegmentName]
  const file = segmentFile(dir, { firstSeq, generation: 0 })
  const bytes = readFileSync(file)
  const oldest = bytes.indexOf(acknowledged[0]!.msgId)
  const hurt = oldest - (oldest % pageBytes)
  const page = Buffer.from(bytes.subarray(hurt, hurt + pageBytes))
  const kept = acknowledged.filter(({ msgId }) => !page.includes(msgId))
  if (!kept.some(({ seq }) => seq < next.firstSeq)) throw new Error(`nothing of ${file} is left`)
  if (oldest < pageBytes || existsSync(`${file}-wal`)) throw new Error(`${file} is not sealed`)
  for (const start of [0, hurt]) bytes.fill(0, start, start + pageBytes)
  writeFileSync(file, bytes)
  const name = path.basename(file)
  return {
    kept,
    check(ofRun) {
      if (existsSync(path.join(ofRun, 'buffer', name))) return 'the damaged segment is still in the buffer'
      const salvaged = segmentFile(path.join(ofRun, 'buffer'), { firstSeq, generation: 1 })
      if (!existsSync(salvaged)) return 'the salvaged segment is not in the buffer'
      const quarantined = path.join(ofRun, 'quarantine', 'segments', name)
      if (!existsSync(quarantined)) return 'the damaged segment is not in quarantine'
      return readFileSync(quarantined).equals(bytes) ? null : 'the damaged segment in quarantine was changed'
    },
  }
}
