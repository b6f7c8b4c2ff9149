/** Where a mapped column's value comes from, the same for every database. Pure. Rules: contract "Delivery", Column rules. */
import type { ColumnMapping } from '../../contract/destination.ts'

export type ColumnSource =
  /** The record's own top-level key. */
  | { kind: 'key'; key: string }
  /** When the request was accepted. */
  | { kind: 'received_at' }
  /** `<msg_id>:<index>`, the index counting from 0 in the message. */
  | { kind: 'generated_id' }

export interface ColumnRule {
  name: string
  type: ColumnMapping['column_type']
  source: ColumnSource
  /** Part of the key of the upsert. */
  isDedupe: boolean
}

export function columnRules(columns: readonly ColumnMapping[], timestampField: string): ColumnRule[] {
  return columns.map((column) => ({
    name: column.column_name,
    type: column.column_type,
    source: sourceOf(column, timestampField),
    isDedupe: column.semantic_role === 'dedupe_id',
  }))
}

/** The value of a generated dedupe id: the same for every attempt. */
export function generatedId(msgId: string, index: number): string {
  return `${msgId}:${index}`
}

/** ISO 8601 in UTC; for a column mapped as `number`, ms since the epoch. */
export function receivedAtValue(type: ColumnMapping['column_type'], receivedMs: number): string | number {
  return type === 'number' ? receivedMs : new Date(receivedMs).toISOString()
}

/** Spec "Delivery rules": TLS unless the host is this very machine; the setting turns it on there too. */
export function usesTls(host: string, databaseTls: boolean): boolean {
  return databaseTls || (host !== 'localhost' && host !== '127.0.0.1')
}

function sourceOf(column: ColumnMapping, timestampField: string): ColumnSource {
  if (column.source_field) return { kind: 'key', key: column.source_field }
  switch (column.semantic_role) {
    case 'received_at':
      return { kind: 'received_at' }
    case 'dedupe_id':
      return { kind: 'generated_id' }
    case 'record_ts':
      return { kind: 'key', key: timestampField }
    default:
      return { kind: 'key', key: column.column_name }
  }
}
