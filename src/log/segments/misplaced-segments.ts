/**
 * Which segment files do not have the name that they should have: somebody moved or exchanged them, or the file system's
 * repair did. Every segment since format 2 says at which seq it begins. One that is elsewhere goes back to its place
 * where that is free, or held by a file that does not belong there either. What it is told from:
 *
 *   in its place   says the seq of its name, or nothing (format 1)
 *   misplaced      says another one
 *   unknown        cannot be read, or belongs to another data directory
 *
 * A file that gives way to a misplaced one and has no place of its own gets the name that becomes free: of two files
 * that were exchanged one may be damaged, and is salvaged in its own place then.
 */
import type { SegmentName } from './layout.ts'

export interface NamedSegment {
  name: SegmentName
  /** What it says of itself; null: unknown. */
  own: OwnRange | null
}

/** `lastSeq` null: it does not say. */
export interface OwnRange {
  firstSeq: number
  lastSeq: number | null
}

export interface Renaming {
  from: SegmentName
  to: SegmentName
}

export interface RenamingPlan {
  /** In an order in which they can be interrupted and planned again: those that give way come first. */
  renamings: Renaming[]
  /** No segments, and in the way of one. */
  strays: SegmentName[]
}

/**
 * `found`: all files, those of older generations too. Of a plan that was interrupted: `reserved` are the names that
 * files are on their way to, `promised` those of WALs that wait for their files.
 */
export function planRenamings(
  found: readonly NamedSegment[],
  reserved: readonly SegmentName[] = [],
  promised: readonly SegmentName[] = [],
): RenamingPlan {
  const settled = found.filter(isInPlace)
  const taken = new Set([...settled.map(({ name }) => name.firstSeq), ...reserved.map((one) => one.firstSeq)])
  const returning = returningTo(found, settled, taken)
  const moving = new Set(returning.values())
  const staying = found.filter((one) => !isInPlace(one) && !moving.has(one))
  const givingWay: Renaming[] = []
  const strays: SegmentName[] = []
  for (const one of staying) {
    if (!returning.has(one.name.firstSeq)) {
      if (hidesAnother(one, settled)) strays.push(one.name)
      continue
    }
    const free = freedBy(one.name.firstSeq, returning)
    const others = [
      ...taken,
      ...staying.map(({ name }) => name.firstSeq),
      ...givingWay.map(({ to }) => to.firstSeq),
    ]
    if (free === null || others.includes(free.firstSeq)) strays.push(one.name)
    else givingWay.push({ from: one.name, to: free })
  }
  const names = [...found.map(({ name }) => name), ...promised]
  const back = [...returning].map(([firstSeq, { name }]) => ({
    from: name,
    to: { firstSeq, generation: generationAt(firstSeq, name, names) },
  }))
  return { renamings: [...givingWay, ...back], strays }
}

function isInPlace({ name, own }: NamedSegment): boolean {
  return own?.firstSeq === name.firstSeq
}

/** Of two generations the newer one is taken for the segment, and the older one for what is left of it. */
function hidesAnother({ name, own }: NamedSegment, settled: readonly NamedSegment[]): boolean {
  const there = settled.filter((one) => one.name.firstSeq === name.firstSeq)
  return there.some((one) => own !== null || one.name.generation < name.generation)
}

/** The misplaced ones that can go to their places, by those. Of several copies of one, the one that reaches furthest. */
function returningTo(
  found: readonly NamedSegment[],
  settled: readonly NamedSegment[],
  taken: ReadonlySet<number>,
): Map<number, NamedSegment> {
  const returning = new Map<number, NamedSegment>()
  const misplaced = found.filter((one) => one.own !== null && !isInPlace(one))
  for (const one of misplaced.toSorted((a, b) => endOf(b) - endOf(a))) {
    const { firstSeq } = one.own!
    if (taken.has(firstSeq) || returning.has(firstSeq)) continue
    // Of an older state of this log: what it holds is in another segment now.
    if (settled.some((other) => overlap(one.own!, other.own!))) continue
    returning.set(firstSeq, one)
  }
  return returning
}

function endOf({ own }: NamedSegment): number {
  return own?.lastSeq ?? 0
}

function overlap(one: OwnRange, other: OwnRange): boolean {
  const last = (range: OwnRange) => range.lastSeq ?? range.firstSeq
  return one.firstSeq <= last(other) && other.firstSeq <= last(one)
}

/** The name that nobody has when all are back: of whoever comes to this place, or to the one that becomes free by that. */
function freedBy(place: number, returning: ReadonlyMap<number, NamedSegment>): SegmentName | null {
  const seen = new Set<number>()
  let free: SegmentName | null = null
  for (let next = returning.get(place); next !== undefined; next = returning.get(free.firstSeq)) {
    free = next.name
    if (free.firstSeq === place || seen.has(free.firstSeq)) return null
    seen.add(free.firstSeq)
  }
  return free
}

/** As the name is that it was exchanged with; else it counts as written again, which more is allowed for. */
function generationAt(place: number, { generation }: SegmentName, names: readonly SegmentName[]): number {
  const there = names.flatMap((name) => (name.firstSeq === place ? [name.generation] : []))
  return there.length > 0 ? Math.max(...there) : Math.max(generation, 1)
}
