/**
 * One connection to a MySQL-family server. Its session has known settings whatever the server's defaults are: strict mode (no
 * silent truncation or replacement), UTC, utf8mb4, no autocommit.
 */
import type { Socket } from 'node:net'
import { type Connection, createConnection, type ResultSetHeader, type RowDataPacket } from 'mysql2'
import { type DatabaseSpec, DeliveryError, type DriverSettings } from '../driver.ts'
import { dial } from '../egress.ts'
import { filterData, guardSocket, protocolError, ReadLimit } from '../guards.ts'
import { isCertainlyHost, tlsOptions, usesTls } from '../sql/certificates.ts'
import { isOwnHost } from '../sql/columns.ts'
import type { AdmitServer } from '../sql/server-key.ts'
import { provingPlugins } from './authentication.ts'
import { splitTableName } from './identifiers.ts'
import { describeTable, type Select, type TableDescription } from './table.ts'

export interface MysqlConnection {
  /** Restarts the count of the bytes that an attempt may read. */
  beginAttempt(): void
  /** The reason why reading was stopped during this attempt, or null. */
  readError(): DeliveryError | null
  /** The largest packet that the server accepts: no statement with its values can be longer. */
  readonly maxPacketBytes: number
  /** False after the server, the network or `destroy` has ended the connection. */
  isAlive(): boolean
  /** Executes a prepared statement with its values; it is prepared once per text. Returns the number of warnings. */
  execute(sql: string, values: (string | null)[]): Promise<number>
  /** The same for an UPDATE or DELETE; returns the number of matched rows. */
  update(sql: string, values: string[]): Promise<number>
  /** The same for a SELECT; returns its rows, with large numbers as texts. */
  select: Select
  /** Has the server check a statement without running it. */
  prepare(sql: string): Promise<void>
  /** Runs a statement without values, such as COMMIT. */
  command(sql: string): Promise<void>
  /** The warnings of the last statement. */
  warnings(): Promise<{ errno: number; message: string }[]>
  describe(table: string): Promise<TableDescription>
  /** Closes gracefully, within one second. */
  close(): Promise<void>
  /** Destroys the socket at once: everything in progress rejects. */
  destroy(): void
}

/**
 * mysql2 prints a stack trace for each malformed packet, and a hostile server can send them without end. Nothing else
 * in this program calls it.
 */
console.trace = () => {}

const connectTimeoutMs = 15_000

/** Members that are missing from mysql2's types: the current socket, and the function that starts TLS. */
type Core = Connection & { stream: Socket; startTLS(onSecure: (error?: unknown) => void): void }

/** Rejects with mysql2's, the system's, egress's own error or a DeliveryError; when aborted, with the signal's reason. */
export async function connectMysql(
  spec: DatabaseSpec,
  settings: DriverSettings,
  admit: AdmitServer,
  signal: AbortSignal,
): Promise<MysqlConnection> {
  const { config } = spec
  const target = { host: config.host, port: config.port }
  const deadline = AbortSignal.timeout(connectTimeoutMs)
  const stop = AbortSignal.any([signal, deadline])
  const reads = new ReadLimit()
  let drop = () => {}
  const onAbort = () => drop()
  stop.addEventListener('abort', onAbort, { once: true })
  try {
    const socket = await dial(target, settings.egress, { signal: stop, reads })
    drop = () => socket.destroy()
    const ended = endOf(socket)
    const core = openSession(spec, settings, socket)
    admitOverTls(core, reads, admit, (error) => {
      ended.fail(error)
      dropConnection(core)
    })
    // Attached permanently: an error of an idle connection without a listener would end this process. mysql2 itself would only
    // send a goodbye and continue to read.
    core.on('error', (error) => {
      ended.fail(error)
      dropConnection(core)
    })
    core.on('warn', rejectWarning)
    // Ends the connection, never only its socket: mysql2 would respond to the socket's end with another write.
    drop = () => {
      ended.fail(stop.reason)
      dropConnection(core)
    }
    if (stop.aborted) drop()
    await ended.race(connected(core))
    return await prepareSession(core, ended, config.database, reads)
  } catch (error) {
    drop()
    if (deadline.aborted && !signal.aborted) throw late(error)
    throw reads.error ?? error
  } finally {
    stop.removeEventListener('abort', onAbort)
  }
}

/** Packets out of order, for each of which mysql2 would print a line and continue. Thrown in the middle of its parser. */
function rejectWarning(cause: unknown): never {
  throw protocolError(
    'The database server sent packets out of order: check that it is a MySQL server.',
    cause,
  )
}

function late(cause: unknown): DeliveryError {
  const message = `The database server did not complete authentication within ${connectTimeoutMs / 1000} s: check that it is a MySQL server.`
  return new DeliveryError('transient', 'ETIMEDOUT', message, { cause })
}

function connected(core: Core): Promise<void> {
  return new Promise((resolve, reject) => core.connect((error) => (error ? reject(error) : resolve())))
}

function openSession({ config }: DatabaseSpec, settings: DriverSettings, socket: Socket): Core {
  const isTls = usesTls(config, settings.databaseTls)
  const mustProve =
    isTls && !isOwnHost(config.host) && !isCertainlyHost(config) && settings.databasePasswordInClear !== true
  return createConnection({
    stream: socket,
    host: config.host,
    port: config.port,
    user: config.username,
    password: config.password,
    database: config.database,
    charset: 'utf8mb4_general_ci',
    // The caller's deadline applies instead.
    connectTimeout: 0,
    supportBigNumbers: true,
    bigNumberStrings: true,
    dateStrings: true,
    // Otherwise mysql2 compiles a function for each set of columns that the server names.
    disableEval: true,
    // A server must not be able to ask for one of our files.
    flags: ['-LOCAL_FILES'],
    // A lane uses a few statements; inserts of varied records by name use more. The server's limit is shared.
    maxPreparedStatements: 64,
    // docs/dev/contract.md#database-tls: only encrypted here. `admit` verifies the certificate if required.
    ...(isTls ? { ssl: tlsOptions(config) } : {}),
    ...(mustProve ? { authPlugins: provingPlugins } : {}),
  }) as Core
}

/**
 * Drops a connection. mysql2's `destroy` only sends a goodbye, which an unreachable server never acknowledges. It still comes
 * first: after it, mysql2 handles the end of the socket correctly and writes no more to it.
 */
function dropConnection(core: Core): void {
  core.destroy()
  core.stream.destroy()
}

/**
 * mysql2 creates the TLS socket itself during the handshake, and logs in when `onSecure` is called. It would also process a
 * packet that arrives earlier, and answer one that asks for the password. A server must not send anything until then.
 */
function admitOverTls(core: Core, reads: ReadLimit, admit: AdmitServer, refuse: (error: unknown) => void) {
  const { startTLS } = core
  Object.assign(core, {
    startTLS(onSecure: (error?: unknown) => void) {
      let isAdmitted = false
      const logIn = () => {
        isAdmitted = true
        if (!core.stream.destroyed) onSecure()
      }
      startTLS.call(core, (error) => {
        if (error) onSecure(error)
        else admit(core.stream).then(logIn).catch(refuse)
      })
      filterData(guardSocket(core.stream, reads), (chunk) => {
        if (!isAdmitted)
          throw protocolError(
            'The database server sent data before the log-in: check that it is a MySQL server.',
          )
        return chunk
      })
    },
  })
}

const statementSeconds = 50

// NO_AUTO_VALUE_ON_ZERO stores a 0 as 0 instead of the next number. Lock waits are shorter than an attempt, so that a lock is
// reported as a lock and not as a timeout.
const sessionSettings = `SET SESSION sql_mode = 'STRICT_ALL_TABLES,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION',
  time_zone = '+00:00', autocommit = 0, foreign_key_checks = 1, unique_checks = 1, sql_notes = 1,
  innodb_lock_wait_timeout = 20, lock_wait_timeout = 20`

const specificAccessDenied = 1227

/** The list of warnings has this limit. MySQL 9 lets only privileged users change it: its default is 1024. */
async function listAllWarnings(core: Core, ended: Ended): Promise<void> {
  try {
    await ended.race(core.promise().query('SET SESSION max_error_count = 65535'))
  } catch (error) {
    if (!(error instanceof Error && 'errno' in error && error.errno === specificAccessDenied)) throw error
  }
}

async function prepareSession(
  core: Core,
  ended: Ended,
  defaultDatabase: string,
  reads: ReadLimit,
): Promise<MysqlConnection> {
  const connection = core.promise()
  const run = <T>(work: Promise<T>) => ended.race(work)
  const select: Select = async (sql, values = []) =>
    (await run(connection.execute<RowDataPacket[]>(sql, values)))[0]
  await run(connection.query(sessionSettings))
  await listAllWarnings(core, ended)
  const [server] = await select('SELECT @@max_allowed_packet AS packet, VERSION() AS version')
  const isMariadb = /mariadb/i.test(String(server?.version))
  // Ends before the lane's watchdog (60 s). MySQL has no such limit for write statements.
  if (isMariadb) await run(connection.query(`SET SESSION max_statement_time = ${statementSeconds}`))
  return {
    beginAttempt: () => reads.begin(),
    readError: () => reads.error,
    maxPacketBytes: Number(server?.packet),
    isAlive: () => !ended.hasEnded(),
    async execute(sql, values) {
      const [result] = await run(connection.execute<ResultSetHeader>(sql, values))
      return result.warningStatus
    },
    async update(sql, values) {
      const [result] = await run(connection.execute<ResultSetHeader>(sql, values))
      return result.affectedRows
    },
    select,
    async prepare(sql) {
      await run(connection.prepare(sql))
      // Not the statement's own close(): mysql2 would find the closed one by its text and execute it.
      connection.unprepare(sql)
    },
    async command(sql) {
      await run(connection.query(sql))
    },
    async warnings() {
      const [rows] = await run(connection.query<RowDataPacket[]>('SHOW WARNINGS'))
      return rows.map((row) => ({ errno: Number(row.Code), message: String(row.Message) }))
    },
    async describe(table) {
      const description = await describeTable(select, splitTableName(table, defaultDatabase), isMariadb)
      // The catalog was read in a transaction; its old snapshot must not remain.
      await run(connection.query('COMMIT'))
      return description
    },
    async close() {
      const timer = setTimeout(() => dropConnection(core), 1_000)
      // mysql2 sends a goodbye but does not wait for the server to close the connection.
      await ended
        .race(connection.end().then(() => new Promise<never>(() => {})))
        .catch(() => dropConnection(core))
      clearTimeout(timer)
    },
    destroy: () => {
      ended.fail(new Error('the connection was dropped'))
      dropConnection(core)
    },
  }
}

interface Ended {
  race<T>(work: Promise<T>): Promise<T>
  fail(reason: unknown): void
  hasEnded(): boolean
}

/**
 * mysql2 never settles a command when its connection is destroyed, so every wait is a race with the end of the connection: the
 * socket's close, an error, or `destroy`. (Not Promise.race with one long-lived promise, which would retain something from
 * every statement until the connection ends.)
 */
function endOf(socket: Socket): Ended {
  let end: { reason: unknown } | null = null
  const waiting = new Set<(reason: unknown) => void>()
  const fail = (reason: unknown) => {
    end ??= { reason }
    for (const reject of waiting) reject(end.reason)
    waiting.clear()
  }
  const lost = Object.assign(new Error('connection lost'), { code: 'PROTOCOL_CONNECTION_LOST' })
  // Deferred by one turn: a command that received the server's final error rejects with that first.
  socket.once('close', () => setImmediate(() => fail(lost)))
  return {
    fail,
    hasEnded: () => end !== null,
    race: (work) =>
      new Promise((resolve, reject) => {
        waiting.add(reject)
        if (end) reject(end.reason)
        work.then(resolve, reject).finally(() => waiting.delete(reject))
      }),
  }
}
