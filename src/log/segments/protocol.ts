/** The spec that opens the segments, and what main and the writer thread say to each other. */
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
import type { ObservedCommits } from '../writer-observed.ts'
import type { RetentionLimits } from './retention.ts'

/** Its identity is written into every segment and the high-water mark. */
export interface SegmentsSpec extends RetentionLimits, KnownBuffer {
  kind: 'segments'
  /** Holds the buffer and nothing else; made when it is missing. */
  dir: string
  maxBytes: number
  minFreeBytes: number
  segmentMaxBytes: number
  segmentMaxSeconds: number
  /** Sealed files are read and checked so often; 0, or nothing: never. */
  scrubHours?: number
  /** Where damaged segments are kept, and readers put damaged messages. */
  quarantineDir: string
  /** The feed's name; no two buffers of a process share one. */
  channel: string
}

export interface ScrubberData {
  spec: SegmentsSpec
  log: LogSettings
}

export interface WriterData extends ScrubberData {
  observed: ObservedCommits
}

export type ToWriter =
  | { kind: 'frame'; frame: Frame }
  | { kind: 'head' }
  | { kind: 'appended' }
  | { kind: 'find_repeat'; pipeId: string; idempotency: Idempotency }
  /** `port` is transferred: frames and questions of another thread come over it. */
  | { kind: 'share'; port: AppenderPort }
  | { kind: 'close' }

/** An append of a frame that was not kept, by its place in the frame, and what becomes of it. */
export type SkippedResult =
  | { index: number; kind: 'repeated'; seq: number; msgId: string; recordCount: number }
  | { index: number; kind: 'reused' | 'pipe_share' | 'idempotency_full' }

/** The frame's ArrayBuffer comes back with the result, to be filled again. */
export type FrameResult =
  | { kind: 'committed'; buffer: ArrayBuffer; firstSeq: number; skipped: SkippedResult[] }
  | { kind: 'failed'; buffer: ArrayBuffer; reason: UnavailableReason }

/** Questions are responded to in the order they were asked. */
export type FromWriter =
  | { kind: 'opened'; status: BufferStatus }
  | FrameResult
  | { kind: 'status'; status: BufferStatus }
  | { kind: 'response'; value: number | Map<string, Backlog> | Appended | 'reused' | null }
  /** To main alone: what others appended. */
  | { kind: 'shared_appends'; appends: SharedAppends[] }
  /** To main alone: a sign of life within a turn that takes longer. */
  | { kind: 'beat' }
  | { kind: 'closed' }

export type UnavailableReason = BufferUnavailableError['reason']

const messages: Record<UnavailableReason, string> = {
  over_quota: 'the buffer has reached buffer.max_bytes, and what it holds is not delivered yet',
  pipe_share: 'the buffer is almost full, and this pipe or its workspace holds more than its share of it',
  idempotency_full:
    'this pipe or its workspace has used its share of the space for idempotency keys, which are kept for 24 hours',
  low_disk_space: 'free disk space is below buffer.min_free_bytes',
  write_failed: 'the buffer could not be written',
  not_in_cluster: 'this node has lost its place in the cluster',
  closing: 'the service is shutting down',
}

/** Why an append is rejected, in words for the operator. */
export function unavailable(reason: UnavailableReason): BufferUnavailableError {
  return new BufferUnavailableError(reason, messages[reason])
}
