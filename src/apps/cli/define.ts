/**
 * Defines a command with one call: its texts, its examples and its action. Adds the options that all commands of its
 * kind have, runs the action, and converts a Failure into two lines on stderr and an exit code.
 *
 * Uses `.command()` and not `addCommand()`, because only then a subcommand inherits how the program exits and prints.
 */
import { type Command, Option } from 'commander'
import type { Client } from '../client/client.ts'
import { exitCodes, Failure } from '../client/failure.ts'
import { type ConnectionOptions, connect } from './connection.ts'
import { addSettingFlags } from './daemon-commands.ts'
import { addExamples, folded } from './help.ts'
import { setExitCode } from './io.ts'
import { sayFailure } from './terminal.ts'

export const formats = ['table', 'json', 'yaml', 'ndjson', 'name'] as const
export type Format = (typeof formats)[number]
/**
 * The same format for every kind of output, as in kubectl: output that is piped into `less` looks like output on a
 * terminal.
 */
export const defaultFormat: Format = 'table'

export interface CommonOptions extends ConnectionOptions {
  output?: Format
  yes?: boolean
}

export interface CommandDefinition<T> {
  /** Name and arguments: `get <pipe>`. */
  usage: string
  summary: string
  /** Additional help, below the options. */
  help?: string
  /** One or more command lines. Every command has at least one. */
  examples: readonly [string, ...string[]]
  /** The command has `-o`. Otherwise it has its own output format, or prints no data. */
  output?: boolean
  /** With `output`: adds --json, the same as -o json. */
  json?: boolean
  /** The command works on a data directory: adds --config and --data-dir, before its own options. */
  dataDir?: boolean
  /** The command connects to a daemon: adds --server, --profile and the options for a key. */
  daemon?: boolean
  /** The command also connects to the data API. */
  data?: boolean
  /** The command asks for confirmation: adds --yes. */
  destructive?: boolean
  hidden?: boolean
  options?: (command: Command) => void
  action: (args: readonly string[], options: T & CommonOptions) => Promise<void>
}

/** Adds a command to its parent. */
export function define<T = unknown>(parent: Command, definition: CommandDefinition<T>): Command {
  const command = parent
    .command(definition.usage, { hidden: definition.hidden ?? false })
    .description(definition.summary)
  if (definition.dataDir) addSettingFlags(command, ['data_dir'])
  definition.options?.(command)
  if (definition.json) command.option('--json', 'the same as -o json')
  if (definition.destructive) command.option('-y, --yes', 'do not ask for confirmation')
  if (definition.output) {
    command.addOption(
      new Option('-o, --output <format>', `output format (default: ${defaultFormat})`).choices(formats),
    )
  }
  if (definition.daemon || definition.data) addConnectionOptions(command, definition.data === true)
  if (definition.help) command.addHelpText('after', `\n${definition.help}`)
  addExamples(command, definition.examples)
  // commander passes the arguments (a list for a variadic one), then the options, then the command.
  return command.action(async (...received: unknown[]) => {
    const words = received.slice(0, -2).flat()
    const args = words.filter((one): one is string => typeof one === 'string')
    // Includes options of the parent: commander assigns an option that both have to the parent (`nodes --config`,
    // `nodes drain … --config`).
    const options = command.optsWithGlobals<T & CommonOptions & { json?: boolean }>()
    if (definition.json && options.json) options.output = 'json'
    await run(() => definition.action(args, options))
  })
}

type ClientCommand<T> = Omit<CommandDefinition<T>, 'action' | 'daemon'> & {
  action: (client: Client, args: readonly string[], options: T & CommonOptions) => Promise<void>
}

/** Adds a command that connects to a daemon with a key before anything else. It has `-o` unless `output` is false. */
export function clientCommand<T = unknown>(parent: Command, definition: ClientCommand<T>): Command {
  return define<T>(parent, {
    output: true,
    ...definition,
    daemon: true,
    action: async (args, options) => definition.action(await connect(options), args, options),
  })
}

/** A command that only groups others, such as `pipectl pipes`. */
export function group(parent: Command, name: string, summary: string): Command {
  return parent.command(name).description(summary)
}

/** Runs an action. A Failure is printed and sets the exit code. Any other error is a bug and propagates. */
export async function run(action: () => Promise<void>): Promise<void> {
  try {
    await action()
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    printFailure(error)
    setExitCode(error.exitCode)
  }
}

function printFailure(failure: Failure): void {
  // The reader closed the output on purpose, as in a pipeline with `| head -1`. No message is needed.
  if (failure.exitCode === exitCodes.readerGone) return
  // An interrupt and "nothing to do" are outcomes, not errors.
  const isOutcome = failure.exitCode === exitCodes.interrupted || failure.exitCode === exitCodes.nothingToDo
  sayFailure(failure.message, failure.hint, isOutcome ? 'note' : 'error')
}

function addConnectionOptions(command: Command, data: boolean): void {
  folded(command, 'Connection:', () => {
    command.option('--server <url>', 'address of the daemon (PIPECTL_URL; default http://127.0.0.1:8080)')
    if (data)
      command.option('--data-server <url>', 'address of ingest and pull, if it differs (PIPECTL_DATA_URL)')
    command.option('--profile <name>', 'stored address and key to use (PIPECTL_PROFILE)')
    command.option(
      '--api-key-file <file>',
      'file with the API key; otherwise PIPECTL_API_KEY, otherwise the profile',
    )
    command.option('--api-key-stdin', 'read the API key from stdin')
  })
}
