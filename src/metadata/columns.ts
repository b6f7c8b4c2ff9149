/**
 * Column mappings: an ordered list per destination that is always replaced as a whole
 * (docs/dev/contract.md#destinations).
 */
import type { ColumnMapping } from '../contract/destination.ts'
import { toFlag } from './tables.ts'
import type { Connection } from './transactions.ts'

/**
 * An empty `source_field` means the same as a missing one. It is stored as null, so that readers have one form to
 * handle.
 */
export async function insertColumns(
  trx: Connection,
  destinationId: string,
  columns: readonly ColumnMapping[],
): Promise<void> {
  for (const [position, column] of columns.entries()) {
    await trx
      .insertInto('destination_columns')
      .values({
        destination_id: destinationId,
        position,
        column_name: column.column_name,
        column_type: column.column_type,
        source_field: column.source_field || null,
        semantic_role: column.semantic_role,
        nullable: toFlag(column.nullable),
      })
      .execute()
  }
}

/** Returns the columns by destination id, in order. Destinations without columns are left out. Null: of all destinations. */
export async function columnsOf(
  db: Connection,
  destinations: readonly { destination_id: string }[] | null,
): Promise<Map<string, ColumnMapping[]>> {
  const columns = new Map<string, ColumnMapping[]>()
  if (destinations?.length === 0) return columns
  let query = db.selectFrom('destination_columns').selectAll().orderBy('destination_id').orderBy('position')
  if (destinations !== null) {
    const ids = destinations.map((row) => row.destination_id)
    query = query.where('destination_id', 'in', ids)
  }
  for (const { destination_id, position: _, nullable, ...column } of await query.execute()) {
    const list = columns.get(destination_id) ?? []
    columns.set(destination_id, list)
    list.push({ ...column, nullable: nullable === 1 })
  }
  return columns
}
