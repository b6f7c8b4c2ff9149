/**
 * PostgreSQL driver: a batch is one statement in a transaction of its own, so it is stored wholly or not at all.
 *
 * One connection a lane, opened with the first batch and closed after a minute without one. The table's column types
 * are read from the catalog at most every half minute; a refused batch reads them anew, and when they have changed is
 * tried with them once before anything is blamed.
 *
 * A refused batch is then searched for its first bad message inside a transaction that is rolled back: the lane
 * delivers what stands before that message with its next attempt, and nothing is stored twice.
 */
import type { StoredMessage } from '../../buffer/buffer.ts'
import type { DatabaseConfig } from '../../contract/destination.ts'
import { blaming } from '../blame.ts'
import type {
  Batch,
  DeliveryError,
  DestinationDriver,
  DestinationSpec,
  DriverModule,
  DriverSettings,
} from '../driver.ts'
import { columnRules } from './columns.ts'
import { checkPostgres } from './postgresql-check.ts'
import { concernsWholeDestination, postgresError } from './postgresql-errors.ts'
import { openSession, type PostgresSession } from './postgresql-session.ts'
import {
  type InsertStatement,
  insertStatement,
  recordsParameter,
  rulesByName,
  withMappedKeysOnly,
} from './postgresql-statement.ts'
import { readTable, type Table } from './postgresql-table.ts'

const idleMs = 60_000
const tableMaxAgeMs = 30_000
/** The search gives up after this long and leaves the narrowing to the lane, well before the lane's watchdog. */
const searchMs = 20_000

export const postgresql: DriverModule = { open, check: checkPostgres }

interface KnownTable {
  table: Table
  readAtMs: number
}
interface Connection {
  session: PostgresSession
  table?: KnownTable | undefined
}

function open(spec: DestinationSpec, settings: DriverSettings): DestinationDriver {
  const config = spec.config as DatabaseConfig
  let connection: Connection | undefined
  let idle: NodeJS.Timeout | undefined
  const disconnect = () => {
    connection?.session.destroy()
    connection = undefined
  }
  return {
    async deliver(batch, signal) {
      clearTimeout(idle)
      try {
        if (connection === undefined || connection.session.isDead()) {
          connection = { session: await openSession(config, settings, signal) }
        }
        await store(connection, spec, batch, signal)
      } catch (error) {
        const failure = postgresError(error)
        // After a transient failure nothing is known of the connection; the next attempt starts afresh.
        if (failure.class === 'transient') disconnect()
        throw concernsWholeDestination(failure) ? blaming(failure, batch.firstSeq) : failure
      } finally {
        idle = setTimeout(disconnect, idleMs).unref()
      }
    },
    async close() {
      clearTimeout(idle)
      disconnect()
    },
  }
}

async function store(
  connection: Connection,
  spec: DestinationSpec,
  batch: Batch,
  signal: AbortSignal,
): Promise<void> {
  const { session } = connection
  let statement = await statementFor(connection, spec, batch, signal)
  let refused = await insert(session, statement, batch.messages, signal)
  if (refused === null) return
  connection.table = undefined
  const anew = await statementFor(connection, spec, batch, signal)
  if (anew.text !== statement.text) {
    statement = anew
    refused = await insert(session, statement, batch.messages, signal)
    if (refused === null) return
  }
  if (concernsWholeDestination(refused)) throw refused
  let { messages } = batch
  if (unreadableText.has(refused.code)) {
    messages = withMappedKeysOnly(messages, statement.rules)
    refused = await insert(session, statement, messages, signal)
    if (refused === null) return
  }
  throw await firstFailure(session, statement, { ...batch, messages }, refused, signal)
}

/** Text of a record that JSON allows and the server does not: it may lie where no column is mapped to it. */
const unreadableText = new Set(['22P05', '22P02'])

/** Null: stored. A permanent refusal is given back, anything else thrown. */
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
  spec: DestinationSpec,
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

async function tableOf(
  connection: Connection,
  spec: DestinationSpec,
  signal: AbortSignal,
): Promise<KnownTable> {
  const known = connection.table
  if (known !== undefined && performance.now() - known.readAtMs < tableMaxAgeMs) return known
  const config = spec.config as DatabaseConfig
  const table = await readTable(connection.session, config.table, signal)
  connection.table = { table, readAtMs: performance.now() }
  return connection.table
}

/**
 * The error of the first message that cannot be stored, by halving: what is known to be good stays inserted while the
 * rest is tried, behind a savepoint, so that a message that clashes with an earlier one is found too. Everything is
 * rolled back. Deferred constraints are checked at once here, or they would speak up only at a COMMIT.
 */
async function firstFailure(
  session: PostgresSession,
  statement: InsertStatement,
  batch: Batch,
  refused: DeliveryError,
  signal: AbortSignal,
): Promise<DeliveryError> {
  const { messages } = batch
  if (messages.length === 1) return blaming(refused, batch.firstSeq)
  const giveUpMs = performance.now() + searchMs
  await session.run(signal, 'BEGIN; SET CONSTRAINTS ALL IMMEDIATE')
  // Invariant: messages before `good` are inserted, and the first bad one is before `bad`.
  let good = 0
  let bad = messages.length
  let error = refused
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
  // The error at hand may be that of a whole run: the culprit is asked for its own.
  const isFound = bad - good === 1
  const own = isFound ? await insert(session, statement, messages.slice(good, bad), signal) : null
  await session.run(signal, 'ROLLBACK')
  return own === null ? error : blaming(own, messages[good]!.seq)
}
