/**
 * Ingest: one request from its headers to its message in the buffer. Read this first. `ingest.ts` opens it.
 *
 *   UUID → pipe → key and Origin → size → encoding → JSON → record count → enrichment → required fields → rate → enqueue
 *
 * The order is that of docs/dev/contract.md#order-of-checks; each step is a function that throws the ApiError of its
 * rule. The code is independent of HTTP: `IngestRequest` is the interface of a request and receives its outcome. A
 * request is accepted only after `append` has resolved, which is after fsync.
 */
import { createHash } from 'node:crypto'
import { ApiError, payloadTooLarge } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { type Appender, BufferUnavailableError, type Idempotency } from '../log/buffer.ts'
import type { Directory, DirectoryPipe } from '../metadata/directory-source.ts'
import type { Semaphore } from '../platform/semaphore.ts'
import { bodyEncoding, bodyFormat, type Quota, type Reservation, requireSender } from './admission.ts'
import { appendError } from './append-error.ts'
import type { BodyParsers } from './body-parsers.ts'
import {
  type BodyEncoding,
  type BodyFormat,
  type BodyReceiver,
  type IngestRequest,
  wholeBody,
} from './body-source.ts'
import type { ClientIp } from './client-ip.ts'
import { decodeBody } from './decode.ts'
import type { Authenticate } from './directory/directory-cache.ts'
import type { Geo } from './geo.ts'
import { RejectedHook } from './hooks/rejected.ts'
import { reserveAndPark, schemaMismatch } from './mismatching.ts'
import { newMsgId } from './msg-ids.ts'
import type { IngestObserved } from './observed.ts'
import type { ParkedRequest } from './parked/park-request.ts'
import type { MismatchParking } from './parked/queue.ts'
import type { ParkedText } from './parked/separate.ts'
import { type EnrichmentPlan, type Preparation, type Prepared, prepare, type Scanner } from './prepare.ts'
import { loadPatterns, type Mismatched, type SchemaRules, schemaRulesOf } from './schema/record-check.ts'
import type { BodyMemory, BodyReservation } from './shared-counters.ts'
import type { Enrichment } from './splice.ts'
import type { UsageObserver } from './usage.ts'

export interface IngestDeps {
  directory: Directory
  authenticate: Authenticate
  appender: Appender
  geo: Geo
  clientIp: ClientIp
  quota: Quota
  usage: UsageObserver
  observed: IngestObserved
  bodyMemory: BodyMemory
  /** Limits concurrent decompression. */
  decoders: Semaphore
  /** Parks records that do not match the schema of their pipe. */
  parking: MismatchParking
  /** For bodies that would block the main thread. */
  parsers: BodyParsers
  maxBodyBytes: number
  maxRecords: number
  maxKeys: number
  now(): number
}

/** The state shared by all requests. */
export interface AcceptContext extends IngestDeps {
  planOf(entry: DirectoryPipe): EnrichmentPlan
  scanner: Scanner | null
  limits: Preparation['limits']
}

/**
 * One POST request to a pipe.
 *
 *   begin ──▶ receive ──▶ received ──▶ prepare ──▶ store ──▶ append ──▶ accepted      (any step) ──▶ failed
 *     └─ key to look for ─▶┘ └─ decode ─▶┘ └─ thread ─▶┘ └─ repeat? limits ─▶┘
 *
 * A plain request takes the upper line: its steps call each other directly, and it waits only for its body and for the
 * buffer. The steps below it are async functions for the requests that need them. (With a promise for each step, a
 * single record took 1.5 times as long.)
 */
export class Acceptance implements BodyReceiver {
  readonly #context: AcceptContext
  readonly #entry: DirectoryPipe
  readonly #request: IngestRequest
  readonly #reservation: BodyReservation
  readonly #receivedMs: number
  /** The sender is verified with the body, by the source of a webhook: neither key nor Origin is checked. */
  readonly #isVerified: boolean
  #clientIp: string | null = null
  /** Monotonic time at which the last byte arrived. */
  #wholeAt = 0
  #encoding: BodyEncoding = 'identity'
  #format: BodyFormat = 'json'
  /** The records of the request, including those that are parked. */
  #total = 0

  constructor(context: AcceptContext, entry: DirectoryPipe, request: IngestRequest, isVerified: boolean) {
    this.#isVerified = isVerified
    this.#context = context
    this.#entry = entry
    this.#request = request
    this.#receivedMs = context.now()
    this.#reservation = context.bodyMemory.open({
      workspaceId: entry.workspaceId,
      pipeId: entry.pipe.pipe_id,
    })
  }

  get maxBytes(): number {
    return this.#context.maxBodyBytes
  }

  get announcedBytes(): number {
    return this.#request.contentLength
  }

  reserve(bytes: number): void {
    this.#reservation.add(bytes)
  }

  /** Key and Origin → size → encoding. A request that its headers rule out is rejected before the body is read. */
  begin(): void {
    const { clientIp, planOf, authenticate } = this.#context
    const request = this.#request
    try {
      if (planOf(this.#entry).needsClientIp)
        this.#clientIp = clientIp.of(request.peer(), () => request.forwardedFor)
      const admission = this.#isVerified ? null : requireSender(this.#entry, request, authenticate)
      if (admission === null) {
        this.#requireHeaders()
        request.receive(this)
      } else this.#receiveLater(admission)
    } catch (error) {
      this.failed(error)
    }
  }

  /** Receives the body while the directory looks up the key. */
  #receiveLater(admission: Promise<void>): void {
    const { maxBytes, announcedBytes } = this
    const limit = { maxBytes, announcedBytes, reserve: (bytes: number) => this.reserve(bytes) }
    const admitted = admission.then(() => this.#requireHeaders())
    wholeBody(this.#request, limit, admitted).then(
      (body) => (body === null ? this.gone() : this.received(body, false)),
      (error) => this.failed(error),
    )
  }

  #requireHeaders(): void {
    const { contentLength, contentEncoding, contentType, idempotencyKey } = this.#request
    if (contentLength > this.maxBytes) throw payloadTooLarge(this.maxBytes)
    this.#encoding = bodyEncoding(contentEncoding)
    this.#format = bodyFormat(contentType)
    if (idempotencyKey !== undefined && !/^[\x20-\x7e]{1,255}$/.test(idempotencyKey)) {
      throw new ApiError('invalid_payload', {
        message:
          'Idempotency-Key must be 1 to 255 ASCII characters and sent once: as a header or as ?idempotency_key=.',
      })
    }
  }

  received(sent: Buffer, isBorrowed: boolean): void {
    this.#wholeAt = performance.now()
    try {
      if (this.#encoding === 'identity') this.#prepare(sent, isBorrowed)
      else this.#whenDone(this.#decode(isBorrowed ? Buffer.from(sent) : sent, this.#encoding))
    } catch (error) {
      this.failed(error)
    }
  }

  gone(): void {
    this.#reservation.release()
  }

  failed(error: unknown): void {
    const hook = error instanceof RejectedHook ? error.reason : null
    this.#context.usage.rejected(this.#entry.pipe.pipe_id, this.#receivedMs, hook)
    this.#reservation.release()
    this.#request.rejected(error)
  }

  /** For the steps that are async. */
  #whenDone(step: Promise<void>): void {
    step.catch((error) => this.failed(error))
  }

  async #decode(sent: Buffer, encoding: Exclude<BodyEncoding, 'identity'>): Promise<void> {
    const { workspaceId, pipe } = this.#entry
    const limits = { maxBytes: this.maxBytes, reserve: (bytes: number) => this.reserve(bytes) }
    const decode = async () => (this.#request.isAborted ? null : await decodeBody(sent, encoding, limits))
    const bytes = await this.#context.decoders.run(decode, {
      turn: { group: workspaceId, member: pipe.pipe_id },
    })
    if (bytes === null) this.gone()
    else this.#prepare(bytes, false)
  }

  /** JSON → record count → enrichment → required fields. Uses a thread when it would block this one for too long. */
  #prepare(bytes: Buffer, isBorrowed: boolean): void {
    const { limits, requiredFields } = this.#entry
    const schema = schemaRulesOf(this.#entry)
    if (schema !== null && this.#isLoading(schema, bytes, isBorrowed)) return
    const preparation: Preparation = {
      format: this.#format,
      limits: this.#context.limits,
      pipeMaxRecords: limits?.pl_ingest_max_records_per_request ?? null,
      enrichment: this.#enrichment(),
      requiredFields,
      schema,
      withHash: this.#request.idempotencyKey !== undefined && this.#request.isKeyEnough !== true,
    }
    const prepared =
      bytes.length > resourceLimits.mainThreadBodyBytes
        ? null
        : prepare(this.#context.scanner, bytes, preparation, (more) => this.reserve(more))
    if (prepared !== null) this.#store(prepared)
    else this.#whenDone(this.#prepareInThread(isBorrowed ? Buffer.from(bytes) : bytes, preparation))
  }

  /** The engine of patterns is loaded once per thread, before the body is prepared. */
  #isLoading(schema: SchemaRules, bytes: Buffer, isBorrowed: boolean): boolean {
    const loading = loadPatterns(schema)
    if (loading === null) return false
    const kept = isBorrowed ? Buffer.from(bytes) : bytes
    this.#whenDone(loading.then(() => this.#prepare(kept, false)))
    return true
  }

  #enrichment(): Enrichment {
    const { planOf, geo } = this.#context
    const plan = planOf(this.#entry)
    const clientIp = this.#clientIp
    const values = plan.needsGeo && clientIp !== null ? geo.lookup(clientIp) : null
    const enrichment = plan.members(this.#receivedMs, clientIp, values)
    const { members } = this.#request
    return members === undefined || members === null ? enrichment : joined(enrichment, members)
  }

  /** `bytes` is transferred and empty afterwards. */
  async #prepareInThread(bytes: Buffer, preparation: Preparation): Promise<void> {
    const { workspaceId, pipe } = this.#entry
    const prepared = await this.#context.parsers.prepare(bytes, preparation, {
      workspaceId,
      pipeId: pipe.pipe_id,
    })
    this.reserve(prepared.body.length)
    this.#store(prepared)
  }

  /** Rate → enqueue. A plain append waits for nothing and copies the body directly from the scanner's memory. */
  #store(prepared: Prepared): void {
    const { mismatched, parked } = prepared
    this.#total = prepared.recordCount + (parked?.length ?? 0)
    if (parked !== null) this.#whenDone(this.#storeSeparated(prepared, parked))
    else if (mismatched !== null && this.#entry.pipe.pipe_schema_on_mismatch !== 'tag')
      this.#whenDone(this.#rejectMismatch(prepared, mismatched))
    else if (this.#entry.limits === null && this.#request.idempotencyKey === undefined) {
      this.#requirePipe()
      this.#append(prepared, null)
    } else {
      const { isBorrowed, body } = prepared
      this.#whenDone(
        this.#storeOnce(isBorrowed ? { ...prepared, body: Buffer.from(body), isBorrowed: false } : prepared),
      )
    }
  }

  /**
   * Repeat? → rate → enqueue. A repeat of an Idempotency-Key must not use up quotas, so if there are quotas it is
   * recognized before them (docs/dev/contract.md#idempotency). `append` recognizes it too, and decides between two
   * concurrent requests.
   */
  async #storeOnce(prepared: Prepared): Promise<void> {
    const { quota, now } = this.#context
    const { pipe, limits } = this.#entry
    const idempotency = this.#idempotency(prepared)
    if (idempotency !== undefined && limits !== null && (await this.#isRepeat(idempotency))) return
    this.#requirePipe()
    const amount = { records: prepared.recordCount, bytes: prepared.body.length }
    // Uses the current time: the time of a slow upload's first byte would set the bucket's clock back, and it would
    // refill twice.
    this.#append(prepared, limits && (await quota.reserve(pipe.pipe_id, limits, amount, now())))
  }

  /** A repeat gets the response of the first request, even if the schema has changed since. */
  async #rejectMismatch(prepared: Prepared, mismatched: Mismatched): Promise<void> {
    const idempotency = this.#idempotency(prepared)
    if (idempotency !== undefined && (await this.#isRepeat(idempotency))) return
    this.#context.usage.mismatched(this.#entry.pipe.pipe_id, this.#receivedMs, {
      rejected: mismatched.records,
    })
    throw schemaMismatch(mismatched, prepared.recordCount)
  }

  /**
   * Repeat? → rate → park → enqueue. The parked records are durable before the others are appended.
   */
  async #storeSeparated(prepared: Prepared, parked: readonly ParkedText[]): Promise<void> {
    const idempotency = this.#idempotency(prepared)
    if (idempotency !== undefined && (await this.#isRepeat(idempotency))) return
    this.#requirePipe()
    const parkedBytes = parked.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0)
    this.reserve(parkedBytes)
    const { request, reserved, isRepeat } = await reserveAndPark(this.#context, {
      ...{ entry: this.#entry, receivedMs: this.#receivedMs, enrichment: this.#enrichment() },
      ...{ idempotency, parked },
      amount: { records: this.#total, bytes: prepared.body.length + parkedBytes },
    })
    if (prepared.recordCount > 0) return this.#append(prepared, reserved, request)
    if (isRepeat && reserved !== null) this.#context.quota.refund(reserved)
    this.#accepted(request.msgId, 0, reserved)
  }

  /** Returns true when the request got the response of the first one. */
  async #isRepeat(idempotency: Idempotency): Promise<boolean> {
    const first = await this.#context.appender
      .findRepeat(this.#entry.pipe.pipe_id, idempotency)
      .catch((error: unknown) => Promise.reject(appendError(error, newMsgId())))
    if (first === 'reused') throw new ApiError('idempotency_key_reused')
    if (first !== null) this.#accepted(first.msgId, first.recordCount, null)
    return first !== null
  }

  #idempotency({ bodyHash }: Prepared): Idempotency | undefined {
    const { idempotencyKey: key, isKeyEnough } = this.#request
    if (key === undefined) return undefined
    if (isKeyEnough === true) return { key, bodyHash: anyBody }
    return bodyHash === null ? undefined : { key, bodyHash }
  }

  /** Throws when the pipe was deleted while the body arrived: no reader would get the message. */
  #requirePipe(): void {
    if (this.#context.directory.pipe(this.#entry.pipe.pipe_id) === undefined)
      throw new ApiError('pipe_not_found')
  }

  /** Appends the message. Refunds the reservation if it is certain that no new message is in the buffer. */
  #append(prepared: Prepared, reserved: Reservation | null, request: ParkedRequest | null = null): void {
    const { appender, quota, usage } = this.#context
    const { workspaceId, pipe } = this.#entry
    const { recordCount, body, isBorrowed, mismatched } = prepared
    const pipeId = pipe.pipe_id
    const receivedMs = this.#receivedMs
    const msgId = request?.ownMsgId ?? newMsgId()
    const amount = { messages: 1, records: recordCount, bytes: body.length }
    const idempotency = this.#idempotency(prepared)
    // Written as one literal: an object built by spreads becomes a dictionary of 1 KB per message.
    appender
      .append({ pipeId, workspaceId, msgId, receivedMs, recordCount, body, isBorrowed, idempotency })
      .then(
        (appended) => {
          if (!appended.repeated) {
            if (reserved === null) quota.count(pipeId, amount, receivedMs)
            usage.accepted(pipeId, receivedMs, amount)
            if (mismatched !== null && request === null)
              usage.mismatched(pipeId, receivedMs, { tagged: mismatched.records })
          } else if (reserved !== null) quota.refund(reserved)
          this.#accepted(appended.msgId, appended.recordCount, reserved)
        },
        (error) => this.#notAppended(error, { msgId, reserved, idempotency, request }),
      )
  }

  #notAppended(error: unknown, { msgId, reserved, idempotency, request }: FailedAppend): void {
    const mayBeStored = error instanceof BufferUnavailableError && error.mayBeStored
    if (reserved !== null && !mayBeStored) this.#context.quota.refund(reserved)
    const failure = appendError(error, msgId)
    // A repeat gets its response even while new messages are rejected.
    const isFull = error instanceof BufferUnavailableError && error.reason !== 'closing'
    if (request !== null && !mayBeStored) this.#whenDone(this.#undo(request, failure))
    else if (idempotency === undefined || !isFull) this.failed(failure)
    else this.#whenDone(this.#repeatOr(failure, idempotency))
  }

  /** None of the request is stored: a repeat without a key must not park its records twice. */
  async #undo(request: ParkedRequest, failure: unknown): Promise<void> {
    await request.undo()
    throw failure
  }

  async #repeatOr(failure: unknown, idempotency: Idempotency): Promise<void> {
    if (!(await this.#isRepeat(idempotency))) throw failure
  }

  #accepted(msgId: string, recordCount: number, reserved: Reservation | null): void {
    this.#reservation.release()
    const { pipe_id: pipeId, pipe_name: pipeName } = this.#entry.pipe
    const limit = reserved === null ? null : reserved.state
    const parkedCount = Math.max(0, this.#total - recordCount)
    this.#request.accepted({ pipeId, pipeName, recordCount, parkedCount, msgId, limit })
    this.#context.observed.latency.observe((performance.now() - this.#wholeAt) / 1000)
  }
}

interface FailedAppend {
  msgId: string
  reserved: Reservation | null
  idempotency: Idempotency | undefined
  /** Its mismatching records are parked. Null: it has none. */
  request: ParkedRequest | null
}

/** Stands for the hash of the body where the key decides alone. */
const anyBody = createHash('sha256').update('').digest('base64')

function joined(a: Enrichment, b: Enrichment): Enrichment {
  return { keys: [...a.keys, ...b.keys], text: [a.text, b.text].filter((text) => text !== '').join(',') }
}
