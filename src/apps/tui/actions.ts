/** The actions of the keys on a pipe or lane. Each returns one line for the user, or the message of its Failure. */
import type { OverviewLane, OverviewPipe } from '../../contract/overview.ts'
import type { Client } from '../client/client.ts'
import { ApiFailure, Failure } from '../client/failure.ts'
import { singleLine } from '../client/json-text.ts'
import { recordTextsOf } from '../client/parked.ts'
import { fullName, type LanePath } from '../client/workspace.ts'
import type { Blocking } from './detail.tsx'

const outcomeEveryMs = 200
const outcomeRounds = 50

export interface Lane {
  pipe: OverviewPipe
  destination: OverviewLane
}

export function pathOf({ pipe, destination }: Lane): LanePath {
  return { pipe_id: pipe.pipe_id, destination_id: destination.destination_id }
}

export function laneName({ pipe, destination }: Lane): string {
  return fullName(pipe, destination)
}

export async function skip(client: Client, lane: Lane): Promise<string> {
  const { body } = await client.call('skipBlockingMessage', { path: pathOf(lane) })
  return body.skipped ? `Parked the blocking message of ${laneName(lane)}.` : nothingBlocks(lane)
}

/** Waits for the result of the attempt, at most ten seconds. */
export async function retry(client: Client, lane: Lane): Promise<string> {
  const { destination } = lane
  const { body } = await client.call('retryNow', { path: pathOf(lane) })
  if (!body.retried) return nothingBlocks(lane)
  const name = laneName(lane)
  for (let round = 0; round < outcomeRounds; round += 1) {
    await new Promise((resolve) => setTimeout(resolve, outcomeEveryMs))
    const { body: now } = await client.call('getDestination', { path: pathOf(lane) })
    const { blocking_msg_id: blocking, attempts, last_error: error } = now.destination.lane
    if (blocking !== body.msg_id) return `Retried: ${name} continued; message ${body.msg_id} is delivered.`
    if (attempts !== destination.lane.attempts && error !== null) {
      return `Retried: ${name} failed again: ${error.code}: ${error.message}`
    }
  }
  return `Retrying ${name}; the attempt is still running.`
}

export async function toggleBlocked(client: Client, lane: Lane): Promise<string> {
  const wanted = lane.destination.destination_status === 'blocked' ? 'active' : 'blocked'
  await client.call('setDestinationStatus', {
    path: pathOf(lane),
    body: { destination_status: wanted },
  })
  return `${laneName(lane)} is ${wanted}.`
}

export async function rewind(client: Client, lane: Lane, to: string): Promise<string> {
  const point = /^\d+$/.test(to) ? Number(to) : to
  const { body } = await client.call('rewindDestination', {
    path: pathOf(lane),
    body: { to: point },
  })
  return `${laneName(lane)} continues after stream_seq ${body.cursor_seq}.`
}

export async function togglePaused(client: Client, pipe: OverviewPipe): Promise<string> {
  const wanted = pipe.pipe_status === 'paused' ? 'active' : 'paused'
  await client.call('updatePipe', { path: { pipe_id: pipe.pipe_id }, body: { pipe_status: wanted } })
  return `Pipe ${pipe.pipe_name} is ${wanted}.`
}

/** Null if no message blocks the lane. */
export async function blockingMessage(client: Client, lane: Lane): Promise<Blocking | null> {
  try {
    // Starts with the rejected record.
    const from = lane.destination.lane.last_error?.record_index ?? 0
    const { body, text } = await client.call('getBlockingMessage', {
      path: pathOf(lane),
      query: { from },
    })
    return {
      msgId: body.msg_id,
      streamSeq: body.stream_seq,
      receivedTs: body.received_ts,
      recordsCount: body.records_count,
      from,
      refused: body.failing?.record_index ?? null,
      records: recordTextsOf(text).map(singleLine),
    }
  } catch (error) {
    if (error instanceof ApiFailure && error.status === 404) return null
    throw error
  }
}

/** Describes a failed action in one line. */
export function failureLine(error: unknown): string {
  if (error instanceof Failure) return `${error.message.replace(/\s*\n\s*/g, ' ')} — ${error.hint}`
  return error instanceof Error ? error.message : String(error)
}

function nothingBlocks(lane: Lane): string {
  return `Nothing is blocking ${laneName(lane)}, or its destination is blocked.`
}
