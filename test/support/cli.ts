/**
 * The command line of the program under test, with a home of its own for profiles and state, and nothing of the developer's
 * own settings.
 *
 * `runCli` runs a command in this process, for a thirtieth of the CPU that a new process costs. It imports the program
 * that the tests start as a daemon too: the bundled one in complete runs, so that what is tested is what is shipped. `spawnCli`
 * and `startCli` start a process: for signals, pipes, files and terminals on its streams. Commands that hold locks, start
 * threads or become a daemon always get one (see `needsProcess`).
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Readable, Writable } from 'node:stream'
import { pathToFileURL } from 'node:url'
import { binary, cleanEnv, type TestDaemon } from './daemon.ts'

export interface CliResult {
  /** The exit code, or the name of the signal that ended it. */
  code: number | string
  stdout: string
  stderr: string
}

export interface CliOptions {
  env?: Record<string, string>
  /** The content of stdin; closed at once if absent. */
  input?: string | Buffer
  timeoutMs?: number
}

/** A directory that stands for the person's home; removed by the caller. */
export function makeHome(): string {
  return mkdtempSync(path.join(os.tmpdir(), 'pipectl-home-'))
}

export function removeHome(home: string): void {
  rmSync(home, { recursive: true, force: true })
}

/** The environment that points a command at this daemon, with a home. */
export function cliEnv(daemon: Pick<TestDaemon, 'url' | 'apiKey'>, home: string): Record<string, string> {
  return { ...homeEnv(home), PIPECTL_URL: daemon.url, PIPECTL_API_KEY: daemon.apiKey }
}

export function homeEnv(home: string): Record<string, string> {
  return { HOME: home, XDG_CONFIG_HOME: path.join(home, 'config'), XDG_STATE_HOME: path.join(home, 'state') }
}

/** Starts `pipectl ARGS` in a process of its own without waiting for its end. */
export function startCli(args: readonly string[], options: CliOptions = {}): ChildProcess {
  const child = spawn(process.execPath, [binary, ...args], { env: cleanEnv(options.env), stdio: 'pipe' })
  child.stdin?.on('error', () => {})
  child.stdin?.end(options.input)
  return child
}

/** Runs `pipectl ARGS` to its end in a process of its own. */
export function spawnCli(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  return finished(startCli(args, options), options.timeoutMs ?? defaultTimeoutMs)
}

/** Runs `pipectl ARGS` to its end, in this process unless it needs one of its own. */
export async function runCli(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  if (needsProcess(args, options.env ?? {})) return await spawnCli(args, options)
  const { main } = await program()
  const [stdout, stderr] = [new Gathered(), new Gathered()]
  const input = Buffer.from(options.input ?? '')
  const io = {
    env: cleanEnv(options.env),
    stdin: Readable.from(input.length === 0 ? [] : [input]),
    stdout,
    stderr,
    readStdin: () => input.toString('utf8'),
  }
  const code = await inTime(main(args, io), options.timeoutMs ?? defaultTimeoutMs, () => stderr.text())
  return { code, stdout: stdout.text(), stderr: stderr.text() }
}

const defaultTimeoutMs = 240_000

/** The module that bin/pipectl.js imports. It is imported by the first command, not by each test file. */
let imported: Promise<typeof import('../../src/apps/cli/main.ts')> | null = null
function program(): Promise<typeof import('../../src/apps/cli/main.ts')> {
  imported ??= import(pathToFileURL(path.resolve(binary, '../../dist/apps/cli/main.js')).href)
  return imported
}

/** They become a daemon, take over the terminal, or write to inherited streams. */
const ownProcess = new Set(['serve', 'migrate', 'top', 'completion', '--version'])

function needsProcess(args: readonly string[], env: Record<string, string>): boolean {
  // Another build may be older than `main`; Node.js and the C library read their variables at a start.
  if (process.env.PIPECTL_PROGRAM !== undefined) return true
  if (Object.keys(env).some((name) => /^(NODE_|LD_|TZ$|FAKETIME)/.test(name))) return true
  return ownProcess.has(args[0] ?? '') || args.includes('--exec')
}

class Gathered extends Writable {
  readonly #chunks: Buffer[] = []

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    this.#chunks.push(chunk)
    done()
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString()
  }
}

async function inTime<T>(work: Promise<T>, timeoutMs: number, soFar: () => string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(tooLate(timeoutMs, soFar())), timeoutMs)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

const tooLate = (timeoutMs: number, stderr: string) =>
  new Error(`the command did not end within ${timeoutMs} ms:\n${stderr}`)

/** Resolves when the child has ended and its output is read. */
export function finished(child: ChildProcess, timeoutMs = defaultTimeoutMs): Promise<CliResult> {
  return new Promise((resolve, reject) => {
    const out: Buffer[] = []
    const err: Buffer[] = []
    child.stdout?.on('data', (chunk: Buffer) => out.push(chunk))
    child.stderr?.on('data', (chunk: Buffer) => err.push(chunk))
    const timer = setTimeout(() => {
      child.kill('SIGKILL')
      reject(tooLate(timeoutMs, Buffer.concat(err).toString()))
    }, timeoutMs)
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      const [stdout, stderr] = [Buffer.concat(out).toString(), Buffer.concat(err).toString()]
      resolve({ code: code ?? signal ?? 'gone', stdout, stderr })
    })
  })
}
