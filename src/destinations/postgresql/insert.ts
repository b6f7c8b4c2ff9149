/**
 * Stores a batch's records with one statement, and finds the bad ones when the server rejects it.
 *
 *   all records ──accepted──▶ stored
 *       │ rejected
 *       ├─ the lane does not park ─▶ BEGIN, bisect behind a savepoint until the first bad record is isolated, ROLLBACK
 *       └─ it does ────────────────▶ BEGIN, bisect until every bad one is isolated; the others stay inserted
 *
 * The record at which a COPY of the batch failed (`suspect`) is tried first, after those before it. It may not be the first bad
 * one: the server reads all rows of a page before it checks their keys.
 *
 * Good records stay inserted while the remaining ones are tried, so that a record that conflicts with an earlier one is found
 * too. Deferred constraints are checked at once; otherwise they would fail only at the COMMIT.
 */
import type { StoredMessage } from '../../log/buffer.ts'
import { recordPlace, records } from '../../log/record-text.ts'
import type { DeliveryError, RejectedRecord } from '../driver.ts'
import { rejectionOf } from '../park.ts'
import { type NamedValue, onlyColumn, valuesOf } from '../sql/named-value.ts'
import type { PostgresSession } from './connection.ts'
import { concernsWholeDestination, postgresError, reportOf } from './errors.ts'
import { type InsertStatement, type RecordRun, recordsParameter, withMappedKeysOnly } from './statement.ts'

/** The search stops after this long and leaves the bisecting to the lane, well before the lane's watchdog. */
const searchMs = 20_000
/**
 * If the client is gone without the server noticing, the lane's mark and the records' keys stay locked for this long. Parking
 * rejected records takes a few ms.
 */
const idleTransactionMs = 30_000
/** Begins a transaction in which constraints are checked by each statement. */
export const beginSql = `BEGIN; SET LOCAL idle_in_transaction_session_timeout = ${idleTransactionMs}; SET CONSTRAINTS ALL IMMEDIATE`

/** Where records are inserted. */
interface Insertion {
  session: PostgresSession
  statement: InsertStatement
  signal: AbortSignal
}

/** Null: stored. A permanent error is returned, any other is thrown. */
export async function insert(
  { session, statement, signal }: Insertion,
  messages: readonly RecordRun[],
): Promise<DeliveryError | null> {
  const parameter = recordsParameter(messages, statement.rules)
  try {
    await session.run(signal, statement.text, [parameter, ...statement.values])
    return null
  } catch (error) {
    const failure = postgresError(error)
    if (failure.class === 'transient') throw failure
    return failure
  }
}

/** The error of the first record that cannot be stored. Everything is rolled back. */
export async function firstRefusal(
  to: Insertion,
  messages: readonly StoredMessage[],
  rejected: DeliveryError,
  suspect: number | null,
): Promise<DeliveryError> {
  const { session, statement, signal } = to
  const runs = singleRecords(messages, statement)
  if (runs.length === 1) return naming(rejected, runs[0]!, statement)
  const giveUpMs = performance.now() + searchMs
  await session.run(signal, beginSql)
  // Invariant: records before `good` are inserted, and the first bad one is before `bad`.
  let good = 0
  let bad = runs.length
  let error = rejected
  const hints = suspect === null ? [] : [suspect, suspect + 1]
  while (bad - good > 1 && performance.now() < giveUpMs) {
    const middle = hints.find((hint) => hint > good && hint < bad) ?? (good + bad) >> 1
    await session.run(signal, 'SAVEPOINT probe')
    const failure = await insert(to, runs.slice(good, middle))
    if (failure === null) good = middle
    else {
      bad = middle
      error = failure
      await session.run(signal, 'ROLLBACK TO SAVEPOINT probe')
    }
  }
  // The error so far may be that of a whole run; the isolated record has its own.
  const isFound = bad - good === 1
  const own = isFound ? await insert(to, runs.slice(good, bad)) : null
  await session.run(signal, 'ROLLBACK')
  if (own === null) return error
  // Whatever its code: the destination accepts other records.
  return naming(good > 0 ? own.with({ fault: 'records' }) : own, runs[good]!, statement)
}

/**
 * Inserts every record that the server accepts, in the open transaction, and returns the others. `rejected`: the error for all
 * of them together, if they were tried. Rejects permanently when none is accepted and nothing shows that the records are at
 * fault, and when the search takes too long.
 */
export async function insertOthers(
  to: Insertion,
  runs: readonly RecordRun[],
  rejected: DeliveryError | null,
  suspect: number | null,
): Promise<RejectedRecord[]> {
  const { session, statement, signal } = to
  const giveUpMs = performance.now() + searchMs
  await session.run(signal, 'SAVEPOINT probe')
  if (
    rejected?.fault === 'destination' &&
    !(await isTaken(to, runs[0]!)) &&
    !(await isTaken(to, runs.at(-1)!))
  )
    throw naming(rejected, runs[0]!, statement)
  const refused = await insertGood(to, runs, { rejected, suspect, giveUpMs })
  const unclear = refused.find(({ failure }) => failure.fault === 'destination')
  if (unclear !== undefined && refused.length === runs.length)
    throw naming(unclear.failure, unclear.run, statement)
  return refused.map(({ failure, run }) => refusal(failure, run, statement))
}

/** Tries one record, which is not kept. */
async function isTaken(to: Insertion, run: RecordRun): Promise<boolean> {
  const failure = await insert(to, [run])
  await to.session.run(to.signal, 'ROLLBACK TO SAVEPOINT probe')
  return failure === null
}

interface Search {
  rejected: DeliveryError | null
  suspect: number | null
  giveUpMs: number
}

/** Bisects the rejected records until every bad one is isolated. Returns the bad ones; the others are inserted. */
async function insertGood(
  to: Insertion,
  runs: readonly RecordRun[],
  { rejected, suspect, giveUpMs }: Search,
): Promise<{ failure: DeliveryError; run: RecordRun }[]> {
  const { session, signal } = to
  let last = rejected
  const parts =
    suspect === null
      ? [runs]
      : [runs.slice(suspect + 1), runs.slice(suspect, suspect + 1), runs.slice(0, suspect)]
  const waiting = parts.filter(({ length }) => length > 0)
  // All of them together were rejected already.
  let known = runs.length > 1 && waiting[0] === runs ? rejected : null
  const refused: { failure: DeliveryError; run: RecordRun }[] = []
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    // The records before it could be sent in a batch of their own.
    if (last !== null && performance.now() >= giveUpMs) throw last.with({ failedSeq: next[0]!.seq })
    const failure = known ?? (await insert(to, next))
    known = null
    if (failure === null) {
      await session.run(signal, 'RELEASE SAVEPOINT probe; SAVEPOINT probe')
      continue
    }
    if (concernsWholeDestination(failure)) throw failure
    last = failure
    await session.run(signal, 'ROLLBACK TO SAVEPOINT probe')
    const middle = next.length >> 1
    if (middle > 0) waiting.push(next.slice(middle), next.slice(0, middle))
    else refused.push({ failure, run: next[0]! })
  }
  return refused
}

/** Each record with its index, reduced to the mapped keys: other keys may contain text that the server cannot read. */
export function singleRecords(messages: readonly StoredMessage[], statement: InsertStatement): RecordRun[] {
  const runs: RecordRun[] = []
  for (const message of messages) {
    let at = 0
    for (const body of records(message.body)) {
      const { places: _, ...whole } = message
      runs.push({ ...whole, body, recordCount: 1, firstIndex: recordPlace(message, at) })
      at += 1
    }
  }
  return withMappedKeysOnly(runs, statement.rules)
}

function naming(error: DeliveryError, run: RecordRun, statement: InsertStatement): DeliveryError {
  const { seq: failedSeq } = run
  if (error.fault !== 'records') return error.with({ failedSeq })
  return error.with({ failedSeq, rejected: refusal(error, run, statement) })
}

function refusal(error: DeliveryError, run: RecordRun, statement: InsertStatement): RejectedRecord {
  const { seq, firstIndex: recordIndex = 0, body } = run
  const named = namedValue(error, body.toString('utf8'), statement)
  return rejectionOf(error, { seq, recordIndex, ...named })
}

/**
 * Finds the column and value that PostgreSQL rejects. The server names the column only for a missing value. For an unreadable
 * value it quotes the text, for one that is too long it names the type. The column is the one that fits, if there is only one.
 */
function namedValue(error: DeliveryError, record: string, statement: InsertStatement): NamedValue {
  const report = reportOf(error.cause)
  if (report === null) return {}
  const { code, message, column } = report
  const values = valuesOf(record, statement.keyed)
  if (column !== undefined) {
    const value = values.get(column)
    return value === undefined ? { column } : { column, value }
  }
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
