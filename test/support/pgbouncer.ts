/**
 * A PgBouncer in transaction mode in front of a test's PostgreSQL, on a free port of loopback. Consecutive transactions of a client
 * use different connections to the server, so that nothing can rely on the state of a session.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { freePort } from './free-port.ts'
import { own, type TestPostgres, unprivilegedAccount } from './postgres.ts'
import { programFile } from './programs.ts'
import { until } from './until.ts'

export interface PgBouncer {
  port: number
  /** Every connection through it is lost. */
  halt(): Promise<void>
  /** After `halt`: on the same port. */
  start(): Promise<void>
  stop(): Promise<void>
}

/** `program`: another version than the one that the machine has, or Debian. */
export async function startPgBouncer(
  { host, port: server, user, password, database }: TestPostgres,
  program = programFile('pgbouncer'),
): Promise<PgBouncer> {
  const port = await freePort()
  const account = unprivilegedAccount()
  const directory = mkdtempSync(path.join(tmpdir(), 'pipectl-pgbouncer-'))
  const file = path.join(directory, 'pgbouncer.ini')
  writeFileSync(
    file,
    `[databases]
${database} = host=${host} port=${server} user=${user} password=${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
min_pool_size = 3
server_round_robin = 1
`,
  )
  for (const one of [directory, file]) own(one, account)
  const launch = () => launched(program, file, directory)
  let running = await launch()
  return {
    port,
    halt: () => running.kill(),
    async start() {
      running = await launch()
    },
    async stop() {
      await running.kill()
      rmSync(directory, { recursive: true })
    },
  }
}

async function launched(
  program: string,
  file: string,
  directory: string,
): Promise<{ kill(): Promise<void> }> {
  const child = spawn(program, [file], {
    ...unprivilegedAccount(),
    cwd: directory,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let log = ''
  child.stderr.on('data', (chunk: Buffer) => {
    log += chunk
  })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  await until('pgbouncer listens', () => {
    if (child.exitCode !== null) throw new Error(`pgbouncer ended: ${log}`)
    return log.includes('process up')
  })
  return {
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
  }
}
