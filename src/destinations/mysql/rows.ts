/** Converts a batch's records to rows of bound values. Each row knows its message, so that a failure can name it. */
import type { ColumnRule } from '../../contract/column-rules.ts'
import { pickMembers, recordPlace, recordTexts, stringValue } from '../../log/record-text.ts'
import { type Batch, DeliveryError, type RejectedRecord } from '../driver.ts'
import { rejectedRecordOf } from '../park.ts'
import { generatedId, receivedAtValue } from '../sql/columns.ts'
import type { NamedValue } from '../sql/named-value.ts'
import { rowShapes } from '../sql/row-shapes.ts'
import { ColumnValueError } from './column-value-error.ts'
import type { InsertPlan, PlannedColumn } from './statement.ts'
import { findColumn, type TableDescription } from './table.ts'
import { type MysqlColumn, parameterOf } from './values.ts'

export interface Row {
  /** The columns this row fills: the same array object for all rows of one shape. */
  columns: readonly MysqlColumn[]
  values: readonly (string | null)[]
  /** Upper bound of the bytes that the row adds to a statement's packet: three for each character. See `bytesOf`. */
  bytes: number
  seq: number
  msgId: string
  /** Index of the record in its message, from 0. */
  index: number
}

/**
 * Throws a permanent DeliveryError for the first record that a column cannot store unchanged. With `refuse`, passes every such
 * record to it instead and returns the others.
 */
export function* rowsOf(
  batch: Batch,
  plan: InsertPlan,
  refuse?: (rejected: RejectedRecord) => void,
): Generator<Row, void> {
  const scanned: (string | undefined)[] = new Array(plan.slots.size)
  const shaper = shapers.get(plan) ?? { plan, shapeOf: shapesOf(plan) }
  shapers.set(plan, shaper)
  for (const message of batch.messages) {
    const { body, receivedMs, msgId, seq } = message
    for (const [at, record] of recordTexts(body).entries()) {
      const index = recordPlace(message, at)
      pickMembers(record, plan.slots, scanned)
      let row: Row
      try {
        row = rowOf(scanned, shaper, { seq, msgId, index }, receivedMs)
      } catch (error) {
        const rejected = rejectedRecordOf(error)
        if (refuse === undefined || rejected === undefined) throw error
        refuse(rejected)
        continue
      }
      yield row
    }
  }
}

function rowOf(
  scanned: readonly (string | undefined)[],
  { plan, shapeOf }: Shaper,
  place: Place,
  receivedMs: number,
): Row {
  const shape = shapeOf(scanned)
  if (shape.length === 0) throw noColumn(plan, place)
  const values: (string | null)[] = new Array(shape.length)
  let bytes = 0
  for (let at = 0; at < shape.length; at++) {
    const { column, rule, slot } = shape[at]!
    const json = slot === -1 ? madeValue(rule, column, place, receivedMs) : scanned[slot]
    const value = bind(json, column, place)
    if (value === null && rule.isDedupe) throw noDedupeValue(column, place)
    values[at] = value
    bytes += columnBytes + (value === null ? 0 : value.length * 3)
  }
  return { columns: shape.columns, values, bytes, seq: place.seq, msgId: place.msgId, index: place.index }
}

/** Type and flag, length prefix and null bit take at most this in addition to the text. */
const columnBytes = 12

/** The same as `Row.bytes`, without the estimate. */
export function bytesOf({ values }: Row): number {
  return values.reduce((sum, value) => sum + columnBytes + (value === null ? 0 : Buffer.byteLength(value)), 0)
}

/**
 * A value that pipectl generates, as JSON text, so that it is converted like a value of the record. A DATE column gets the day
 * in UTC.
 */
function madeValue(
  { source, type }: ColumnRule,
  { kind }: MysqlColumn,
  { msgId, index }: Place,
  receivedMs: number,
): string {
  if (source.kind !== 'received_at') return JSON.stringify(generatedId(msgId, index))
  const value = receivedAtValue(type, receivedMs)
  return JSON.stringify(kind === 'date' && typeof value === 'string' ? value.slice(0, 10) : value)
}

type Place = Pick<Row, 'seq' | 'msgId' | 'index'>

/** The position of a record, for an error message. */
export function placeOf({ msgId, index }: Place): string {
  return `record ${index + 1} of message ${msgId}`
}

interface Shaper {
  plan: InsertPlan
  shapeOf(scanned: readonly (string | undefined)[]): Shape
}
/** Kept per plan: rows of later batches reuse the shapes and the texts of their statements. */
const shapers = new WeakMap<InsertPlan, Shaper>()
type Shape = readonly PlannedColumn[] & { columns: readonly MysqlColumn[] }

function shapesOf(plan: InsertPlan): Shaper['shapeOf'] {
  return rowShapes(plan, (parts) => Object.assign([...parts], { columns: parts.map(({ column }) => column) }))
}

function bind(json: string | undefined, column: MysqlColumn, place: Place): string | null {
  try {
    return parameterOf(json, column)
  } catch (error) {
    if (!(error instanceof ColumnValueError)) throw error
    const why = `Column "${column.name}" (${column.type}) cannot store the value unchanged: ${error.message}`
    const value = json?.startsWith('"') ? stringValue(json) : json
    throw refused('invalid_value', why, place, {
      column: column.name,
      ...(value === undefined ? {} : { value }),
    })
  }
}

function noColumn({ table }: InsertPlan, place: Place): DeliveryError {
  const why = `No key of the record is the name of a column of ${table.database}.${table.name}`
  return refused('no_matching_column', why, place, {})
}

/** NULL never collides with another value: an upsert of it would store another copy with every retry. */
function noDedupeValue({ name }: MysqlColumn, place: Place): DeliveryError {
  const why = `The record has no value for the dedupe_id column "${name}"`
  return refused('no_dedupe_value', why, place, { column: name })
}

function refused(code: string, why: string, place: Place, named: NamedValue): DeliveryError {
  const { seq, index: recordIndex } = place
  return new DeliveryError('permanent', code, `${why} (${placeOf(place)}).`, {
    failedSeq: seq,
    fault: 'records',
    rejected: { seq, recordIndex, code, message: `${why}.`, ...named },
  })
}

/**
 *   Incorrect integer value: 'abc' for column 'n' at row 1        MySQL
 *   Incorrect integer value: 'abc' for column `db`.`t`.`n` at row 1   MariaDB
 *   Field 'n' doesn't have a default value
 * CONSTRAINT `n` failed for `db`.`t`                             MariaDB: a column's check has the column's name
 */
const columnNamed = /(?:column|field|constraint) (?:'([^']*)'|((?:`[^`]*`\.?)+))/i

/** Finds the column and value of a rejected row that the server's message names. */
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
