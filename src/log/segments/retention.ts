/**
 * Decides which segments are dropped and which are compacted. Pure; the facts are ordered oldest first.
 *
 *   too old      every message is older than `undeliveredHours`: dropped regardless of the lanes. Only from the oldest
 *                end, so that a temporarily wrong clock cannot create holes.
 *   delivered    every lane of every pipe in it is past it, and it is older than `deliveredHours`, or delivered
 *                messages exceed `deliveredMaxBytes`, or space is needed: dropped.
 *   mostly       more than half of it is delivered: compacted, for the same three reasons. So undelivered messages never
 *   delivered    keep more than about twice their own space.
 *
 *   pipe_age     messages of a pipe are older than the pipe's own limit (pipe-ages.ts): compacted without them, or dropped
 *                if nothing else is in it.
 *
 * Before delivery's first report the positions of the lanes are unknown, and nothing is dropped.
 */
import { hourMs } from '../../platform/quantities.ts'
import type { LowWatermark } from '../buffer.ts'
import { onDisk } from './layout.ts'
import { PipeAges } from './pipe-ages.ts'
import type { PipeFacts, SegmentFacts } from './segment-facts.ts'

/** Compaction is not worthwhile below this. */
const minDeadBytes = 64 * 1024

export interface RetentionLimits {
  undeliveredHours: number
  deliveredHours: number
  deliveredMaxBytes: number
}

/**
 * How far each pipe is delivered, from reports: see BufferFeed.reportLowWatermarks. A pipe that was never reported
 * counts as undelivered.
 */
export class LowWatermarks {
  readonly #pipes = new Map<string, { seq: number; workspaceId: string | null }>()
  readonly #retentionHours = new Map<string, number>()
  /** Deleted pipes without messages in the log when the newest segment was started. */
  #gone = new Set<string>()
  #isReported = false

  report(watermarks: readonly LowWatermark[]): void {
    this.#isReported = true
    for (const { pipeId, workspaceId, seq, retentionHours } of watermarks) {
      if (this.isDeleted(pipeId)) continue
      this.#pipes.set(pipeId, { seq, workspaceId })
      if (retentionHours === null) this.#retentionHours.delete(pipeId)
      else this.#retentionHours.set(pipeId, retentionHours)
    }
  }

  /** Final: pipe ids are never reused. */
  pipeDeleted(pipeId: string): void {
    this.#pipes.set(pipeId, { seq: Number.POSITIVE_INFINITY, workspaceId: null })
    this.#retentionHours.delete(pipeId)
  }

  /**
   * Called with each new segment. Forgets deleted pipes without messages in the log, but only one segment later: an
   * append to them can have been in progress.
   */
  forgetDeleted(isInLog: (pipeId: string) => boolean): void {
    for (const pipeId of this.#gone) if (!isInLog(pipeId)) this.#pipes.delete(pipeId)
    this.#gone = new Set()
    for (const pipeId of this.#pipes.keys())
      if (this.isDeleted(pipeId) && !isInLog(pipeId)) this.#gone.add(pipeId)
  }

  /** Before the first report the positions of the lanes are unknown, and nothing can be dropped. */
  get isReported(): boolean {
    return this.#isReported
  }

  isDeleted(pipeId: string): boolean {
    return this.of(pipeId) === Number.POSITIVE_INFINITY
  }

  /** Everything of the pipe up to this seq is delivered. */
  of(pipeId: string): number {
    return this.#pipes.get(pipeId)?.seq ?? 0
  }

  /** The pipes with a limit of their own. */
  get retentionHours(): ReadonlyMap<string, number> {
    return this.#retentionHours
  }

  /** The workspaces of all existing pipes, as far as they were reported. */
  *workspaces(): Generator<[pipeId: string, workspaceId: string]> {
    for (const [pipeId, { workspaceId }] of this.#pipes) if (workspaceId !== null) yield [pipeId, workspaceId]
  }
}

export type ReclaimReason = 'age' | 'delivered_age' | 'delivered_size' | 'space' | 'pipe_age'

export interface Reclaim {
  kind: 'drop' | 'compact'
  firstSeq: number
  reason: ReclaimReason
  /** The approximate number of bytes it frees. */
  bytes: number
  /** Messages of the pipe up to this seq are removed; Infinity for a deleted pipe. */
  removedThrough(pipeId: string): number
  /** The pipes whose messages in the segment are too old. */
  expired: ReadonlySet<string>
}

export interface RetentionState {
  /** In order, without empty segments. */
  segments: readonly SegmentFacts[]
  watermarks: LowWatermarks
  clockMs: number
  /** The space that must become free. Only delivered messages are dropped for it. */
  neededBytes: number
  /** Looks up the delivered part of the segment's pipes whose watermark is within it. */
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
    const { firstSeq, bytes } = segment
    plan.push({ kind: 'drop', firstSeq, reason, bytes, removedThrough: everything, expired: noPipes })
  }
  return plan
}

const everything = () => Number.POSITIVE_INFINITY
const noPipes: ReadonlySet<string> = new Set()

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
  const ages = new PipeAges(watermarks.retentionHours, clockMs)
  for (const segment of segments) {
    const expired = ages.expiredIn(segment)
    const reason = reasonFor(segment)
    const known = reclaimableBytes(segment, watermarks)
    if (reason !== null && known === 0 && mayBeReclaimable(segment, watermarks)) lookUp(segment)
    const bytes = reason === null ? 0 : reclaimableBytes(segment, watermarks)
    if (bytes === 0 && expired.size === 0) continue
    const reclaim = reclaimOf(segment, { watermarks, expired, reason })
    plan.push(reclaim)
    freedBytes += reclaim.bytes
    if (reason !== null) historyBytes -= known
  }
  return plan
}

/** `reason`: why delivered messages are removed; null: they are kept, and only expired ones are removed. */
function reclaimOf(
  segment: SegmentFacts,
  {
    watermarks,
    expired,
    reason,
  }: { watermarks: LowWatermarks; expired: ReadonlySet<string>; reason: ReclaimReason | null },
): Reclaim {
  const { firstSeq, pipes } = segment
  const removedThrough = (pipeId: string) => {
    if (watermarks.isDeleted(pipeId)) return Number.POSITIVE_INFINITY
    const deliveredSeq = reason === null ? 0 : watermarks.of(pipeId)
    return expired.has(pipeId) ? Math.max(deliveredSeq, pipes.get(pipeId)?.lastSeq ?? 0) : deliveredSeq
  }
  let isAll = true
  let keptBytes = 0
  let allBytes = 0
  for (const [pipeId, facts] of pipes) {
    const isRemoved = removedThrough(pipeId) >= facts.lastSeq
    isAll &&= isRemoved
    if (!isRemoved) keptBytes += onDisk(reason === null ? facts : undelivered(facts, watermarks.of(pipeId)))
    allBytes += onDisk(facts)
  }
  const bytes = isAll ? segment.bytes : Math.floor(segment.bytes * (1 - keptBytes / allBytes))
  const kind = isAll ? 'drop' : 'compact'
  return { kind, firstSeq, reason: reason ?? 'pipe_age', bytes, removedThrough, expired }
}

function isOlder(segment: SegmentFacts, hours: number, clockMs: number): boolean {
  return clockMs - segment.lastClockMs > hours * hourMs
}

function isDelivered(segment: SegmentFacts, watermarks: LowWatermarks): boolean {
  for (const [pipeId, { lastSeq }] of segment.pipes) if (watermarks.of(pipeId) < lastSeq) return false
  return true
}

/** The bytes that dropping or compacting it would free; 0 when neither is allowed or worthwhile. */
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
  return live * 2 < all && deadBytes >= minDeadBytes ? deadBytes : 0
}

/** The undelivered part of a pipe's messages in a segment. Messages that were not looked up count as undelivered. */
export function undelivered(facts: PipeFacts, watermark: number): { messages: number; bytes: number } {
  const { baseSeq, lastSeq, messages, bytes, delivered } = facts
  if (watermark >= lastSeq) return { messages: 0, bytes: 0 }
  if (watermark <= baseSeq || delivered?.throughSeq !== watermark) return { messages, bytes }
  return { messages: messages - delivered.messages, bytes: bytes - delivered.bytes }
}
