/**
 * Records that do not match the schema of their pipe: they are rejected with their request, or parked before its other
 * records are appended. With `tag` they are stored with the others (splice.ts).
 */
import { ApiError } from '../contract/errors.ts'
import type { Idempotency } from '../log/buffer.ts'
import type { DirectoryPipe } from '../metadata/directory-source.ts'
import type { Quota, Reservation } from './admission.ts'
import { newMsgId } from './msg-ids.ts'
import { type ParkedRequest, parkRecords } from './parked/park-request.ts'
import type { MismatchParking } from './parked/queue.ts'
import type { ParkedText } from './parked/separate.ts'
import type { Mismatched } from './schema/record-check.ts'
import type { Enrichment } from './splice.ts'
import type { UsageObserver } from './usage.ts'

interface ParkDeps {
  parking: MismatchParking
  quota: Quota
  usage: UsageObserver
  now(): number
}

/** A request with records to park. */
interface SeparatedRequest {
  entry: DirectoryPipe
  receivedMs: number
  enrichment: Enrichment
  idempotency: Idempotency | undefined
  parked: readonly ParkedText[]
  /** All records of the request, with those to park, and their bytes. */
  amount: { records: number; bytes: number }
}

export interface ReservedAndParked {
  request: ParkedRequest
  /** Null: the pipe has no limits. */
  reserved: Reservation | null
  /** The records were parked by an earlier request with the same key. */
  isRepeat: boolean
}

/**
 * Rate → park. The records are durable when it resolves (metadata/pipe-parked-port.ts). When it rejects, nothing is
 * reserved or parked without a key.
 */
export async function reserveAndPark(
  { parking, quota, usage, now }: ParkDeps,
  { entry, receivedMs, enrichment, idempotency, parked, amount }: SeparatedRequest,
): Promise<ReservedAndParked> {
  const { workspaceId, pipe, limits } = entry
  const pipeId = pipe.pipe_id
  const reserved = limits && (await quota.reserve(pipeId, limits, amount, now()))
  const msgId = newMsgId()
  try {
    const toPark = { workspaceId, pipeId, msgId, receivedMs, enrichment, idempotency, parked }
    const request = await parkRecords(parking, toPark)
    const isRepeat = request.msgId !== msgId
    if (!isRepeat) usage.mismatched(pipeId, receivedMs, { parked: parked.length })
    return { request, reserved, isRepeat }
  } catch (error) {
    if (reserved !== null) quota.refund(reserved)
    throw error
  }
}

export function schemaMismatch({ records, errors }: Mismatched, recordCount: number): ApiError {
  return new ApiError('schema_mismatch', {
    message: `${records} of ${recordCount} records do not match the schema of the pipe; see errors. Nothing was stored.`,
    details: { errors },
  })
}
