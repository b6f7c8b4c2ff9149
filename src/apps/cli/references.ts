/**
 * Resolves names on the command line. A pipe: by name, UUID or the start of its UUID. A destination: by `PIPE/NAME`
 * (`orders/warehouse`), by the name of its pipe if that has only one destination, by `PIPE/KIND` if only one matches,
 * by `PIPE/START` of its UUID, or by its UUID. If several resources match, the error lists them (usage). If none
 * matches, the error names the command that lists them (not found).
 */
import type { Destination, DestinationType } from '../../contract/destination.ts'
import type { Pipe } from '../../contract/pipe.ts'
import { isUuid } from '../../contract/uuid.ts'
import type { Client, PipeDetail, Reply } from '../client/client.ts'
import { type Failure, notFoundFailure, usageFailure } from '../client/failure.ts'
import {
  allDestinations,
  type DestinationOfPipe,
  describeTarget,
  fullName,
  kindOf,
} from '../client/workspace.ts'
import { nearest } from './nearest.ts'

/** Shorter starts would often match by accident. */
const shortestPrefix = 4

export async function findPipe(client: Client, reference: string): Promise<Pipe> {
  const { pipes } = (await client.call('listPipes')).body
  return pickPipe(pipes, reference)
}

/** A pipe with its version, so that a change applies only to the state that was read. */
export async function readPipe(client: Client, reference: string): Promise<Reply<PipeDetail>> {
  const { pipe_id } = await findPipe(client, reference)
  return await client.call('getPipe', { path: { pipe_id } })
}

/** The pipe of a reference. A name has precedence over the start of a UUID. */
export function pickPipe(pipes: readonly Pipe[], reference: string): Pipe {
  const exact = pipes.find((pipe) => pipe.pipe_name === reference || pipe.pipe_id === reference.toLowerCase())
  if (exact !== undefined) return exact
  const matches = pipes.filter((pipe) => startsLike(pipe.pipe_id, reference))
  const names = pipes.map((pipe) => pipe.pipe_name)
  return only('pipe', reference, matches, { names, show: (pipe) => `${pipe.pipe_id}  ${pipe.pipe_name}` })
}

/** `among`: considers only destinations of this type, for example for `pull orders` if the pipe has a table too. */
export async function findDestination(
  client: Client,
  reference: string,
  among?: DestinationType,
): Promise<DestinationOfPipe> {
  const [pipePart, rest] = splitReference(reference)
  const { pipes } = (await client.call('listPipes')).body
  const named = pipes.find((pipe) => pipe.pipe_name === reference)
  if (rest !== null) {
    const pipe = pickPipe(pipes, pipePart)
    const { destinations } = (await client.call('getPipe', { path: { pipe_id: pipe.pipe_id } })).body
    return { pipe, destination: pickDestination(destinations, rest, pipe.pipe_name, reference) }
  }
  if (named !== undefined) {
    const { destinations } = (await client.call('getPipe', { path: { pipe_id: named.pipe_id } })).body
    return {
      pipe: named,
      destination: pickOnly(amongType(destinations, among), named.pipe_name, reference),
    }
  }
  const all = await allDestinations(client, pipes)
  const matches = all.filter(({ destination }) => startsLike(destination.destination_id, reference))
  return only('destination', reference, matches, {
    names: [
      ...pipes.map((pipe) => pipe.pipe_name),
      ...all.map(({ pipe, destination }) => fullName(pipe, destination)),
    ],
    show: ({ pipe, destination }) => listed(destination, pipe.pipe_name),
  })
}

function splitReference(reference: string): [string, string | null] {
  const slash = reference.indexOf('/')
  return slash === -1 ? [reference, null] : [reference.slice(0, slash), reference.slice(slash + 1)]
}

function pickDestination(
  destinations: readonly Destination[],
  part: string,
  pipeName: string,
  reference: string,
): Destination {
  const named = destinations.find((one) => one.destination_name === part)
  if (named !== undefined) return named
  const ofKind = destinations.filter((one) => kindOf(one) === part || one.destination_type === part)
  const matches =
    ofKind.length > 0 ? ofKind : destinations.filter((one) => startsLike(one.destination_id, part))
  return only('destination', reference, matches, {
    names: destinations.map((one) => `${pipeName}/${one.destination_name}`),
    show: (one) => listed(one, pipeName),
    hint: byName(pipeName, matches),
  })
}

/** All destinations if none has the type. The caller then names the expected type. */
function amongType(
  destinations: readonly Destination[],
  type: DestinationType | undefined,
): readonly Destination[] {
  const ofType = destinations.filter((one) => one.destination_type === type)
  return ofType.length > 0 ? ofType : destinations
}

function pickOnly(found: readonly Destination[], pipeName: string, reference: string): Destination {
  if (found.length === 0)
    throw notFoundFailure(
      `pipe ${pipeName} has no destination`,
      `add one with \`pipectl destinations create ${pipeName}\``,
    )
  const show = (one: Destination) => listed(one, pipeName)
  return only('destination', reference, found, { names: [], show, hint: byName(pipeName, found) })
}

function byName(pipeName: string, [first]: readonly Destination[]): string {
  return `name one of them as PIPE/NAME, e.g. ${pipeName}/${first?.destination_name}`
}

function listed(destination: Destination, pipeName: string): string {
  const name = `${pipeName}/${destination.destination_name}`
  return `${name}  ${kindOf(destination)} ${describeTarget(destination)}  ${destination.destination_id}`
}

function startsLike(id: string, reference: string): boolean {
  if (isUuid(reference)) return id === reference.toLowerCase()
  return reference.length >= shortestPrefix && id.startsWith(reference.toLowerCase())
}

interface Candidates<T> {
  /** The existing names, of which the most similar is suggested. */
  names: readonly string[]
  /** A line about one of several matches. */
  show(one: T): string
  /** The next step if there are several matches. */
  hint?: string
}

/** The only match. Throws Failure: not found for none, usage with the candidates for several. */
export function only<T>(
  what: string,
  reference: string,
  matches: readonly T[],
  { names, show, hint = 'name one of them by more of its id' }: Candidates<T>,
): T {
  if (matches.length === 1) return matches[0]!
  if (matches.length === 0) throw notFound(what, reference, names)
  throw usageFailure(
    `${JSON.stringify(reference)} matches ${matches.length} ${what}s:\n${matches.map((one) => `  ${show(one)}`).join('\n')}`,
    hint,
  )
}

/** `what`: a pipe, a destination, a key, a user. Suggests the name that is most similar to the reference. */
function notFound(what: string, reference: string, names: readonly string[]): Failure {
  const near = nearest(reference, names)
  return notFoundFailure(
    `there is no ${what} ${JSON.stringify(reference)} in this workspace`,
    near === null
      ? `\`pipectl ${what}s list\` shows what there is; ids can be shortened to ${shortestPrefix} characters or more`
      : `did you mean ${JSON.stringify(near)}? \`pipectl ${what}s list\` shows what there is`,
  )
}
