/** The messages between main and the threads that append, over the port that `shareAppender` gives out. */
import type { SharedAppends } from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import type { KeyQuestion } from '../../log/key-store.ts'
import type { ObservedCommits } from '../../log/writer-observed.ts'
import type { LogSettings } from '../../platform/log.ts'

export type ToAppendingThread =
  | AppendingThreadSpec
  | { kind: 'keys'; id: number; value?: unknown; error?: string }

/** The first message, there before the port is: what the thread appends with. */
export interface AppendingThreadSpec {
  kind: 'jetstream'
  spec: JetStreamSpec
  log: LogSettings
  liveness: SharedArrayBuffer | null
  observed: ObservedCommits
  lastStreamSeq: number
  /** Main answers questions about keys. */
  hasKeys: boolean
}

export type FromAppendingThread =
  | { kind: 'appended'; appends: Omit<SharedAppends, 'appender'>[] }
  /** An append was rejected by the stream, or has no answer. */
  | { kind: 'rejected' }
  | { kind: 'failed'; message: string }
  | { kind: 'keys'; id: number; method: KeyQuestion; args: unknown[] }
