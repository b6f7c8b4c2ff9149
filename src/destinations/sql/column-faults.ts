/** The faults of column mappings that every type with a table has. Pure. */
import type { ColumnMapping } from '../../contract/destination.ts'
import { columnKey, identifierFault, type SqlDialect } from './identifiers.ts'

/** Reports names that the database does not allow or cannot distinguish, and more than one dedupe_id. */
export function tableColumnFaults(
  columns: readonly ColumnMapping[],
  dialect: SqlDialect,
): [path: string, message: string][] {
  const faults: [string, string][] = []
  const seen = new Map<string, number>()
  let dedupeAt: number | null = null
  for (const [index, { column_name, semantic_role }] of columns.entries()) {
    const name = columnKey(dialect, column_name)
    const first = seen.get(name)
    const bad = identifierFault(dialect, column_name)
    if (bad !== null) faults.push([`.${index}.column_name`, bad])
    else if (first !== undefined)
      faults.push([`.${index}.column_name`, `is already mapped by columns.${first}`])
    else seen.set(name, index)
    if (semantic_role !== 'dedupe_id') continue
    if (dedupeAt === null) dedupeAt = index
    else
      faults.push([
        `.${index}.semantic_role`,
        `only one column can have the role dedupe_id; columns.${dedupeAt} has it`,
      ])
  }
  return faults
}
