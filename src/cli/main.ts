/**
 * The program's entry. Parses nothing itself: every command is a file beside this one, and what a command needs is
 * imported when it runs, so that `--version` and `--help` stay quick.
 */
import { Command, CommanderError } from 'commander'
import { version } from '../version.ts'
import { reportFailure } from './failure.ts'
import { initCommand } from './init.ts'
import { serveCommand } from './serve.ts'
import { workspacesCommand } from './workspaces.ts'

async function main(argv: string[]): Promise<void> {
  const program = new Command('pipectl')
    .description(
      'JSON records in over HTTP, kept durably, delivered in order to databases, buckets and endpoints.',
    )
    .version(version(), '-V, --version', 'print the version')
    .showHelpAfterError('(pipectl --help lists the commands)')
  program.addCommand(serveCommand())
  program.addCommand(initCommand())
  program.addCommand(workspacesCommand())
  // The daemon and `--version` need none of the others.
  if (!['serve', 'init', '--version', '-V'].includes(argv[2] ?? '')) {
    const { registerCommands } = await import('./commands.ts')
    registerCommands(program)
  }
  throwInsteadOfExit(program)
  await program.parseAsync(argv)
}

/** Commands added whole inherit nothing from the program: without this, wrong usage of theirs would end with 1. */
function throwInsteadOfExit(command: Command): void {
  command.exitOverride()
  for (const child of command.commands) throwInsteadOfExit(child)
}

try {
  await main(process.argv)
} catch (error) {
  // commander has printed its own message; help and version end with 0, wrong usage with 2.
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2
  else process.exitCode = reportFailure(error)
}
