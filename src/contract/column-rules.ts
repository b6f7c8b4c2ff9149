/**
 * Where the value of a mapped column comes from, and which keys a record must therefore have: decided here for every
 * database and for ingest. Pure. Rules: docs/dev/contract.md#column-rules, docs/dev/contract.md#required-fields.
 */
import type { ColumnMapping } from './destination.ts'

/** A mapping as it is sent: what is left out takes its default. */
type GivenColumn = Pick<ColumnMapping, 'column_name' | 'column_type'> & {
  [Key in keyof ColumnMapping]?: ColumnMapping[Key] | undefined
}

/** The mapping with every key present, as it is stored. An empty `source_field` is none. */
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

/** `timestampField`: the pipe's timestamp key, the source of a `record_ts` column without source_field. */
export function columnRules(columns: readonly ColumnMapping[], timestampField: string): ColumnRule[] {
  return columns.map((column) => ({
    name: column.column_name,
    type: column.column_type,
    source: sourceOf(column, timestampField),
    isDedupe: column.semantic_role === 'dedupe_id',
  }))
}

/**
 * Top-level keys a record must have after enrichment: where a value of a column that may not be null, or of a dedupe_id
 * column, comes from. Values that delivery makes itself ask for no key. In the order of the columns, each once.
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
