/** The parts of the replicator and of its keeper. */
import type { LogRows } from '../log/segments/replicated-rows.ts'
import type { RowChanges } from '../metadata/sqlite/row-changes.ts'
import type { Logger } from '../platform/log.ts'
import type { Bucket } from './bucket.ts'
import type { SlotWriter, WriterSpec } from './writer.ts'

export interface ReplicatorParts {
  bucket: Bucket
  key: Buffer
  rows: LogRows
  changes: RowChanges
  writer: SlotWriter
  spec: WriterSpec
  intervalMs: number
  /** The longest time without a slot; null: there is none while nothing changes. */
  heartbeatMs: number | null
  log: Logger
  onStored: OnStored
}

/** Everything up to this seq can be restored from the bucket. */
export type OnStored = (seq: number, moments: StoredMoments) => void

/** Both by `sharedMs`. */
export interface StoredMoments {
  /** When the newest slot was sent, this machine was not replaced. */
  provenMs: number
  /** Everything that was durable before this moment can be restored. */
  beforeMs: number
}
