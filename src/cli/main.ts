/**
 * The program's entry. Every command is a file beside this one, and what a command needs is imported when it runs, so
 * that `--version` and `--help` stay quick.
 */
import { CommanderError } from 'commander'
import { reportFailure } from './failure.ts'
import { buildProgram } from './program.ts'
import { surviveClosedOutput } from './terminal.ts'

surviveClosedOutput()
try {
  const withClientCommands = !['serve', 'init', '--version', '-V'].includes(process.argv[2] ?? '')
  const program = await buildProgram(withClientCommands)
  await program.parseAsync(process.argv)
} catch (error) {
  // commander has printed its own message; help and version end with 0, wrong usage with 2.
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2
  else process.exitCode = reportFailure(error)
}
