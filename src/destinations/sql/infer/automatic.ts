/**
 * Decides which keys `auto_add_columns` can turn into columns. Keys come from clients, and no person looks at the names, so a
 * key must be a column name as it is: it is not cleaned, cut or numbered. Pure.
 */
import type { AutomaticColumns } from '../../driver.ts'
import { ColumnNames } from './names.ts'
import type { Server } from './types.ts'

/** Columns of pipectl itself, such as the generated id. */
const reserved = /^_pipectl/i
/** Names that people use. Quotes and other punctuation are allowed only in names that a person has chosen. */
const usual = /^[\p{L}_][\p{L}\p{M}\p{N}_.$ -]*$/u

/**
 * Why the key gets no column, or null. `taken`: the columns of the table and of the mapping. A column that exists is used only if
 * it is planned: any other one holds data that no mapping is meant to change.
 */
export function automaticFault(
  key: string,
  { dialect }: Server,
  taken: ReadonlySet<string>,
  { planned }: AutomaticColumns,
): string | null {
  if (reserved.test(key)) return 'The name is reserved for columns of pipectl.'
  if (!usual.test(key) || key !== key.trim() || new ColumnNames(dialect).nameFor(key) !== key)
    return 'The key is not allowed as a column name.'
  if (taken.has(key) && planned.includes(key)) return null
  const lowerCase = key.toLowerCase()
  for (const name of taken)
    if (name.toLowerCase() === lowerCase)
      return name === key
        ? 'The table has a column of this name: map it to use it.'
        : 'The table has a column whose name differs only by case.'
  return null
}
