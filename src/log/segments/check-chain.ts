/**
 * Checks that the list of segments is complete: each segment follows the one before it, unless retention dropped what
 * was between them (a `hole`), and each is the segment that its name says.
 */
import type { SegmentCheck } from './check-segment.ts'
import { without } from './missing-segments.ts'
import type { SeqRange } from './segment-file.ts'

/**
 * Adds problems to the checks and returns the ranges that are neither present nor dropped. `checks` must be in the order
 * of their names. `dataDirId` is null when it is not known.
 */
export function checkChain(checks: readonly SegmentCheck[], dataDirId: string | null): SeqRange[] {
  const missing: SeqRange[] = []
  const own = checks.filter((check) => !addIdentityProblem(check, dataDirId))
  const holes = own.flatMap((check) => check.holes)
  for (const [index, check] of own.entries()) {
    const before = own[index - 1]
    if (before?.identity == null) continue
    const gap = { firstSeq: endOf(before) + 1, lastSeq: check.name.firstSeq - 1 }
    if (gap.lastSeq >= gap.firstSeq) {
      missing.push(...without(gap, holes))
    } else if (!follows(check, before)) {
      check.problems.push('is not the segment that was written after the previous one')
    }
  }
  return missing
}

/** Returns true when the file is another segment than its name says, or belongs to another log. */
function addIdentityProblem(check: SegmentCheck, dataDirId: string | null): boolean {
  const { identity, name } = check
  if (identity === null) return false
  if (identity.firstSeq !== null && identity.firstSeq !== name.firstSeq) {
    check.problems.push(`is the segment of stream_seq ${identity.firstSeq}, under the name of another`)
  } else if (identity.dataDirId !== null && dataDirId !== null && identity.dataDirId !== dataDirId) {
    check.problems.push(`belongs to another data directory (${identity.dataDirId})`)
  } else {
    return false
  }
  check.isForeign = true
  return true
}

/** The newest seq that the segment has ever held; one less than its first seq when it never held any. */
export function endOf({ lastSeq, name }: SegmentCheck): number {
  return Math.max(lastSeq ?? 0, name.firstSeq - 1)
}

function follows({ identity }: SegmentCheck, { identity: before, name }: SegmentCheck): boolean {
  const previous = identity?.previousSegmentId ?? null
  // A salvaged segment can have lost its id and received a new one.
  return (
    previous === null || name.generation > 0 || before?.segmentId == null || previous === before.segmentId
  )
}
