/**
 * The streams and the environment of one run of the command line. A process has one run with the streams of the
 * process. Tests make many runs in one process, each with its own streams.
 *
 * `io()` returns those of the current run, also after asynchronous calls, so that no function has to pass them on.
 * The run of a process does not use AsyncLocalStorage, which would slow down every promise of the daemon that it can
 * become.
 *
 * Signals, the working directory and child processes belong to the process. Commands remove their handlers at the
 * end.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { readFileSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'

export interface InputStream extends Readable {
  isTTY?: boolean
  setRawMode?: (on: boolean) => unknown
}

export interface OutputStream extends Writable {
  isTTY?: boolean
  columns?: number
  /** Absent: not a file descriptor of the system. */
  fd?: number
}

export interface CommandIo {
  readonly env: NodeJS.ProcessEnv
  readonly stdin: InputStream
  readonly stdout: OutputStream
  readonly stderr: OutputStream
  /** Reads all of stdin, for a short text such as a key. */
  readStdin(): string
}

/** Streams are opened at first use. */
export const processIo: CommandIo = {
  env: process.env,
  get stdin() {
    return process.stdin
  },
  get stdout() {
    return process.stdout
  },
  get stderr() {
    return process.stderr
  },
  readStdin: () => readFileSync(0, 'utf8'),
}

interface Run {
  io: CommandIo
  exitCode: number
}

const runOfProcess: Run = { io: processIo, exitCode: 0 }
const runs = new AsyncLocalStorage<Run>()
const currentRun = () => runs.getStore() ?? runOfProcess

export function io(): CommandIo {
  return currentRun().io
}

/** Sets the exit code with which the run ends when its command returns. */
export function setExitCode(code: number): void {
  currentRun().exitCode = code
}

/** Runs a command with its own streams and returns its exit code. */
export async function runWith(io: CommandIo, command: () => Promise<void>): Promise<number> {
  const run = io === processIo ? runOfProcess : { io, exitCode: 0 }
  await (run === runOfProcess ? command() : runs.run(run, command))
  return run.exitCode
}
