/**
 * Whether the segments that are there are all that should be: each follows the one before it, unless retention has
 * dropped what was between them (`hole`), and each is what its name says.
 */
import type { SegmentCheck } from './check-segment.ts'
import { planRenamings } from './misplaced-segments.ts'
import { without } from './missing-segments.ts'
import type { SeqRange } from './segment-file.ts'

/**
 * The segments as the next start names them, in that order: of those that it gives another name a copy with that name,
 * and with the same problems.
 */
export function inTheirPlaces(checks: readonly SegmentCheck[], dataDirId: string | null): SegmentCheck[] {
  const { renamings } = planRenamings(
    checks.map((check) => ({ name: check.name, own: ownRange(check, dataDirId) })),
  )
  return checks
    .map((check) => {
      check.rename = renamings.find(({ from }) => from.firstSeq === check.name.firstSeq)?.to ?? null
      return check.rename === null ? check : { ...check, name: check.rename }
    })
    .sort((a, b) => a.name.firstSeq - b.name.firstSeq)
}

function ownRange({ identity, name, lastSeq }: SegmentCheck, dataDirId: string | null) {
  if (identity === null) return null
  const isOwn = dataDirId === null || identity.dataDirId === null || identity.dataDirId === dataDirId
  return isOwn ? { firstSeq: identity.firstSeq ?? name.firstSeq, lastSeq } : null
}

/**
 * Adds to the problems of single segments, and returns what is missing between them: neither there nor dropped.
 * `checks` in their places, see above. `dataDirId` null: not known.
 */
export function checkChain(checks: readonly SegmentCheck[], dataDirId: string | null): SeqRange[] {
  const missing: SeqRange[] = []
  const own = checks.filter((check) => !addIdentityProblem(check, dataDirId))
  // Holes are written down since format 2: before that a gap says nothing.
  const knowsHoles = own.findLast((check) => check.identity !== null)?.identity?.format === 2
  const holes = own.flatMap((check) => check.holes)
  for (const [index, check] of own.entries()) {
    const before = own[index - 1]
    if (before?.identity == null) continue
    const gap = { firstSeq: endOf(before) + 1, lastSeq: check.name.firstSeq - 1 }
    if (gap.lastSeq >= gap.firstSeq) {
      if (knowsHoles) missing.push(...without(gap, holes))
    } else if (!follows(check, before)) {
      check.problems.push('is not the one that was written after the segment before it')
    }
  }
  return missing
}

/** True when it is another one than its name says: none of this log. */
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
