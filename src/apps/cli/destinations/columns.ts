/**
 * `--column 'id:number:dedupe_id'`: a column mapping as one word.
 *
 *   name:type[:role][:source=KEY|:generated][:required]
 *
 * type: string number boolean object array null. role: dedupe_id record_ts received_at. `source=KEY`: the key of the record, if
 * it differs from the column name. `required`: a record without the key is rejected (nullable: false).
 *
 * A dedupe_id column takes the key of the same name. In the API, a dedupe_id without source_field is a generated id. Here it
 * must be requested with `generated`, because `id:number:dedupe_id` usually means the id of the records.
 */
import type { ColumnMapping } from '../../../contract/destination.ts'
import type { GivenColumn } from '../../client/client.ts'
import { type Failure, usageFailure } from '../../client/failure.ts'

/**
 * The words of the syntax. They repeat lists of the contract, because loading its schemas takes longer than
 * everything else that a command does. A test compares both.
 */
export const columnTypeWords: readonly ColumnMapping['column_type'][] = [
  'string',
  'number',
  'boolean',
  'object',
  'array',
  'null',
]
export const roleWords: readonly NonNullable<ColumnMapping['semantic_role']>[] = [
  'dedupe_id',
  'record_ts',
  'received_at',
]

export const columnHelp = `A column is name:type[:role][:source=KEY|:generated][:required]
  type      ${columnTypeWords.join(', ')}
  role      dedupe_id (delivery becomes an upsert on it), record_ts, received_at
  source    the key of the record, if it differs from the name of the column
  generated for dedupe_id: an id from msg_id and position, for records that have none
  required  records without it are rejected`

/** Throws Failure (usage), which names the invalid part. */
export function parseColumn(text: string): GivenColumn {
  const [name = '', typeWord = '', ...rest] = text.split(':')
  const wrong = (what: string) => usageFailure(`--column ${JSON.stringify(text)}: ${what}`, columnHelp)
  if (name === '') throw wrong('the name is missing')
  const type = columnTypeWords.find((one) => one === typeWord)
  if (type === undefined) throw wrong(`${JSON.stringify(typeWord)} is not a type`)
  const column: GivenColumn = { column_name: name, column_type: type }
  for (const word of rest) addWord(column, word, wrong)
  const isDedupe = column.semantic_role === 'dedupe_id'
  const isGenerated = rest.includes('generated')
  if (isGenerated && (!isDedupe || column.source_field !== undefined)) {
    throw wrong('`generated` is for a dedupe_id column without a source')
  }
  if (isDedupe && !isGenerated) column.source_field ??= name
  return column
}

function addWord(column: GivenColumn, word: string, wrong: (what: string) => Failure): void {
  const role = roleWords.find((one) => one === word)
  if (role !== undefined) {
    if (column.semantic_role !== undefined) throw wrong('it has two roles')
    column.semantic_role = role
  } else if (word === 'required') column.nullable = false
  else if (word.startsWith('source=') && word.length > 'source='.length)
    column.source_field = word.slice('source='.length)
  else if (word !== 'generated')
    throw wrong(`${JSON.stringify(word)} is neither a role, \`source=KEY\`, \`generated\` nor \`required\``)
}

/** The inverse of `parseColumn`, for tables. */
export function columnText(column: ColumnMapping): string {
  const parts = [column.column_name, column.column_type]
  if (column.semantic_role !== null) parts.push(column.semantic_role)
  const isDedupe = column.semantic_role === 'dedupe_id'
  if (isDedupe && column.source_field === null) parts.push('generated')
  const isCalledSo = isDedupe && column.source_field === column.column_name
  if (column.source_field !== null && !isCalledSo) parts.push(`source=${column.source_field}`)
  if (!column.nullable) parts.push('required')
  return parts.join(':')
}
