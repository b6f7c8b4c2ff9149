/** Inserts records as rows into the open transaction, and finds the records that the table rejects. */
import type Database from 'better-sqlite3'
import type { ColumnRule } from '../../contract/column-rules.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { pickMembers, stringValue } from '../../log/record-text.ts'
import type { Place } from '../batch-portions.ts'
import { DeliveryError, type RejectedRecord } from '../driver.ts'
import { rejectionOf } from '../park.ts'
import { generatedId, receivedAtValue } from '../sql/columns.ts'
import type { NamedValue } from '../sql/named-value.ts'
import { rowShapes } from '../sql/row-shapes.ts'
import { rowFaultOf, sqliteError } from './errors.ts'
import { type InsertPlan, insertSql, type PlannedColumn } from './statement.ts'
import { findColumn } from './table.ts'
import { type BoundValue, boundValue, ColumnValueError } from './values.ts'

/** After this number of rejected rows, none accepted, with errors that are not known to concern rows, the table is at fault. */
const enoughUnclear = 8

interface Shape {
  columns: readonly PlannedColumn[]
  /** Null: the record fills no column. */
  statement: Database.Statement<[BoundValue[]]> | null
}

interface Rejection {
  rejected: RejectedRecord
  isUnclear: boolean
}

/** The rows of one batch. */
export class RowInserter {
  readonly #plan: InsertPlan
  readonly #isInTransaction: () => boolean
  readonly #shapeOf: (scanned: readonly (string | undefined)[]) => Shape
  readonly #scanned: (string | undefined)[]
  #accepted = 0
  #parks = false
  #rejections: Rejection[] = []

  /** `plan` was made for the table of this connection. Statements are kept for later batches. */
  constructor(database: Database.Database, plan: InsertPlan) {
    this.#plan = plan
    this.#isInTransaction = () => database.inTransaction
    this.#scanned = new Array(plan.slots.size)
    this.#shapeOf = rowShapes(plan, (columns) => ({
      columns,
      statement: columns.length === 0 ? null : database.prepare<[BoundValue[]]>(insertSql(plan, columns)),
    }))
  }

  /** Without `parks` the first rejected record is thrown. */
  begin(parks: boolean): void {
    this.#parks = parks
    this.#accepted = 0
    this.#rejections = []
  }

  /** Throws a DeliveryError, or the error of SQLite that is not a row's fault. */
  insert(text: string, place: Place): void {
    pickMembers(text, this.#plan.slots, this.#scanned)
    try {
      const { statement, values } = this.#rowOf(place)
      statement.run(values)
      this.#accepted += 1
    } catch (error) {
      this.#reject(this.#rejectionOf(error, place))
    }
  }

  /** The rejected records so far, at most `most`; they are removed. Throws if the table rejects everything without a known reason. */
  takeRejected(): RejectedRecord[] {
    if (this.#accepted === 0 && this.#rejections.every(({ isUnclear }) => isUnclear)) this.#throwUnclear()
    return this.#rejections.splice(0).map(({ rejected }) => rejected)
  }

  get rejectedCount(): number {
    return this.#rejections.length
  }

  #rowOf(place: Place): { statement: Database.Statement<[BoundValue[]]>; values: BoundValue[] } {
    const { columns, statement } = this.#shapeOf(this.#scanned)
    if (statement === null) {
      const { file, name } = this.#plan.table
      throw refused(
        'no_matching_column',
        `No key of the record is the name of a column of ${name} in ${file}.sqlite`,
        place,
      )
    }
    const values: BoundValue[] = new Array(columns.length)
    for (let at = 0; at < columns.length; at++) {
      const { column, rule, slot } = columns[at]!
      const json = slot === -1 ? generatedValue(rule, place) : this.#scanned[slot]
      const value = bind(json, columns[at]!, place)
      // NULL never collides with another value: an upsert of it would store another copy with every retry.
      if (value === null && rule.isDedupe)
        throw refused(
          'no_dedupe_value',
          `The record has no value for the dedupe_id column "${column.name}"`,
          place,
          {
            column: column.name,
          },
        )
      values[at] = value
    }
    return { statement, values }
  }

  /** Throws any error that does not concern this row. */
  #rejectionOf(error: unknown, place: Place): Rejection {
    if (error instanceof DeliveryError && error.rejected !== undefined)
      return { rejected: error.rejected, isUnclear: false }
    const fault = rowFaultOf(error)
    if (fault === 'destination') throw error
    const failure = sqliteError(error, `${this.#plan.table.file}.sqlite`)
    const named = this.#named(failure.message)
    const { seq, recordIndex } = place
    const rejected = rejectionOf(failure, { seq, recordIndex, ...named })
    const rejection = { rejected, isUnclear: fault === 'unclear' }
    // A trigger or a constraint with ROLLBACK has undone the rows before this one.
    if (!this.#isInTransaction()) throw naming(rejected, 'records')
    return rejection
  }

  #reject(rejection: Rejection): void {
    const { rejected, isUnclear } = rejection
    if (!this.#parks) throw naming(rejected, isUnclear && this.#accepted === 0 ? 'destination' : 'records')
    this.#rejections.push(rejection)
    const areUnclear = this.#accepted === 0 && this.#rejections.length === enoughUnclear
    if (areUnclear && this.#rejections.every((one) => one.isUnclear)) this.#throwUnclear()
  }

  #throwUnclear(): void {
    const [first] = this.#rejections
    if (first !== undefined) throw naming(first.rejected, 'destination')
  }

  /**
   * Finds the column that the message names:
   *
   *   NOT NULL constraint failed: events.n · UNIQUE constraint failed: events.id
   *   cannot store TEXT value in INTEGER column events.n
   *   CHECK constraint failed: length(name) <= 3
   */
  #named(message: string): NamedValue {
    const { table } = this.#plan
    const words = message.split(/constraint failed: | column /)[1]?.match(/[\p{L}\p{N}_$]+/gu) ?? []
    const names = new Set(
      words.map((word) => findColumn(table, word)?.name).filter((name) => name !== undefined),
    )
    const [column, another] = names
    if (column === undefined || another !== undefined) return {}
    const planned = this.#plan.columns.find((one) => one.column.name === column)
    const json = planned && planned.slot !== -1 ? this.#scanned[planned.slot] : undefined
    return json === undefined ? { column } : { column, value: shownValue(json) }
  }
}

/** A value that pipectl generates, as JSON text, so that it is converted like a value of the record. */
function generatedValue({ source, type }: ColumnRule, { msgId, recordIndex, receivedMs }: Place): string {
  const value =
    source.kind === 'received_at' ? receivedAtValue(type, receivedMs) : generatedId(msgId, recordIndex)
  return JSON.stringify(value)
}

function bind(json: string | undefined, { column }: PlannedColumn, place: Place): BoundValue {
  try {
    return boundValue(json, column)
  } catch (error) {
    if (!(error instanceof ColumnValueError)) throw error
    const type = column.type === '' ? '' : ` (${column.type})`
    throw refused(
      'invalid_value',
      `Column "${column.name}"${type} cannot store the value unchanged: ${error.message}`,
      place,
      {
        column: column.name,
        ...(json === undefined ? {} : { value: shownValue(json) }),
      },
    )
  }
}

/** The beginning of a value, which can be megabytes long and is sent between threads. */
function shownValue(json: string): string {
  const text = json.startsWith('"') ? stringValue(json) : json
  return text.slice(0, resourceLimits.rejectedValueCharacters * 2)
}

function refused(code: string, why: string, place: Place, named: NamedValue = {}): DeliveryError {
  const { seq, recordIndex } = place
  return new DeliveryError('permanent', code, `${why}.`, {
    failedSeq: seq,
    fault: 'records',
    rejected: { seq, recordIndex, code, message: `${why}.`, ...named },
  })
}

function naming(rejected: RejectedRecord, fault: 'records' | 'destination'): DeliveryError {
  const { seq, code, message } = rejected
  return new DeliveryError('permanent', code, message, {
    failedSeq: seq,
    fault,
    ...(fault === 'records' ? { rejected } : {}),
  })
}
