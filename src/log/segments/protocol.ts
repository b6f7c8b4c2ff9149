/** The spec that opens the segments, and the calls between the writer thread and those that append. */
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

/** The calls of a thread that appends. They are served in their order, frames included. */
export interface WriterCalls {
  frame(frame: Frame): void
  headSeq(): number
  appended(): Map<string, Backlog>
  findRepeat(pipeId: string, idempotency: Idempotency): Appended | 'reused' | null
  /** `port` is transferred: another thread appends over it. */
  share(port: AppenderPort): void
}

/** An append of a frame that was not kept, by its place in the frame, and what becomes of it. */
export type SkippedResult =
  | { index: number; kind: 'repeated'; seq: number; msgId: string; recordCount: number }
  | { index: number; kind: 'reused' | 'pipe_share' | 'idempotency_full' }

/** The frame's ArrayBuffer comes back with the result, to be filled again. */
export type FrameResult =
  | { kind: 'committed'; buffer: ArrayBuffer; firstSeq: number; skipped: SkippedResult[] }
  | { kind: 'failed'; buffer: ArrayBuffer; reason: UnavailableReason }

/** The calls of the writer to every thread that appends. */
export interface AppenderCalls {
  /** The result of the oldest frame in flight. */
  settled(result: FrameResult): void
  status(status: BufferStatus): void
}

/** Its calls to main. */
export interface WriterReports extends AppenderCalls {
  /** The messages that other threads appended. */
  sharedAppends(appends: readonly SharedAppends[]): void
  /** Its end is the one that main has asked for. */
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
  not_in_cluster: 'this node is disconnected from its cluster',
  closing: 'the service is shutting down',
}

/** Why an append is rejected, in words for the operator. */
export function unavailable(reason: UnavailableReason): BufferUnavailableError {
  return new BufferUnavailableError(reason, messages[reason])
}
