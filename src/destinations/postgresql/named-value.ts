/**
 * Finds the column and value that PostgreSQL rejects. The server names the column only for a missing value. For an unreadable
 * value it quotes the text, for one that is too long it names the type. The column is the one that fits, if there is only one.
 */
import type { DeliveryError } from '../driver.ts'
import { type NamedValue, onlyColumn, valuesOf } from '../sql/named-value.ts'
import { reportOf } from './errors.ts'
import type { InsertStatement } from './statement.ts'

export function namedValue(error: DeliveryError, record: string, statement: InsertStatement): NamedValue {
  const report = reportOf(error.cause)
  if (report === null) return {}
  const { code, message, column } = report
  const values = valuesOf(record, statement.keyed)
  if (column !== undefined) return withValue(column, values.get(column))
  // The server quotes a value only in this class; elsewhere it quotes names.
  if (!code.startsWith('22')) return {}
  const typed = (name: string) => statement.types.get(name) ?? ''
  const tooLong = /\(([0-9]+)\)/.exec(message)
  if (code === '22001' && tooLong !== null) {
    const most = Number(tooLong[1])
    return onlyColumn(values, (value, name) => message.includes(typed(name)) && [...value].length > most)
  }
  const quoted = /"(.*)"/s.exec(message)?.[1]
  if (quoted === undefined) return {}
  const found = onlyColumn(values, (value) => value === quoted)
  if (found.column !== undefined) return found
  return {
    ...onlyColumn(values, (value, name) => value === quoted && message.includes(typed(name))),
    value: quoted,
  }
}

function withValue(column: string, value: string | undefined): NamedValue {
  return value === undefined ? { column } : { column, value }
}
