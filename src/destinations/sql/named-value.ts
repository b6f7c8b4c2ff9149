/** Finds the column and value of a rejected row that a server's message names. Pure. */
import { pickMembers, stringValue } from '../../log/record-text.ts'

export interface NamedValue {
  column?: string
  value?: string
}

/** A column that is filled from a key of the record. */
export interface KeyedColumn {
  column: string
  key: string
}

/** The record's value for each column, as text: the content of a string, the JSON of any other value. */
export function valuesOf(record: string, columns: readonly KeyedColumn[]): Map<string, string> {
  const slots = new Map([...new Set(columns.map(({ key }) => key))].map((key, slot) => [key, slot]))
  const found: (string | undefined)[] = new Array(slots.size)
  pickMembers(record, slots, found)
  const values = new Map<string, string>()
  for (const { column, key } of columns) {
    const json = found[slots.get(key) ?? -1]
    if (json !== undefined) values.set(column, json.startsWith('"') ? stringValue(json) : json)
  }
  return values
}

/** The only column whose value passes the test; none if there are several. */
export function onlyColumn(
  values: ReadonlyMap<string, string>,
  isIt: (value: string, column: string) => boolean,
): NamedValue {
  const [first, second] = [...values].filter(([column, value]) => isIt(value, column))
  return first === undefined || second !== undefined ? {} : { column: first[0], value: first[1] }
}
