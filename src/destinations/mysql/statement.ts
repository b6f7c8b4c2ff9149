/**
 * Maps columns to the sources of their values, and builds the statements. Rules: docs/dev/contract.md#column-rules.
 *
 * With column mappings, every row fills every mapped column; a key that a record lacks becomes NULL. If it became the column's
 * default, an upsert would keep old values, and which ones would depend on how batches are cut. Without mappings, a row fills
 * only the columns for which its record has keys; the table's defaults apply to the others.
 */
import { type ColumnRule, columnRules } from '../../contract/column-rules.ts'
import type { ColumnMapping } from '../../contract/destination.ts'
import { DeliveryError } from '../driver.ts'
import { slotOf } from '../sql/row-shapes.ts'
import { quoteMysqlIdentifier } from './identifiers.ts'
import { findColumn, type TableDescription } from './table.ts'
import type { MysqlColumn } from './values.ts'

export interface PlannedColumn {
  column: MysqlColumn
  rule: ColumnRule
  /** Index at which the scanner stores the value of the rule's key; -1 if the value does not come from the record. */
  slot: number
}

export interface InsertPlan {
  table: TableDescription
  columns: readonly PlannedColumn[]
  /** Every key to find in a record, with its slot. */
  slots: ReadonlyMap<string, number>
  /** The unique key of an upsert; empty for a plain insert. */
  dedupe: readonly MysqlColumn[]
  /** There are no mappings: columns without a value in the record are left out. */
  isByName: boolean
}

/** Throws the permanent `ER_BAD_FIELD_ERROR` or `no_unique_key` if the table does not fit the mappings. */
export function planInsert(
  table: TableDescription,
  mappings: readonly ColumnMapping[],
  timestampField: string,
): InsertPlan {
  const isByName = mappings.length === 0
  const rules = isByName ? rulesByName(table) : columnRules(mappings, timestampField)
  const slots = new Map<string, number>()
  const columns = rules.map((rule) => ({
    column: columnOf(table, rule.name),
    rule,
    slot: slotOf(rule, slots),
  }))
  const dedupe = columns.filter(({ rule }) => rule.isDedupe).map(({ column }) => column)
  if (dedupe.length > 0 && !hasUniqueKey(table, dedupe)) throw noUniqueKey(table, dedupe)
  return { table, columns, slots, dedupe, isByName }
}

/** `INSERT … VALUES (?, …), …` with `rows` rows of the given columns, and the upsert clause where there is a dedupe column. */
export function insertSql(plan: InsertPlan, columns: readonly MysqlColumn[], rows: number): string {
  const { database, name } = plan.table
  const table = `${quoteMysqlIdentifier(database)}.${quoteMysqlIdentifier(name)}`
  const names = columns.map((column) => quoteMysqlIdentifier(column.name)).join(',')
  // Text bound to a BIT column would be stored as its bytes: '1' is 0x31.
  const row = `(${columns.map((column) => (column.kind === 'bit' ? 'CAST(? AS UNSIGNED)' : '?')).join(',')})`
  const values = Array(rows).fill(row).join(',')
  return `INSERT INTO ${table} (${names}) VALUES ${values}${upsertClause(plan, columns)}`
}

/**
 * VALUES(column) instead of a row alias: MySQL before 8.0.19, Aurora 2 and MariaDB do not support the alias, while MySQL 8 and
 * 9 still accept VALUES() with only a deprecation warning.
 *
 * Rows are processed in order. For two rows with the same dedupe value the last wins, by the server's own definition of
 * equality (collation included), so no rows need to be merged beforehand.
 *
 * If a row collides with another unique key, MySQL would overwrite that other row. A table with such keys gets a guard: a
 * subquery that returns two rows, which is an error (ER_SUBQUERY_NO_1_ROW), unless the dedupe values are equal.
 */
function upsertClause({ table, dedupe }: InsertPlan, columns: readonly MysqlColumn[]): string {
  if (dedupe.length === 0) return ''
  const assignments = columns.map((column) => {
    const name = quoteMysqlIdentifier(column.name)
    return table.uniqueKeys.length > 1 && dedupe.includes(column)
      ? `${name}=IF(${name}<=>VALUES(${name}),VALUES(${name}),(SELECT 1 UNION ALL SELECT 2))`
      : `${name}=VALUES(${name})`
  })
  return ` ON DUPLICATE KEY UPDATE ${assignments.join(',')}`
}

/** True if one unique key consists of exactly these columns. */
function hasUniqueKey(table: TableDescription, columns: readonly MysqlColumn[]): boolean {
  const wanted = columns.map(({ name }) => name.toLowerCase()).sort()
  return table.uniqueKeys.some((key) => {
    const parts = key.map((part) => part?.toLowerCase() ?? '').sort()
    return parts.length === wanted.length && parts.every((part, at) => part === wanted[at])
  })
}

function rulesByName(table: TableDescription): ColumnRule[] {
  return table.columns
    .filter(({ isGenerated }) => !isGenerated)
    .map(({ name }) => ({ name, type: 'string', source: { kind: 'key', key: name }, isDedupe: false }))
}

function columnOf(table: TableDescription, name: string): MysqlColumn {
  const column = findColumn(table, name)
  if (column && !column.isGenerated) return column
  const where = `${table.database}.${table.name}`
  throw new DeliveryError(
    'permanent',
    'ER_BAD_FIELD_ERROR',
    column
      ? `Column "${name}" of ${where} is computed by the server: remove it from the mappings.`
      : `Table ${where} has no column "${name}": add it or change the mappings.`,
  )
}

function noUniqueKey(table: TableDescription, columns: readonly MysqlColumn[]): DeliveryError {
  const names = columns.map(({ name }) => `"${name}"`).join(', ')
  return new DeliveryError(
    'permanent',
    'no_unique_key',
    `The role dedupe_id needs a primary key or unique index of ${table.database}.${table.name} on exactly ${names}: add one.`,
  )
}
