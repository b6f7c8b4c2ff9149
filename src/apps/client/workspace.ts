/** The whole workspace at a glance: every pipe with its destinations and lanes, and words for them. */
import type { Destination, LaneStatus } from '../../contract/destination.ts'
import { wordsOf } from '../../contract/destination-words.ts'
import { isFailing } from '../../contract/lane-failing.ts'
import type { Pipe } from '../../contract/pipe.ts'
import type { Client, PipeDetail } from './client.ts'
import { exitCodes, Failure } from './failure.ts'

/** Requests under way at once when something looks at every pipe. */
const parallelRequests = 8

export interface DestinationOfPipe {
  pipe: Pipe
  destination: Destination
}

export type LanePath = Pick<Destination, 'pipe_id' | 'destination_id'>

/** The path parameters of an operation on a destination, or on what is parked of it. */
export function lanePath(lane: LanePath | { pipeId: string; destinationId: string }): LanePath {
  return 'pipe_id' in lane
    ? { pipe_id: lane.pipe_id, destination_id: lane.destination_id }
    : { pipe_id: lane.pipeId, destination_id: lane.destinationId }
}

/** Every destination of these pipes (all pipes, if none are given), in the order of the pipes. */
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

/** The details of pipes, a few requests at a time. A pipe deleted meanwhile is left out. */
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

/** The name of a destination and its lane, for people: `orders/warehouse`. Every command takes it. */
export function fullName(
  { pipe_name }: Pick<Pipe, 'pipe_name'>,
  { destination_name }: Pick<Destination, 'destination_name'>,
): string {
  return `${pipe_name}/${destination_name}`
}

/** `database` for `destination_database`, and so on. */
export function kindOf({ destination_type }: Pick<Destination, 'destination_type'>): string {
  return wordsOf(destination_type).kind
}

/** Where a destination puts records, in one short text. */
export function describeTarget(
  destination: Pick<Destination, 'destination_type' | 'destination_config'>,
): string {
  return wordsOf(destination.destination_type).target(destination.destination_config)
}

/** For people, on every surface. Only a stuck lane waits for a person: a failing one can recover by itself. */
export type StateWord = LaneStatus['lane_state'] | 'failing' | 'stuck'

/**
 * A lane's state in one word: where the API says `retrying`, `stuck` if its message was rejected for good, and `failing` if it
 * has failed for a minute.
 */
export function stateWord({ lane }: Pick<Destination, 'lane'>, nowMs: number): StateWord {
  const isWorse = lane.lane_state === 'retrying' || lane.lane_state === 'flowing'
  if (!isWorse || severity({ lane }, nowMs) < 2) return lane.lane_state
  return lane.last_error?.class === 'permanent' ? 'stuck' : 'failing'
}

/** The same; `(stale)`: delivery does not respond, this is what the lane last saved. */
export function stateOf(destination: Pick<Destination, 'lane'>, nowMs: number): string {
  const word = stateWord(destination, nowMs)
  return destination.lane.stale === true ? `${word} (stale)` : word
}

/** In words: how many lanes have a severity above 1. */
export function needAttention(lanes: number): string {
  return `${lanes} ${lanes === 1 ? 'needs' : 'need'} attention`
}

/** The attention that a lane needs; 0: none, more than 1: the operator has to act. */
export function severity({ lane }: Pick<Destination, 'lane'>, nowMs: number): number {
  if (lane.lane_state === 'stalled') return 4
  if (lane.lane_state === 'blocked') return 3
  if (lane.blocking_msg_id !== null && lane.last_error?.class === 'permanent') return 2
  if (isFailing(lane, nowMs)) return 2
  return lane.lane_state === 'retrying' || lane.blocking_msg_id !== null ? 1 : 0
}
