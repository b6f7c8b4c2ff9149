/** The calls of appending threads to main, over the port that `shareAppender` returns. */
import type { SharedAppends } from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import type { ObservedCommits } from '../../log/group-commit.ts'
import type { KeyQuestion, KeyStore } from '../../log/key-store.ts'
import type { LogSettings } from '../../platform/log.ts'

/** The first message on the port: the spec that the thread appends with. */
export interface AppendingThreadSpec {
  kind: 'jetstream'
  spec: JetStreamSpec
  log: LogSettings
  liveness: SharedArrayBuffer | null
  observed: ObservedCommits
  lastStreamSeq: number
  /** True when main serves key queries. */
  hasKeys: boolean
}

/** The keys of a cluster: main batches the queries of all threads into statements. */
export interface AppendingThreadReports extends Pick<KeyStore, KeyQuestion> {
  appended(appends: readonly Omit<SharedAppends, 'appender'>[]): void
  /** The stream rejected an append or did not respond. */
  rejected(): void
  failed(message: string): void
}
