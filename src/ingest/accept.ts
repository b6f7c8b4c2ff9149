/**
 * Ingest: one request from its headers to its 202. Read this first.
 *
 *   UUID → pipe → key and Origin → size → encoding → JSON → record count → enrichment → required fields → rate → enqueue
 *
 * The order is the contract's, and each step is a function that throws the ApiError of its rule. Nothing here knows the
 * HTTP library: a request is what it can be asked for, an answer is plain data. 202 is made only after `append` has
 * resolved, which is after fsync.
 */
import { v7 as newMsgId } from 'uuid'
import { type Appended, type Appender, BufferUnavailableError } from '../buffer/buffer.ts'
import { ApiError } from '../contract/errors.ts'
import type { PipeLimits } from '../contract/limits.ts'
import type { Logger } from '../log.ts'
import { findPipe, refusalOf, requireKey } from './admission.ts'
import { createAuthenticate } from './bearer.ts'
import { bodyEncoding, bodyFormat, decodeBody, tooLarge } from './body.ts'
import type { BodyHold, BodyMemory } from './body-memory.ts'
import type { ClientIp } from './client-ip.ts'
import type { Directory, DirectoryPipe } from './directory.ts'
import type { Enrichment } from './enrich.ts'
import type { Geo } from './geo.ts'
import { judgeOrigin } from './origins.ts'
import { type ParsedBody, parseJsonBody, parseNdjsonBody } from './parse.ts'
import { type PipePlan, planKeeper } from './pipe-plan.ts'
import { type LimitState, type Quota, rateLimitHeaders, type Taken } from './quota.ts'
import { requireFields } from './required-fields.ts'
import { spliceRecords } from './splice.ts'
import type { UsageCounter } from './usage.ts'

/** What is asked of a request. Headers and peer are only there until the handler first waits. */
export interface IngestRequest {
  /** As it stands in the path. */
  readonly pipeId: string
  readonly authorization: string
  readonly origin: string
  readonly contentType: string
  readonly contentEncoding: string
  /** The announced length; NaN when there is none. Good for refusing early, never for allocating. */
  readonly contentLength: number
  readonly forwardedFor: string
  /** Undefined when absent. */
  readonly idempotencyKey: string | undefined
  /** The socket's peer, 4 or 16 bytes. */
  peer(): Uint8Array
  /**
   * The body as sent; null when the client went away. Rejects with `payload_too_large` once more bytes have come, and
   * with what `onBytes`, told of each piece before it is kept, throws.
   * Must first be called before the first wait, or bytes are lost; later calls give the same promise.
   */
  body(maxBytes: number, onBytes: (bytes: number) => void): Promise<Buffer | null>
}

/** What HTTP makes a response of. `body` is JSON text, ASCII when `status` is 202. */
export interface IngestAnswer {
  status: number
  body: string
  headers: Record<string, string>
  /** The Origin to echo; null: none. */
  allowOrigin: string | null
}

export interface Ingest {
  /** Null: the client went away before anything was stored. */
  post(request: IngestRequest): Promise<IngestAnswer | null>
  /** GET: a hint that POST is wanted. */
  hint(pipeId: string, origin: string): IngestAnswer
  /** OPTIONS: 204, or 400/403 with an empty body; `keyRequired` decides about Authorization. */
  preflight(pipeId: string, origin: string): { answer: IngestAnswer; keyRequired: boolean }
}

export interface IngestDeps {
  directory: Directory
  appender: Appender
  geo: Geo
  clientIp: ClientIp
  quota: Quota
  usage: UsageCounter
  bodyMemory: BodyMemory
  maxBodyBytes: number
  log: Logger
  now(): number
}

export function createIngest(deps: IngestDeps): Ingest {
  const { directory, now } = deps
  const authenticate = createAuthenticate(directory)
  const planOf = planKeeper()

  return {
    post: async (request) => {
      const receivedMs = now()
      let entry: DirectoryPipe | null = null
      let allowOrigin: string | null = null
      const hold = deps.bodyMemory.open()
      try {
        entry = findPipe(directory, request.pipeId)
        const verdict = judgeOrigin(entry, request.origin)
        allowOrigin = verdict.echo
        const plan = planOf(entry)
        const clientIp = plan.enrichment.needsClientIp
          ? deps.clientIp.of(request.peer(), () => request.forwardedFor)
          : null
        const key = requireKey(entry, request.authorization, authenticate)
        if (key instanceof Promise) await holdingBody(request, deps.maxBodyBytes, hold, key)
        if (verdict.refusal !== null) throw refusalOf(verdict.refusal, request.origin)

        const parsed = await readRecords(request, deps.maxBodyBytes, hold)
        if (parsed === null) return null
        requireCount(parsed.records.length, entry.limits)
        const geo = plan.enrichment.needsGeo && clientIp !== null ? deps.geo.lookup(clientIp) : null
        const enrichment = plan.enrichment.members(receivedMs, clientIp, geo)
        requireFields(parsed.records, entry.requiredFields, enrichment.keys)
        return await enqueue(deps, entry, plan, request, { parsed, enrichment, receivedMs, allowOrigin })
      } catch (error) {
        if (entry !== null) deps.usage.rejected(entry.pipe.pipe_id, receivedMs)
        return refuse(error, allowOrigin, deps.log)
      } finally {
        hold.release()
      }
    },
    hint: (pipeId, origin) => {
      try {
        const entry = findPipe(directory, pipeId)
        const body = {
          message: 'Send records with POST and a JSON body: one object or an array of objects.',
          method: 'POST',
          content_type: 'application/json',
          pipe_id: entry.pipe.pipe_id,
        }
        const allowOrigin = judgeOrigin(entry, origin).echo
        return { status: 200, body: JSON.stringify(body), headers: {}, allowOrigin }
      } catch (error) {
        return refuse(error, null, deps.log)
      }
    },
    preflight: (pipeId, origin) => {
      try {
        const entry = findPipe(directory, pipeId)
        const { echo } = judgeOrigin(entry, origin)
        const status = origin === '' ? 400 : echo === null ? 403 : 204
        const answer = { status, body: '', headers: {}, allowOrigin: echo }
        return { answer, keyRequired: entry.pipe.pipe_api_key_required }
      } catch (error) {
        return { answer: refuse(error, null, deps.log), keyRequired: false }
      }
    },
  }
}

/** The body must be asked for before the first wait, or its bytes are lost: collect it while the key is looked up. */
async function holdingBody(
  request: IngestRequest,
  maxBytes: number,
  hold: BodyHold,
  key: Promise<undefined>,
): Promise<void> {
  request.body(maxBytes, hold.add).catch(() => {})
  await key
}

/** Size → encoding → JSON. What the headers rule out is refused before the body is read. Null: the client went away. */
async function readRecords(
  request: IngestRequest,
  maxBytes: number,
  hold: BodyHold,
): Promise<ParsedBody | null> {
  if (request.contentLength > maxBytes) throw tooLarge(maxBytes)
  const encoding = bodyEncoding(request.contentEncoding)
  const format = bodyFormat(request.contentType)
  requireIdempotencyKeyIsUsable(request.idempotencyKey)
  const sent = await request.body(maxBytes, hold.add)
  if (sent === null) return null
  const bytes = encoding === 'identity' ? sent : await decodeBody(sent, encoding, maxBytes)
  if (bytes !== sent) hold.add(bytes.length)
  return format === 'json' ? parseJsonBody(bytes) : parseNdjsonBody(bytes)
}

function requireIdempotencyKeyIsUsable(key: string | undefined): void {
  if (key !== undefined && !/^[\x20-\x7e]{1,255}$/.test(key)) {
    throw new ApiError('invalid_payload', { message: 'Idempotency-Key must be 1 to 255 ASCII characters.' })
  }
}

/** Spec "Limits": only when a limits row exists. */
function requireCount(count: number, limits: PipeLimits | null): void {
  const max = limits?.pl_ingest_max_records_per_request ?? count
  if (count > max) {
    throw new ApiError('batch_too_large', {
      message: `${count} records in one request; this pipe takes at most ${max}.`,
      details: { limit: 'pl_ingest_max_records_per_request', limit_value: max, current: count },
    })
  }
}

interface Accepted {
  parsed: ParsedBody
  enrichment: Enrichment
  receivedMs: number
  allowOrigin: string | null
}

/** Rate → enqueue. What was taken from the quota is given back unless a new message is in the buffer. */
async function enqueue(
  deps: IngestDeps,
  entry: DirectoryPipe,
  plan: PipePlan,
  request: IngestRequest,
  accepted: Accepted,
): Promise<IngestAnswer> {
  const { parsed, enrichment, receivedMs, allowOrigin } = accepted
  const pipeId = entry.pipe.pipe_id
  const recordCount = parsed.records.length
  const body = spliceRecords(parsed, enrichment)
  const taken = entry.limits && deps.quota.take(pipeId, entry.limits, recordCount, body.length, receivedMs)
  const msgId = newMsgId()
  const { idempotencyKey } = request
  let appended: Appended
  try {
    appended = await deps.appender.append({ pipeId, msgId, receivedMs, recordCount, body, idempotencyKey })
  } catch (error) {
    if (taken) deps.quota.giveBack(taken)
    throw error instanceof BufferUnavailableError ? unavailable(msgId) : error
  }
  if (appended.repeated) {
    if (taken) deps.quota.giveBack(taken)
  } else deps.usage.accepted(pipeId, recordCount, body.length, receivedMs)
  return answer202(plan, appended, allowOrigin, taken)
}

function unavailable(msgId: string): ApiError {
  return new ApiError('buffer_unavailable', {
    details: { msg_id: msgId },
    headers: { 'Retry-After': '5' },
  })
}

const noHeaders: Record<string, string> = {}

function answer202(
  plan: PipePlan,
  appended: Appended,
  allowOrigin: string | null,
  taken: Taken | null,
): IngestAnswer {
  const { recordCount, msgId } = appended
  const message = recordCount === 1 ? '1 record stored.' : `${recordCount} records stored.`
  const state: LimitState | undefined = taken?.state
  return {
    status: 202,
    body: `${plan.answerHead}${recordCount},"msg_id":"${msgId}","message":"${message}"}`,
    headers: state === undefined ? noHeaders : rateLimitHeaders(state),
    allowOrigin,
  }
}

function refuse(error: unknown, allowOrigin: string | null, log: Logger): IngestAnswer {
  const known = error instanceof ApiError ? error : unexpected(error, log)
  return { status: known.status, body: JSON.stringify(known.body()), headers: known.headers, allowOrigin }
}

/** Ours: logged with its stack, told to the client without. */
function unexpected(error: unknown, log: Logger): ApiError {
  log.error({ err: error }, 'ingest.failed')
  return new ApiError('server_error')
}
