/**
 * The appending thread's side: messages gather in frames, one per pipe, which are published together as a round. At
 * most two rounds are in flight to the stream.
 *
 * group-commit.ts does the gathering, queueing and tracking; a group is a round here. Messages with an Idempotency-Key
 * have frames of their own (keyed-appends.ts).
 *
 * A message is acknowledged only after the stream has acknowledged its frame, and no frame is published twice. When the
 * outcome of a frame is unknown, everything that waits behind it is rejected too, so that no request waits longer than
 * the stream's time limit.
 *
 *   | the node or the connection ends …      | in the stream          | the client                        |
 *   |----------------------------------------|------------------------|-----------------------------------|
 *   | while it gathers or waits              | nothing                | no response, or 503               |
 *   | after it was published, before the ack | perhaps the whole frame | no response, or 503: at least once   |
 *   | after the ack, before the response     | the whole frame        | no response                       |
 *   | after the response, before the commit is announced | the whole frame | 202; readers find it when they look |
 */
import type { Appended, Appender, Idempotency, NewMessage, SharedAppends } from '../../log/buffer.ts'
import { appendToFrame, framedBytes, type OpenFrame, openFrame } from '../../log/frame.ts'
import { type Group, GroupCommit, type Waiter, type WriterObserved } from '../../log/group-commit.ts'
import type { KeyQuestion, KeyStore } from '../../log/key-store.ts'
import type { Logger } from '../../platform/log.ts'
import type { NatsConnection } from '../nats/headers.ts'
import {
  commitsSubject,
  encodeHead,
  frameHeadBytes,
  frameSubject,
  messagesPerFrame,
  seqOf,
  streamName,
} from './frames.ts'
import { KeyedAppends } from './keyed-appends.ts'
import { Publisher, type PublishResult } from './publisher.ts'
import type { Shares } from './shares.ts'
import { StreamClient } from './stream-client.ts'
import { type UnavailableReason, unacknowledged, unavailable } from './unavailable.ts'

const KiB = 1024
const firstCapacityBytes = 16 * KiB
/** The number of ArrayBuffers of acknowledged frames that are kept for reuse, and their maximum size. */
const sparesKept = 16
const spareMaxBytes = 512 * KiB
/** How long nothing is published after the stream was full. */
const fullForMs = 250

/** Error codes for the stream's `max_bytes`, the account's limit, and the servers' disks. */
const fullCodes = new Set([10_077, 10_002, 10_023, 10_028, 10_047, 10_120, 10_122])

export interface AppenderDeps {
  cluster: string
  replicas: number
  log: Logger
  /** The time until which this node can accept, `process.hrtime` in ns; null outside a cluster. */
  liveness: SharedArrayBuffer | null
  observed: WriterObserved
  shares: Shares
  /** Null: messages with a key are rejected. */
  keys: Pick<KeyStore, KeyQuestion> | null
  /** The newest stream sequence known at the start. */
  lastStreamSeq: number
  /** Called with the counts of each acknowledged frame. */
  onAppended(appends: Omit<SharedAppends, 'appender'>): void
  /** A frame was rejected or got no response, for another reason than a full stream. */
  onRejected(): void
  /** The stream was recreated: lanes would take new messages for delivered ones. */
  onFatal(error: Error): void
}

/** Gathered messages of one pipe. */
interface PipeFrame {
  pipeId: string
  workspaceId: string
  frame: OpenFrame
  waiters: Waiter[]
  records: number
  bytes: number
  firstMs: number
  lastMs: number
}

export class JetStreamAppender implements Appender {
  readonly #deps: AppenderDeps
  readonly #connection: NatsConnection
  readonly #publisher: Publisher
  readonly #keyed: KeyedAppends | null
  readonly #livenessUntil: BigInt64Array | null
  readonly #spares: ArrayBuffer[] = []
  readonly #rounds = new GroupCommit({
    put: (message, waiter, bytes) => this.#put(message, waiter, bytes),
    send: (round) => this.#publishRound(round),
  })
  /** The frames with room for more messages, by pipe. */
  #open = new Map<string, PipeFrame>()
  /** All gathering frames, in the order of their creation. */
  #gathered: PipeFrame[] = []
  #isClosing = false
  #isDead = false
  #fullUntil = 0
  #newestStreamSeq: number
  /** Acknowledged but not yet announced seqs, by pipe. */
  #commits = new Map<string, number>()
  /** Appends with a key that are neither acknowledged nor rejected. */
  readonly #keyedUnderWay = new Set<Promise<Appended>>()
  #lastFailure: UnavailableReason | null = null

  constructor(connection: NatsConnection, deps: AppenderDeps) {
    this.#connection = connection
    this.#deps = deps
    this.#publisher = new Publisher(connection)
    this.#keyed = deps.keys === null ? null : this.#keyedAppends(deps.keys)
    this.#livenessUntil = deps.liveness === null ? null : new BigInt64Array(deps.liveness)
    this.#newestStreamSeq = deps.lastStreamSeq
  }

  append(message: NewMessage): Promise<Appended> {
    const reason = this.unavailableReason
    if (reason !== null) return Promise.reject(unavailable(reason))
    const { pipeId, body } = message
    if (framedBytes(message) + frameHeadBytes > this.#publisher.maxPayload)
      return Promise.reject(
        unavailable('write_failed', `${body.length} bytes and max_payload of nats-server`),
      )
    if (!this.#deps.shares.take(pipeId, body.length)) return Promise.reject(unavailable('pipe_share'))
    if (message.idempotency !== undefined) return this.#appendKeyed(message, message.idempotency)
    return this.#rounds.append(message)
  }

  async findRepeat(pipeId: string, idempotency: Idempotency): Promise<Appended | 'reused' | null> {
    if (!this.#publisher.isConnected) throw unavailable('write_failed')
    return await this.#requireKeyed().find(pipeId, idempotency)
  }

  /** Settles claims of idempotency keys that have been pending for this long, on any node. */
  async settleKeyClaims(olderThanMs: number): Promise<void> {
    if (this.unavailableReason === null) await this.#keyed?.settleOlderThan(olderThanMs)
  }

  async drain(): Promise<void> {
    this.#isClosing = true
    await this.#rounds.idle()
    await Promise.allSettled(this.#keyedUnderWay)
    await this.#keyed?.settled()
  }

  /** Call it after `drain`. The caller owns the connection. */
  close(): void {
    this.#isClosing = true
    this.#publisher.close()
    this.#rejectWaiting(unavailable('closing'))
  }

  /** Why an append would be rejected now; null when it would not. */
  get unavailableReason(): UnavailableReason | null {
    if (this.#isClosing) return 'closing'
    if (this.#isDead || !this.#publisher.isConnected) return 'write_failed'
    if (!this.#isAlive()) return 'not_in_cluster'
    return performance.now() < this.#fullUntil ? 'over_quota' : null
  }

  /** The reason of the last failed append; null once another one was stored. */
  get lastFailure(): UnavailableReason | null {
    return this.#lastFailure
  }

  #requireKeyed(): KeyedAppends {
    if (this.#keyed === null) throw new Error('this appender was opened without a store for idempotency keys')
    return this.#keyed
  }

  #keyedAppends(keys: Pick<KeyStore, KeyQuestion>): KeyedAppends {
    const { cluster, replicas, log, observed } = this.#deps
    return new KeyedAppends({
      cluster,
      publisher: this.#publisher,
      keys,
      log,
      client: new StreamClient(this.#connection, streamName(cluster), replicas),
      requireAlive: () => {
        if (!this.#isAlive()) throw unavailable('not_in_cluster')
      },
      newestSeq: () => this.#newestStreamSeq,
      onStored: ({ pipeId, frame, records, bytes, lastMs }, streamSeq, { before, ms }) => {
        if (streamSeq <= before) {
          this.#die(streamSeq, before)
          return false
        }
        observed.committed(frame, ms)
        this.#stored(pipeId, frame, { records, bytes, lastMs }, streamSeq)
        this.#announce()
        return true
      },
      failure: (result) => this.#failure(result),
    })
  }

  async #appendKeyed(message: NewMessage, idempotency: Idempotency): Promise<Appended> {
    const own = message.isBorrowed ? { ...message, body: Buffer.from(message.body) } : message
    const appended = this.#requireKeyed().append(own, idempotency)
    this.#keyedUnderWay.add(appended)
    try {
      return await appended
    } finally {
      this.#keyedUnderWay.delete(appended)
    }
  }

  /** False as well after a pause of the process, because the clock went on. */
  #isAlive(): boolean {
    return this.#livenessUntil === null || process.hrtime.bigint() < Atomics.load(this.#livenessUntil, 0)
  }

  #put(message: NewMessage, waiter: Waiter, bytes: number): void {
    const { receivedMs, recordCount, body } = message
    const target = this.#openFrame(message, bytes)
    appendToFrame(target.frame, message)
    target.waiters.push(waiter)
    target.records += recordCount
    target.bytes += body.length
    target.firstMs = Math.min(target.firstMs, receivedMs)
    target.lastMs = Math.max(target.lastMs, receivedMs)
  }

  #openFrame(message: NewMessage, bytes: number): PipeFrame {
    const open = this.#open.get(message.pipeId)
    if (open !== undefined) {
      const { count, length } = open.frame
      if (count < messagesPerFrame && length + bytes + frameHeadBytes <= this.#publisher.maxPayload)
        return open
    }
    const fresh = this.#newFrame(message, bytes)
    this.#open.set(message.pipeId, fresh)
    return fresh
  }

  #newFrame({ pipeId, workspaceId = '', receivedMs }: NewMessage, bytes: number): PipeFrame {
    const capacity = Math.max(firstCapacityBytes, bytes)
    const fresh: PipeFrame = {
      pipeId,
      workspaceId,
      frame: openFrame(capacity, this.#spares.pop()),
      waiters: [],
      records: 0,
      bytes: 0,
      firstMs: receivedMs,
      lastMs: receivedMs,
    }
    this.#gathered.push(fresh)
    return fresh
  }

  #publishRound(round: Group): void {
    const frames = this.#takeGathered()
    let left = frames.length
    const frameEnded = () => {
      left -= 1
      if (left > 0) return
      this.#rounds.release(round)
      // Collects responses that arrived together, so that the next round includes the next requests of their clients.
      this.#rounds.schedule()
      this.#announce()
    }
    for (const frame of frames) {
      if (this.#isAlive()) this.#publish(frame, frameEnded)
      else {
        this.#reject(frame, unavailable('not_in_cluster'))
        frameEnded()
      }
    }
  }

  #takeGathered(): PipeFrame[] {
    const frames = this.#gathered
    this.#gathered = []
    this.#open = new Map()
    return frames
  }

  #publish(one: PipeFrame, onEnd: () => void): void {
    const { cluster, observed } = this.#deps
    const { pipeId, workspaceId, frame, records, bytes, firstMs, lastMs } = one
    const headers = encodeHead({ workspaceId, messages: frame.count, records, bytes, firstMs, lastMs })
    const before = this.#newestStreamSeq
    const startedAt = performance.now()
    this.#publisher.publish({
      subject: frameSubject({ cluster, pipeId }),
      data: frame.buffer.subarray(0, frame.length),
      headers,
      onResult: (result) => {
        if (result.kind === 'stored' && result.streamSeq > before)
          observed.committed(frame, performance.now() - startedAt)
        this.#settle(one, result, before)
        onEnd()
      },
    })
  }

  #settle(one: PipeFrame, result: PublishResult, before: number): void {
    if (result.kind === 'stored' && result.streamSeq > before) this.#acknowledge(one, result.streamSeq)
    else if (result.kind === 'stored') {
      this.#reject(one, unacknowledged())
      this.#die(result.streamSeq, before)
    } else if (result.kind !== 'duplicate') {
      const error = this.#failure(result)
      this.#reject(one, error)
      if (result.kind === 'unknown') this.#rejectWaiting(unavailable('write_failed', result.description))
    } else throw new Error('a frame without an id cannot be a duplicate')
  }

  /** The error for a frame that the stream rejected or did not respond to. */
  #failure(result: Extract<PublishResult, { kind: 'refused' | 'unknown' }>): Error {
    const isFull = result.kind === 'refused' && fullCodes.has(result.code)
    if (isFull) this.#fullUntil = performance.now() + fullForMs
    const reason = isFull ? 'over_quota' : 'write_failed'
    this.#failed(reason, result.description)
    const mayBeStored = result.kind === 'unknown' && result.mayBeStored
    return mayBeStored ? unacknowledged(result.description) : unavailable(reason, result.description)
  }

  #acknowledge({ pipeId, frame, waiters, records, bytes, lastMs }: PipeFrame, streamSeq: number): void {
    this.#stored(pipeId, frame, { records, bytes, lastMs }, streamSeq)
    for (const [index, { msgId, recordCount, resolve }] of waiters.entries())
      resolve({ seq: seqOf(streamSeq, index), msgId, recordCount, repeated: false })
    this.#recycle(frame)
  }

  #stored(
    pipeId: string,
    { count: messages }: OpenFrame,
    counts: Pick<PipeFrame, 'records' | 'bytes' | 'lastMs'>,
    streamSeq: number,
  ): void {
    this.#newestStreamSeq = Math.max(this.#newestStreamSeq, streamSeq)
    if (this.#lastFailure !== null) this.#recovered()
    const seq = seqOf(streamSeq, messages - 1)
    this.#commits.set(pipeId, Math.max(seq, this.#commits.get(pipeId) ?? 0))
    this.#deps.onAppended({ pipeId, messages, ...counts })
  }

  #reject({ waiters }: PipeFrame, error: Error): void {
    for (const { reject } of waiters) reject(error)
  }

  /** Rejects gathered and queued messages. */
  #rejectWaiting(error: Error): void {
    this.#keyed?.rejectWaiting(error)
    for (const frame of this.#takeGathered()) this.#reject(frame, error)
    this.#rounds.rejectWaiting(error)
  }

  /** Announces commits to the readers of all nodes, which also poll. */
  #announce(): void {
    if (this.#commits.size === 0 || !this.#publisher.isConnected) return
    const commits = this.#commits
    this.#commits = new Map()
    this.#connection.publish(commitsSubject(this.#deps.cluster), JSON.stringify([...commits]))
  }

  #recycle({ buffer }: OpenFrame): void {
    const { buffer: memory } = buffer
    if (!(memory instanceof ArrayBuffer)) return
    const isSpare = memory.byteLength >= firstCapacityBytes && memory.byteLength <= spareMaxBytes
    if (isSpare && this.#spares.length < sparesKept) this.#spares.push(memory)
  }

  #die(streamSeq: number, before: number): void {
    this.#isDead = true
    const error = new Error(
      `the stream gave frame ${streamSeq} after frame ${before}: it was created again, and lanes would take new messages for delivered ones`,
    )
    this.#rejectWaiting(unavailable('write_failed', error.message))
    this.#deps.onFatal(error)
  }

  #failed(reason: UnavailableReason, description: string): void {
    if (reason === 'write_failed') this.#deps.onRejected()
    if (this.#lastFailure === reason) return
    this.#lastFailure = reason
    this.#deps.log.warn({ reason, detail: description }, 'buffer.append_failed')
  }

  #recovered(): void {
    this.#deps.log.info({ reason: this.#lastFailure }, 'buffer.append_recovered')
    this.#lastFailure = null
    this.#fullUntil = 0
  }
}
