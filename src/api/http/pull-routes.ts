/**
 * Pull: GET /v1/pull/{destination_id}, POST …/ack, POST …/nack (docs/dev/contract.md#pull).
 *
 * A lane in auto mode moves on only when the whole response has been handed to the socket. A client that disconnects
 * before that gets the message again.
 */
import { type DestinationType, wordsOf } from '../../contract/destination-words.ts'
import { ApiError } from '../../contract/errors.ts'
import { isUuid } from '../../contract/uuid.ts'
import type { PullResult, Pulls } from '../../delivery/delivery.ts'
import { isForPipe } from '../../ingest/admission.ts'
import type { DestinationRef } from '../../metadata/tables.ts'
import type { Logger } from '../../platform/log.ts'
import { defaultWaitMs, type LongPoll, maxWaitMs } from './long-poll.ts'
import type { ApiReply, ApiRequest, Route } from './route.ts'

export interface PullRoutesOptions {
  /** Finds a destination of the workspace by its id. Null if there is none. */
  findDestination(
    destination: DestinationRef,
  ): Promise<{ pipe_id: string; destination_type: DestinationType; destination_status: string } | null>
  pulls: Pick<Pulls, 'pulled' | 'abandoned' | 'acknowledge'>
  longPoll: Pick<LongPoll, 'find'>
  log: Logger
}

export function pullRoutes(options: PullRoutesOptions): Route[] {
  const path = '/v1/pull/{destination_id}'
  const common = { surface: 'data', auth: 'key', needs: 'pull' } as const
  const settle = (operationId: string, isDone: boolean): Route => ({
    ...common,
    method: 'POST',
    path: `${path}/${isDone ? 'ack' : 'nack'}`,
    operationId,
    bodyError: 'invalid_msg_id',
    handler: (request) => acknowledge(options, request, isDone),
  })
  return [
    {
      ...common,
      method: 'GET',
      path,
      operationId: 'pullMessage',
      // A pull moves the lane, and a HEAD must not change anything.
      supportsHead: false,
      handler: (request) => pull(options, request),
    },
    settle('ackMessage', true),
    settle('nackMessage', false),
  ]
}

async function pull(options: PullRoutesOptions, request: ApiRequest): Promise<ApiReply> {
  const { workspaceId, destinationId } = await requireLane(options, request)
  const wantedMs = parseWaitMs(request.query.get('wait_ms'))
  // No message is handed out once the key has expired.
  const leftMs = (request.principal?.expiresMs ?? Number.POSITIVE_INFINITY) - Date.now()
  const waitMs = Math.max(0, Math.min(wantedMs, leftMs))
  const afterSeq = parseAfterSeq(request.query.get('after_seq'))
  const isAborted = () => request.isAborted?.() === true
  const by = request.principal?.by
  const apiKeyId = by?.kind === 'key' ? by.apiKeyId : null
  const wait = { workspaceId, apiKeyId, destinationId, waitMs, afterSeq, isAborted }
  const { result, close } = await options.longPoll.find(wait)
  if (result.kind === 'message') return messageReply(options, destinationId, result, close)
  close()
  switch (result.kind) {
    case 'empty':
      if (leftMs < wantedMs) throw new ApiError('unauthorized')
      return { status: 204 }
    case 'not_found':
      throw notAPullDestination()
    case 'cursor_expired':
      throw cursorExpired(result)
    case 'cursor_ahead':
      throw new ApiError('cursor_ahead', { details: { head_seq: result.headSeq } })
  }
}

function cursorExpired({ earliestSeq, reason }: Extract<PullResult, { kind: 'cursor_expired' }>): ApiError {
  const details = { earliest_seq: earliestSeq, reason }
  if (reason === 'retention') return new ApiError('cursor_expired', { details })
  const message = `The sequence numbers have changed: a backup was restored, or the data was moved. Continue with after_seq=${earliestSeq - 1}.`
  return new ApiError('cursor_expired', { message, details })
}

type PulledMessage = Extract<PullResult, { kind: 'message' }>

function messageReply(
  options: PullRoutesOptions,
  destinationId: string,
  message: PulledMessage,
  close: () => void,
): ApiReply {
  const { pullId, json } = message
  const ref = { destinationId, pullId }
  const body = Buffer.from(json.buffer, json.byteOffset, json.byteLength)
  const { pulls, log } = options
  const onSent = (wasSent: boolean) => {
    close()
    const settled = wasSent ? pulls.pulled(ref) : pulls.abandoned(ref)
    settled.catch((error) =>
      log.error({ destination_id: destinationId, reason: String(error) }, 'pull.not_settled'),
    )
  }
  return { status: 200, body, onSent }
}

async function acknowledge(
  options: PullRoutesOptions,
  request: ApiRequest,
  isDone: boolean,
): Promise<ApiReply> {
  const { destinationId } = await requireLane(options, request)
  const msgId = msgIdOf(request.body)
  if (msgId === null) throw new ApiError('invalid_msg_id')
  if (!(await options.pulls.acknowledge({ destinationId, msgId }, isDone)))
    throw new ApiError('lease_expired')
  return { status: 204 }
}

/** Null for anything except `{"msg_id": <UUID>}`. */
function msgIdOf(body: unknown): string | null {
  if (typeof body !== 'object' || body === null || !('msg_id' in body)) return null
  if (Object.keys(body).length > 1) return null
  return typeof body.msg_id === 'string' && isUuid(body.msg_id) ? body.msg_id.toLowerCase() : null
}

/** Finds the active pull destination of the workspace with the id of the path. Throws a 404 for anything else. */
async function requireLane(
  options: PullRoutesOptions,
  request: ApiRequest,
): Promise<{ workspaceId: string; destinationId: string }> {
  const destinationId = (request.params.destination_id ?? '').toLowerCase()
  if (!isUuid(destinationId)) throw new ApiError('invalid_destination_id')
  const workspaceId = request.principal?.workspaceId ?? ''
  const found = await options.findDestination({ workspaceId, destinationId })
  if (found === null || found.destination_status !== 'active' || !wordsOf(found.destination_type).isPulled)
    throw notAPullDestination()
  if (request.principal !== null && !isForPipe(request.principal, found.pipe_id)) {
    throw new ApiError('forbidden', {
      message: 'This key is limited to other pipes: use a key for this pipe.',
    })
  }
  return { workspaceId, destinationId }
}

function notAPullDestination(): ApiError {
  return new ApiError('destination_not_found', { message: 'No active pull destination with this id.' })
}

/** A value above the maximum is reduced to it. */
function parseWaitMs(text: string | null): number {
  if (text === null) return defaultWaitMs
  if (!/^\d+$/.test(text)) throw new ApiError('invalid_wait_ms')
  return Math.min(Number(text), maxWaitMs)
}

function parseAfterSeq(text: string | null): number | null {
  if (text === null) return null
  const seq = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(seq)) throw new ApiError('invalid_after_seq')
  return seq
}
