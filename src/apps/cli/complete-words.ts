/** Completes a command line: sub-commands, options, their choices, and live names from the daemon. */
import type { Command, Option } from 'commander'
import { userRoles } from '../../contract/user.ts'
import type { Client } from '../client/client.ts'
import { allDestinations, type DestinationOfPipe, fullName, lanePath } from '../client/workspace.ts'
import { connect } from './connection.ts'

/**
 * Candidates for the last of `words` (what is typed so far of it, maybe empty). Never throws: without a daemon there
 * are simply no names.
 */
export async function completions(
  program: Command,
  words: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<string[]> {
  const current = words.at(-1) ?? ''
  const { command, given } = walk(program, words.slice(0, -1))
  const candidates = await candidatesAt(command, { given, previous: words.at(-2), current }, env)
  return candidates.filter((one) => one === filesMark || (one.startsWith(current) && isPlain(one))).sort()
}

/** Shells put a candidate on the command line as it is: one that they would run, or that moves the cursor, is left out. */
function isPlain(candidate: string): boolean {
  return /^[A-Za-z0-9_./:@-]+$/.test(candidate)
}

async function candidatesAt(
  command: Command,
  { given, previous, current }: { given: readonly string[]; previous: string | undefined; current: string },
  env: NodeJS.ProcessEnv,
): Promise<string[]> {
  const awaiting = optionNamed(command, previous)
  if (awaiting !== undefined && takesValue(awaiting)) {
    if (awaiting.long === '--profile') return profileNames(env)
    if (namesFile(awaiting)) return [filesMark]
    return awaiting.argChoices ?? []
  }
  if (current.startsWith('-')) {
    return ['--help', ...command.options.filter((one) => !one.hidden).flatMap((one) => one.long ?? [])]
  }
  const visible = command.commands.filter((one) => !one.name().startsWith('__'))
  if (visible.length > 0) return [...new Set([...visible.map((one) => one.name()), 'help'])]
  const { registeredArguments: all } = command
  // The last one may take several.
  const argument = all[given.length] ?? (all.at(-1)?.variadic ? all.at(-1) : undefined)
  return argument === undefined ? [] : liveNames(argument.name(), given, command, env)
}

/** Stands for every file name: the shell knows them. Free text completes to nothing. */
const filesMark = ':files'

function namesFile(option: Option): boolean {
  return option.flags.includes('<file>') || option.long === '--data-dir'
}

/** The command that the words lead to, and those of its arguments that are there already. */
function walk(program: Command, words: readonly string[]): { command: Command; given: string[] } {
  let command = program
  let given: string[] = []
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index] ?? ''
    if (word.startsWith('-')) {
      const option = optionNamed(command, word)
      if (option !== undefined && takesValue(option)) index += 1
      continue
    }
    const next = command.commands.find((one) => one.name() === word || one.aliases().includes(word))
    if (next === undefined) given.push(word)
    else {
      command = next
      given = []
    }
  }
  return { command, given }
}

function optionNamed(command: Command, word: string | undefined): Option | undefined {
  return command.options.find((one) => word !== undefined && (one.long === word || one.short === word))
}

function takesValue(option: Option): boolean {
  return option.required || option.optional
}

async function liveNames(
  argument: string,
  given: readonly string[],
  command: Command,
  env: NodeJS.ProcessEnv,
): Promise<string[]> {
  if (argument === 'file') return [filesMark]
  if (argument === 'shell') return ['bash', 'zsh', 'fish']
  if (argument === 'role') return [...userRoles]
  if (argument === 'name' && command.parent?.name() === 'profile') return profileNames(env)
  if (!['pipe', 'destination', 'key', 'parked'].includes(argument)) return []
  try {
    const client = await connect({}, env)
    if (argument === 'key') {
      const { api_keys: keys } = (await client.call('listApiKeys')).body
      return keys.filter((one) => one.api_key_status === 'active').map((one) => one.api_key_name)
    }
    if (argument === 'parked') return await parkedIds(client, given)
    const { pipes } = (await client.call('listPipes')).body
    if (argument === 'pipe') return pipes.map((one) => one.pipe_name)
    return (await allDestinations(client, pipes)).map(destinationWord)
  } catch {
    return []
  }
}

/** The records of the destination that is named already, without those that are on the line. */
async function parkedIds(client: Client, [reference, ...ids]: readonly string[]): Promise<string[]> {
  if (reference === undefined) return []
  const { findLane } = await import('./parked/references.ts')
  const lane = await findLane(client, reference)
  const { parked } = (
    await client.call('listParked', {
      path: lanePath(lane),
      query: { limit: '500' },
    })
  ).body
  return parked.map((one) => one.parked_id).filter((id) => !ids.includes(id))
}

/** `orders/warehouse`; of one that has to be quoted `orders/` and the start of its id. */
function destinationWord({ pipe, destination }: DestinationOfPipe): string {
  const name = fullName(pipe, destination)
  return isPlain(name) ? name : `${pipe.pipe_name}/${destination.destination_id.slice(0, 8)}`
}

async function profileNames(env: NodeJS.ProcessEnv): Promise<string[]> {
  try {
    const { readProfiles } = await import('./profile-store.ts')
    return [...(await readProfiles(env)).profiles.keys()]
  } catch {
    return []
  }
}
