/** Finds the column and value of a rejected row that the server's message names. Pure. */
import type { NamedValue } from '../sql/named-value.ts'
import type { Row } from './rows.ts'
import { findColumn, type TableDescription } from './table.ts'

/**
 *   Incorrect integer value: 'abc' for column 'n' at row 1        MySQL
 *   Incorrect integer value: 'abc' for column `db`.`t`.`n` at row 1   MariaDB
 *   Field 'n' doesn't have a default value
 * CONSTRAINT `n` failed for `db`.`t`                             MariaDB: a column's check has the column's name
 */
const columnNamed = /(?:column|field|constraint) (?:'([^']*)'|((?:`[^`]*`\.?)+))/i

export function namedValue(message: string, row: Row, table: TableDescription): NamedValue {
  const found = columnNamed.exec(message)
  const parts = (found?.[1] ?? found?.[2]?.replaceAll('`', '') ?? '').split('.')
  // The name as it is, or after the names of database and table.
  const names = [parts.join('.'), parts.at(-1) ?? '']
  const column = names.map((name) => findColumn(table, name)).find((known) => known !== undefined)
  if (column !== undefined) {
    const value = row.values[row.columns.findIndex(({ name }) => name === column.name)] ?? undefined
    return value === undefined ? { column: column.name } : { column: column.name, value }
  }
  const value = /^Duplicate entry '(.*)' for key /s.exec(message)?.[1]
  return value === undefined ? {} : { value }
}
