/** The settings of one `pipectl ingest`, and what it counts. */
import type { ReadOptions } from './reader.ts'

export interface IngestSettings extends ReadOptions {
  /** Files and addresses. Empty: stdin. */
  inputs: readonly string[]
  /** The address of another S3 store. Null: AWS. */
  endpoint: string | null
  maxRecords: number | null
  maxBytes: number
  gzip: boolean
  patienceMs: number
  /** Requests that are sent at the same time. More than 1 gives up the order between them. */
  inFlight: number
  /** Sends a file again that was already sent completely. */
  again: boolean
  /** Invalid and rejected records are counted and the run continues. */
  skips: boolean
  /** The file for invalid pieces. Null: they are only named. */
  skipInvalid: string | null
  env: NodeJS.ProcessEnv
  signal: AbortSignal
}

export interface IngestResult {
  records: number
  requests: number
  /** Records that earlier runs of the same command sent. */
  resumedAfter: number
  /** Invalid pieces that were set aside. */
  skipped: number
  /** Sources, and those of them that an earlier run had sent completely. */
  sources: number
  sentBefore: number
}
