/** What main and the writer thread say to each other, and what both hold by `BufferOptions`. */
import type { MessagePort } from 'node:worker_threads'
import type { LogSettings } from '../../log.ts'
import type { DeliveredFloor, PipePosition } from '../buffer.ts'
import type { Frame } from '../frame.ts'
import type { RefusalReason } from './refusal.ts'
import type { RetentionLimits } from './retention.ts'

export interface WriterSettings extends RetentionLimits {
  /** Holds the buffer and nothing else; made when it is missing. */
  dir: string
  maxBytes: number
  minFreeBytes: number
  segmentMaxBytes: number
  segmentMaxSeconds: number
}

export interface WriterData {
  settings: WriterSettings
  log: LogSettings
  feedPort: MessagePort
}

export interface BufferStatus {
  /** On disk, WALs and the look-up of keys included. */
  bytes: number
  segments: number
  /** When the oldest message that is kept was received, ms since the epoch; null when there is none. */
  oldestMs: number | null
  /** Free disk space. */
  freeBytes: number
  /** Why appends are refused; null while they are taken. */
  refusing: RefusalReason | null
}

export type ToWriter = { kind: 'frame'; frame: Frame } | { kind: 'totals' } | { kind: 'close' }

/** An append whose key was used before: its place in the frame and the first message. */
export interface RepeatedAppend {
  index: number
  seq: number
  msgId: string
  recordCount: number
}

/** The frame's ArrayBuffer comes back with the answer, to be filled again. */
export type FrameAnswer =
  | { kind: 'committed'; buffer: ArrayBuffer; firstSeq: number; headSeq: number; repeated: RepeatedAppend[] }
  | { kind: 'failed'; buffer: ArrayBuffer; reason: RefusalReason }

export type FromWriter =
  | { kind: 'opened'; headSeq: number; missingAcknowledged: number; status: BufferStatus }
  | FrameAnswer
  | { kind: 'status'; status: BufferStatus }
  | { kind: 'totals'; totals: Map<string, PipePosition> }
  | { kind: 'closed' }

/** Writer → delivery. */
export type FeedEvent = { kind: 'committed'; pipes: [pipeId: string, seq: number][] } | { kind: 'dropped' }

/** Delivery → writer. */
export interface FloorsReported {
  asOfSeq: number
  floors: readonly DeliveredFloor[]
}
