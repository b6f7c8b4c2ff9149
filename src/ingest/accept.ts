/**
 * Ingest: one request from its headers to its message in the buffer. Read this first.
 *
 *   UUID → pipe → key and Origin → size → encoding → JSON → record count → enrichment → required fields → rate → enqueue
 *
 * The order is the contract's, and each step is a function that throws the ApiError of its rule. Nothing here knows
 * HTTP: a request is what it can be asked for, and what is returned is what happened. `post` resolves only after
 * `append` has, which is after fsync.
 */
import {
  type Appended,
  type Appender,
  BufferUnavailableError,
  IdempotencyKeyReusedError,
} from '../buffer/buffer.ts'
import { ApiError, payloadTooLarge } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { isUuid } from '../contract/uuid.ts'
import type { Authenticate } from '../directory/authenticate.ts'
import type { Directory, DirectoryPipe } from '../directory/directory.ts'
import { checkOrigin, findPipe, requireSender } from './admission.ts'
import { type BodyEncoding, type BodyFormat, bodyEncoding, bodyFormat } from './body.ts'
import type { BodyMemory, BodyReservation } from './body-memory.ts'
import type { BodyParsers } from './body-parsers.ts'
import type { ClientIp } from './client-ip.ts'
import { decodeBody } from './decode.ts'
import { type Enrichment, type EnrichmentPlan, enrichmentPlans } from './enrich.ts'
import type { Geo } from './geo.ts'
import { newMsgId } from './msg-id.ts'
import { type Preparation, type Prepared, prepare } from './prepare.ts'
import type { LimitState, Quota } from './quota.ts'
import { openScanner, type Scanner } from './scanner.ts'
import type { Turns } from './turns.ts'
import type { UsageCounter } from './usage.ts'

/** The request as ingest sees it; headers and peer are valid until the first await. */
export interface IngestRequest {
  /** As in the path. */
  readonly pipeId: string
  readonly authorization: string
  readonly origin: string
  readonly contentType: string
  readonly contentEncoding: string
  /** The announced length; NaN when there is none. Good for rejecting early, never for allocating. */
  readonly contentLength: number
  readonly forwardedFor: string
  /** Undefined when absent. */
  readonly idempotencyKey: string | undefined
  /** True once the client has gone. */
  readonly isAborted: boolean
  /** The socket's peer, 4 or 16 bytes. */
  peer(): Uint8Array
  /**
   * The body as sent; null when the client went away. Rejects with `payload_too_large` once more bytes have come, and
   * with what `reserve`, called with the memory that is about to be allocated, throws. Called once, before the first
   * wait; `admission`, when it is a promise, is waited for while the body comes in, and its error comes first.
   */
  body(
    limit: { maxBytes: number; announcedBytes: number; reserve(bytes: number): void },
    admission: unknown,
  ): Promise<Buffer | null>
}

/** The message is in the buffer, now or by an earlier request with the same Idempotency-Key. */
export interface Accepted {
  pipeId: string
  pipeName: string
  recordCount: number
  msgId: string
  /** What is left of the pipe's rate; null where nothing was taken from it. */
  limit: LimitState | null
}

/** What GET says: that POST is wanted. */
export interface IngestHint {
  message: string
  method: 'POST'
  content_type: string
  pipe_id: string
}

export interface Ingest {
  /** Throws ApiError. Null: the client went away before anything was stored. */
  post(request: IngestRequest): Promise<Accepted | null>
  /** Throws ApiError. */
  hint(pipeId: string): IngestHint
  /** OPTIONS: whether the origin may send (`allowOrigin` null: it may not). Throws ApiError for an unknown pipe. */
  preflight(pipeId: string, origin: string): { allowOrigin: string | null; keyRequired: boolean }
  /** The Origin that responses of this pipe echo, also those of a paused one; null: none. */
  allowOrigin(pipeId: string, origin: string): string | null
}

export interface IngestDeps {
  directory: Directory
  authenticate: Authenticate
  appender: Appender
  geo: Geo
  clientIp: ClientIp
  quota: Quota
  usage: Pick<UsageCounter, 'accepted' | 'rejected'>
  bodyMemory: BodyMemory
  /** For those that decompress. */
  decoders: Turns
  /** For the bodies that would hold up the main thread. */
  parsers: BodyParsers
  maxBodyBytes: number
  maxRecords: number
  maxKeys: number
  now(): number
}

export function createIngest(deps: IngestDeps): Ingest {
  const { directory, maxRecords, maxKeys } = deps
  const planOf = enrichmentPlans()
  const scanner = openScanner(resourceLimits.mainScannerBytes)
  const limits = { maxRecords, maxKeys, maxValues: resourceLimits.mainThreadValues }

  return {
    post: async (request) => {
      const receivedMs = deps.now()
      const entry = findPipe(directory, request.pipeId)
      const reservation = deps.bodyMemory.open(entry.workspaceId, entry.pipe.pipe_id)
      try {
        const plan = planOf(entry)
        const clientIp = plan.needsClientIp
          ? deps.clientIp.of(request.peer(), () => request.forwardedFor)
          : null
        const body = await readBody(deps, entry, request, reservation)
        if (body === null) return null
        const preparation: Preparation = {
          format: body.format,
          limits,
          pipeMaxRecords: entry.limits?.pl_ingest_max_records_per_request ?? null,
          enrichment: enrichmentOf(deps, plan, receivedMs, clientIp),
          requiredFields: entry.requiredFields,
          withHash: request.idempotencyKey !== undefined,
        }
        const prepared =
          prepareHere(scanner, body.bytes, preparation, reservation) ??
          (await prepareInThread(deps, entry, body.bytes, preparation, reservation))
        return await enqueue(deps, entry, prepared, request.idempotencyKey, receivedMs)
      } catch (error) {
        deps.usage.rejected(entry.pipe.pipe_id, receivedMs)
        throw error
      } finally {
        reservation.release()
      }
    },
    hint: (pipeId) => ({
      message: 'Send records with POST and a JSON body: one object or an array of objects.',
      method: 'POST',
      content_type: 'application/json',
      pipe_id: findPipe(directory, pipeId).pipe.pipe_id,
    }),
    preflight: (pipeId, origin) => {
      const entry = findPipe(directory, pipeId)
      return {
        allowOrigin: checkOrigin(entry, origin).allowOrigin,
        keyRequired: entry.pipe.pipe_api_key_required,
      }
    },
    allowOrigin: (pipeId, origin) => {
      const entry = isUuid(pipeId) ? directory.pipe(pipeId.toLowerCase()) : undefined
      return entry === undefined ? null : checkOrigin(entry, origin).allowOrigin
    },
  }
}

interface Body {
  bytes: Buffer
  format: BodyFormat
}

/** Key and Origin → size → encoding. What the headers rule out is rejected before the body is read. Null: the client went away. */
async function readBody(
  deps: IngestDeps,
  entry: DirectoryPipe,
  request: IngestRequest,
  reservation: BodyReservation,
): Promise<Body | null> {
  const maxBytes = deps.maxBodyBytes
  const reserve = reservation.add
  const admission = requireSender(entry, request, deps.authenticate, () => requireHeaders(request, maxBytes))
  const sent = await request.body({ maxBytes, announcedBytes: request.contentLength, reserve }, admission)
  if (sent === null) return null
  const { encoding, format } = admission instanceof Promise ? await admission : admission
  if (encoding === 'identity') return { bytes: sent, format }
  const decode = async () =>
    request.isAborted ? null : await decodeBody(sent, encoding, { maxBytes, reserve })
  const bytes = await deps.decoders.run(entry.workspaceId, entry.pipe.pipe_id, decode)
  return bytes === null ? null : { bytes, format }
}

function enrichmentOf(
  { geo }: IngestDeps,
  plan: EnrichmentPlan,
  receivedMs: number,
  clientIp: string | null,
): Enrichment {
  return plan.members(receivedMs, clientIp, plan.needsGeo && clientIp !== null ? geo.lookup(clientIp) : null)
}

/** JSON → record count → enrichment → required fields. Null for a body that would hold up the main thread. */
function prepareHere(
  scanner: Scanner | null,
  bytes: Buffer,
  preparation: Preparation,
  reservation: BodyReservation,
): Prepared | null {
  return bytes.length > resourceLimits.mainThreadBodyBytes
    ? null
    : prepare(scanner, bytes, preparation, reservation.add)
}

/** The same. `bytes` is gone afterwards. */
async function prepareInThread(
  { parsers }: IngestDeps,
  { workspaceId, pipe }: DirectoryPipe,
  bytes: Buffer,
  preparation: Preparation,
  reservation: BodyReservation,
): Promise<Prepared> {
  const prepared = await parsers.prepare(bytes, preparation, workspaceId, pipe.pipe_id)
  reservation.add(prepared.body.length)
  return prepared
}

function requireHeaders(
  request: IngestRequest,
  maxBytes: number,
): { encoding: BodyEncoding; format: BodyFormat } {
  if (request.contentLength > maxBytes) throw payloadTooLarge(maxBytes)
  const encoding = bodyEncoding(request.contentEncoding)
  const format = bodyFormat(request.contentType)
  const { idempotencyKey } = request
  if (idempotencyKey !== undefined && !/^[\x20-\x7e]{1,255}$/.test(idempotencyKey)) {
    throw new ApiError('invalid_payload', { message: 'Idempotency-Key must be 1 to 255 ASCII characters.' })
  }
  return { encoding, format }
}

/**
 * Repeat? → rate → enqueue. A repeat of an Idempotency-Key takes nothing of the quotas, so it is looked for first (contract
 * "Quotas"); two at once are told apart by `append`. What was reserved is refunded unless a new message is in the buffer.
 */
async function enqueue(
  deps: IngestDeps,
  { pipe, limits, workspaceId }: DirectoryPipe,
  { recordCount, body: prepared, isLent: isPreparedLent, bodyHash }: Prepared,
  idempotencyKey: string | undefined,
  receivedMs: number,
): Promise<Accepted> {
  const { pipe_id: pipeId, pipe_name: pipeName } = pipe
  const idempotency =
    idempotencyKey === undefined || bodyHash === null ? undefined : { key: idempotencyKey, bodyHash }
  // Nothing is waited for before a plain append: it takes its copy from where the scanner has left the body.
  const isLent = isPreparedLent && idempotency === undefined && limits === null
  const body = isPreparedLent && !isLent ? Buffer.from(prepared) : prepared
  if (idempotency !== undefined) {
    const first = await deps.appender.findRepeat(pipeId, idempotency)
    if (first === 'reused') throw new ApiError('idempotency_key_reused')
    if (first !== null)
      return { pipeId, pipeName, recordCount: first.recordCount, msgId: first.msgId, limit: null }
  }
  // Deleted while its body came in: nobody would ever read what is appended now.
  if (deps.directory.pipe(pipeId) === undefined) throw new ApiError('pipe_not_found')
  const amount = { records: recordCount, bytes: body.length }
  // As of now: the time of a slow upload's first byte would have the bucket's clock go back and refill twice.
  const reserved = limits && (await deps.quota.reserve(pipeId, limits, amount, deps.now()))
  const msgId = newMsgId()
  let appended: Appended
  try {
    // One literal: an object put together by spreads is a dictionary, 1 KB a message.
    const message = { pipeId, workspaceId, msgId, receivedMs, recordCount, body, isLent, idempotency }
    appended = await deps.appender.append(message)
  } catch (error) {
    if (reserved) deps.quota.refund(reserved)
    if (error instanceof IdempotencyKeyReusedError) throw new ApiError('idempotency_key_reused')
    throw error instanceof BufferUnavailableError ? unavailable(error, msgId) : error
  }
  if (appended.repeated) {
    if (reserved) deps.quota.refund(reserved)
  } else {
    if (!reserved) deps.quota.count(pipeId, amount, receivedMs)
    deps.usage.accepted(pipeId, recordCount, amount.bytes, receivedMs)
  }
  const limit = reserved ? reserved.state : null
  return { pipeId, pipeName, recordCount: appended.recordCount, msgId: appended.msgId, limit }
}

function unavailable({ reason }: BufferUnavailableError, msgId: string): ApiError {
  return new ApiError('buffer_unavailable', {
    details: { msg_id: msgId, details: { reason } },
    headers: { 'Retry-After': '5' },
  })
}
