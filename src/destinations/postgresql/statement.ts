/**
 * Builds the statement that stores a batch, its parameter, and the COPY that stores the same rows (`copy.ts`). Pure.
 *
 *   INSERT INTO t ("a", "b")
 *   SELECT c0, c1 FROM ROWS FROM (json_to_recordset($1) AS ("key" integer, "other" text)) WITH ORDINALITY AS x(c0, c1, n)
 *
 * The server reads every value from the record's own text with the column's type. Numbers arrive as they were sent, objects and
 * arrays become jsonb or text, and there is one parameter whatever the number of records. Values that the record does not have
 * (accepted time, generated id) are spliced into its text as a further key. The server uses the last of two equal keys, so a
 * record cannot override ours.
 *
 * A record without a value for a column stores NULL, or the default if the column is NOT NULL and has one. An upsert first
 * drops all but the last record of each dedupe value, because one statement cannot update a row twice.
 */
import { createHash } from 'node:crypto'
import type { ColumnRule } from '../../contract/column-rules.ts'
import type { StoredMessage } from '../../log/buffer.ts'
import {
  closeBrace,
  closeBracket,
  comma,
  openBrace,
  openBracket,
  pickMembers,
  recordPlace,
  records,
  recordTexts,
} from '../../log/record-text.ts'
import { slices } from '../../platform/slices.ts'
import { DeliveryError, type RejectedRecord } from '../driver.ts'
import { generatedId, receivedAtValue } from '../sql/columns.ts'
import { identifierFault } from '../sql/identifiers.ts'
import type { KeyedColumn } from '../sql/named-value.ts'
import type { CopyColumn } from './copy-rows.ts'
import { quotePostgresIdentifier } from './identifiers.ts'
import type { PostgresColumn, Table } from './table.ts'

export interface InsertStatement {
  text: string
  /** The same, but stores nothing unless the condition holds. */
  textIf(condition: string): string
  /** $2 and following; $1 are the records. */
  values: string[]
  /** The rules that `recordsParameter` applies to every record. */
  rules: readonly ColumnRule[]
  /** The columns that are filled from keys, and the type of every column, to find the one that rejects a record. */
  keyed: readonly KeyedColumn[]
  types: ReadonlyMap<string, string>
  /** Null: COPY would store something else, for the reason in `copyObstacle`. */
  copy: CopyPlan | null
  copyObstacle: string | null
}

/** Several statements in one transaction. If `before` and `after` are empty, only the second one. */
export interface CopyPlan {
  columns: readonly CopyColumn[]
  /** Creates the temporary table from which an upsert reads its rows. */
  before: string
  copy: string
  after: string
}

/** Consecutive records of one message: all of them, or those from `firstIndex` on. */
export type RecordRun = StoredMessage & { readonly firstIndex?: number }

/** `keepsDefault`: a record without the key stores the column's default, not NULL. */
export type InsertRule = ColumnRule & { keepsDefault?: boolean }

interface Target {
  rule: InsertRule
  column: PostgresColumn
  /** The top-level key that holds the value in the parameter. */
  key: string
  alias: string
}

/** Throws a permanent DeliveryError when a mapped column does not exist (42703) or cannot be named. */
export function insertStatement(table: Table, rules: readonly InsertRule[]): InsertStatement {
  const targets = rules.map((rule, index) => toTarget(table, rule, index))
  const dedupe = targets.filter(({ rule }) => rule.isDedupe)
  const columns = targets.map(({ column }) => quotePostgresIdentifier(column.name))
  const { text: source, values } = recordSource(targets)
  const selected = targets.map(valueSql).join(', ')
  const keyed = targets.flatMap(({ rule: { name, source } }) =>
    source.kind === 'key' ? [{ column: name, key: source.key }] : [],
  )
  const types = new Map(targets.map(({ column }) => [column.name, column.type]))
  const insert = `INSERT INTO ${table.name} (${columns.join(', ')})`
  const upsertFrom = (from: string, where = '') => {
    const last = `(SELECT DISTINCT ON (${distinctKey(dedupe)}) * FROM ${from} ORDER BY ${distinctKey(dedupe)}, n DESC) AS y`
    // A generated id occurs once.
    const isUnique = dedupe.some(({ rule }) => rule.source.kind === 'generated_id')
    const rows = isUnique ? from : last
    return `${insert} SELECT ${selected} FROM ${rows}${where} ORDER BY n ${onConflict(targets, dedupe)}`
  }
  const textOf = (where = '') =>
    dedupe.length === 0 ? `${insert} SELECT ${selected} FROM ${source}${where}` : upsertFrom(source, where)
  const obstacle = table.copyObstacle ?? columnObstacle(targets)
  return {
    text: textOf(),
    textIf: (condition) => textOf(` WHERE ${condition}`),
    values,
    rules,
    keyed,
    types,
    copy: obstacle === null ? copyPlan(table, targets, dedupe.length === 0 ? null : upsertFrom) : null,
    copyObstacle: obstacle,
  }
}

function columnObstacle(targets: readonly Target[]): string | null {
  for (const { column } of targets) {
    if (!column.isPlain) return `the text of a ${column.type} (column ${column.name}) differs from its JSON`
    // COPY would write into a column that is GENERATED ALWAYS AS IDENTITY.
    if (column.isGenerated) return `column ${column.name} is generated by the server`
  }
  return null
}

function copyPlan(
  table: Table,
  targets: readonly Target[],
  upsertFrom: ((rows: string) => string) | null,
): CopyPlan {
  const columns = targets.map(({ rule, column }) => ({
    rule,
    isJson: column.isJson,
    defaultFor: defaultFor(rule, column),
  }))
  if (upsertFrom === null) {
    const names = targets.map(({ column }) => quotePostgresIdentifier(column.name)).join(', ')
    return { columns, before: '', copy: `COPY ${table.name} (${names}) FROM STDIN`, after: '' }
  }
  const fields = [...targets.map(({ alias, column }) => `${alias} ${column.type}`), 'n integer'].join(', ')
  // A connection keeps the temporary table; another table, or other columns, have another name.
  const name = `"pipectl: ${createHash('sha256').update(`${table.name} ${fields}`).digest('hex').slice(0, 16)}"`
  return {
    columns,
    before: `CREATE TEMPORARY TABLE IF NOT EXISTS ${name} (${fields}) ON COMMIT DELETE ROWS`,
    copy: `COPY pg_temp.${name} FROM STDIN`,
    after: upsertFrom(`pg_temp.${name} AS x`),
  }
}

function defaultFor({ keepsDefault = false }: InsertRule, column: PostgresColumn): CopyColumn['defaultFor'] {
  if (column.defaultSql === null) return 'none'
  if (column.isNotNull) return 'absent or null'
  return keepsDefault ? 'absent' : 'none'
}

/**
 * Without mappings: the table's columns whose name is a key of any record in the batch; the others get their defaults. A record
 * without any such key would become an empty row. It is rejected (`no_matching_column`), by default with an error.
 */
export function rulesByName(
  table: Table,
  messages: readonly StoredMessage[],
  refuse: (rejected: RejectedRecord) => void = failFor,
): InsertRule[] {
  const rules = everyColumn(table)
  const names = rules.map(({ name }) => name)
  const slots = new Map(names.map((name, slot) => [name, slot]))
  const values: (string | undefined)[] = new Array(names.length)
  const present = new Set<string>()
  for (const message of messages) {
    for (const [at, record] of recordTexts(message.body).entries()) {
      pickMembers(record, slots, values)
      let matching = 0
      for (let slot = 0; slot < names.length; slot++) {
        if (values[slot] === undefined) continue
        matching += 1
        present.add(names[slot]!)
      }
      if (matching === 0) {
        const text = `No key of the record is a column of ${table.name}, and the destination has no column mappings: add some.`
        const place = { seq: message.seq, recordIndex: recordPlace(message, at) }
        refuse({ ...place, code: 'no_matching_column', message: text })
      }
    }
  }
  return rules.filter(({ name }) => present.has(name))
}

/** Without mappings: a rule for each column that can receive a value, from the key of its name. */
export function everyColumn(table: Table): InsertRule[] {
  return table.columns
    .filter((column) => !column.isGenerated)
    .map(({ name }) => ({
      name,
      type: 'string',
      source: { kind: 'key', key: name },
      isDedupe: false,
      keepsDefault: true,
    }))
}

function failFor(rejected: RejectedRecord): never {
  const { code, message, seq } = rejected
  throw new DeliveryError('permanent', code, message, { failedSeq: seq, fault: 'records', rejected })
}

/**
 * The same messages, with records reduced to the mapped keys, each value in its own text. The server parses the whole of $1, so
 * a NUL character or a lone surrogate fails it even in a key without a column. Slower than sending the records unchanged, so
 * used only after such a rejection.
 */
export function withMappedKeysOnly<Run extends RecordRun>(
  messages: readonly Run[],
  rules: readonly ColumnRule[],
): Run[] {
  const keys = [...new Set(rules.flatMap(({ source }) => (source.kind === 'key' ? [source.key] : [])))]
  const slots = new Map(keys.map((key, slot) => [key, slot]))
  const values: (string | undefined)[] = keys.map(() => undefined)
  const reduced = (record: string) => {
    pickMembers(record, slots, values)
    const members = keys.flatMap((key, slot) =>
      values[slot] === undefined ? [] : [`${JSON.stringify(key)}:${values[slot]}`],
    )
    return `{${members.join(',')}}`
  }
  return messages.map((message) => ({
    ...message,
    body: Buffer.from(recordTexts(message.body).map(reduced).join('\n')),
  }))
}

/** The records as a JSON array in UTF-8: parameter $1. Built in one allocation. */
export function recordsParameter(messages: readonly RecordRun[], rules: readonly ColumnRule[]): Buffer {
  const added = rules.map((rule, index) => ({ rule, key: keyOf(rule, index) }))
  const extras = added.filter(({ rule }) => rule.source.kind !== 'key')
  const count = messages.reduce((sum, { recordCount }) => sum + recordCount, 0)
  const bytes = messages.reduce((sum, { body }) => sum + body.length, 0)
  const whole = Buffer.allocUnsafe(bytes + count * (1 + extras.length * 120) + messages.length + 2)
  let at = 0
  for (const message of messages) {
    let place = 0
    for (const record of records(message.body)) {
      whole[at] = at === 0 ? openBracket : comma
      at += 1
      if (extras.length === 0) at += record.copy(whole, at)
      else {
        const brace = record.lastIndexOf(closeBrace)
        at += record.copy(whole, at, 0, brace)
        const index = recordPlace(message, place)
        const text = extras.map(({ rule, key }) => member(rule, key, message, index)).join(',')
        at += whole.write(`${isEmptyObject(record, brace) ? '' : ','}${text}}`, at, 'latin1')
      }
      place += 1
    }
  }
  if (at === 0) whole[at++] = openBracket
  whole[at++] = closeBracket
  return whole.subarray(0, at)
}

function member(rule: ColumnRule, key: string, { msgId, receivedMs }: RecordRun, index: number): string {
  const value =
    rule.source.kind === 'received_at' ? receivedAtValue(rule.type, receivedMs) : generatedId(msgId, index)
  return `"${key}":${JSON.stringify(value)}`
}

function isEmptyObject(record: Buffer, brace: number): boolean {
  let at = brace - 1
  while (at > 0 && record[at]! <= 0x20) at -= 1
  return record[at] === openBrace && at === record.indexOf(openBrace)
}

function toTarget(table: Table, rule: InsertRule, index: number): Target {
  const column = table.columns.find(({ name }) => name === rule.name)
  if (column === undefined) {
    quotePostgresIdentifier(rule.name)
    const message = `Table ${table.name} has no column ${JSON.stringify(rule.name)}: correct the column mappings, or add the column.`
    throw new DeliveryError('permanent', '42703', message)
  }
  return { rule, column, key: keyOf(rule, index), alias: `c${index}` }
}

function keyOf(rule: ColumnRule, index: number): string {
  return rule.source.kind === 'key' ? rule.source.key : `pipectl:${index}`
}

/** The records as rows with the columns c0, c1, … and their number n. */
function recordSource(targets: readonly Target[]): { text: string; values: string[] } {
  const aliases = targets.map(({ alias }) => alias).join(', ')
  if (canBeNamed(targets)) {
    const typed = targets
      .map(({ key, column }) => `${quotePostgresIdentifier(key)} ${column.type}`)
      .join(', ')
    const text = `ROWS FROM (json_to_recordset($1::json) AS (${typed})) WITH ORDINALITY AS x(${aliases}, n)`
    return { text, values: [] }
  }
  const joined = slices(targets, maxPairs).map((group, place) => {
    const pairs = group.map((target) => `'${target.alias}', r.doc -> $${parameterOf(target)}::text`)
    const typed = group.map(({ alias, column }) => `${alias} ${column.type}`)
    return `CROSS JOIN LATERAL json_to_record(json_build_object(${pairs.join(', ')})) AS x${place}(${typed.join(', ')})`
  })
  const text = `json_array_elements($1::json) WITH ORDINALITY AS r(doc, n) ${joined.join(' ')}`
  return { text, values: targets.map(({ key }) => key) }
}

/** A function takes at most 100 arguments. */
const maxPairs = 45

/**
 * json_to_recordset finds keys by column name. So no two targets can have the same key, and no key can be invalid as
 * a name (empty, too long, control characters).
 */
function canBeNamed(targets: readonly Target[]): boolean {
  if (targets.some(isDefaultWhenAbsent)) return false
  const keys = new Set(targets.map(({ key }) => key))
  return (
    keys.size === targets.length && targets.every(({ key }) => identifierFault('postgresql', key) === null)
  )
}

function valueSql(target: Target): string {
  const { alias, column } = target
  if (column.defaultSql === null) return alias
  if (column.isNotNull) return `COALESCE(${alias}, ${column.defaultSql})`
  if (!isDefaultWhenAbsent(target)) return alias
  return `CASE WHEN r.doc -> $${parameterOf(target)}::text IS NULL THEN ${column.defaultSql} ELSE ${alias} END`
}

/** NULL and a missing key differ here, and only the record itself can tell them apart. */
function isDefaultWhenAbsent({ rule, column }: Target): boolean {
  return rule.keepsDefault === true && column.defaultSql !== null && !column.isNotNull
}

/** The parameter number of the target's key: after $1, the records. */
function parameterOf({ alias }: Target): number {
  return Number(alias.slice(1)) + 2
}

/** Records without a dedupe value are all different. */
function distinctKey(dedupe: readonly Target[]): string {
  const aliases = dedupe.map(({ alias }) => alias)
  const isNull = aliases.map((alias) => `${alias} IS NULL`).join(' OR ')
  return `${aliases.join(', ')}, CASE WHEN ${isNull} THEN n END`
}

function onConflict(targets: readonly Target[], dedupe: readonly Target[]): string {
  const names = (list: readonly Target[]) => list.map(({ column }) => quotePostgresIdentifier(column.name))
  const others = names(targets.filter((target) => !dedupe.includes(target)))
  const key = `ON CONFLICT (${names(dedupe).join(', ')})`
  if (others.length === 0) return `${key} DO NOTHING`
  return `${key} DO UPDATE SET ${others.map((name) => `${name} = EXCLUDED.${name}`).join(', ')}`
}
