/** The whole command line as one commander program. */
import { Command } from 'commander'
import { version } from '../../platform/version.ts'
import { initCommand, serveCommand, workspacesCommand } from './daemon-commands.ts'
import { io, type OutputStream } from './io.ts'
import { coloursOn } from './terminal.ts'

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
  outputToRun(program)
  hintAtOwnHelp(program)
  return program
}

/**
 * Help and wrong usage are printed on the streams of the run and throw. Commands added whole inherit nothing from the
 * program, so each one is told.
 */
function outputToRun(command: Command): void {
  command.exitOverride().configureOutput({
    writeOut: (text) => io().stdout.write(text),
    writeErr: (text) => io().stderr.write(text),
    getOutHelpWidth: () => widthOf(io().stdout),
    getErrHelpWidth: () => widthOf(io().stderr),
    getOutHasColors: () => coloursOn(io().stdout),
    getErrHasColors: () => coloursOn(io().stderr),
  })
  for (const child of command.commands) outputToRun(child)
}

function widthOf({ isTTY, columns }: OutputStream): number {
  return isTTY === true ? columns || defaultWidth : defaultWidth
}

const defaultWidth = 80

/** After wrong usage: the help of the very command, not of the whole program. */
function hintAtOwnHelp(command: Command, parents = ''): void {
  const name = `${parents}${command.name()}`
  const what = command.commands.length > 0 ? 'lists its commands' : 'shows its arguments and options'
  command.showHelpAfterError(`(${name} --help ${what})`)
  for (const child of command.commands) hintAtOwnHelp(child, `${name} `)
}
