/**
 * A request at the hook address of a pipe, from its headers to the outcome of ingest. Read `verify.ts` for the providers.
 *
 *   pipe, source, token ──▶ size, encoding ──▶ signed at all? ──▶ body ──▶ signature ──▶ `accept.ts`, as for a request with a key
 *        └─▶ 404                                   └─▶ 401 without the body     ├─▶ 401
 *                                                                               └─▶ a challenge: answered, nothing stored
 *
 * The signature takes the place of the key and of the Origin. Everything after it is the code of ingest: `VerifiedRequest`
 * hands over a body only after it was verified. The sender is unknown until then, so a request costs at most the memory of
 * its body, which is limited as in ingest, and one hash of it per secret.
 */
import { timingSafeEqual } from 'node:crypto'
import { ApiError } from '../../contract/errors.ts'
import {
  type HookRefusal,
  type OpenedSource,
  type SourceType,
  sourceKeys,
} from '../../contract/source-words.ts'
import type { Directory, DirectoryPipe } from '../../metadata/directory-source.ts'
import { hashOfToken } from '../../metadata/pipe-source.ts'
import type { Accepted, BodyReceiver, BodySource, IngestRequest } from '../body-source.ts'
import type { Enrichment } from '../splice.ts'
import type { UsageObserver } from '../usage.ts'
import { bodyOf } from './body.ts'
import { RejectedHook } from './rejected.ts'
import type { Answered, HookRequest } from './request.ts'
import { verify } from './verify.ts'

/** A response that only verifies the address. */
export type HookAnswer = Answered['answer']

/** The interface of a request. The peer is valid until the first await. */
export interface IncomingHook extends BodySource {
  readonly method: 'GET' | 'POST'
  /** As in the URL path. */
  readonly pipeId: string
  readonly token: string | undefined
  /** Without the question mark. */
  readonly query: string
  readonly contentLength: number
  readonly forwardedFor: string
  readonly isAborted: boolean
  /** A header by its name in lower case. A repeated one is joined with commas. */
  header(name: string): string | undefined
  peer(): Uint8Array
  /** The message is in the buffer. */
  accepted(accepted: Accepted, source: SourceType): void
  /** Nothing was stored. */
  answered(answer: HookAnswer): void
  /** `error` is an ApiError or an internal error. */
  rejected(error: unknown): void
}

export interface HookDeps {
  directory: Pick<Directory, 'pipe'>
  /** Handles a request to this pipe whose body source hands over the body only if it has verified the sender. */
  post(entry: DirectoryPipe, request: IngestRequest): void
  usage: Pick<UsageObserver, 'rejected'>
  now(): number
}

/** Calls `accepted`, `answered` or `rejected` of the hook once; none of them when the client disconnects before. */
export function receiveHook(hook: IncomingHook, deps: HookDeps): void {
  const { pipeId, token } = hook
  const found = deps.directory.pipe(pipeId) ?? deps.directory.pipe(pipeId.toLowerCase())
  // Computed for every token, so that an unknown pipe takes the same time as a wrong token.
  const tokenHash = token === undefined ? null : hashOfToken(token)
  if (found === undefined || found.source === null || found.pipe.pipe_status !== 'active') {
    hook.rejected(new ApiError('hook_not_found'))
    return
  }
  const { source } = found
  const reject = (reason: HookRefusal, error: ApiError) => {
    deps.usage.rejected(found.pipe.pipe_id, deps.now(), reason)
    hook.rejected(error)
  }
  if (source === 'unreadable') reject('unreadable_secret', new RejectedHook('unreadable_secret', null))
  else if (!matchesToken(source, tokenHash)) reject('wrong_token', new ApiError('hook_not_found'))
  else receiveFrom(source, hook, { ...deps, entry: found, reject })
}

type Receiving = HookDeps & { entry: DirectoryPipe; reject(reason: HookRefusal, error: ApiError): void }

/** For a pipe with this source. The token is the right one. */
function receiveFrom(
  source: OpenedSource,
  hook: IncomingHook,
  { entry, reject, post, now }: Receiving,
): void {
  const early = verify(source, requestOf(hook, noBody, now()))
  if (!early.ok && (hook.method === 'GET' || ofTheHead.has(early.reason)))
    reject(early.reason, new RejectedHook(early.reason, source.type))
  else if (hook.method === 'POST') post(entry, new VerifiedRequest(hook, entry, source, now))
  else if ('answer' in early) hook.answered(early.answer)
  // A GET is only for a challenge.
  else hook.rejected(new ApiError('hook_not_found'))
}

/** A path with a token exists only for the sources that have one. */
function matchesToken({ type, secrets }: OpenedSource, tokenHash: string | null): boolean {
  if (type !== 'secret_url') return tokenHash === null
  if (tokenHash === null) return false
  let isFound = false
  for (const hash of secrets) if (timingSafeEqual(Buffer.from(hash), Buffer.from(tokenHash))) isFound = true
  return isFound
}

/** These reasons do not depend on the body: the request is rejected before it is read. */
const ofTheHead: ReadonlySet<HookRefusal> = new Set(['missing_signature', 'wrong_credentials'])
const noBody = Buffer.alloc(0)

function requestOf(hook: IncomingHook, body: Buffer, now: number): HookRequest {
  const { method, query, token } = hook
  return { method, headers: (name) => hook.header(name), query, body, now, token }
}

/** A webhook as a request of ingest. Its receiver gets the body only if the source verified it. */
class VerifiedRequest implements IngestRequest {
  readonly #hook: IncomingHook
  readonly #entry: DirectoryPipe
  readonly #source: OpenedSource
  readonly #now: () => number
  readonly authorization = ''
  readonly origin = ''
  /** The body that ingest receives is always JSON. */
  readonly contentType = 'application/json'
  readonly isKeyEnough = true
  /** The id of the delivery, which is known once the body is verified. */
  idempotencyKey: string | undefined = undefined
  members: Enrichment | null = null

  constructor(hook: IncomingHook, entry: DirectoryPipe, source: OpenedSource, now: () => number) {
    this.#hook = hook
    this.#entry = entry
    this.#source = source
    this.#now = now
  }

  get pipeId(): string {
    return this.#hook.pipeId
  }

  get contentEncoding(): string {
    return this.#hook.header('content-encoding') ?? ''
  }

  get contentLength(): number {
    return this.#hook.contentLength
  }

  get forwardedFor(): string {
    return this.#hook.forwardedFor
  }

  get isAborted(): boolean {
    return this.#hook.isAborted
  }

  peer(): Uint8Array {
    return this.#hook.peer()
  }

  /** The signature covers the bytes on the wire. No provider compresses them. */
  receive(receiver: BodyReceiver): void {
    const encoding = this.contentEncoding.trim().toLowerCase()
    if (encoding !== '' && encoding !== 'identity') {
      receiver.failed(new ApiError('unsupported_encoding', { message: 'A webhook must not be compressed.' }))
      return
    }
    const { maxBytes, announcedBytes } = receiver
    this.#hook.receive({
      maxBytes,
      announcedBytes,
      reserve: (bytes) => receiver.reserve(bytes),
      received: (body, isBorrowed) => this.#verify(body, isBorrowed, receiver),
      failed: (error) => receiver.failed(error),
      gone: () => receiver.gone(),
    })
  }

  accepted(accepted: Accepted): void {
    this.#hook.accepted(accepted, this.#source.type)
  }

  rejected(error: unknown): void {
    this.#hook.rejected(error)
  }

  #verify(body: Buffer, isBorrowed: boolean, receiver: BodyReceiver): void {
    const source = this.#source
    let json: Buffer
    try {
      const verdict = verify(source, requestOf(this.#hook, body, this.#now()))
      if (!verdict.ok) throw new RejectedHook(verdict.reason, source.type)
      if ('answer' in verdict) {
        this.#hook.answered(verdict.answer)
        receiver.gone()
        return
      }
      this.idempotencyKey = verdict.deliveryId
      const made = bodyOf(source, this.#hook.header('content-type') ?? '', body)
      if ('problem' in made) throw new ApiError('invalid_payload', { message: made.problem })
      json = made.json
      this.members = this.#members(body, receiver)
    } catch (error) {
      receiver.failed(error)
      return
    }
    // A body made from a form has its own memory; one that is passed on has that of `body`.
    receiver.received(json, isBorrowed)
  }

  /** The headers and the raw body that the pipe wants in its records. */
  #members(body: Buffer, receiver: BodyReceiver): Enrichment | null {
    const { pipe_source_headers: names, pipe_source_raw: isRaw } = this.#entry.pipe
    const values = new Map<string, unknown>()
    if (names.length > 0) {
      const sent = names.flatMap((name) => {
        const value = this.#hook.header(name)
        return value === undefined ? [] : [[name, value]]
      })
      values.set(sourceKeys.headers, Object.fromEntries(sent))
    }
    if (isRaw) {
      receiver.reserve(body.length)
      values.set(sourceKeys.rawBody, body.toString('utf8'))
    }
    return values.size === 0 ? null : enrichmentOf(values)
  }
}

function enrichmentOf(values: ReadonlyMap<string, unknown>): Enrichment {
  const members = [...values].map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`)
  return { keys: [...values.keys()], text: members.join(',') }
}
