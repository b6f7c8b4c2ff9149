/**
 * Resolves names on the command line: a pipe by name, UUID or the start of its UUID; a destination by `PIPE/NAME`
 * (`orders/warehouse`), its pipe's name when that pipe has only one destination, `PIPE/KIND` where that fits one,
 * `PIPE/START` of its UUID, or its UUID. A name that fits several resources is an error that lists them (usage); a
 * name that fits none is an error that says how to list them (not found).
 */
import type { Destination, DestinationType } from '../../contract/destination.ts'
import type { Pipe } from '../../contract/pipe.ts'
import { isUuid } from '../../contract/uuid.ts'
import type { Client } from '../client/client.ts'
import { exitCodes, Failure } from '../client/failure.ts'
import { allDestinations, type DestinationOfPipe, describeTarget, kindOf } from '../client/workspace.ts'
import { nearest } from './nearest.ts'

/** Shorter starts would often fit by accident. */
const shortestPrefix = 4

export async function findPipe(client: Client, reference: string): Promise<Pipe> {
  const { pipes } = (await client.call('listPipes')).body
  return pickPipe(pipes, reference)
}

/** The pipe that a reference names. A name wins over the start of a UUID. */
export function pickPipe(pipes: readonly Pipe[], reference: string): Pipe {
  const exact = pipes.find((pipe) => pipe.pipe_name === reference || pipe.pipe_id === reference.toLowerCase())
  if (exact !== undefined) return exact
  const matches = pipes.filter((pipe) => startsLike(pipe.pipe_id, reference))
  if (matches.length === 0) throw noPipe(pipes, reference)
  return only('pipe', reference, matches, (pipe) => `${pipe.pipe_id}  ${pipe.pipe_name}`)
}

function noPipe(pipes: readonly Pipe[], reference: string): Failure {
  const near = nearest(
    reference,
    pipes.map((pipe) => pipe.pipe_name),
  )
  if (near === null) return none('pipe', reference)
  return new Failure(
    exitCodes.notFound,
    `there is no pipe ${JSON.stringify(reference)} in this workspace`,
    `did you mean ${JSON.stringify(near)}? \`pipectl pipes list\` shows what there is`,
  )
}

/** `among`: only destinations of this type count, e.g. for `pull orders` where the pipe has a table as well. */
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
  return only('destination', reference, matches, ({ pipe, destination }) =>
    listed(destination, pipe.pipe_name),
  )
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
  return only('destination', reference, matches, (one) => listed(one, pipeName), byName(pipeName, matches))
}

/** All of them where none is of the type: the caller then says what it wanted. */
function amongType(
  destinations: readonly Destination[],
  type: DestinationType | undefined,
): readonly Destination[] {
  const ofType = destinations.filter((one) => one.destination_type === type)
  return ofType.length > 0 ? ofType : destinations
}

function pickOnly(found: readonly Destination[], pipeName: string, reference: string): Destination {
  return only('destination', reference, found, (one) => listed(one, pipeName), byName(pipeName, found))
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

function none(what: string, reference: string): Failure {
  return new Failure(
    exitCodes.notFound,
    `there is no ${what} ${JSON.stringify(reference)} in this workspace`,
    `\`pipectl ${what}s list\` shows what there is; ids may be shortened to ${shortestPrefix} characters or more`,
  )
}

/** The one match. Throws Failure: not found for none, usage with the candidates for several. */
export function only<T>(
  what: string,
  reference: string,
  matches: readonly T[],
  show: (one: T) => string,
  hint = 'name one of them by more of its id',
): T {
  if (matches.length === 1) return matches[0]!
  if (matches.length === 0) throw none(what, reference)
  throw new Failure(
    exitCodes.usage,
    `${JSON.stringify(reference)} fits ${matches.length} ${what}s:\n${matches.map((one) => `  ${show(one)}`).join('\n')}`,
    hint,
  )
}
