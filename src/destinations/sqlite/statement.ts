/**
 * Maps columns to the sources of their values, and builds the statement for one row. Rules:
 * docs/dev/contract.md#column-rules.
 *
 * With column mappings, every row fills every mapped column; a key that a record lacks becomes NULL. Without mappings, a row
 * fills only the columns for which its record has keys, and the table's defaults apply to the others.
 */
import { type ColumnRule, columnRules } from '../../contract/column-rules.ts'
import type { ColumnMapping } from '../../contract/destination.ts'
import { DeliveryError } from '../driver.ts'
import { slotOf } from '../sql/row-shapes.ts'
import { quoteSqliteIdentifier } from './identifiers.ts'
import { findColumn, type TableDescription } from './table.ts'
import type { SqliteColumn } from './values.ts'

export interface PlannedColumn {
  column: SqliteColumn
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
  dedupe: readonly SqliteColumn[]
  /** There are no mappings: columns without a value in the record are left out. */
  isByName: boolean
}

/** Throws the permanent `no_such_column` or `no_unique_key` if the table does not fit the mappings. */
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

/**
 * A row that collides with another unique key than that of the dedupe column is rejected. For two rows with the same
 * dedupe value the last one wins.
 */
export function insertSql({ table, dedupe }: InsertPlan, columns: readonly PlannedColumn[]): string {
  const names = columns.map(({ column }) => quoteSqliteIdentifier(column.name))
  const values = columns.map(() => '?').join(',')
  const insert = `INSERT INTO ${quoteSqliteIdentifier(table.name)} (${names.join(',')}) VALUES (${values})`
  if (dedupe.length === 0) return insert
  const key = dedupe.map(({ name }) => quoteSqliteIdentifier(name)).join(',')
  return `${insert} ON CONFLICT (${key}) DO UPDATE SET ${names.map((name) => `${name}=excluded.${name}`).join(',')}`
}

/** True if one unique key consists of exactly these columns. */
function hasUniqueKey(table: TableDescription, columns: readonly SqliteColumn[]): boolean {
  const wanted = columns.map(({ name }) => name).sort()
  return table.uniqueKeys.some((key) => {
    const parts = key.map((part) => part ?? '').sort()
    return parts.length === wanted.length && parts.every((part, at) => part === wanted[at])
  })
}

function rulesByName(table: TableDescription): ColumnRule[] {
  return table.columns
    .filter(({ isGenerated }) => !isGenerated)
    .map(({ name }) => ({ name, type: 'string', source: { kind: 'key', key: name }, isDedupe: false }))
}

function columnOf(table: TableDescription, name: string): SqliteColumn {
  const column = findColumn(table, name)
  if (column && !column.isGenerated) return column
  const message = column
    ? `Column "${column.name}" of ${table.name} is generated: remove it from the mappings.`
    : `Table ${table.name} has no column "${name}": add it or change the mappings.`
  throw new DeliveryError('permanent', 'no_such_column', message)
}

function noUniqueKey(table: TableDescription, columns: readonly SqliteColumn[]): DeliveryError {
  const names = columns.map(({ name }) => `"${name}"`).join(', ')
  const message = `The role dedupe_id needs a primary key or unique index of ${table.name} on exactly ${names}: add one.`
  return new DeliveryError('permanent', 'no_unique_key', message)
}
