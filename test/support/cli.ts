/**
 * The real command-line program, run as a person or a script runs it: the built binary in a child process, with
 * nothing of the developer's own settings, and a home of its own for profiles and state.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { binary, cleanEnv, type TestDaemon } from './daemon.ts'

export interface CliResult {
  /** The exit code, or the name of the signal that ended it. */
  code: number | string
  stdout: string
  stderr: string
}

export interface CliOptions {
  env?: Record<string, string>
  /** What stdin holds; closed at once when it is not given. */
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

/** What points a command at this daemon, with a home. */
export function cliEnv(daemon: Pick<TestDaemon, 'url' | 'apiKey'>, home: string): Record<string, string> {
  return { ...homeEnv(home), PIPECTL_URL: daemon.url, PIPECTL_API_KEY: daemon.apiKey }
}

export function homeEnv(home: string): Record<string, string> {
  return { HOME: home, XDG_CONFIG_HOME: path.join(home, 'config'), XDG_STATE_HOME: path.join(home, 'state') }
}

/** Starts `pipectl ARGS` without waiting for its end. */
export function startCli(args: readonly string[], options: CliOptions = {}): ChildProcess {
  const child = spawn(process.execPath, [binary, ...args], { env: cleanEnv(options.env), stdio: 'pipe' })
  child.stdin?.on('error', () => {})
  child.stdin?.end(options.input)
  return child
}

/** Runs `pipectl ARGS` to its end. */
export function runCli(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  return finished(startCli(args, options), options.timeoutMs ?? 240_000)
}

/** Resolves when the child has ended and its output is read. */
export function finished(child: ChildProcess, timeoutMs = 240_000): Promise<CliResult> {
  return new Promise((resolve, reject) => {
    const out: Buffer[] = []
    const err: Buffer[] = []
    child.stdout?.on('data', (chunk: Buffer) => out.push(chunk))
    child.stderr?.on('data', (chunk: Buffer) => err.push(chunk))
    const timer = setTimeout(() => {
      child.kill('SIGKILL')
      reject(new Error(`the command did not end within ${timeoutMs} ms:\n${Buffer.concat(err)}`))
    }, timeoutMs)
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      const [stdout, stderr] = [Buffer.concat(out).toString(), Buffer.concat(err).toString()]
      resolve({ code: code ?? signal ?? 'gone', stdout, stderr })
    })
  })
}
