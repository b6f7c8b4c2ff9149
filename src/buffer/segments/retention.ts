/**
 * Retention: which segments go. A pure decision over facts; whole segments only, oldest first.
 *
 *   too old      every message is older than `undeliveredHours`: dropped whatever the lanes. Only from the oldest
 *                end, so a clock that was wrong for a while cannot punch holes.
 *   delivered    every lane of every pipe in it is past it, and it is older than `deliveredHours`, or the delivered
 *                history is over `deliveredMaxBytes`, or space is needed.
 *
 * Before delivery's first report nothing is known about lanes, and nothing is dropped.
 */
import type { DeliveredFloor } from '../buffer.ts'
import type { SegmentFacts } from './segment-facts.ts'

const hourMs = 3_600_000

export interface RetentionLimits {
  undeliveredHours: number
  deliveredHours: number
  deliveredMaxBytes: number
}

/** What delivery reported last: see BufferFeed.reportFloors. */
export interface FloorReport {
  asOfSeq: number
  floors: ReadonlyMap<string, number>
}

export type DropReason = 'age' | 'delivered_age' | 'delivered_size' | 'space'

export interface Drop {
  firstSeq: number
  reason: DropReason
}

export function floorReport(asOfSeq: number, floors: readonly DeliveredFloor[]): FloorReport {
  return { asOfSeq, floors: new Map(floors.map(({ pipeId, seq }) => [pipeId, seq])) }
}

/**
 * `segments` in order, empty ones left out. `neededBytes` is how much space must come back; delivered history is
 * given up for it, never anything else.
 */
export function planDrops(
  segments: readonly SegmentFacts[],
  report: FloorReport | null,
  limits: RetentionLimits,
  clockMs: number,
  neededBytes: number,
): Drop[] {
  if (report === null) return []
  const drops: Drop[] = []
  let freedBytes = 0
  const drop = (segment: SegmentFacts, reason: DropReason) => {
    drops.push({ firstSeq: segment.firstSeq, reason })
    freedBytes += segment.bytes
  }
  const isOlder = (segment: SegmentFacts, hours: number) => clockMs - segment.lastClockMs > hours * hourMs
  let tooOld = 0
  for (const segment of segments) {
    if (!isOlder(segment, limits.undeliveredHours)) break
    drop(segment, isDelivered(segment, report) ? 'delivered_age' : 'age')
    tooOld += 1
  }
  const delivered = segments.slice(tooOld).filter((segment) => isDelivered(segment, report))
  let historyBytes = delivered.reduce((sum, segment) => sum + segment.bytes, 0)
  for (const segment of delivered) {
    const reason = isOlder(segment, limits.deliveredHours)
      ? 'delivered_age'
      : historyBytes > limits.deliveredMaxBytes
        ? 'delivered_size'
        : freedBytes < neededBytes
          ? 'space'
          : null
    if (reason === null) continue
    drop(segment, reason)
    historyBytes -= segment.bytes
  }
  return drops
}

function isDelivered(segment: SegmentFacts, report: FloorReport): boolean {
  for (const [pipeId, { lastSeq }] of segment.pipes) {
    const floor = report.floors.get(pipeId)
    const isDone = floor === undefined ? lastSeq <= report.asOfSeq : floor >= lastSeq
    if (!isDone) return false
  }
  return true
}

/** A pipe that was deleted, as far as the report knows. */
export function isDeletedPipe(pipeId: string, lastSeq: number, report: FloorReport | null): boolean {
  return report !== null && !report.floors.has(pipeId) && lastSeq <= report.asOfSeq
}
