/**
 * Columns of a Parquet object: converts a column mapping to a Parquet column, and a record's value to its cell. The type of a
 * column depends only on its mapping, so that it is the same in every object. Pure.
 *
 *   string, null   string: a text unchanged, any other value as its JSON text
 *   object, array  JSON, as in the record
 *   boolean        boolean
 *   number         double: a number that it cannot hold exactly does not fit
 *   string, with the role record_ts or received_at     timestamp, microseconds, UTC
 */
import { type ColumnRule, type ColumnSource, columnRules } from '../../contract/column-rules.ts'
import type { ColumnMapping } from '../../contract/destination.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { stringValue } from '../../log/record-text.ts'
import { fitsFloat } from '../decimal-text.ts'
import { hasControlCharacters } from '../url-rules.ts'

export type ParquetKind = 'string' | 'json' | 'boolean' | 'double' | 'timestamp'
/** Microseconds of a timestamp are a bigint. */
export type Cell = string | number | boolean | bigint | null

export interface ParquetColumn {
  name: string
  kind: ParquetKind
  isRequired: boolean
  source: ColumnSource
}

/** A value that the column cannot hold. */
export class Misfit {
  readonly code: string
  readonly message: string

  constructor(code: string, message: string) {
    this.code = code
    this.message = message
  }
}

export function parquetColumns(columns: readonly ColumnMapping[], timestampField: string): ParquetColumn[] {
  return columnRules(columns, timestampField).map(({ name, source, isDedupe }, at) => ({
    name,
    kind: kindOf(columns[at]!),
    isRequired: isDedupe || !columns[at]!.nullable,
    source,
  }))
}

/** `id double, page string?`: a question mark marks a nullable column. */
export function columnText({ name, kind, isRequired }: ParquetColumn): string {
  return `${name} ${kind}${isRequired ? '' : '?'}`
}

function kindOf({ column_type, semantic_role }: ColumnMapping): ParquetKind {
  const isTime = semantic_role === 'record_ts' || semantic_role === 'received_at'
  switch (column_type) {
    case 'number':
      return 'double'
    case 'boolean':
      return 'boolean'
    case 'object':
    case 'array':
      return 'json'
    default:
      return isTime && column_type === 'string' ? 'timestamp' : 'string'
  }
}

/** `json`: the text of the record's value; undefined if the record has none. */
export function cellOf({ name, kind, isRequired }: ParquetColumn, json: string | undefined): Cell | Misfit {
  if (json === undefined || json === 'null')
    return isRequired
      ? new Misfit('missing_value', `Column "${name}" is not nullable, and the record has no value for it.`)
      : null
  switch (kind) {
    case 'json':
      return json
    case 'boolean':
      return json === 'true' ? true : json === 'false' ? false : wrongType(name, 'true and false', json)
    case 'double':
      return doubleOf(name, json)
    case 'timestamp':
      return timestampOf(name, json)
    case 'string':
      return textOf(name, json)
  }
}

function wrongType(name: string, taken: string, json: string): Misfit {
  return new Misfit('wrong_type', `Column "${name}" accepts ${taken}, and the record has ${typeName(json)}.`)
}

function typeName(json: string): string {
  const names: Record<string, string> = { '"': 'a string', '{': 'an object', '[': 'an array' }
  return names[json[0]!] ?? (json === 'true' || json === 'false' ? json : 'a number')
}

function textOf(name: string, json: string): string | Misfit {
  if (!json.startsWith('"')) return json
  const text = stringValue(json)
  // Only an escape can produce a lone surrogate, which UTF-8 cannot encode.
  if (json.includes('\\') && /\p{Surrogate}/u.test(text))
    return new Misfit(
      'invalid_text',
      `Column "${name}" accepts Unicode text, and this value contains half a surrogate pair.`,
    )
  return text
}

function doubleOf(name: string, json: string): number | Misfit {
  if (!isNumber(json)) return wrongType(name, 'numbers', json)
  const value = Number(json)
  const isShort = json.length <= resourceLimits.numericTextCharacters
  if (isShort && fitsFloat(json, 64)) return value
  const message = `Column "${name}" is a 64-bit float, which would change this number. Map it as a string to keep every digit.`
  return new Misfit('inexact_number', message)
}

function isNumber(json: string): boolean {
  const code = json.charCodeAt(0)
  return code === 0x2d || (code >= 0x30 && code <= 0x39)
}

const time = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:([Zz])|([+-])(\d\d):?(\d\d))$/

/** Parses ISO 8601 with an offset. A fraction finer than a microsecond does not fit. */
function timestampOf(name: string, json: string): bigint | Misfit {
  const wrong = () =>
    new Misfit(
      'invalid_timestamp',
      `Column "${name}" accepts times with an offset, such as 2026-01-31T12:00:00.000Z.`,
    )
  if (!json.startsWith('"') || json.length > 100) return wrong()
  const found = time.exec(stringValue(json))
  if (found === null) return wrong()
  const [, day = '', minute = '', second = '00', fraction = '', , sign, hours = '0', minutes = '0'] = found
  const localMs = Date.parse(`${day}T${minute}:${second}.000Z`)
  // Date.parse accepts some days that do not exist, such as February 30.
  if (Number.isNaN(localMs) || new Date(localMs).toISOString().slice(0, 16) !== `${day}T${minute}`)
    return wrong()
  if (Number(hours) > 23 || Number(minutes) > 59) return wrong()
  const digits = fraction.padEnd(9, '0')
  if (!digits.endsWith('000'))
    return new Misfit(
      'inexact_timestamp',
      `Column "${name}" has microseconds, and this time has more digits.`,
    )
  const offsetMs = (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000
  return BigInt(localMs - offsetMs) * 1_000n + BigInt(digits.slice(0, 6))
}

/** The time of the request: ms since the epoch in a column that is not a timestamp. */
export function receivedAtCell(kind: ParquetKind, receivedMs: number): Cell {
  return kind === 'timestamp' ? BigInt(receivedMs) * 1_000n : receivedMs
}

/** Every fault of the mappings of a Parquet object: paths below `columns`, and sentences. Their shape is already valid. */
export function parquetColumnFaults(columns: readonly ColumnMapping[]): [path: string, message: string][] {
  const { parquetColumns: most, parquetColumnsOfKey } = resourceLimits
  if (columns.length === 0)
    return [['', 'must map at least one column: format "parquet" gets its schema from them']]
  if (columns.length > most) return [['', `must be at most ${most} columns with format "parquet"`]]
  const faults: [string, string][] = []
  const seen = new Map<string, number>()
  const uses = new Map<string, number>()
  for (const [at, { source }] of columnRules(columns, '').entries()) {
    const { column_name, column_type, semantic_role } = columns[at]!
    const wrong = (key: keyof ColumnMapping, message: string) => faults.push([`.${at}.${key}`, message])
    const name = column_name.toLowerCase()
    const first = seen.get(name)
    if (hasControlCharacters(column_name)) wrong('column_name', 'must not contain control characters')
    // Many readers compare names case-insensitively.
    else if (first !== undefined) wrong('column_name', `is already mapped by columns.${first}`)
    else seen.set(name, at)
    const typeFault = generatedTypeFault(source.kind, column_type)
    if (typeFault !== null) wrong('column_type', typeFault)
    const from =
      source.kind === 'key' && semantic_role !== 'record_ts' ? `key ${source.key}` : (semantic_role ?? '')
    uses.set(from, (uses.get(from) ?? 0) + 1)
    if (uses.get(from) === parquetColumnsOfKey + 1)
      wrong('source_field', `is already the key of ${parquetColumnsOfKey} columns`)
  }
  return faults
}

/** Checks the types of columns whose values pipectl generates. */
function generatedTypeFault(
  kind: ColumnRule['source']['kind'],
  type: ColumnMapping['column_type'],
): string | null {
  if (kind === 'received_at' && type !== 'string' && type !== 'number')
    return 'must be string or number with the role received_at'
  if (kind === 'generated_id' && type !== 'string')
    return 'must be string with the role dedupe_id and no source_field'
  return null
}
