/** The spec that opens the segments, and the calls between the writer thread and the threads that append. */
import type { LogSettings } from '../../platform/log.ts'
import {
  type Appended,
  type AppenderPort,
  type Backlog,
  type BufferStatus,
  BufferUnavailableError,
  type Idempotency,
  type KnownBuffer,
  type SharedAppends,
} from '../buffer.ts'
import type { Frame } from '../frame.ts'
import type { ObservedCommits } from '../group-commit.ts'
import type { ErasureOutcome, SegmentErasure } from './erasing.ts'
import type { ReplicaRules } from './held-results.ts'
import type { RetentionLimits } from './retention.ts'

/** The identity is written into every segment and into the high-water mark. */
export interface SegmentsSpec extends RetentionLimits, KnownBuffer {
  kind: 'segments'
  /** Holds only the buffer; created when it is missing. */
  dir: string
  maxBytes: number
  minFreeBytes: number
  segmentMaxBytes: number
  segmentMaxSeconds: number
  /** The interval at which sealed files are read and verified; 0 or undefined means never. */
  scrubHours?: number
  /** The directory for damaged segments and damaged messages. */
  quarantineDir: string
  /** Null or undefined: results are sent when their messages are on the disk. */
  replica?: ReplicaRules | null
  /** Name of the feed; unique among the buffers of a process. */
  channel: string
}

export interface ScrubberData {
  spec: SegmentsSpec
  log: LogSettings
}

export interface WriterData extends ScrubberData {
  observed: ObservedCommits
}

/** The calls of a thread that appends. They are served in order, together with frames. */
export interface WriterCalls {
  frame(frame: Frame): void
  headSeq(): number
  appended(): Map<string, Backlog>
  findRepeat(pipeId: string, idempotency: Idempotency): Appended | 'reused' | null
  /** See SpaceKeeper. */
  erase(erasure: SegmentErasure): ErasureOutcome
  /** See `HeldResults.stored`. */
  replicated(seq: number, provenMs: number): void
  /** `port` is transferred: another thread appends over it. */
  share(port: AppenderPort): void
}

/** An append of a frame that was not stored: its index in the frame, and its result. */
export type SkippedResult =
  | { index: number; kind: 'repeated'; seq: number; msgId: string; recordCount: number }
  | { index: number; kind: 'reused' | 'pipe_share' | 'idempotency_full' }

/** The frame's ArrayBuffer returns with the result, to be reused. */
export type FrameResult =
  | { kind: 'committed'; buffer: ArrayBuffer; firstSeq: number; skipped: SkippedResult[] }
  | { kind: 'failed'; buffer: ArrayBuffer; reason: UnavailableReason }

/** The writer's calls to every thread that appends. */
export interface AppenderCalls {
  /** The result of the oldest frame in flight. */
  settled(result: FrameResult): void
  status(status: BufferStatus): void
}

/** The writer's calls to main. */
export interface WriterReports extends AppenderCalls {
  /** Messages that other threads have appended. */
  sharedAppends(appends: readonly SharedAppends[]): void
  /** The writer ends because main asked it to. */
  closed(): void
}

export type UnavailableReason = BufferUnavailableError['reason']

const messages: Record<UnavailableReason, string> = {
  over_quota: 'the buffer has reached buffer.max_bytes, and its messages are not delivered yet',
  pipe_share: 'the buffer is almost full, and this pipe or its workspace holds more than its share of it',
  idempotency_full:
    'this pipe or its workspace has used its share of the space for idempotency keys, which are kept for 24 hours',
  low_disk_space: 'free disk space is below buffer.min_free_bytes',
  write_failed: 'the buffer could not be written',
  not_replicated: 'the replica (replica.url) does not answer in time',
  not_in_cluster: 'this node is disconnected from its cluster',
  closing: 'the service is shutting down',
}

/** The error of a rejected append, with the reason worded for the operator. */
export function unavailable(reason: UnavailableReason): BufferUnavailableError {
  // The frame was possibly written to the disk and to the replica.
  return new BufferUnavailableError(reason, messages[reason], reason === 'not_replicated')
}
