/**
 * PostgreSQL driver: a batch is one statement in a transaction of its own, so it is stored wholly or not at all.
 *
 * One connection per lane, opened with the first batch. The table's column types are read from the catalog at most
 * every half minute; a rejected batch reads them again, and when they have changed is tried with them once before any
 * message is searched for.
 *
 * With `exactly_once` the same statement moves the lane's row first (`sql/lane-row.ts`, `lane-row.ts`).
 *
 * A rejected batch is then searched for its first bad message inside a transaction that is rolled back: the lane
 * delivers what comes before that message with its next attempt, and nothing is stored twice.
 */
import type { StoredMessage } from '../../buffer/buffer.ts'
import { columnRules } from '../../contract/column-rules.ts'
import type {
  AttemptProgress,
  Batch,
  DatabaseSpec,
  DeliveryError,
  DestinationDriver,
  DriverModule,
  DriverSettings,
  PinServerKey,
} from '../driver.ts'
import { looksAtRow, rowBusy } from '../sql/lane-row.ts'
import { pinnedOnFirstUse } from '../sql/server-key.ts'
import { checkPostgres } from './check.ts'
import { openSession, type PostgresSession } from './connection.ts'
import { concernsWholeDestination, postgresError } from './errors.ts'
import { inferPostgres } from './infer.ts'
import { forgetLaneRow, LaneRow } from './lane-row.ts'
import {
  type InsertStatement,
  insertStatement,
  recordsParameter,
  rulesByName,
  withMappedKeysOnly,
} from './statement.ts'
import { readTable, type Table } from './table.ts'

const tableMaxAgeMs = 30_000
/** The search gives up after this long and leaves the bisecting to the lane, well before the lane's watchdog. */
const searchMs = 20_000

export const postgresql: DriverModule<DatabaseSpec> = {
  open,
  check: checkPostgres,
  infer: inferPostgres,
  forget: forgetLaneRow,
}

interface KnownTable {
  table: Table
  readAtMs: number
}
interface Connection {
  session: PostgresSession
  table?: KnownTable | undefined
  /** With `exactly_once`. */
  row?: LaneRow | undefined
}

function open(spec: DatabaseSpec, settings: DriverSettings, pin: PinServerKey): DestinationDriver {
  const admit = pinnedOnFirstUse(pin, settings)
  let connection: Connection | undefined
  const disconnect = () => {
    connection?.session.destroy()
    connection = undefined
  }
  return {
    async deliver(batch, signal, progress) {
      try {
        if (connection === undefined || connection.session.isDead()) {
          connection = { session: await openSession(spec.config, settings, admit, signal) }
        }
        connection.session.beginAttempt()
        if (spec.config.exactly_once) await storeOnce(connection, { spec, settings, batch, signal, progress })
        else await store(connection, spec, batch, signal)
      } catch (error) {
        const failure = postgresError(error)
        // After a transient failure nothing is known of the connection; the next attempt opens another.
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
  progress: AttemptProgress | undefined
}

/** What of the batch the lane's row says is not there yet. */
async function storeOnce(connection: Connection, attempt: Attempt): Promise<void> {
  const { spec, settings, batch, signal, progress } = attempt
  const { table } = await tableOf(connection, spec, signal)
  connection.row ??= new LaneRow(connection.session, table, spec, settings)
  const { row } = connection
  for (let look = 0; look < looksAtRow; look++) {
    const rest = await row.undelivered(batch, signal, progress)
    if (rest === null) return
    if ((await store(connection, spec, rest, signal, row)) !== 'moved') return
  }
  throw rowBusy(row.table)
}

/** `moved`: nothing was stored, because the lane's row is not where it was. */
async function store(
  connection: Connection,
  spec: DatabaseSpec,
  batch: Batch,
  signal: AbortSignal,
  row?: LaneRow,
): Promise<null | 'moved'> {
  const { session } = connection
  const insertAll = async (statement: InsertStatement, messages: Batch['messages']) =>
    row === undefined
      ? await insert(session, statement, messages, signal)
      : await row.insert(statement, { ...batch, messages }, signal)
  let statement = await statementFor(connection, spec, batch, signal)
  let rejected = await insertAll(statement, batch.messages)
  if (rejected === null || rejected === 'moved') return rejected
  connection.table = undefined
  const reread = await statementFor(connection, spec, batch, signal)
  if (reread.text !== statement.text) {
    statement = reread
    rejected = await insertAll(statement, batch.messages)
    if (rejected === null || rejected === 'moved') return rejected
  }
  if (concernsWholeDestination(rejected)) throw rejected
  let { messages } = batch
  if (unreadableText.has(rejected.code)) {
    messages = withMappedKeysOnly(messages, statement.rules)
    rejected = await insertAll(statement, messages)
    if (rejected === null || rejected === 'moved') return rejected
  }
  throw await firstFailure(session, statement, { ...batch, messages }, rejected, signal)
}

/** Text of a record that JSON allows and the server does not: it may be where no column is mapped to it. */
const unreadableText = new Set(['22P05', '22P02'])

/** Null: stored. A permanent error is returned, anything else thrown. */
async function insert(
  session: PostgresSession,
  statement: InsertStatement,
  messages: readonly StoredMessage[],
  signal: AbortSignal,
): Promise<DeliveryError | null> {
  const records = recordsParameter(messages, statement.rules)
  try {
    await session.run(signal, statement.text, [records, ...statement.values])
    return null
  } catch (error) {
    const failure = postgresError(error)
    if (failure.class === 'transient') throw failure
    return failure
  }
}

async function statementFor(
  connection: Connection,
  spec: DatabaseSpec,
  batch: Batch,
  signal: AbortSignal,
): Promise<InsertStatement> {
  const known = connection.table
  try {
    const { table } = await tableOf(connection, spec, signal)
    const isMapped = spec.columns.length > 0
    const rules = isMapped
      ? columnRules(spec.columns, spec.timestampField)
      : rulesByName(table, batch.messages)
    return insertStatement(table, rules)
  } catch (error) {
    // What we knew of the table may be old: the missing column may be there by now.
    if (known !== undefined && connection.table === known) {
      connection.table = undefined
      return statementFor(connection, spec, batch, signal)
    }
    throw error
  }
}

async function tableOf(connection: Connection, spec: DatabaseSpec, signal: AbortSignal): Promise<KnownTable> {
  const known = connection.table
  if (known !== undefined && performance.now() - known.readAtMs < tableMaxAgeMs) return known
  const table = await readTable(connection.session, spec.config.table, signal)
  connection.table = { table, readAtMs: performance.now() }
  return connection.table
}

/**
 * The error of the first message that cannot be stored, by halving: what is known to be good stays inserted while the
 * rest is tried, behind a savepoint, so that a message that clashes with an earlier one is found too. Everything is
 * rolled back. Deferred constraints are checked at once here, or they would fail only at a COMMIT.
 */
async function firstFailure(
  session: PostgresSession,
  statement: InsertStatement,
  batch: Batch,
  rejected: DeliveryError,
  signal: AbortSignal,
): Promise<DeliveryError> {
  const { messages } = batch
  if (messages.length === 1) return rejected.with({ failedSeq: batch.firstSeq })
  const giveUpMs = performance.now() + searchMs
  await session.run(signal, 'BEGIN; SET CONSTRAINTS ALL IMMEDIATE')
  // Invariant: messages before `good` are inserted, and the first bad one is before `bad`.
  let good = 0
  let bad = messages.length
  let error = rejected
  while (bad - good > 1 && performance.now() < giveUpMs) {
    const middle = (good + bad) >> 1
    await session.run(signal, 'SAVEPOINT probe')
    const failure = await insert(session, statement, messages.slice(good, middle), signal)
    if (failure === null) good = middle
    else {
      bad = middle
      error = failure
      await session.run(signal, 'ROLLBACK TO SAVEPOINT probe')
    }
  }
  // The error at hand may be that of a whole run: the failing message alone has its own.
  const isFound = bad - good === 1
  const own = isFound ? await insert(session, statement, messages.slice(good, bad), signal) : null
  await session.run(signal, 'ROLLBACK')
  return own === null ? error : own.with({ failedSeq: messages[good]!.seq })
}
