/**
 * Repairs the segments of a buffer that is not in use, with the same steps as a start of the daemon. The states after a
 * crash between two steps are listed in salvage.ts and open-segment-log.ts.
 */
import type { Logger } from '../../platform/log.ts'
import { openIdempotencyKeys } from './idempotency.ts'
import type { SegmentName } from './layout.ts'
import { openSegmentLog } from './open-segment-log.ts'
import type { SegmentsSpec } from './protocol.ts'
import type { SalvageResult } from './salvage.ts'
import type { SegmentLog } from './segment-log.ts'

/** The outcome for one damaged segment. */
export interface RepairedSegment extends Pick<SalvageResult, 'outcome' | 'keptMessages' | 'lostMessages'> {
  name: SegmentName
}

export interface RepairSpec
  extends Pick<SegmentsSpec, 'dir' | 'quarantineDir' | 'identity' | 'knownSeq' | 'nextSeqAtLeast'> {
  keysFile: string
}

/**
 * `damaged` lists segments that failed verification; segments that cannot be opened are found here too. Rebuilds the
 * high-water mark and the lookup of keys when they are missing. Returns the outcome for each damaged segment.
 */
export function repairSegments(
  spec: RepairSpec,
  damaged: readonly SegmentName[],
  log: Logger,
): RepairedSegment[] {
  const segments = openSegmentLog(spec, log)
  try {
    const { salvaged, misnamed } = segments.found
    const repaired: RepairedSegment[] = [
      ...misnamed.map((name) => ({ name, outcome: 'foreign' as const, keptMessages: 0, lostMessages: 0 })),
      ...salvaged,
    ]
    // A segment that could not be opened was rewritten on opening. Repairing it again would set the good copy aside.
    const isDone = ({ firstSeq }: SegmentName) => repaired.some(({ name }) => name.firstSeq === firstSeq)
    const waiting = damaged.filter((one) => !isDone(one))
    const { currentFirstSeq, lastClockMs } = segments
    if (waiting.some(({ firstSeq }) => firstSeq === currentFirstSeq)) {
      segments.setAside(lastClockMs, () => false, { quarantineDir: spec.quarantineDir, error: null })
    }
    const found = [...waiting, ...segments.sealed.takeDamage().map(({ name }) => name)]
    // Newest first: the position of a pipe after a segment is read from the next one.
    for (const firstSeq of new Set(found.map((one) => one.firstSeq).sort((a, b) => b - a))) {
      const name = segments.sealed.nameOf(firstSeq)
      if (name !== null) repaired.push({ name, ...salvage(segments, firstSeq, spec.quarantineDir) })
    }
    const keys = openIdempotencyKeys(
      {
        dir: spec.dir,
        file: spec.keysFile,
        headSeq: segments.lastRowSeq,
        clockMs: segments.lastClockMs,
        maxBytes: 0,
      },
      log,
    )
    keys.flush(segments.headSeq, segments.lastClockMs)
    keys.close()
    return repaired
  } finally {
    segments.close(segments.lastClockMs)
  }
}

function salvage(segments: SegmentLog, firstSeq: number, quarantineDir: string) {
  const salvage = segments.startSalvage(firstSeq, quarantineDir)
  try {
    while (!salvage.step());
    return segments.sealed.finishSalvage(salvage)
  } catch (error) {
    salvage.abandon()
    throw error
  }
}
