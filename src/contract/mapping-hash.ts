/** Detects drift that was counted with other columns. */
import { createHash } from 'node:crypto'
import type { ColumnMapping } from './destination.ts'

/** Destinations have the same hash if their columns take the same keys. */
export function mappingHash(columns: readonly ColumnMapping[], timestampField: string): string {
  const mapped = columns.map((one) => [one.column_name, one.source_field, one.semantic_role])
  return createHash('sha256')
    .update(JSON.stringify([mapped, timestampField]))
    .digest('hex')
    .slice(0, 32)
}
