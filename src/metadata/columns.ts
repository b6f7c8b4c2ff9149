/**
 * Column mappings: an ordered list per destination that is always replaced as a whole
 * (docs/dev/contract.md#destinations).
 */
import type { ColumnMapping } from '../contract/destination.ts'
import { type DestinationColumnRow, toFlag } from './tables.ts'
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

/** Returns the columns by destination id, in order. Destinations without columns are left out. */
export async function columnsOf(
  db: Connection,
  destinationIds: readonly string[],
): Promise<Map<string, ColumnMapping[]>> {
  if (destinationIds.length === 0) return new Map()
  return grouped(
    await db
      .selectFrom('destination_columns')
      .selectAll()
      .where('destination_id', 'in', destinationIds)
      .orderBy('destination_id')
      .orderBy('position')
      .execute(),
  )
}

/** Returns the columns of all destinations, for loading everything at start. */
export async function allColumns(db: Connection): Promise<Map<string, ColumnMapping[]>> {
  return grouped(
    await db
      .selectFrom('destination_columns')
      .selectAll()
      .orderBy('destination_id')
      .orderBy('position')
      .execute(),
  )
}

function grouped(rows: readonly DestinationColumnRow[]): Map<string, ColumnMapping[]> {
  const columns = new Map<string, ColumnMapping[]>()
  for (const row of rows) {
    const list = columns.get(row.destination_id) ?? []
    columns.set(row.destination_id, list)
    list.push(decodeColumn(row))
  }
  return columns
}

function decodeColumn(row: DestinationColumnRow): ColumnMapping {
  return {
    column_name: row.column_name,
    column_type: row.column_type,
    source_field: row.source_field,
    semantic_role: row.semantic_role,
    nullable: row.nullable === 1,
  }
}
