/**
 * The tail of a pipe (docs/dev/contract.md#looking-at-messages): Server-Sent Events, one `record` for each record
 * that is stored from now on, up to the requested number per second. Records that are left out are counted in
 * `dropped`.
 *
 *   read the new records ─▶ send them as events ─▶ wait until the client has taken them ─▶ read again
 *
 * For a client that reads slowly, the log is read less often: at most one piece waits in memory for it. A tail ends
 * when the client disconnects, or with an `end` event that says why: `shutdown`, `pipe_deleted`, or `access_ended`
 * (of the key or the session). Access is checked every three seconds, and at once when this process changes a key, a
 * user or a session.
 */
import assert from 'node:assert'
import { ApiError } from '../../contract/errors.ts'
import { tailSample } from '../../contract/message.ts'
import { operations } from '../../contract/operations.ts'
import type { Principal } from '../../contract/principal.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { PipeRef } from '../../metadata/tables.ts'
import type { History, TailedRecord, TailedRun, TailPosition } from '../../observe/history/history.ts'
import type { Logger } from '../../platform/log.ts'
import { checkedCall } from '../management/call.ts'
import type { ResponseStream } from './response-stream.ts'
import type { ApiReply, ApiRequest, Route } from './route.ts'

export interface TailDeps {
  history: Pick<History, 'positionAt' | 'follow'>
  /** Whether the workspace has this pipe. */
  hasPipe(pipe: PipeRef): boolean
  log: Logger
}

interface Tail {
  pipeId: string
  workspaceId: string
  /** The maximum number of records per second. */
  sample: number
  by: Principal['by']
  isStillAdmitted(): Promise<boolean>
  /** Its access may have ended: it is checked before anything more is sent. */
  isSuspect: boolean
  /** When its access was last checked, on the monotonic clock. */
  checkedAtMs: number
  isRevoked: boolean
  /** Ends its current wait. */
  wake(): void
}

/** The access that has ended or may have ended: that of a revoked key, or of the users of a workspace. */
export type AccessChange = { readonly apiKeyId: string } | { readonly usersOf: string }

/** The pause between two reads: records that arrive one by one are sent together. */
const pauseMs = 50
/** How long a read waits for records, and thus how soon a tail notices its end. */
const waitMs = 2_000
const heartbeatMs = 10_000
/** How often access is checked. For a session, each check is a request of that session. */
const checkEveryMs = 3_000

export class Tails {
  readonly #deps: TailDeps
  readonly #open = new Map<string, number>()
  #count = 0
  readonly #tails = new Set<Tail>()
  #isEnding = false

  constructor(deps: TailDeps) {
    this.#deps = deps
  }

  /** Ends all tails now. */
  end(): void {
    this.#isEnding = true
    for (const tail of this.#tails) tail.wake()
  }

  /** Ends the tails of this key. Tails of users send nothing more until their session has been checked again. */
  accessChanged(change: AccessChange): void {
    for (const tail of this.#tails) {
      if (!isOf(tail, change)) continue
      // A revoked key is not checked again, because the directory may not have seen the change yet.
      tail.isRevoked = 'apiKeyId' in change
      tail.isSuspect = true
      tail.wake()
    }
  }

  get route(): Route {
    const { path, operationId } = operations.find((one) => one.operationId === 'tailPipe')!
    const handler = (request: ApiRequest) => this.#tail(request)
    return {
      method: 'GET',
      path,
      operationId,
      surface: 'management',
      auth: 'key',
      supportsHead: false,
      handler,
    }
  }

  async #tail(request: ApiRequest): Promise<ApiReply> {
    const { principal, headers, isStillAdmitted = async () => true, ...rest } = request
    assert(principal !== null, 'a tail has a caller')
    const { path, query } = checkedCall('tailPipe', { principal, ...rest })
    const { pipe_id: pipeId } = path
    const { workspaceId } = principal
    if (!this.#deps.hasPipe({ workspaceId, pipeId })) throw new ApiError('pipe_not_found')
    const { sample = tailSample.default } = query
    const from = positionFrom(headers['last-event-id'], query.after_seq)
    const releaseSlot = this.#begin(workspaceId)
    const tail: Tail = {
      pipeId,
      workspaceId,
      sample,
      by: principal.by,
      isStillAdmitted,
      isSuspect: false,
      checkedAtMs: performance.now(),
      isRevoked: false,
      wake: () => {},
    }
    this.#tails.add(tail)
    const release = () => {
      this.#tails.delete(tail)
      releaseSlot()
    }
    try {
      const position = await this.#deps.history.positionAt(pipeId, from?.afterSeq ?? null)
      // The tail continues within the message of which the client has a part, if it is still stored.
      if (from !== null && from.records > 0)
        position.shown = { seq: from.afterSeq + 1, records: from.records }
      const stream = (client: ResponseStream, gone: Promise<void>) => {
        this.#run(client, gone, tail, position)
          .catch((err) => this.#deps.log.error({ err, pipe_id: pipeId }, 'tail.failed'))
          .finally(() => {
            release()
            client.end()
          })
      }
      return { status: 200, headers: [['Content-Type', 'text/event-stream; charset=utf-8']], stream }
    } catch (error) {
      release()
      throw error
    }
  }

  /** Returns the function to call at the end of the tail. Throws `tail_concurrency_exceeded`. */
  #begin(workspaceId: string): () => void {
    const own = this.#open.get(workspaceId) ?? 0
    if (own >= resourceLimits.tailsPerWorkspace || this.#count >= resourceLimits.tails)
      throw new ApiError('tail_concurrency_exceeded', { headers: { 'Retry-After': '10' } })
    this.#open.set(workspaceId, own + 1)
    this.#count += 1
    let isOpen = true
    return () => {
      if (!isOpen) return
      isOpen = false
      this.#count -= 1
      const left = (this.#open.get(workspaceId) ?? 1) - 1
      if (left === 0) this.#open.delete(workspaceId)
      else this.#open.set(workspaceId, left)
    }
  }

  async #run(client: ResponseStream, gone: Promise<void>, tail: Tail, from: TailPosition): Promise<void> {
    const { sample } = tail
    let isGone = false
    let endWait = () => {}
    tail.wake = () => endWait()
    void gone.then(() => {
      isGone = true
      tail.wake()
    })
    /**
     * Resolves with undefined if the wait ends before the work. It does not race with a promise that lives as long as
     * the tail, because each race would add a reaction to that promise that stays in memory.
     */
    const orWoken = <T>(work: Promise<T>) =>
      new Promise<T | undefined>((resolve, reject) => {
        endWait = () => resolve(undefined)
        if (isGone || this.#isEnding || tail.isSuspect) endWait()
        work.then(resolve, reject)
      })
    let position = from
    let tokens = sample
    let filledAt = performance.now()
    let sentAt = filledAt
    // An id without an event: a client that is disconnected before the first event knows where to continue.
    let isOpen = await client.write(Buffer.from(`retry: 2000\nid: ${idOf(position)}\n\n`))
    while (isOpen && !isGone) {
      const now = performance.now()
      const reason = await this.#endOf(tail, now)
      if (reason !== null) {
        await client.write(event('end', null, JSON.stringify({ reason })))
        break
      }
      tokens = Math.min(sample, tokens + ((now - filledAt) / 1_000) * sample)
      filledAt = now
      const maxRecords = Math.floor(tokens)
      if (maxRecords >= 1) {
        const reading = this.#deps.history.follow(tail.pipeId, position, maxRecords, waitMs)
        const run = await orWoken(reading)
        if (run === undefined) continue
        position = run.position
        tokens -= run.records.length
        const events = eventsOf(run, performance.now() - sentAt > heartbeatMs)
        if (events.length > 0) {
          isOpen = await client.write(Buffer.concat(events))
          sentAt = performance.now()
        }
      }
      await orWoken(pause(maxRecords >= 1 ? pauseMs : 1_000 / sample))
    }
  }

  async #endOf(tail: Tail, nowMs: number): Promise<string | null> {
    const { workspaceId, pipeId, isRevoked, isStillAdmitted } = tail
    const asksAccess = tail.isSuspect || nowMs - tail.checkedAtMs > checkEveryMs
    tail.isSuspect = false
    if (asksAccess) tail.checkedAtMs = nowMs
    if (this.#isEnding) return 'shutdown'
    if (!this.#deps.hasPipe({ workspaceId, pipeId })) return 'pipe_deleted'
    if (isRevoked) return 'access_ended'
    return !asksAccess || (await isStillAdmitted()) ? null : 'access_ended'
  }
}

function isOf({ by, workspaceId }: Tail, change: AccessChange): boolean {
  if ('apiKeyId' in change) return by.kind === 'key' && by.apiKeyId === change.apiKeyId
  return by.kind === 'session' && workspaceId === change.usersOf
}

/**
 * One event with its `event:`, `id:` and `data:` lines. The data has no newline; a raw carriage return in a record is
 * white space.
 */
function event(name: string, id: string | null, data: string): Buffer {
  const idLine = id === null ? '' : `id: ${id}\n`
  return Buffer.from(`event: ${name}\n${idLine}data: ${data.replaceAll('\r', ' ')}\n\n`)
}

function idOf({ cursor, shown }: TailPosition): string {
  return shown === undefined ? String(cursor.seq) : `${shown.seq}.${shown.records - 1}`
}

/** `isSilent`: nothing was sent for so long that a comment must keep the connection open. */
function eventsOf({ records, omitted, position }: TailedRun, isSilent: boolean): Buffer[] {
  const events = records.map(recordEvent)
  if (omitted > 0)
    events.push(event('dropped', String(position.cursor.seq), JSON.stringify({ records: omitted })))
  if (events.length === 0 && isSilent) events.push(Buffer.from(':\n\n'))
  return events
}

function recordEvent({ msgId, seq, index, receivedMs, text }: TailedRecord): Buffer {
  const head = { msg_id: msgId, stream_seq: seq, index, received_ts: new Date(receivedMs).toISOString() }
  return event('record', `${seq}.${index}`, `${JSON.stringify(head).slice(0, -1)},"record":${text}}`)
}

interface ClientPosition {
  afterSeq: number
  /** The number of records of the next message that the client already has. */
  records: number
}

/** `Last-Event-ID`, which a browser sends when it reconnects, takes precedence over `after_seq`. */
function positionFrom(lastEventId = '', afterSeq: number | undefined): ClientPosition | null {
  const [, seq, index] = /^(\d{1,15})(?:\.(\d{1,9}))?$/.exec(lastEventId) ?? []
  if (seq !== undefined && index !== undefined)
    return { afterSeq: Math.max(0, Number(seq) - 1), records: Number(index) + 1 }
  if (seq !== undefined) return { afterSeq: Number(seq), records: 0 }
  return afterSeq === undefined ? null : { afterSeq, records: 0 }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
