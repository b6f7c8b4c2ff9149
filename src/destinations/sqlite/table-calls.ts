/** The calls between the delivery thread and the table thread (`table-threads.ts`). */
import type { Portion } from '../batch-portions.ts'
import type { RejectedRecord, SqliteSpec } from '../driver.ts'
import type { MarkPosition } from '../sql/exactly-once-mark.ts'
import type { FileLimits } from './table-file.ts'

export interface TableCalls {
  store(id: number, target: TableTarget, request: StoreRequest): void
  release(key: string): void
}

/** Requests of the thread to the delivery thread, by the id of the batch. */
export interface TableSource {
  /** The mark in the file; null: there is none. Returns where it moves to. Null: everything is stored. */
  begin(id: number, position: MarkPosition | null): MarkPosition | null
  next(id: number): Portion | null
  park(id: number, rejected: readonly RejectedRecord[]): void
  mayCommit(id: number): void
}

/** A lane's table, as plain data. */
export interface TableTarget extends FileLimits, Pick<SqliteSpec, 'columns' | 'timestampField'> {
  /** Identifies the lane's connection. */
  key: string
  path: string
  file: string
  table: string
  /** The key of the lane's mark; null without `exactly_once`. */
  markKey: readonly string[] | null
}

/** The delivery thread, for one batch. */
export type BatchSource = {
  [Method in keyof TableSource]: TableSource[Method] extends (id: number, ...args: infer A) => infer R
    ? (...args: A) => Promise<R>
    : never
}

export interface StoreRequest {
  byteCount: number
  /** Rejected records are parked. */
  parks: boolean
}
