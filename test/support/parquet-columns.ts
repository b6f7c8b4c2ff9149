/** Column mappings of Parquet objects. */
import type { ColumnMapping } from '../../src/contract/destination.ts'

export type Column = Partial<ColumnMapping> & Pick<ColumnMapping, 'column_name' | 'column_type'>

/** One of each type and role. */
export const everyColumn: readonly Column[] = [
  { column_name: 'text', column_type: 'string' },
  { column_name: 'n', column_type: 'number' },
  { column_name: 'flag', column_type: 'boolean' },
  { column_name: 'o', column_type: 'object' },
  { column_name: 'list', column_type: 'array' },
  { column_name: 'nothing', column_type: 'null' },
  { column_name: 'at', column_type: 'string', semantic_role: 'record_ts' },
  { column_name: 'came', column_type: 'string', semantic_role: 'received_at' },
  { column_name: 'came_ms', column_type: 'number', semantic_role: 'received_at', nullable: false },
  { column_name: 'id', column_type: 'string', semantic_role: 'dedupe_id' },
]
