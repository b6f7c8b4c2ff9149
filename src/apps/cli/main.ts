/**
 * The entry of the program. Each command is a file in this folder, and its code is imported when it runs, so that
 * `--version` and `--help` are fast. Importing this file runs nothing. bin/pipectl.js and tests call `main`.
 */
import { CommanderError } from 'commander'
import { reportFailure } from './failure.ts'
import { type CommandIo, processIo, runWith, setExitCode } from './io.ts'
import { buildProgram, overview } from './program.ts'
import { surviveClosedOutput } from './terminal.ts'

/** Runs one command line, without the program's name. Returns the exit code and never throws. */
export async function main(argv: readonly string[], io: CommandIo = processIo): Promise<number> {
  return await runWith(io, async () => {
    surviveClosedOutput()
    try {
      const withClientCommands = !['serve', 'init', '--version', '-V'].includes(argv[0] ?? '')
      const program = await buildProgram(withClientCommands)
      if (argv.length === 0) io.stdout.write(overview(program))
      else await program.parseAsync(argv, { from: 'user' })
    } catch (error) {
      // commander has already printed its message. Help and version exit with 0, wrong usage with 2.
      if (error instanceof CommanderError) setExitCode(error.exitCode === 0 ? 0 : 2)
      else setExitCode(reportFailure(error))
    }
  })
}
