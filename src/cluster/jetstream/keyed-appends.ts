/**
 * One appender's appends with an Idempotency-Key. Messages of a pipe gather while the previous frame is in flight:
 *
 *   gathering ──▶ claimed ──▶ published ──ack──▶ 202 ──▶ settled, in the background
 *                    │            ├─ rejected ─▶ claims released; gathered again, or 503
 *                    │            └─ no response ▶ 503; the claims stay pending
 *                    ├─ the key is used ──▶ the first message's 202, or IdempotencyKeyReusedError
 *                    └─ another claim is pending ──▶ waits for it; after 2 s this node settles it
 *
 * The frames of one appender and one pipe form a chain: they have a subject of their own, on which each frame requires
 * its predecessor to be the last message. A chain starts with a void, so every frame requires a unique sequence. So
 * another node can decide whether a frame was stored or ever will be (settlement.ts). After a frame without a response
 * a new chain starts.
 *
 *   the node ends, or is paused, after …      in the stream        the key                              the client
 *   the claim                                 nothing              pending, then free                   no response; a repeat is stored
 *   the frame was published                   the frame or nothing pending, then used, or free          no response; a repeat gets what is stored, or is stored
 *   the ack                                   the frame            pending, then used                   no response or 202; a repeat gets the same 202
 *   the claim was settled                     the frame            used                                 the same
 *
 * A node that resumes after others have settled its claims publishes a frame that is rejected. It gathers the messages
 * again, because their keys can be used by then. So a key never yields two messages, and a 202 is sent only after an
 * ack.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { resourceLimits } from '../../contract/resource-limits.ts'
import {
  type Appended,
  type Idempotency,
  IdempotencyKeyReusedError,
  type NewMessage,
} from '../../log/buffer.ts'
import { framedBytes, type OpenFrame } from '../../log/frame.ts'
import {
  type Attempt,
  bodyHashOf,
  type FoundKeys,
  type KeyQuestion,
  type KeyStore,
  keyHashOf,
  type NewClaim,
  type PendingClaim,
  type SettledClaim,
  type UsedKey,
} from '../../log/key-store.ts'
import { messageOf } from '../../platform/error-code.ts'
import type { Logger } from '../../platform/log.ts'
import { chainSubject, encodeHead, frameHeadBytes, frameOf, messagesPerFrame, seqOf } from './frames.ts'
import type { Publisher, PublishResult } from './publisher.ts'
import { busyCodes, idHeader, settleClaims } from './settlement.ts'
import type { StreamClient } from './stream-client.ts'
import { unacknowledged, unavailable } from './unavailable.ts'

const wrongLastSequence = 10_071
const expectedHeader = 'Nats-Expected-Last-Subject-Sequence'
/** How often a message can be rejected because its chain was broken, or meet another claim. */
const maxTries = 8
/** Above this number, an idle chain is removed and starts again with the next message of its pipe. */
const maxIdleChains = 10_000
/**
 * How long a request waits for another claim of its key: longer than a frame takes, unless a node or a server is in
 * trouble.
 */
const pendingWaitMs = 2_000
const pendingLookMs = [10, 20, 50, 100]

/** The counts that a stored frame adds to its pipe. */
export interface StoredKeyed {
  pipeId: string
  frame: OpenFrame
  records: number
  bytes: number
  lastMs: number
}

export interface KeyedDeps {
  cluster: string
  publisher: Publisher
  client: StreamClient
  keys: Pick<KeyStore, KeyQuestion>
  log: Logger
  /** Throws BufferUnavailableError when nothing can be published now. */
  requireAlive(): void
  /** The newest known sequence of the stream. */
  newestSeq(): number
  /** A frame was acknowledged `ms` after its publication. Returns false when the stream is not the same as `before`. */
  onStored(stored: StoredKeyed, streamSeq: number, published: { before: number; ms: number }): boolean
  /** The error for a frame that the stream did not store. */
  failure(result: Extract<PublishResult, { kind: 'refused' | 'unknown' }>): Error
}

interface Keyed {
  message: NewMessage
  keyHash: string
  bodyHash: string
  bytes: number
  tries: number
  resolve(appended: Appended): void
  reject(error: unknown): void
}

interface Chain {
  name: string
  /** The sequence of its last message; null when the chain has to start with a void. */
  lastSeq: number | null
  waiting: Keyed[]
  isBusy: boolean
}

export class KeyedAppends {
  readonly #deps: KeyedDeps
  readonly #chains = new Map<string, Chain>()
  /** The request of this appender for each key that is in progress. Others with the same key wait for its result. */
  readonly #first = new Map<string, { bodyHash: string; appended: Promise<Appended> }>()
  readonly #settling = new Set<Promise<void>>()
  #begun = 0
  readonly #prefix = crypto.randomUUID().replaceAll('-', '').slice(0, 16)
  #isFailing = false

  constructor(deps: KeyedDeps) {
    this.#deps = deps
  }

  /**
   * `message` must have a key, and its body must not be borrowed. Rejects with BufferUnavailableError,
   * IdempotencyKeyReusedError.
   */
  async append(message: NewMessage, idempotency: Idempotency): Promise<Appended> {
    const keyHash = keyHashOf({ pipeId: message.pipeId, key: idempotency.key })
    const bodyHash = bodyHashOf(idempotency.bodyHash)
    for (let first = this.#first.get(keyHash); first !== undefined; first = this.#first.get(keyHash)) {
      const appended = await first.appended.catch((error: unknown) => {
        // The other request's body did not match the key; this request's body can match.
        if (error instanceof IdempotencyKeyReusedError) return null
        throw error
      })
      if (appended === null) continue
      if (bodyHash !== first.bodyHash) throw new IdempotencyKeyReusedError()
      return { ...appended, repeated: true }
    }
    return await this.#appendFirst({ message, keyHash, bodyHash })
  }

  /** Null when the key is free. Waits for a request with the same key that is in progress. */
  async find(pipeId: string, { key, bodyHash }: Idempotency): Promise<Appended | 'reused' | null> {
    const used = await this.#usedKey(keyHashOf({ pipeId, key }))
    return used === null ? null : answerTo(used, bodyHashOf(bodyHash))
  }

  /** Rejects everything that waits for its chain. */
  rejectWaiting(error: Error): void {
    for (const { waiting } of this.#chains.values()) for (const { reject } of waiting.splice(0)) reject(error)
  }

  /** Resolves when no settlement of an acknowledged message is in progress. */
  async settled(): Promise<void> {
    await Promise.all(this.#settling)
  }

  /** Settles claims of all nodes that have been pending for this long. */
  async settleOlderThan(ms: number): Promise<void> {
    const pending = await this.#deps.keys.pendingFor(ms, 1_000)
    const byAttempt = new Map<string, PendingClaim[]>()
    for (const claim of pending)
      byAttempt.set(claim.attemptId, [...(byAttempt.get(claim.attemptId) ?? []), claim])
    let failure: unknown
    for (const claims of byAttempt.values())
      await settleClaims(this.#deps, claims).catch((error: unknown) => {
        failure = error
      })
    if (failure !== undefined) throw failure
    if (pending.length > 0) this.#deps.log.info({ claims: pending.length }, 'buffer.key_claims_settled')
  }

  async #appendFirst(one: Pick<Keyed, 'message' | 'keyHash' | 'bodyHash'>): Promise<Appended> {
    const appended = new Promise<Appended>((resolve, reject) => {
      this.#gather({ ...one, bytes: framedBytes(one.message), tries: 0, resolve, reject })
    })
    this.#first.set(one.keyHash, { bodyHash: one.bodyHash, appended })
    try {
      return await appended
    } finally {
      this.#first.delete(one.keyHash)
    }
  }

  #gather(one: Keyed): void {
    const { pipeId } = one.message
    let chain = this.#chains.get(pipeId)
    if (chain === undefined) {
      chain = { ...this.#newChain(), waiting: [], isBusy: false }
      this.#chains.set(pipeId, chain)
    }
    chain.waiting.push(one)
    if (!chain.isBusy) this.#run(pipeId, chain)
  }

  #newChain(): Pick<Chain, 'name' | 'lastSeq'> {
    this.#begun += 1
    return { name: `${this.#prefix}-${this.#begun}`, lastSeq: null }
  }

  #run(pipeId: string, chain: Chain): void {
    chain.isBusy = true
    // Runs at the end of this turn of the event loop, so that all its requests join one frame.
    setImmediate(() => void this.#appendWaiting(pipeId, chain))
  }

  async #appendWaiting(pipeId: string, chain: Chain): Promise<void> {
    while (chain.waiting.length > 0) {
      const batch = this.#takeBatch(chain)
      try {
        await this.#appendBatch(pipeId, chain, batch)
      } catch (error) {
        // Requests behind it are rejected too, so that none waits longer than the limits of the stream and the database.
        for (const { reject } of [...batch, ...chain.waiting.splice(0)]) reject(error)
      }
    }
    chain.isBusy = false
    if (this.#chains.size > maxIdleChains) this.#chains.delete(pipeId)
  }

  #takeBatch({ waiting }: Chain): Keyed[] {
    const most = Math.min(resourceLimits.frameBytes, this.#deps.publisher.maxPayload - frameHeadBytes)
    let bytes = 0
    let count = 0
    for (const one of waiting) {
      if (count > 0 && (count === messagesPerFrame || bytes + one.bytes > most)) break
      bytes += one.bytes
      count += 1
    }
    return waiting.splice(0, count)
  }

  async #appendBatch(pipeId: string, chain: Chain, batch: readonly Keyed[]): Promise<void> {
    const { keys, requireAlive } = this.#deps
    requireAlive()
    const afterSeq = chain.lastSeq ?? (await this.#begin(pipeId, chain.name))
    chain.lastSeq = afterSeq
    const attempt: Attempt = { pipeId, chain: chain.name, afterSeq, attemptId: crypto.randomUUID() }
    const claims = batch.map(({ message: { msgId, recordCount }, keyHash, bodyHash }): NewClaim => {
      return { ...attempt, keyHash, bodyHash, msgId, recordCount }
    })
    const found = await this.#ask(() => keys.claim(claims))
    const claimed = this.#sort(batch, found, attempt.attemptId)
    if (claimed.size === 0) return
    try {
      requireAlive()
    } catch (error) {
      this.#release(claimed)
      throw error
    }
    await this.#publish(chain, attempt, claimed)
  }

  /** Responds to requests whose key is used or pending. Returns those that can be published. */
  #sort(batch: readonly Keyed[], { used, pending }: FoundKeys, attemptId: string): Map<Keyed, PendingClaim> {
    const usedKeys = new Map(used.map((key) => [key.keyHash, key]))
    const claims = new Map(pending.map((claim) => [claim.keyHash, claim]))
    const claimed = new Map<Keyed, PendingClaim>()
    for (const one of batch) {
      const first = usedKeys.get(one.keyHash)
      const claim = claims.get(one.keyHash)
      if (first !== undefined) settleWith(one, answerTo(first, one.bodyHash))
      else if (claim?.attemptId === attemptId) claimed.set(one, claim)
      // Another request's claim. If it is not in the result, it was settled between two statements.
      else void this.#awaitOther(one)
    }
    return claimed
  }

  async #awaitOther(one: Keyed): Promise<void> {
    try {
      const used = await this.#usedKey(one.keyHash)
      if (used === null) this.#retry(one)
      else settleWith(one, answerTo(used, one.bodyHash))
    } catch (error) {
      one.reject(error)
    }
  }

  /** Waits for the claim of another request, and settles it at the end. Null when the key is free. */
  async #usedKey(keyHash: string): Promise<UsedKey | null> {
    const until = performance.now() + pendingWaitMs
    for (let look = 0; ; look += 1) {
      const { used, pending } = await this.#ask(() => this.#deps.keys.find([keyHash]))
      if (used[0] !== undefined) return used[0]
      if (pending.length === 0) return null
      if (performance.now() < until) await wait(pendingLookMs[look] ?? pendingLookMs.at(-1))
      else await this.#ask(() => settleClaims(this.#deps, pending))
    }
  }

  #retry(one: Keyed): void {
    one.tries += 1
    if (one.tries < maxTries) this.#gather(one)
    else one.reject(unavailable('write_failed', 'the idempotency key is claimed and released all the time'))
  }

  /** Starts a chain. No frame of it is in flight without a response. */
  async #begin(pipeId: string, name: string): Promise<number> {
    const result = await this.#send(
      chainSubject({ cluster: this.#deps.cluster, pipeId, chain: name }),
      new Uint8Array(0),
      undefined,
    )
    if (result.kind === 'stored') return result.streamSeq
    if (result.kind === 'duplicate') throw unavailable('write_failed', 'a chain began twice')
    throw this.#deps.failure(result)
  }

  async #publish(
    chain: Chain,
    { pipeId, afterSeq, attemptId }: Attempt,
    claimed: ReadonlyMap<Keyed, PendingClaim>,
  ): Promise<void> {
    const { cluster, newestSeq, onStored } = this.#deps
    const messages = [...claimed.keys()].map(({ message }) => message)
    const { frame, head } = frameOf(messages)
    const stored = { pipeId, frame, ...head }
    const headers = encodeHead(head)
    headers.append(expectedHeader, String(afterSeq))
    headers.append(idHeader, attemptId)
    const [before, startedAt] = [newestSeq(), performance.now()]
    const subject = chainSubject({ cluster, pipeId, chain: chain.name })
    const result = await this.#send(subject, frame.buffer.subarray(0, frame.length), headers)
    if (result.kind === 'stored') {
      if (!onStored(stored, result.streamSeq, { before, ms: performance.now() - startedAt }))
        throw unacknowledged()
      chain.lastSeq = result.streamSeq
      this.#acknowledge(claimed, result.streamSeq)
      return
    }
    if (result.kind === 'unknown') {
      Object.assign(chain, this.#newChain())
      throw this.#deps.failure(result)
    }
    // The frame is not stored. Its claims are released first; otherwise the messages would meet them on the next try.
    chain.lastSeq = null
    const isReleased = await this.#release(claimed)
    const isBroken =
      result.kind === 'duplicate' || result.code === wrongLastSequence || busyCodes.has(result.code)
    if (!isBroken) throw this.#deps.failure(result)
    if (!isReleased) throw unavailable('write_failed', 'claims of idempotency keys cannot be released')
    for (const one of claimed.keys()) this.#retry(one)
  }

  #acknowledge(claimed: ReadonlyMap<Keyed, PendingClaim>, streamSeq: number): void {
    const settled: SettledClaim[] = []
    for (const [one, claim] of claimed) {
      const { msgId, recordCount } = one.message
      const seq = seqOf(streamSeq, settled.length)
      settled.push({ ...claim, seq })
      one.resolve({ seq, msgId, recordCount, repeated: false })
    }
    // No request waits for this. A claim that stays pending is settled later with the same result.
    const settling = this.#ask(() => this.#deps.keys.settle(settled))
      .catch(() => {})
      .finally(() => this.#settling.delete(settling))
    this.#settling.add(settling)
  }

  /** Returns false when they stay pending until another request or housekeeping settles them. */
  async #release(claimed: ReadonlyMap<Keyed, PendingClaim>): Promise<boolean> {
    try {
      await this.#ask(() => this.#deps.keys.release([...claimed.values()]))
      return true
    } catch {
      return false
    }
  }

  #send(
    subject: string,
    data: Uint8Array,
    headers: ReturnType<typeof encodeHead> | undefined,
  ): Promise<PublishResult> {
    return new Promise((onResult) => this.#deps.publisher.publish({ subject, data, headers, onResult }))
  }

  /** Every failure of the database is reported as an unavailable buffer: 503 with `Retry-After`. */
  async #ask<T>(question: () => Promise<T>): Promise<T> {
    try {
      const answer = await question()
      this.#isFailing = false
      return answer
    } catch (error) {
      if (!this.#isFailing) this.#deps.log.warn({ err: error }, 'buffer.keys_failed')
      this.#isFailing = true
      throw unavailable('write_failed', messageOf(error))
    }
  }
}

function settleWith(one: Keyed, answer: Appended | 'reused'): void {
  if (answer === 'reused') one.reject(new IdempotencyKeyReusedError())
  else one.resolve(answer)
}

function answerTo({ seq, msgId, recordCount, bodyHash }: UsedKey, asked: string): Appended | 'reused' {
  return bodyHash === asked ? { seq, msgId, recordCount, repeated: true } : 'reused'
}
