/**
 * Whether the segments that are there are all that should be: each follows the one before it, unless retention has
 * dropped what was between them (`hole`), and each is what its name says.
 */
import type { SegmentCheck } from './check-segment.ts'
import { without } from './missing-segments.ts'
import type { SeqRange } from './segment-file.ts'

/**
 * Adds to the problems of single segments, and returns what is missing between them: neither there nor dropped.
 * `checks` in the order of their names. `dataDirId` null: not known.
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

/** True when it is another segment than its name says, or of another log. */
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

/** The newest seq that the segment has had; before its first one when it never had any. */
export function endOf({ lastSeq, name }: SegmentCheck): number {
  return Math.max(lastSeq ?? 0, name.firstSeq - 1)
}

function follows({ identity }: SegmentCheck, { identity: before, name }: SegmentCheck): boolean {
  const previous = identity?.previousSegmentId ?? null
  // One that was salvaged may have lost its id, and got another.
  return (
    previous === null || name.generation > 0 || before?.segmentId == null || previous === before.segmentId
  )
}
