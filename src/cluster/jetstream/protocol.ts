/** The calls of the threads that append to main, over the port that `shareAppender` gives out. */
import type { SharedAppends } from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import type { KeyQuestion, KeyStore } from '../../log/key-store.ts'
import type { ObservedCommits } from '../../log/writer-observed.ts'
import type { LogSettings } from '../../platform/log.ts'

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

/** The keys of a cluster: main asks the database for it, together with what other threads ask. */
export interface AppendingThreadReports extends Pick<KeyStore, KeyQuestion> {
  appended(appends: readonly Omit<SharedAppends, 'appender'>[]): void
  /** An append was rejected by the stream, or has no response. */
  rejected(): void
  failed(message: string): void
}
