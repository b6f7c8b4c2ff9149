/**
 * PostgreSQL driver: a batch is one COPY or one statement in its own transaction, so all of it is stored or nothing.
 *
 * One connection per lane, opened with the first batch. The table's column types are read from the catalog at most every 30 s.
 * A rejected batch reads them again. If they have changed, the batch is tried once more before the search for a bad message.
 *
 * With `exactly_once` the same statement moves the lane's mark first (`sql/exactly-once-mark.ts`).
 *
 * A rejected batch is then searched for its first bad record, inside a transaction that is rolled back. The lane delivers the
 * messages before it with its next attempt, and nothing is stored twice. If the lane parks records, the search continues to the
 * end, and its transaction is committed without the bad ones (`insert.ts`).
 */
import { columnRules } from '../../contract/column-rules.ts'
import {
  type AttemptProgress,
  type Batch,
  type DatabaseSpec,
  type DeliveryError,
  type DestinationDriver,
  type DriverModule,
  type DriverSettings,
  noProgress,
  type PinServerKey,
  type RejectedRecord,
} from '../driver.ts'
import { parkAll } from '../park.ts'
import { markBusy, maxReads } from '../sql/exactly-once-mark.ts'
import { pinnedOnFirstUse } from '../sql/server-key.ts'
import { checkPostgres } from './check.ts'
import { openSession, type PostgresSession } from './connection.ts'
import { copyBatch, fewestRecords } from './copy.ts'
import { concernsWholeDestination, postgresError } from './errors.ts'
import { ExactlyOnceMark, forgetMarks } from './exactly-once-mark.ts'
import { inferPostgres } from './infer.ts'
import { beginSql, firstRefusal, insert, insertOthers, singleRecords } from './insert.ts'
import { type InsertStatement, insertStatement, rulesByName, withMappedKeysOnly } from './statement.ts'
import { readTable, type Table } from './table.ts'

const tableMaxAgeMs = 30_000

export const postgresql: DriverModule<DatabaseSpec> = {
  open,
  check: checkPostgres,
  infer: inferPostgres,
  forget: forgetMarks,
}

interface KnownTable {
  table: Table
  /** With mapped columns every batch has the same statement. Null: they are mapped by name, or there was no batch yet. */
  statement: InsertStatement | null
  readAtMs: number
  refusesCopy: boolean
}
interface Connection {
  session: PostgresSession
  table?: KnownTable | undefined
  /** Set with `exactly_once`. */
  mark?: ExactlyOnceMark | undefined
}

function open(spec: DatabaseSpec, settings: DriverSettings, pin: PinServerKey): DestinationDriver {
  const admit = pinnedOnFirstUse(spec, pin, settings)
  let connection: Connection | undefined
  const disconnect = () => {
    connection?.session.destroy()
    connection = undefined
  }
  return {
    async deliver(batch, signal, progress = noProgress) {
      try {
        if (connection === undefined || connection.session.isDead()) {
          connection = { session: await openSession(spec.config, settings, admit, signal) }
        }
        connection.session.beginAttempt()
        const attempt = { spec, settings, batch, signal, progress }
        if (spec.config.exactly_once) await storeOnce(connection, attempt)
        else await store(connection, attempt)
      } catch (error) {
        const failure = postgresError(error)
        // After a transient failure the state of the connection is unknown; the next attempt opens another one.
        if (failure.class === 'transient') disconnect()
        throw concernsWholeDestination(failure) ? failure.with({ failedSeq: batch.firstSeq }) : failure
      }
    },
    async close() {
      disconnect()
    },
  }
}

interface Attempt {
  spec: DatabaseSpec
  settings: DriverSettings
  batch: Batch
  signal: AbortSignal
  progress: AttemptProgress
}

/** Stores the part of the batch that is not stored yet according to the lane's mark. */
async function storeOnce(connection: Connection, attempt: Attempt): Promise<void> {
  const { spec, settings, batch, signal, progress } = attempt
  const { table } = await tableOf(connection, spec, signal)
  connection.mark ??= new ExactlyOnceMark(connection.session, table, spec, settings)
  const { mark } = connection
  for (let look = 0; look < maxReads; look++) {
    const rest = await mark.undelivered(batch, signal, progress)
    if (rest === null) return
    if ((await store(connection, { ...attempt, batch: rest })) !== 'moved') return
  }
  throw markBusy(mark.table)
}

/** `moved`: nothing was stored, because another attempt has moved the lane's mark. */
async function store(connection: Connection, attempt: Attempt): Promise<null | 'moved'> {
  const { session } = connection
  const { batch, signal, progress } = attempt
  let prepared = await prepare(connection, attempt)
  if (prepared.unmatched.length > 0) return await storeOthers(connection, attempt, prepared, noSearch)
  const whole = await storeWhole(connection, attempt, prepared.statement)
  const { suspect } = whole
  let rejected = whole.outcome
  if (rejected === null || rejected === 'moved') return rejected
  connection.table = undefined
  const reread = await prepare(connection, attempt)
  if (reread.statement.text !== prepared.statement.text) {
    prepared = reread
    if (prepared.unmatched.length > 0) return await storeOthers(connection, attempt, prepared, noSearch)
    rejected = await insertAll(connection, attempt, prepared.statement)
    if (rejected === null || rejected === 'moved') return rejected
  }
  if (concernsWholeDestination(rejected)) throw rejected
  const { statement } = prepared
  if (mayBeUnmapped(rejected, suspect)) {
    const messages = withMappedKeysOnly(batch.messages, statement.rules)
    rejected = await insertAll(connection, { ...attempt, batch: { ...batch, messages } }, statement)
    if (rejected === null || rejected === 'moved') return rejected
  }
  if (progress.park !== null) return await storeOthers(connection, attempt, prepared, { rejected, suspect })
  throw await firstRefusal({ session, statement, signal }, batch.messages, rejected, suspect)
}

type Outcome = DeliveryError | 'moved' | null

/** `suspect`: the index of the record at which COPY failed, if the server named it. */
interface WholeOutcome {
  outcome: Outcome
  suspect: number | null
}

/** Uses COPY if possible, otherwise the statement. A permanent error is returned, any other is thrown. */
async function storeWhole(
  connection: Connection,
  attempt: Attempt,
  statement: InsertStatement,
): Promise<WholeOutcome> {
  const { session, mark, table: known } = connection
  const { batch, signal } = attempt
  const canCopy = statement.copy !== null && batch.recordCount >= fewestRecords && known?.refusesCopy !== true
  const copied = canCopy ? await copyBatch({ session, statement, mark }, batch, signal) : 'unfit'
  if (copied === 'stored') return { outcome: null, suspect: null }
  if (copied === 'moved') return { outcome: copied, suspect: null }
  const outcome = await insertAll(connection, attempt, statement)
  // The batch was not at fault: this user or this server cannot COPY.
  if (outcome === null && copied !== 'unfit' && known !== undefined) known.refusesCopy = true
  return { outcome, suspect: copied === 'unfit' ? null : copied.atRecord }
}

async function insertAll(
  { session, mark }: Connection,
  { batch, signal }: Attempt,
  statement: InsertStatement,
): Promise<Outcome> {
  return mark === undefined
    ? await insert({ session, statement, signal }, batch.messages)
    : await mark.insert(statement, batch, signal)
}

/**
 * Stores all records except those that the server rejects permanently, which the lane parks before the others are committed.
 * `rejected`: the server's error for the whole batch, if that was tried; `suspect`: see `WholeOutcome`.
 */
async function storeOthers(
  { session, mark }: Connection,
  { batch, signal, progress }: Attempt,
  { statement, unmatched }: Prepared,
  { rejected, suspect }: { rejected: DeliveryError | null; suspect: number | null },
): Promise<null | 'moved'> {
  await session.run(signal, beginSql)
  try {
    if (mark !== undefined && !(await mark.move(batch, signal))) {
      await session.run(signal, 'ROLLBACK')
      return 'moved'
    }
    const places = new Set(unmatched.map(placeOf))
    const runs = singleRecords(batch.messages, statement).filter(
      ({ seq, firstIndex = null }) => !places.has(placeOf({ seq, recordIndex: firstIndex })),
    )
    const refused = await insertOthers({ session, statement, signal }, runs, rejected, suspect)
    if (progress.park !== null) await parkAll(progress.park, [...unmatched, ...refused])
    await session.run(signal, 'COMMIT')
    mark?.committed(batch)
    return null
  } catch (error) {
    // After a transient failure the connection is closed.
    if (postgresError(error).class === 'permanent') await session.run(signal, 'ROLLBACK')
    throw error
  }
}

/** The batch was not tried as a whole. */
const noSearch = { rejected: null, suspect: null }

function placeOf({ seq, recordIndex }: Pick<RejectedRecord, 'seq' | 'recordIndex'>): string {
  return `${seq}:${recordIndex}`
}

/**
 * A record's text is valid JSON but unreadable for the server, possibly in a key without a column. A COPY reads only keys with a
 * column, so if it failed at a record, one of those is at fault.
 */
function mayBeUnmapped({ code }: DeliveryError, suspect: number | null): boolean {
  return suspect === null && (code === '22P05' || code === '22P02')
}

interface Prepared {
  statement: InsertStatement
  /** If the lane parks: the records that have no key in common with the table. Otherwise the first one is an error. */
  unmatched: RejectedRecord[]
}

async function prepare(connection: Connection, attempt: Attempt): Promise<Prepared> {
  const { spec, batch, signal, progress } = attempt
  const known = connection.table
  const again = () => {
    connection.table = undefined
    return prepare(connection, attempt)
  }
  // The known columns may be outdated: a missing column may exist by now.
  const isOld = () => known !== undefined && connection.table === known
  const unmatched: RejectedRecord[] = []
  const reject = progress.park && ((rejected: RejectedRecord) => void unmatched.push(rejected))
  try {
    const current = await tableOf(connection, spec, signal)
    if (spec.columns.length > 0) {
      current.statement ??= insertStatement(current.table, columnRules(spec.columns, spec.timestampField))
      return { statement: current.statement, unmatched }
    }
    const rules = rulesByName(current.table, batch.messages, reject ?? undefined)
    if (unmatched.length > 0 && isOld()) return await again()
    return { statement: insertStatement(current.table, rules), unmatched }
  } catch (error) {
    if (isOld()) return await again()
    throw error
  }
}

async function tableOf(connection: Connection, spec: DatabaseSpec, signal: AbortSignal): Promise<KnownTable> {
  const known = connection.table
  if (known !== undefined && performance.now() - known.readAtMs < tableMaxAgeMs) return known
  const table = await readTable(connection.session, spec.config.table, signal)
  connection.table = { table, statement: null, readAtMs: performance.now(), refusesCopy: false }
  return connection.table
}
