/**
 * The program's entry. Every command is a file beside this one, and what a command needs is imported when it runs, so
 * that `--version` and `--help` stay quick. Importing this file runs nothing: bin/pipectl.js calls `main`, and so do tests.
 */
import { CommanderError } from 'commander'
import { reportFailure } from './failure.ts'
import { type CommandIo, processIo, runWith, setExitCode } from './io.ts'
import { buildProgram, overview } from './program.ts'
import { surviveClosedOutput } from './terminal.ts'

/** Runs one command line, without the program's name. Returns its exit code, and never throws. */
export async function main(argv: readonly string[], io: CommandIo = processIo): Promise<number> {
  return await runWith(io, async () => {
    surviveClosedOutput()
    try {
      const withClientCommands = !['serve', 'init', '--version', '-V'].includes(argv[0] ?? '')
      const program = await buildProgram(withClientCommands)
      if (argv.length === 0) io.stdout.write(overview(program))
      else await program.parseAsync(argv, { from: 'user' })
    } catch (error) {
      // commander has printed its own message; help and version end with 0, wrong usage with 2.
      if (error instanceof CommanderError) setExitCode(error.exitCode === 0 ? 0 : 2)
      else setExitCode(reportFailure(error))
    }
  })
}
