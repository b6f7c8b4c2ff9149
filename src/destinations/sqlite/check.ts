/** POST …/destinations/test for SQLite files: reads the table. Nothing is stored, and no file is created. */
import { statSync } from 'node:fs'
import Database from 'better-sqlite3'
import { bytes } from '../../platform/quantities.ts'
import { BatchPortions, PortionReader } from '../batch-portions.ts'
import type { DestinationCheck, DriverSettings, Sample, SqliteSpec } from '../driver.ts'
import { checkedTable, markTableName } from '../sql/exactly-once-mark.ts'
import { sampleBatch, sampleCheck, tableCheck } from '../sql/sample.ts'
import { sqliteError } from './errors.ts'
import { hasMarkTable, readMark } from './exactly-once-mark.ts'
import { isTableFile } from './files.ts'
import { quoteSqliteIdentifier } from './identifiers.ts'
import { placeOf } from './place.ts'
import { RowInserter } from './rows.ts'
import { type InsertPlan, insertSql, planInsert } from './statement.ts'
import { describeTable, findColumn, noFile, type TableDescription } from './table.ts'
import { busyTimeoutMs } from './table-file.ts'

export async function checkSqlite(
  spec: SqliteSpec,
  settings: DriverSettings,
  _signal: AbortSignal,
  sample: Sample | null = null,
): Promise<DestinationCheck[]> {
  const { file, size_limit_mib } = spec.config
  const checks: DestinationCheck[] = []
  let step = 'file'
  let database: Database.Database | null = null
  try {
    const { path } = placeOf(spec, settings)
    if (!isTableFile(path)) throw noFile(file)
    database = new Database(path, { fileMustExist: true, timeout: busyTimeoutMs })
    // Reads the file, which opening does not.
    database.pragma('schema_version')
    checks.push(
      passed(step, `${file}.sqlite has ${bytes(statSync(path).size)} of at most ${size_limit_mib} MiB.`),
    )
    step = 'table'
    const table = describeTable(database, file, spec.config.table)
    checks.push(tableCheck(`${table.name} in ${file}.sqlite`, table.columns))
    step = 'columns'
    const plan = planInsert(table, spec.columns, spec.timestampField)
    checks.push(...mappingChecks(plan, spec))
    step = 'insert'
    database.exec('BEGIN IMMEDIATE')
    checks.push(...writingChecks(database, plan, spec, sample))
  } catch (error) {
    const { code, message } = sqliteError(error, `${file}.sqlite`)
    checks.push({ name: code === 'no_unique_key' ? 'dedupe_id' : step, ok: false, message })
  } finally {
    if (database?.inTransaction) database.exec('ROLLBACK')
    database?.close()
  }
  return checks
}

function mappingChecks(plan: InsertPlan, spec: SqliteSpec): DestinationCheck[] {
  return [
    unfilled(plan.table, spec) ?? passed('columns', 'The table has every mapped column.'),
    ...(plan.dedupe.length === 0
      ? []
      : [passed('dedupe_id', 'The dedupe_id column has a unique key: delivery is an upsert.')]),
    plan.table.isStrict
      ? passed('strict', 'The table is STRICT: a column accepts only values of its type.')
      : passed(
          'strict',
          'The table is not STRICT. Values that a column would change are rejected by pipectl.',
        ),
  ]
}

/** In a transaction that the caller rolls back. */
function writingChecks(
  database: Database.Database,
  plan: InsertPlan,
  spec: SqliteSpec,
  sample: Sample | null,
): DestinationCheck[] {
  if (plan.columns.length > 0) database.prepare(insertSql(plan, plan.columns))
  // Reads a page of the table: a damaged file can have a readable schema.
  database.prepare(`SELECT * FROM ${quoteSqliteIdentifier(plan.table.name)} LIMIT 1`).get()
  const writtenBy: DestinationCheck = {
    ...passed('written_by', 'Rows are written by one INSERT each, all of a batch in one transaction.'),
    writtenBy: 'insert',
  }
  return [
    passed('insert', 'The daemon can write the file.'),
    writtenBy,
    ...(spec.config.exactly_once ? [markCheck(database)] : []),
    ...(sample === null ? [] : [insertSample(database, plan, spec, sample)]),
  ]
}

function markCheck(database: Database.Database): DestinationCheck {
  const isThere = hasMarkTable(database)
  try {
    readMark(database, ['', '', ''])
    return passed('exactly_once', checkedTable(markTableName, isThere))
  } catch (error) {
    return { name: 'exactly_once', ok: false, message: sqliteError(error, markTableName).message }
  }
}

function insertSample(
  database: Database.Database,
  plan: InsertPlan,
  spec: SqliteSpec,
  sample: Sample,
): DestinationCheck {
  const { file } = spec.config
  const batch = sampleBatch(sample, spec, (name) => madeUpText(plan.table, name))
  try {
    const portion = new BatchPortions(batch.messages).next()!
    const inserter = new RowInserter(database, plan)
    inserter.begin(false)
    for (const { text, place } of new PortionReader().records(portion)) inserter.insert(text, place)
    return sampleCheck(sample, null)
  } catch (error) {
    return sampleCheck(sample, sqliteError(error, `${file}.sqlite`))
  }
}

function madeUpText(table: TableDescription, name: string): string {
  const kind = findColumn(table, name)?.kind
  return kind === 'integer' || kind === 'real' ? '1' : 'sample'
}

/** Reports columns that require a value and have no mapping: they would reject every row. */
function unfilled(table: TableDescription, { columns }: SqliteSpec): DestinationCheck | null {
  if (columns.length === 0) return null
  const mapped = new Set(columns.map(({ column_name }) => findColumn(table, column_name)?.name))
  const missing = table.columns.find(
    ({ name, isNotNull, hasDefault, isGenerated }) =>
      isNotNull && !hasDefault && !isGenerated && !mapped.has(name),
  )
  if (missing === undefined) return null
  const message = `Column "${missing.name}" is NOT NULL without a default, and has no mapping: add one.`
  return { name: 'columns', ok: false, message }
}

function passed(name: string, message: string): DestinationCheck {
  return { name, ok: true, message }
}
