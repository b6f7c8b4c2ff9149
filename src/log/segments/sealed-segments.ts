/**
 * Reads the facts that retention needs about sealed segments when the log is opened. For a segment that cannot be read,
 * they come from its neighbors: each pipe's position before and after it.
 */
import type { BufferIdentity } from '../buffer.ts'
import { type SegmentName, segmentBytes } from './layout.ts'
import type { PipePosition } from './position.ts'
import type { Sealing } from './sealing.ts'
import {
  lacksEnd,
  type PipeFacts,
  readContentIfUsable,
  type SegmentContent,
  type SegmentFacts,
  segmentFacts,
} from './segment-facts.ts'
import type { SeqRange } from './segment-file.ts'
import { isUnusable } from './sqlite-errors.ts'
import { isWalUsable } from './wal-overlay.ts'

export interface SealedSegments {
  sealed: SegmentFacts[]
  damaged: SegmentName[]
  /** Unusable files that are not segments: their name is a seq inside a sound segment. */
  strays: SegmentName[]
}

interface SealedContext {
  newest: { name: SegmentName; content: SegmentContent }
  sealing: Sealing
  owner: BufferIdentity | null
}

/** Newest first: a segment that does not state its end ended before the next one started. */
export function readSealedSegments(
  dir: string,
  names: readonly SegmentName[],
  { newest, sealing, owner }: SealedContext,
): SealedSegments {
  const sealed: SegmentFacts[] = []
  const damaged: SegmentName[] = []
  const strays: SegmentName[] = []
  const contents = names.map((name) => readSealed(dir, name, sealing, owner))
  const { holes } = newest.content
  let newer = newest.content
  let newerFirstSeq = newest.name.firstSeq
  for (let index = names.length - 1; index >= 0; index -= 1) {
    const name = names[index]!
    const content = contents[index] ?? null
    const isSound = (one: SegmentContent) =>
      !reachesInto(one, newerFirstSeq, newer) && !lacksEnd(endedBefore(one, holes), basesOf(newer))
    if (content === null && liesWithin(name, contents.slice(0, index), isSound)) {
      strays.unshift(name)
      continue
    }
    if (content !== null && isSound(content)) {
      sealed.unshift(segmentFacts(name, segmentBytes(dir, name), content, newer.begunClockMs))
      newer = content
    } else {
      const lastSeq = beforeHoles(newerFirstSeq - 1, holes)
      sealed.unshift(
        factsFromNeighbors(dir, { firstSeq: name.firstSeq, lastSeq }, name, {
          older: contents[index - 1] ?? null,
          newer,
        }),
      )
      damaged.push(name)
    }
    newerFirstSeq = name.firstSeq
  }
  return { sealed, damaged, strays }
}

function liesWithin(
  { firstSeq }: SegmentName,
  older: readonly (SegmentContent | null)[],
  isSound: (content: SegmentContent) => boolean,
): boolean {
  const nearest = older.findLast((content) => content !== null) ?? null
  if (nearest === null) return false
  return (nearest.lastSeq ?? 0) >= firstSeq && isSound(nearest)
}

/**
 * True when the file is another segment under a wrong name. False when the next segment was abandoned while it was
 * empty.
 */
function reachesInto({ lastSeq }: SegmentContent, nextFirstSeq: number, next: SegmentContent): boolean {
  return next.lastSeq !== null && (lastSeq ?? 0) >= nextFirstSeq
}

const basesOf = ({ pipes }: SegmentContent) => new Map(pipes.map(({ pipeId, base }) => [pipeId, base]))

/** Reads a sealed segment after making its WAL durable. Null when it is damaged. */
function readSealed(
  dir: string,
  name: SegmentName,
  sealing: Sealing,
  owner: BufferIdentity | null,
): SegmentContent | null {
  if (!isWalUsable(dir, name, 0)) return null
  try {
    sealing.sealFound(name)
  } catch (error) {
    if (isUnusable(error)) return null
    throw error
  }
  return readContentIfUsable(dir, name, owner)
}

/** Up to version 0.2.0, compaction stated the end of a dropped range after the segment as the segment's end. */
function endedBefore(content: SegmentContent, holes: readonly SeqRange[]): SegmentContent {
  return { ...content, lastSeq: content.lastSeq && beforeHoles(content.lastSeq, holes) }
}

/** The end of a segment that retention holes follow directly. */
export function beforeHoles(lastSeq: number, holes: readonly SeqRange[]): number {
  const hole = holes.find((one) => one.firstSeq <= lastSeq && one.lastSeq >= lastSeq)
  return hole === undefined ? lastSeq : beforeHoles(hole.firstSeq - 1, holes)
}

function factsFromNeighbors(
  dir: string,
  { firstSeq, lastSeq }: SeqRange,
  name: SegmentName,
  { older, newer }: { older: SegmentContent | null; newer: SegmentContent },
): SegmentFacts {
  const before = new Map<string, PipePosition>(older?.pipes.map(({ pipeId, last }) => [pipeId, last]))
  const pipes = new Map<string, PipeFacts>()
  for (const { pipeId, base } of newer.pipes) {
    if (base.seq < firstSeq) continue
    const start = before.get(pipeId)
    pipes.set(pipeId, {
      baseSeq: Math.max(start?.seq ?? 0, firstSeq - 1),
      lastSeq: Math.min(base.seq, lastSeq),
      // Without the previous segment, it is only known that the segment has messages of the pipe.
      messages: start === undefined ? 1 : base.messages - start.messages,
      bytes: start === undefined ? 0 : base.bytes - start.bytes,
    })
  }
  return {
    ...name,
    identity: null,
    lastSeq,
    pipes,
    firstReceivedMs: null,
    bytes: segmentBytes(dir, name),
    lastClockMs: newer.begunClockMs,
  }
}
