/**
 * Determines where the value of a mapped column comes from, and which keys a record therefore needs. Every database
 * driver and ingest use the same rules. Pure. Rules: docs/dev/contract.md#column-rules,
 * docs/dev/contract.md#required-fields.
 */
import type { ColumnMapping } from './destination.ts'

/** A mapping as clients send it. Missing fields have defaults. */
type GivenColumn = Pick<ColumnMapping, 'column_name' | 'column_type'> & {
  [Key in keyof ColumnMapping]?: ColumnMapping[Key] | undefined
}

/** Returns the mapping as it is stored, with every key present. An empty `source_field` becomes null. */
export function wholeColumn(column: GivenColumn): ColumnMapping {
  return {
    column_name: column.column_name,
    column_type: column.column_type,
    source_field: column.source_field || null,
    semantic_role: column.semantic_role ?? null,
    nullable: column.nullable ?? true,
  }
}

export type ColumnSource =
  /** A top-level key of the record. */
  | { kind: 'key'; key: string }
  /** The time at which the request was accepted. */
  | { kind: 'received_at' }
  /** `<msg_id>:<index>`. The index is the record's position in the message, from 0. */
  | { kind: 'generated_id' }

export interface ColumnRule {
  name: string
  type: ColumnMapping['column_type']
  source: ColumnSource
  /** True if the column is part of the upsert key. */
  isDedupe: boolean
}

/**
 * `timestampField` is the pipe's timestamp key, from which a `record_ts` column without `source_field` takes its
 * value.
 */
export function columnRules(columns: readonly ColumnMapping[], timestampField: string): ColumnRule[] {
  return columns.map((column) => ({
    name: column.column_name,
    type: column.column_type,
    source: sourceOf(column, timestampField),
    isDedupe: column.semantic_role === 'dedupe_id',
  }))
}

/**
 * Returns the top-level keys that every record must have after enrichment, in column order and without duplicates.
 * These are the sources of `dedupe_id` columns and of columns that are not nullable. Values that delivery generates
 * need no key.
 */
export function requiredFields(columns: readonly ColumnMapping[], timestampField: string): string[] {
  const fields = new Set<string>()
  for (const column of columns) {
    const source = sourceOf(column, timestampField)
    const isNeeded = column.semantic_role === 'dedupe_id' || !column.nullable
    if (source.kind === 'key' && isNeeded) fields.add(source.key)
  }
  return [...fields]
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
