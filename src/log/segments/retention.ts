/**
 * Retention: which segments go, and which are compacted. A pure decision over facts, oldest first.
 *
 *   too old      every message is older than `undeliveredHours`: dropped whatever the lanes. Only from the oldest
 *                end, so a clock that was wrong for a while cannot punch holes.
 *   delivered    every lane of every pipe in it is past it, and it is older than `deliveredHours`, or the delivered
 *                history is over `deliveredMaxBytes`, or space is needed: dropped.
 *   mostly       more than half of it is delivered: compacted, for the same three reasons. So undelivered messages never
 *   delivered    keep more than about twice their own space.
 *
 * Before delivery's first report nothing is known about lanes, and nothing goes.
 */
import { hourMs } from '../../platform/quantities.ts'
import type { LowWatermark } from '../buffer.ts'
import type { PipeFacts, SegmentFacts } from './segment-facts.ts'

/** The bytes of a message on disk in addition to its body: its other columns, the index, space that pages leave. */
const rowBytes = 120
/** Compaction is not worth less than this. */
const leastDeadBytes = 64 * 1024

export interface RetentionLimits {
  undeliveredHours: number
  deliveredHours: number
  deliveredMaxBytes: number
}

/**
 * How far each pipe is delivered, as far as anyone has said: see BufferFeed.reportLowWatermarks. A pipe that nobody
 * has spoken of is unknown, and nothing of it counts as delivered.
 */
export class LowWatermarks {
  readonly #pipes = new Map<string, { seq: number; workspaceId: string | null }>()
  /** Deleted, and not in the log when the newest segment was begun. */
  #gone = new Set<string>()
  #isReported = false

  report(watermarks: readonly LowWatermark[]): void {
    this.#isReported = true
    for (const { pipeId, workspaceId, seq } of watermarks) {
      if (!this.isDeleted(pipeId)) this.#pipes.set(pipeId, { seq, workspaceId })
    }
  }

  /** Final: ids of pipes are never used again. */
  pipeDeleted(pipeId: string): void {
    this.#pipes.set(pipeId, { seq: Number.POSITIVE_INFINITY, workspaceId: null })
  }

  /**
   * With each new segment. A deleted pipe of which nothing is left in the log is forgotten, but not before the next one:
   * an append of it may have been under way.
   */
  forgetDeleted(isInLog: (pipeId: string) => boolean): void {
    for (const pipeId of this.#gone) if (!isInLog(pipeId)) this.#pipes.delete(pipeId)
    this.#gone = new Set()
    for (const pipeId of this.#pipes.keys())
      if (this.isDeleted(pipeId) && !isInLog(pipeId)) this.#gone.add(pipeId)
  }

  /** Before the first report nothing is known about lanes, and nothing may be dropped. */
  get isReported(): boolean {
    return this.#isReported
  }

  isDeleted(pipeId: string): boolean {
    return this.of(pipeId) === Number.POSITIVE_INFINITY
  }

  /** Everything of the pipe up to here is delivered. */
  of(pipeId: string): number {
    return this.#pipes.get(pipeId)?.seq ?? 0
  }

  /** The workspaces of all pipes that exist, as far as they were reported. */
  *workspaces(): Generator<[pipeId: string, workspaceId: string]> {
    for (const [pipeId, { workspaceId }] of this.#pipes) if (workspaceId !== null) yield [pipeId, workspaceId]
  }
}

export type ReclaimReason = 'age' | 'delivered_age' | 'delivered_size' | 'space'

export interface Reclaim {
  kind: 'drop' | 'compact'
  firstSeq: number
  reason: ReclaimReason
  /** About how many bytes it frees. */
  bytes: number
}

export interface RetentionState {
  /** In order, empty ones left out. */
  segments: readonly SegmentFacts[]
  watermarks: LowWatermarks
  clockMs: number
  /** How much space must come back; delivered history is given up for it, never anything else. */
  neededBytes: number
  /** Looks up what of a segment's pipes is delivered when their watermarks lie within it. */
  lookUp(segment: SegmentFacts): void
}

export function planReclaim(state: RetentionState, limits: RetentionLimits): Reclaim[] {
  if (!state.watermarks.isReported) return []
  const expired = planExpired(state, limits)
  const segments = state.segments.slice(expired.length)
  const neededBytes = expired.reduce((needed, { bytes }) => needed - bytes, state.neededBytes)
  return [...expired, ...planDelivered({ ...state, segments, neededBytes }, limits)]
}

/** The oldest segments, which are dropped even if they are not delivered. */
function planExpired({ segments, watermarks, clockMs }: RetentionState, limits: RetentionLimits): Reclaim[] {
  const plan: Reclaim[] = []
  for (const segment of segments) {
    if (!isOlder(segment, limits.undeliveredHours, clockMs)) break
    const reason = isDelivered(segment, watermarks) ? 'delivered_age' : 'age'
    plan.push({ kind: 'drop', firstSeq: segment.firstSeq, reason, bytes: segment.bytes })
  }
  return plan
}

function planDelivered(state: RetentionState, limits: RetentionLimits): Reclaim[] {
  const { segments, watermarks, clockMs, neededBytes, lookUp } = state
  const plan: Reclaim[] = []
  let freedBytes = 0
  let historyBytes = segments.reduce((sum, segment) => sum + reclaimableBytes(segment, watermarks), 0)
  const reasonFor = (segment: SegmentFacts): ReclaimReason | null => {
    if (isOlder(segment, limits.deliveredHours, clockMs)) return 'delivered_age'
    if (historyBytes > limits.deliveredMaxBytes) return 'delivered_size'
    return freedBytes < neededBytes ? 'space' : null
  }
  for (const segment of segments) {
    const reason = reasonFor(segment)
    if (reason === null) continue
    const known = reclaimableBytes(segment, watermarks)
    if (known === 0 && mayBeReclaimable(segment, watermarks)) lookUp(segment)
    const bytes = reclaimableBytes(segment, watermarks)
    if (bytes === 0) continue
    const kind = isDelivered(segment, watermarks) ? 'drop' : 'compact'
    plan.push({ kind, firstSeq: segment.firstSeq, reason, bytes })
    freedBytes += bytes
    historyBytes -= known
  }
  return plan
}

function isOlder(segment: SegmentFacts, hours: number, clockMs: number): boolean {
  return clockMs - segment.lastClockMs > hours * hourMs
}

function isDelivered(segment: SegmentFacts, watermarks: LowWatermarks): boolean {
  for (const [pipeId, { lastSeq }] of segment.pipes) if (watermarks.of(pipeId) < lastSeq) return false
  return true
}

/** How many bytes dropping or compacting it would free; 0 when neither may be done or is worth it. */
function reclaimableBytes(segment: SegmentFacts, watermarks: LowWatermarks): number {
  if (isDelivered(segment, watermarks)) return segment.bytes
  return worthwhile(segment, (pipeId, facts) => undelivered(facts, watermarks.of(pipeId)))
}

function mayBeReclaimable(segment: SegmentFacts, watermarks: LowWatermarks): boolean {
  return (
    worthwhile(segment, (pipeId, { baseSeq, messages, bytes }) => {
      return watermarks.of(pipeId) > baseSeq ? { messages: 0, bytes: 0 } : { messages, bytes }
    }) > 0
  )
}

function worthwhile(
  segment: SegmentFacts,
  liveOf: (pipeId: string, facts: PipeFacts) => { messages: number; bytes: number },
): number {
  let live = 0
  let all = 0
  for (const [pipeId, facts] of segment.pipes) {
    live += onDisk(liveOf(pipeId, facts))
    all += onDisk(facts)
  }
  const deadBytes = Math.floor(segment.bytes * (1 - live / all))
  return live * 2 < all && deadBytes >= leastDeadBytes ? deadBytes : 0
}

/**
 * The part of a pipe's messages in a segment that is not delivered. Messages that were not looked up count as
 * undelivered.
 */
export function undelivered(facts: PipeFacts, watermark: number): { messages: number; bytes: number } {
  const { baseSeq, lastSeq, messages, bytes, delivered } = facts
  if (watermark >= lastSeq) return { messages: 0, bytes: 0 }
  if (watermark <= baseSeq || delivered?.throughSeq !== watermark) return { messages, bytes }
  return { messages: messages - delivered.messages, bytes: bytes - delivered.bytes }
}

export function onDisk({ messages, bytes }: { messages: number; bytes: number }): number {
  return bytes + messages * rowBytes
}
