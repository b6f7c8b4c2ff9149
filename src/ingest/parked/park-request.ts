/**
 * Parks the mismatching records of one request, before its other records are appended. Steps and crashes:
 * metadata/pipe-parked-port.ts.
 */
import { v5, v7 } from 'uuid'
import { ApiError } from '../../contract/errors.ts'
import { BufferUnavailableError, type Idempotency } from '../../log/buffer.ts'
import type { ParkRequest } from '../../metadata/pipe-parked-port.ts'
import { StorageUnavailableError } from '../../platform/error-code.ts'
import { appendError } from '../append-error.ts'
import type { MismatchParking } from './queue.ts'
import type { ParkedText } from './separate.ts'

/** The namespace of ids that are derived from an Idempotency-Key. Never changed: a repeat must find its records. */
const keyedIds = '6f0d3c52-8a4e-4f6b-9d0c-2b8f1f7d9e11'

export interface RequestToPark
  extends Pick<ParkRequest, 'workspaceId' | 'pipeId' | 'msgId' | 'receivedMs' | 'enrichment'> {
  idempotency: Idempotency | undefined
  parked: readonly ParkedText[]
}

export interface ParkedRequest {
  /** The msg_id for the other records of the request. */
  ownMsgId: string
  /** That of the first request with the same key. */
  msgId: string
  /** Removes the records, if a repeat of the request would park them again. Call it when the request is rejected. */
  undo(): Promise<void>
}

/** Durable when it resolves. Throws `buffer_unavailable` or `pipe_not_found`; then nothing stays parked without a key. */
export async function parkRecords(
  parking: MismatchParking,
  { idempotency, parked, ...request }: RequestToPark,
): Promise<ParkedRequest> {
  const records = parked.map((one) => ({
    ...one,
    parkedId: idOf(request.pipeId, idempotency, one.recordIndex),
  }))
  const undo = async () => {
    if (idempotency !== undefined) return
    try {
      await parking.unpark(records.map(({ parkedId }) => parkedId))
    } catch (error) {
      // They stay parked: without a key, a repeat can store a record twice.
      if (!(error instanceof StorageUnavailableError)) throw error
    }
  }
  const outcome = await parkOne(parking, { ...request, isKeyed: idempotency !== undefined, records })
  if (outcome.kind === 'parked') return { ownMsgId: request.msgId, msgId: outcome.msgId, undo }
  if (outcome.kind === 'gone') throw new ApiError('pipe_not_found')
  if (outcome.kind === 'unreplicated') {
    const error = new BufferUnavailableError('not_replicated', 'the replica does not answer in time', true)
    throw appendError(error, request.msgId)
  }
  // The earlier part of a large request can be parked.
  await undo()
  throw notParked(request.msgId, outcome.kind === 'full' ? 'parked_full' : 'parking_busy')
}

async function parkOne(parking: MismatchParking, request: ParkRequest) {
  try {
    const [outcome] = await parking.park([request])
    return outcome!
  } catch (error) {
    if (!(error instanceof StorageUnavailableError)) throw error
    throw notParked(request.msgId, 'parking_failed')
  }
}

function idOf(pipeId: string, idempotency: Idempotency | undefined, recordIndex: number): string {
  if (idempotency === undefined) return v7()
  const { key, bodyHash } = idempotency
  return v5(`${pipeId}\n${key}\n${bodyHash}\n${recordIndex}`, keyedIds)
}

const reasons = {
  parked_full:
    'There is no room for more records that do not match the schema: replay or discard parked ones.',
  parking_busy: 'Too many records that do not match the schema wait to be parked.',
  parking_failed: 'The records that do not match the schema could not be parked.',
}

function notParked(msgId: string, reason: keyof typeof reasons): ApiError {
  return new ApiError('buffer_unavailable', {
    message: `${reasons[reason]} It is safe to send the request again.`,
    details: { msg_id: msgId, details: { reason } },
    headers: { 'Retry-After': '5' },
  })
}
