/**
 * A private MariaDB, or MySQL, for a test file: its own data directory, port and socket on 127.0.0.1, never the machine's own
 * service. `stop()` removes everything.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { freePort } from './free-port.ts'
import { madeOnce } from './made-once.ts'
import { programFile } from './programs.ts'
import { standStill } from './stand-still.ts'
import { until } from './until.ts'

export interface MariadbOptions {
  /** Offer TLS with a self-signed pair, or with this one. */
  tls?: boolean | { key: string; certificate: string }
  /** With `tls`, PEM: the CA of the certificates that users with REQUIRE X509 show. */
  clientCa?: string
  /** Further `mariadbd` options, e.g. `--max-allowed-packet=1M`. */
  args?: readonly string[]
  /** Another server than the MariaDB that the machine has, or Debian. */
  build?: MysqlBuild
}

export interface MysqlBuild {
  server: string
  /** mariadb-install-db; null for MySQL, whose server makes the data directory itself. */
  installer: string | null
  /** Where the programs find their files. */
  args: readonly string[]
}

export interface Mariadb {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string
  readonly database: string
  /** One statement as the administrator, on a connection of its own; the rows, if any, with big numbers as strings. */
  query(sql: string): Promise<RowDataPacket[]>
  /** A connection of the test's own, e.g. to hold a lock. The caller ends it. */
  connect(): ReturnType<typeof createConnection>
  /** SIGSTOP and SIGCONT: the server is there and silent. */
  pause(): void
  resume(): void
  /** Ends the server; the data stays. */
  shutDown(): Promise<void>
  /** The server goes at once, as in a crash; its data stay. */
  halt(): Promise<void>
  /** Starts it again after `shutDown` or `halt`, on the same port. */
  start(): Promise<void>
  /** With `tls`: the certificate that new connections see from then on. */
  show(pair: { key: string; certificate: string }): Promise<void>
  /** Ends the server and removes its data. */
  stop(): Promise<void>
}

/** The same wherever the server runs: it would write its log again in another size. */
const logFileSize = '--innodb-log-file-size=64M'
/** Without it, mariadbd rejects a start by root. */
const accountArgs = process.getuid?.() === 0 ? ['--user=root'] : []

export async function startMariadb(options: MariadbOptions = {}): Promise<Mariadb> {
  const build = options.build ?? {
    server: programFile('mariadbd'),
    installer: programFile('mariadb-install-db'),
    args: [],
  }
  const program = build.server
  const dir = mkdtempSync(join(tmpdir(), 'pipectl-mariadb-'))
  const tlsArgs = tlsArgsOf(options, dir)
  const [host, port, user, password, database] = [
    '127.0.0.1',
    await freePort(),
    'root',
    'Pa55 "word"',
    'target',
  ]
  const version = execFileSync(program, ['--version'], { encoding: 'utf8' }).replace(program, 'mariadbd')
  madeOnce(`${version} of ${process.getuid?.()}`, join(dir, 'data'), () => {
    const sql = `ALTER USER 'root'@'localhost' IDENTIFIED BY '${password}';
CREATE USER IF NOT EXISTS 'root'@'127.0.0.1';
ALTER USER 'root'@'127.0.0.1' IDENTIFIED BY '${password}';
GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
CREATE DATABASE ${database} CHARACTER SET utf8mb4;`
    if (build.installer === null) initializeMysql(build, dir, sql)
    else {
      installDatabase(build, build.installer, dir)
      bootstrap(build, dir, sql)
    }
  })
  const logFile = join(dir, 'server.log')
  let server: ChildProcess | null = null

  async function connect() {
    return createConnection({
      host,
      port,
      user,
      password,
      database,
      supportBigNumbers: true,
      bigNumberStrings: true,
      dateStrings: true,
    })
  }
  async function start(): Promise<void> {
    const log = openSync(logFile, 'a')
    const child = spawn(program, [...serverArgs(build, dir, port), ...tlsArgs, ...(options.args ?? [])], {
      stdio: ['ignore', log, log],
    })
    server = child
    await until(
      'MariaDB answers',
      async () => {
        if (child.exitCode !== null) throw new Error(`mariadbd ended: ${readFileSync(logFile, 'utf8')}`)
        await (await connect()).end()
        return true
      },
      { everyMs: 50 },
    )
  }
  async function end(signal: NodeJS.Signals): Promise<void> {
    const child = server
    server = null
    if (child === null || child.exitCode !== null) return
    child.kill('SIGCONT')
    child.kill(signal)
    if (child.exitCode === null) await new Promise((resolve) => child.once('exit', resolve))
  }

  const shutDown = () => end('SIGTERM')

  await start()
  const opened: Mariadb = {
    host,
    port,
    user,
    password,
    database,
    connect,
    start,
    shutDown,
    halt: () => end('SIGKILL'),
    async query(sql) {
      const connection = await connect()
      try {
        const [rows] = await connection.query<RowDataPacket[]>(sql)
        return rows
      } finally {
        await connection.end()
      }
    },
    async show({ key, certificate }) {
      writeFileSync(join(dir, 'key.pem'), key)
      writeFileSync(join(dir, 'cert.pem'), certificate)
      await opened.query('FLUSH SSL')
    },
    pause: () => standStill(server!.pid!),
    resume: () => void server?.kill('SIGCONT'),
    async stop() {
      await shutDown()
      rmSync(dir, { recursive: true, force: true })
    },
  }
  return opened
}

function tlsArgsOf({ tls = false, clientCa }: MariadbOptions, dir: string): string[] {
  const args =
    tls === false ? [] : [`--ssl-key=${join(dir, 'key.pem')}`, `--ssl-cert=${join(dir, 'cert.pem')}`]
  if (tls === true) makeSelfSignedPair(dir)
  else if (tls !== false) {
    writeFileSync(join(dir, 'key.pem'), tls.key)
    writeFileSync(join(dir, 'cert.pem'), tls.certificate)
  }
  if (clientCa !== undefined) {
    writeFileSync(join(dir, 'client-ca.pem'), clientCa)
    args.push(`--ssl-ca=${join(dir, 'client-ca.pem')}`)
  }
  return args
}

/** The server runs the statements while it makes the directory: there is no moment with an open root account. */
function initializeMysql(build: MysqlBuild, dir: string, sql: string): void {
  const file = join(dir, 'init.sql')
  writeFileSync(file, sql)
  const places = [`--datadir=${join(dir, 'data')}`, `--tmpdir=${dir}`, `--init-file=${file}`]
  const args = ['--no-defaults', '--initialize-insecure', ...places, ...build.args, ...accountArgs]
  execFileSync(build.server, args, { stdio: 'pipe' })
}

function installDatabase(build: MysqlBuild, installer: string, dir: string): void {
  execFileSync(
    installer,
    [
      '--no-defaults',
      ...build.args,
      `--datadir=${join(dir, 'data')}`,
      `--tmpdir=${dir}`,
      '--auth-root-authentication-method=normal',
      '--skip-test-db',
      '--skip-name-resolve',
      logFileSize,
      ...accountArgs,
    ],
    { stdio: 'pipe' },
  )
}

/** Statements that the server itself runs at a start without network: there is no moment with an open root account. */
function bootstrap(build: MysqlBuild, dir: string, sql: string): void {
  const statements = `USE mysql;\nFLUSH PRIVILEGES;\n${sql}\n`
  const lines = statements
    .split('\n')
    .join(' ')
    .split(';')
    .map((line) => line.trim())
    .filter(Boolean)
  const places = [`--datadir=${join(dir, 'data')}`, `--tmpdir=${dir}`]
  const args = ['--no-defaults', '--bootstrap', logFileSize, ...places, ...build.args, ...accountArgs]
  execFileSync(build.server, args, { input: `${lines.join(';\n')};\n`, stdio: 'pipe' })
}

/** Fast, not safe: the data of a test need not survive a power cut, only `halt`: commits must reach the kernel. The SQL mode is lax on purpose: drivers must not rely on it. */
function serverArgs(build: MysqlBuild, dir: string, port: number): string[] {
  return [
    '--no-defaults',
    `--datadir=${join(dir, 'data')}`,
    // A server that starts removes temporary tables of others from a directory that it shares with them.
    `--tmpdir=${dir}`,
    `--socket=${join(dir, 'server.sock')}`,
    `--pid-file=${join(dir, 'server.pid')}`,
    '--bind-address=127.0.0.1',
    `--port=${port}`,
    '--skip-name-resolve',
    '--skip-log-bin',
    '--sql-mode=',
    '--default-time-zone=+05:00',
    '--innodb-flush-log-at-trx-commit=2',
    '--innodb-buffer-pool-size=64M',
    // MySQL takes 100 MiB for its log by itself, and listens on a port of a second protocol.
    ...(build.installer === null ? ['--mysqlx=OFF', '--secure-file-priv='] : [logFileSize]),
    '--performance-schema=OFF',
    ...build.args,
    ...accountArgs,
  ]
}

function makeSelfSignedPair(dir: string): void {
  execFileSync(
    programFile('openssl'),
    [
      'req',
      '-x509',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-days',
      '2',
      '-subj',
      '/CN=mariadb.test',
      '-keyout',
      join(dir, 'key.pem'),
      '-out',
      join(dir, 'cert.pem'),
    ],
    { stdio: 'pipe' },
  )
}
