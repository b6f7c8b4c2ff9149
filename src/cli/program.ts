/** The whole command line as one commander program. */
import { Command } from 'commander'
import { version } from '../version.ts'
import { initCommand } from './init.ts'
import { serveCommand } from './serve.ts'
import { workspacesCommand } from './workspaces.ts'

/** `withClientCommands` false: the daemon's own commands alone, which need none of the others' code. */
export async function buildProgram(withClientCommands = true): Promise<Command> {
  const program = new Command('pipectl')
    .description(
      'JSON records in over HTTP, kept durably, delivered in order to databases, buckets and endpoints.',
    )
    .version(version(), '-V, --version', 'print the version')
    .showHelpAfterError('(pipectl --help lists the commands)')
  program.addCommand(serveCommand())
  program.addCommand(initCommand())
  program.addCommand(workspacesCommand())
  if (withClientCommands) {
    const { registerCommands } = await import('./commands.ts')
    registerCommands(program)
  }
  throwInsteadOfExit(program)
  return program
}

/** Commands added whole inherit nothing from the program: without this, wrong usage of theirs would end with 1. */
function throwInsteadOfExit(command: Command): void {
  command.exitOverride()
  for (const child of command.commands) throwInsteadOfExit(child)
}
