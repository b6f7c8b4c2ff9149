/** Completes a command line: subcommands, options, their values, and names that the daemon returns. */
import type { Command, Option } from 'commander'
import { userRoles } from '../../contract/user.ts'
import type { Client } from '../client/client.ts'
import { allDestinations, type DestinationOfPipe, fullName, lanePath } from '../client/workspace.ts'
import { connect } from './connection.ts'

/**
 * Candidates for the last of `words`, which can be empty or incomplete. Never throws: without a daemon there are no
 * names.
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

/**
 * Shells insert a candidate unchanged. Candidates that the shell would execute, or that move the cursor, are left
 * out.
 */
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
  // The last argument can accept several values.
  const argument = all[given.length] ?? (all.at(-1)?.variadic ? all.at(-1) : undefined)
  return argument === undefined ? [] : liveNames(argument.name(), given, command, env)
}

/** Means every file name; the shell completes them. Free text has no candidates. */
const filesMark = ':files'

function namesFile(option: Option): boolean {
  return option.flags.includes('<file>') || option.long === '--data-dir'
}

/** The command that the words select, and its arguments so far. */
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

/** The parked records of the destination on the command line, without those that are already on it. */
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

/** `orders/warehouse`. If the name needs quotes: `orders/` and the start of the destination's id. */
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
