/**
 * Determines which seqs are neither present nor dropped by retention. A segment is named after the last seq of the one
 * before it, so a missing segment shows as a gap in the names. Ranges that retention dropped are recorded as holes.
 */
import type { SegmentIdentity, SeqRange } from './segment-file.ts'

interface KnownSegment {
  firstSeq: number
  lastSeq: number
  /** Null when it cannot be read. */
  identity: SegmentIdentity | null
}

/** Everything before `oldestKeptSeq` was dropped. */
export function missingRanges(
  segments: readonly KnownSegment[],
  holes: readonly SeqRange[],
  oldestKeptSeq: number,
): SeqRange[] {
  const oldest = segments[0]?.firstSeq ?? 0
  const missing = without({ firstSeq: oldestKeptSeq, lastSeq: oldest - 1 }, holes)
  for (const [index, { firstSeq, identity }] of segments.entries()) {
    const older = segments[index - 1]
    if (older === undefined || identity === null || identity.previousSegmentId === null) continue
    missing.push(...without({ firstSeq: older.lastSeq + 1, lastSeq: firstSeq - 1 }, holes))
  }
  return missing
}

/** Returns the parts of the range outside every gap. Empty for an inverted range. */
export function without(range: SeqRange, holes: readonly SeqRange[]): SeqRange[] {
  const rest: SeqRange[] = []
  let from = range.firstSeq
  for (const hole of [...holes].sort((a, b) => a.firstSeq - b.firstSeq)) {
    if (hole.lastSeq < from || hole.firstSeq > range.lastSeq) continue
    if (hole.firstSeq > from) rest.push({ firstSeq: from, lastSeq: hole.firstSeq - 1 })
    from = hole.lastSeq + 1
  }
  if (from <= range.lastSeq) rest.push({ firstSeq: from, lastSeq: range.lastSeq })
  return rest
}
