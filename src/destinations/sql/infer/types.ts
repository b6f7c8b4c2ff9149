/**
 * Chooses a column type for a key that returns every value of the sample as it was sent. If that is uncertain, the type is text
 * or JSON, which store anything.
 *
 *   values                   PostgreSQL    MySQL, MariaDB
 *   ------------------------ ------------- --------------------------------------------------------------------------
 *   whole numbers in 64 bits bigint        bigint
 *   other numbers            numeric       decimal(65,…) where the digits fit, else longtext
 *   booleans                 boolean       boolean
 *   times with an offset     timestamptz   datetime(6) if all are in UTC; else varchar(64), as datetime has no offset
 *   dates                    date          date
 *   UUIDs                    uuid          char(36)
 *   other text               text          longtext
 *   objects, arrays, mixed   jsonb         json (MySQL only; longtext for MariaDB and for numbers longer than a double)
 *
 * SQLite has fewer types (a STRICT table accepts no others): INTEGER for whole numbers in 64 bits and for booleans, REAL for
 * numbers that a double keeps, TEXT for everything else.
 *
 * A time without an offset becomes text: `timestamp` would silently drop the offset of a later value.
 */
import type { ColumnMapping } from '../../../contract/destination.ts'
import type { SqlDialect } from '../identifiers.ts'
import type { Observation } from './observe.ts'
import { type ValueKind, valueKinds } from './value.ts'

export interface Server {
  dialect: SqlDialect
  /** Its JSON is the text as it was sent. */
  isMariadb: boolean
}

export interface ProposedType {
  dataType: string
  columnType: ColumnMapping['column_type']
  reason: string
}

/** Null type: the database cannot store the observed values; `reason` says why. */
export type TypeOrNot = ProposedType | { dataType: null; reason: string }

export function typeFor(observation: Observation, server: Server): TypeOrNot {
  if (observation.facts.hasLoneSurrogate)
    return { dataType: null, reason: 'A value contains half a surrogate pair, which is not valid text.' }
  const kinds = valueKinds.filter((kind) => kind !== 'null' && (observation.kinds[kind] ?? 0) > 0)
  return server.dialect === 'sqlite' ? sqliteType(observation, kinds) : serverType(observation, kinds, server)
}

function serverType(observation: Observation, kinds: readonly ValueKind[], server: Server): TypeOrNot {
  const isPostgres = server.dialect === 'postgresql'
  if (observation.facts.hasNul && isPostgres)
    return { dataType: null, reason: 'A value contains a NUL character, which PostgreSQL cannot store.' }
  const text = (reason: string) => proposed(isPostgres ? 'text' : 'longtext', 'string', reason)
  const are = (...allowed: ValueKind[]) => kinds.every((kind) => allowed.includes(kind))
  if (kinds.length === 0) return text('Only null so far: text can store any value.')
  if (are('boolean')) return proposed('boolean', 'boolean', 'true or false.')
  if (are('integer', 'decimal')) return numberType(observation, isPostgres)
  if (are('uuid')) return proposed(isPostgres ? 'uuid' : 'char(36)', 'string', 'UUIDs in lower case.')
  if (are('date')) return proposed('date', 'string', 'Dates. A later value with a time of day would lose it.')
  if (are('time')) return timeType(observation, isPostgres)
  if (are('string', 'uuid', 'date', 'time'))
    return text(kinds.length === 1 ? 'Text.' : 'Text of several kinds.')
  const columnType = mostFrequent(observation, kinds)
  const reason = are('object', 'array') ? 'Objects or arrays.' : `Mixed: ${kinds.join(', ')}.`
  return proposed(jsonType(observation, server), columnType, reason)
}

function numberType({ facts }: Observation, isPostgres: boolean): ProposedType {
  const { wholeDigits, fractionDigits, isInt64, hasHugeNumber } = facts
  if (isInt64) return proposed('bigint', 'number', 'Whole numbers that fit 64 bits.')
  const what =
    fractionDigits === 0
      ? 'Numbers beyond 64 bits or written with a point or exponent'
      : 'Numbers with a fraction'
  if (isPostgres && !hasHugeNumber) return proposed('numeric', 'number', `${what}: every digit is kept.`)
  // decimal has at most 65 digits, 30 of them after the point; spare digits are added on both sides.
  const scale = fractionDigits === 0 ? 0 : Math.min(30, Math.max(10, fractionDigits))
  if (!hasHugeNumber && fractionDigits <= 30 && wholeDigits <= 65 - scale)
    return proposed(`decimal(65,${scale})`, 'number', `${what}: every digit is kept.`)
  return proposed(
    isPostgres ? 'text' : 'longtext',
    'string',
    'Numbers with more digits than a numeric column can store: stored as text.',
  )
}

function sqliteType(observation: Observation, kinds: readonly ValueKind[]): ProposedType {
  const { isInt64, hasLongNumber, hasHugeNumber } = observation.facts
  const are = (...allowed: ValueKind[]) => kinds.every((kind) => allowed.includes(kind))
  const text = (reason: string) => proposed('TEXT', 'string', reason)
  if (kinds.length === 0) return text('Only null so far: text can store any value.')
  if (are('boolean')) return proposed('INTEGER', 'boolean', 'true or false, stored as 1 or 0.')
  if (are('integer', 'decimal')) {
    if (isInt64) return proposed('INTEGER', 'number', 'Whole numbers that fit 64 bits.')
    return hasLongNumber || hasHugeNumber
      ? text('Numbers with more digits than a column can store: stored as text.')
      : proposed(
          'REAL',
          'number',
          'Numbers with a fraction. A number with more digits than REAL keeps is rejected.',
        )
  }
  if (are('string', 'uuid', 'date', 'time'))
    return text(kinds.length === 1 ? 'Text.' : 'Text of several kinds.')
  const reason = are('object', 'array')
    ? 'Objects or arrays, as JSON.'
    : `Mixed, as text: ${kinds.join(', ')}.`
  return proposed('TEXT', mostFrequent(observation, kinds), reason)
}

function timeType({ facts }: Observation, isPostgres: boolean): ProposedType {
  if (isPostgres)
    return proposed(
      'timestamptz',
      'string',
      'Times with an offset: the moment is kept, shown in the time zone of the session.',
    )
  return facts.isUtc
    ? proposed('datetime(6)', 'string', 'Times in UTC, stored in UTC.')
    : proposed('varchar(64)', 'string', 'Times with offsets, which datetime would drop: stored as text.')
}

function jsonType({ facts }: Observation, { dialect, isMariadb }: Server): string {
  // jsonb rejects a number that numeric cannot hold; json keeps its text.
  if (dialect === 'postgresql') return facts.hasHugeNumber ? 'json' : 'jsonb'
  return facts.hasLongNumber && !isMariadb ? 'longtext' : 'json'
}

const jsonTypes: Record<ValueKind, ColumnMapping['column_type']> = {
  null: 'null',
  boolean: 'boolean',
  integer: 'number',
  decimal: 'number',
  string: 'string',
  uuid: 'string',
  date: 'string',
  time: 'string',
  object: 'object',
  array: 'array',
}

/** The observed JSON types, each once. */
export function seenTypes({ kinds }: Observation): ColumnMapping['column_type'][] {
  return [...new Set(valueKinds.filter((kind) => (kinds[kind] ?? 0) > 0).map((kind) => jsonTypes[kind]))]
}

function mostFrequent({ kinds }: Observation, among: readonly ValueKind[]): ColumnMapping['column_type'] {
  const [first] = [...among].sort((a, b) => (kinds[b] ?? 0) - (kinds[a] ?? 0))
  return jsonTypes[first ?? 'object']
}

function proposed(dataType: string, columnType: ColumnMapping['column_type'], reason: string): ProposedType {
  return { dataType, columnType, reason }
}
