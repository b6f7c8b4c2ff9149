/** The whole command line as one commander program. */
import { Command } from 'commander'
import { version } from '../version.ts'
import { initCommand, serveCommand, workspacesCommand } from './daemon-commands.ts'

/** `withClientCommands` false: the daemon's own commands alone, which need none of the others' code. */
export async function buildProgram(withClientCommands = true): Promise<Command> {
  const program = new Command('pipectl')
    .description(
      'JSON records in over HTTP, kept durably, delivered in order to databases, buckets and endpoints.',
    )
    .version(version(), '-V, --version', 'print the version')
  program.addCommand(serveCommand())
  program.addCommand(initCommand())
  program.addCommand(workspacesCommand())
  if (withClientCommands) {
    const { registerCommands } = await import('./commands.ts')
    registerCommands(program)
  }
  program.addHelpText(
    'after',
    `
Words:
  record       one JSON object
  message      the records of one accepted request; delivered or skipped as a whole
  pipe         where records come in
  destination  where the messages of a pipe go
  lane         a destination's place in its pipe: what it has received, what waits, what blocks it
  batch        the messages that one delivery attempt carries`,
  )
  throwInsteadOfExit(program)
  hintAtOwnHelp(program)
  return program
}

/** Commands added whole inherit nothing from the program: without this, wrong usage of theirs would end with 1. */
function throwInsteadOfExit(command: Command): void {
  command.exitOverride()
  for (const child of command.commands) throwInsteadOfExit(child)
}

/** After wrong usage: the help of the very command, not of the whole program. */
function hintAtOwnHelp(command: Command, parents = ''): void {
  const name = `${parents}${command.name()}`
  const what = command.commands.length > 0 ? 'lists its commands' : 'shows its arguments and options'
  command.showHelpAfterError(`(${name} --help ${what})`)
  for (const child of command.commands) hintAtOwnHelp(child, `${name} `)
}
