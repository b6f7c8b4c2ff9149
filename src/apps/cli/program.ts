/** The complete command line as one commander program. */
import { Command } from 'commander'
import { version } from '../../platform/version.ts'
import { initCommand, serveCommand } from './daemon-commands.ts'
import { addExamples, examplesOf, shapeHelp, usageHint } from './help.ts'
import { io, type OutputStream } from './io.ts'
import { coloursOn, sayFailure } from './terminal.ts'

/** `withClientCommands` false: only the commands of the daemon, which do not need the code of the others. */
export async function buildProgram(withClientCommands = true): Promise<Command> {
  const program = new Command('pipectl')
    .description('Receives JSON over HTTP and delivers it to databases, buckets and endpoints.')
    .version(version(), '-V, --version', 'print the version')
    .commandsGroup(gettingStarted)
    .helpCommand(false)
  addExamples(program, ['pipectl serve --init', 'pipectl pipes create orders', 'pipectl status'])
  program.addCommand(serveCommand())
  program.addCommand(initCommand())
  if (withClientCommands) {
    const { registerCommands } = await import('./commands.ts')
    registerCommands(program)
  }
  program.addHelpText(
    'after',
    `
Terms:
  record       one JSON object
  message      the records of one accepted request; delivered or skipped as a whole
  pipe         where clients send records
  destination  where the messages of a pipe go
  lane         a destination's position in its pipe: what it has delivered, what is pending, what blocks it
  batch        the messages of one delivery attempt

A running daemon serves the guides at /docs/.`,
  )
  outputToRun(program)
  shapeHelp(program)
  return program
}

const gettingStarted = 'Getting started:'

/** For `pipectl` without a command: the first steps and the names of all commands, in 15 lines of 80 columns. */
export function overview(program: Command): string {
  const helper = program.createHelp()
  const visible = helper.visibleCommands(program)
  const groups = helper.groupItems(visible, visible, (command) => command.helpGroup())
  const lines = [
    program.description(),
    '',
    ...examplesOf(program).map((line) => `  ${line}`),
    '',
    ...[...groups].flatMap(([heading, commands]) => namesBelow(heading, commands)),
    '`pipectl --help` describes them; `pipectl COMMAND --help` begins with examples.',
  ]
  return lines.map((line) => `${line}\n`).join('')
}

function namesBelow(heading: string, commands: readonly Command[]): string[] {
  const lines = [heading.padEnd(indent)]
  for (const name of commands.map((one) => one.name())) {
    const longer = `${lines.at(-1)} ${name}`
    if (longer.length <= defaultWidth) lines[lines.length - 1] = longer
    else lines.push(`${' '.repeat(indent)} ${name}`)
  }
  return lines
}
const indent = 24

/**
 * Prints help and errors to the streams of the run, and throws. Complete commands that were added inherit nothing
 * from the program, so each is configured.
 */
function outputToRun(command: Command): void {
  command
    .exitOverride()
    .showSuggestionAfterError(false)
    .configureOutput({
      writeOut: (text) => io().stdout.write(text),
      writeErr: (text) => io().stderr.write(text),
      outputError: (text) => {
        const message = text.trim().replace(/^error: /, '')
        sayFailure(message, usageHint(command, message))
      },
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
