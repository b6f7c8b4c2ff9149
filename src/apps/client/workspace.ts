/** The complete workspace: every pipe with its destinations and lanes, and words for them. */
import type { Destination } from '../../contract/destination.ts'
import { wordsOf } from '../../contract/destination-words.ts'
import type { Pipe } from '../../contract/pipe.ts'
import { laneWord } from '../../contract/state-words.ts'
import type { Client, PipeDetail } from './client.ts'
import { exitCodes, Failure } from './failure.ts'

/** Concurrent requests of commands that read every pipe. */
const parallelRequests = 8

export interface DestinationOfPipe {
  pipe: Pipe
  destination: Destination
}

export type LanePath = Pick<Destination, 'pipe_id' | 'destination_id'>

/** Identifies a destination of a pipe by ids. */
export interface LaneRef {
  pipeId: string
  destinationId: string
}

/** The path parameters of operations on a destination or its parked records. */
export function lanePath(lane: LanePath | LaneRef): LanePath {
  return 'pipe_id' in lane
    ? { pipe_id: lane.pipe_id, destination_id: lane.destination_id }
    : { pipe_id: lane.pipeId, destination_id: lane.destinationId }
}

/** Every destination of the given pipes, in the order of the pipes. Default: all pipes. */
export async function allDestinations(
  client: Client,
  pipes?: readonly Pipe[],
  signal?: AbortSignal,
): Promise<DestinationOfPipe[]> {
  const details = await allPipeDetails(
    client,
    pipes ?? (await client.call('listPipes', { signal })).body.pipes,
    signal,
  )
  return details.flatMap(({ pipe, destinations }) =>
    destinations.map((destination) => ({ pipe, destination })),
  )
}

/** The details of pipes, with a few concurrent requests. Pipes that are deleted meanwhile are left out. */
export async function allPipeDetails(
  client: Client,
  pipes: readonly Pipe[],
  signal?: AbortSignal,
): Promise<PipeDetail[]> {
  const details: (PipeDetail | null)[] = []
  let next = 0
  const worker = async () => {
    for (let index = next++; index < pipes.length; index = next++) {
      details[index] = await pipeDetail(client, pipes[index]!.pipe_id, signal)
    }
  }
  await Promise.all(Array.from({ length: Math.min(parallelRequests, pipes.length) }, worker))
  return details.filter((one) => one !== null)
}

async function pipeDetail(client: Client, pipeId: string, signal?: AbortSignal): Promise<PipeDetail | null> {
  try {
    return (await client.call('getPipe', { path: { pipe_id: pipeId }, signal })).body
  } catch (error) {
    if (error instanceof Failure && error.exitCode === exitCodes.notFound) return null
    throw error
  }
}

/** The name of a destination and its lane: `orders/warehouse`. Every command accepts it. */
export function fullName(
  { pipe_name }: Pick<Pipe, 'pipe_name'>,
  { destination_name }: Pick<Destination, 'destination_name'>,
): string {
  return `${pipe_name}/${destination_name}`
}

/** For example `database` for `destination_database`. */
export function kindOf({ destination_type }: Pick<Destination, 'destination_type'>): string {
  return wordsOf(destination_type).kind
}

/** A short description of where a destination stores records. */
export function describeTarget(
  destination: Pick<Destination, 'destination_type' | 'destination_config'>,
): string {
  return wordsOf(destination.destination_type).target(destination.destination_config)
}

/** The state of a lane in one word. `(stale)`: delivery does not respond, and this is the last saved state. */
export function stateOf({ lane }: Pick<Destination, 'lane'>): string {
  const word = laneWord({ lane })
  return lane.stale === true ? `${word} (stale)` : word
}
