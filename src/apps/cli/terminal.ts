/**
 * The terminal: its capabilities, colors and questions. Data goes to stdout; every text for the user goes to stderr.
 */
import { createInterface } from 'node:readline/promises'
import { errorCode } from '../../platform/error-code.ts'
import { commandFailure, exitCodes, Failure, usageFailure } from '../client/failure.ts'
import { printableLines } from '../client/printable.ts'
import { io } from './io.ts'

const codes = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const
export type Colour = keyof typeof codes

/** Uses colors on a terminal, unless NO_COLOR is set and not empty, or the terminal does not support them. */
export function coloursOn(
  stream: { isTTY?: boolean | undefined },
  env: NodeJS.ProcessEnv = io().env,
): boolean {
  return stream.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb'
}

export function paint(colour: Colour, text: string, on: boolean): string {
  return on ? `\x1b[${codes[colour]}m${text}\x1b[0m` : text
}

/**
 * Without this, a reader that closes the pipe (`pipectl … | head -1`) would end the program with a stack trace. The
 * remaining output is dropped, and the command continues to its normal end and exit code.
 */
export function surviveClosedOutput(): void {
  for (const stream of [io().stdout, io().stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error
    })
  }
}

export function say(text: string): void {
  io().stderr.write(`${harmless(text)}\n`)
}

/** Writes data to stdout. Resolves when the system has it. Throws Failure, for which `problem` begins the message. */
export async function writeData(text: string, problem: string, hint: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    io().stdout.write(text, (error) => (error ? reject(error) : resolve()))
  }).catch((error: unknown) => {
    const code = errorCode(error) === 'EPIPE' ? exitCodes.readerGone : exitCodes.failed
    const why = error instanceof Error ? error.message : String(error)
    throw new Failure(code, `${problem}: ${why}`, hint, error)
  })
}

/**
 * The format of every failure: the error, and the next step on a second line. An outcome that is not an error is a
 * `note`.
 */
export function sayFailure(message: string, hint: string, kind: 'error' | 'note' = 'error'): void {
  const on = coloursOn(io().stderr)
  const label = kind === 'error' ? paint('red', 'error:', on) : 'note:'
  io().stderr.write(`${label} ${harmless(message)}\n`)
  if (hint !== '') io().stderr.write(`${paint('dim', '  next:', on)} ${harmless(hint)}\n`)
}

/** Makes control characters visible, because names and errors can come from other users. */
export function harmless(text: string): string {
  return io().stderr.isTTY === true ? printableLines(text) : text
}

/** True if the user can answer a question: both stdin and stderr are a terminal. */
export function canAsk(): boolean {
  return io().stdin.isTTY === true && io().stderr.isTTY === true
}

/**
 * Asks for confirmation before data is destroyed. The default is No. Without a terminal, `--yes` is required. Throws
 * Failure (usage) then, and Failure (failed) if the answer is No.
 */
export async function confirm(question: string, yes: boolean | undefined): Promise<void> {
  if (yes === true) return
  if (!canAsk()) {
    throw usageFailure(
      `${question} This needs a confirmation, and this is not a terminal`,
      'add --yes to confirm',
    )
  }
  const terminal = createInterface({ input: io().stdin, output: io().stderr })
  // Ctrl-C at a question means No, with the exit code of an interrupt.
  const interrupted = new AbortController()
  terminal.on('SIGINT', () => interrupted.abort())
  try {
    const answer = await terminal.question(`${harmless(question)} [y/N] `, { signal: interrupted.signal })
    if (/^y(es)?$/i.test(answer.trim())) return
  } catch (error) {
    if (!interrupted.signal.aborted) throw error
    throw new Failure(exitCodes.interrupted, 'interrupted; nothing was changed', 'run the command again')
  } finally {
    terminal.close()
  }
  throw commandFailure('not confirmed; nothing was changed', 'answer y to continue')
}

/** Runs work that Ctrl-C and SIGTERM stop cleanly, through its signal. */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const interrupt = new AbortController()
  const onInterrupt = () => interrupt.abort()
  process.once('SIGINT', onInterrupt).once('SIGTERM', onInterrupt)
  try {
    return await work(interrupt.signal)
  } finally {
    process.off('SIGINT', onInterrupt).off('SIGTERM', onInterrupt)
  }
}

/** Prompts for a secret without showing the input. */
export function askSecret(question: string): Promise<string> {
  const { stdin, stderr } = io()
  return new Promise((resolve, reject) => {
    let typed = ''
    stderr.write(question)
    stdin.setRawMode?.(true)
    stdin.setEncoding('utf8')
    stdin.resume()
    const finish = (settle: () => void) => {
      stdin.setRawMode?.(false)
      stdin.pause()
      stdin.off('data', onData)
      stderr.write('\n')
      settle()
    }
    const onData = (chunk: string) => {
      for (const character of chunk) {
        if ('\r\n'.includes(character)) return finish(() => resolve(typed))
        if ('\x03\x04'.includes(character))
          return finish(() =>
            reject(new Failure(exitCodes.interrupted, 'interrupted', 'run the command again')),
          )
        typed = '\x7f\b'.includes(character) ? typed.slice(0, -1) : typed + character
      }
    }
    stdin.on('data', onData)
  })
}
