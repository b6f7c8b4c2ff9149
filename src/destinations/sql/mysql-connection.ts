/**
 * One connection to a MySQL-family server with a session whose settings we know, whatever the server's defaults:
 * strict mode (nothing is cut or replaced in silence), UTC, utf8mb4, no autocommit.
 */
import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { type Connection, createConnection, type ResultSetHeader, type RowDataPacket } from 'mysql2/promise'
import type { DestinationSpec, DriverSettings } from '../driver.ts'
import { dial } from '../egress.ts'
import { usesTls } from './columns.ts'
import { splitTableName } from './mysql-identifiers.ts'
import { describeTable, type TableDescription } from './mysql-table.ts'

export interface MysqlConnection {
  /** Largest packet the server takes: no statement with its values may be longer. */
  readonly maxPacketBytes: number
  readonly isMariadb: boolean
  /** False after the server, the network or `destroy` has ended it. */
  isAlive(): boolean
  /** A prepared statement with its values; prepared once per text. Gives the number of warnings. */
  execute(sql: string, values: (string | null)[]): Promise<number>
  /** Has the server check a statement without running it. */
  prepare(sql: string): Promise<void>
  /** A statement without any value in it: COMMIT and the like. */
  command(sql: string): Promise<void>
  /** The warnings of the last statement. */
  warnings(): Promise<{ errno: number; message: string }[]>
  describe(table: string): Promise<TableDescription>
  /** Says good-bye; for at most a second. */
  close(): Promise<void>
  /** Drops the socket at once: whatever is waited for rejects. */
  destroy(): void
}

/** Rejects with mysql2's, the system's or egress's own error; when aborted, with the signal's reason. */
export async function connectMysql(
  spec: DestinationSpec,
  settings: DriverSettings,
  signal: AbortSignal,
): Promise<MysqlConnection> {
  const { config } = spec
  const target = { host: String(config.host), port: Number(config.port ?? 3306) }
  const socket = await dial(target, settings.egress, { signal })
  const ended = endOf(socket)
  const onAbort = () => {
    socket.destroy()
    ended.fail(signal.reason)
  }
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  try {
    const connection = await ended.race(openSession(spec, settings, target, socket))
    // Without a listener an idle connection that the server ends would end this process.
    const emitter: EventEmitter = connection
    emitter.on('error', ended.fail)
    return await prepareSession(connection, ended, String(config.database))
  } catch (error) {
    socket.destroy()
    throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

function openSession(
  { config }: DestinationSpec,
  settings: DriverSettings,
  target: { host: string; port: number },
  socket: Socket,
): Promise<Connection> {
  return createConnection({
    stream: socket,
    ...target,
    user: String(config.username),
    password: String(config.password),
    database: String(config.database),
    charset: 'utf8mb4_general_ci',
    connectTimeout: 15_000,
    supportBigNumbers: true,
    bigNumberStrings: true,
    dateStrings: true,
    // A server must not be able to ask for a file of ours.
    flags: ['-LOCAL_FILES'],
    // A lane uses a handful of statements; inserts by name of varied records some more. The server's limit is shared.
    maxPreparedStatements: 64,
    // Spec "Delivery rules": encrypted, and the certificate is not verified.
    ...(usesTls(target.host, settings.databaseTls) ? { ssl: { rejectUnauthorized: false } } : {}),
  })
}

// NO_AUTO_VALUE_ON_ZERO: a 0 that was sent is stored as 0, not replaced by the next number.
// Lock waits are shorter than an attempt may take, so that a lock is reported as one and not as a timeout.
const sessionSettings = `SET SESSION sql_mode = 'STRICT_ALL_TABLES,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION',
  time_zone = '+00:00', autocommit = 0, foreign_key_checks = 1, unique_checks = 1, sql_notes = 1, max_error_count = 65535,
  innodb_lock_wait_timeout = 20, lock_wait_timeout = 20`

async function prepareSession(
  connection: Connection,
  ended: Ended,
  defaultDatabase: string,
): Promise<MysqlConnection> {
  const run = <T>(work: Promise<T>) => ended.race(work)
  const select = async (sql: string, values: string[] = []): Promise<RowDataPacket[]> =>
    (await run(connection.execute<RowDataPacket[]>(sql, values)))[0]
  await run(connection.query(sessionSettings))
  const [server] = await select('SELECT @@max_allowed_packet AS packet, VERSION() AS version')
  const isMariadb = /mariadb/i.test(String(server?.version))
  return {
    maxPacketBytes: Number(server?.packet),
    isMariadb,
    isAlive: () => !ended.hasEnded(),
    async execute(sql, values) {
      const [result] = await run(connection.execute<ResultSetHeader>(sql, values))
      return result.warningStatus
    },
    async prepare(sql) {
      await (await run(connection.prepare(sql))).close()
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
      // The catalog was read in a transaction; an old snapshot must not outlive the reading.
      await run(connection.query('COMMIT'))
      return description
    },
    async close() {
      const timer = setTimeout(() => connection.destroy(), 1_000)
      await ended.race(connection.end()).catch(() => connection.destroy())
      clearTimeout(timer)
    },
    destroy: () => {
      ended.fail(new Error('the connection was dropped'))
      connection.destroy()
    },
  }
}

interface Ended {
  race<T>(work: Promise<T>): Promise<T>
  fail(reason: unknown): void
  hasEnded(): boolean
}

/**
 * mysql2 leaves a command waiting for ever when its connection is destroyed. So every wait is a race with the end of
 * the connection: the socket's close, an error, or `destroy`. (Not Promise.race with one long-lived promise: that
 * would keep something of every statement until the connection ends.)
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
  // On the next turn: a command that has the server's own parting words rejects with those first.
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
