/**
 * Queues the work of the writer thread from main, from other appending threads and from the feed. Each turn of the
 * event loop does one task (a query, or all waiting frames as one transaction) and one slice of a pending compaction or
 * salvage. So a frame waits for at most one slice. (If frames were committed as they arrive, frames in quick succession
 * would block everything else: Node.js takes up to 1,000 messages from a port before it serves another port or a
 * timer.)
 *
 *   main, others ──frame──▶ writer thread ──settled──▶ the thread that sent it   (first: a client waits)
 *                          │ committed, dropped, report_wanted
 *                          ▼
 *                        feed ──watermarks, pipe_deleted, segment_damaged──▶ writer thread
 *
 * An error thrown by the writer ends the thread, and main then ends the process.
 *
 *   | the thread or the process ends …                 | on disk                           | the client                         |
 *   |--------------------------------------------------|-----------------------------------|------------------------------------|
 *   | while a frame is in the port, or waits here      | nothing of it                     | has no response                    |
 *   | within `write`                                   | none or all of it: layout.ts      | has no response: at least once     |
 *   | after `write`, before main counts it             | the whole frame                   | no response; usage is counted from the rows again |
 *   | between two threads' `settled`                   | both frames: one transaction      | one has its 202, the other none    |
 *   | after `settled`, before the feed's `committed`   | the whole frame                   | 202; lanes find it at the start    |
 */
import type { MessagePort } from 'node:worker_threads'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { hourMs } from '../../platform/quantities.ts'
import { type Caller, callsOver, type Handlers } from '../../platform/thread-calls.ts'
import type { BufferStatus, SharedAppends } from '../buffer.ts'
import { type Frame, readFrame } from '../frame.ts'
import type { BufferWriter } from './buffer-writer.ts'
import { HeldResults, type ReplicaRules } from './held-results.ts'
import type {
  AppenderCalls,
  FrameResult,
  SkippedResult,
  UnavailableReason,
  WriterCalls,
  WriterReports,
} from './protocol.ts'
import type { FeedChannel } from './reader.ts'
import type { CommittedFrame, SkippedAppend } from './segment-writer.ts'

const housekeepingEveryMs = 1_000
/** How often results that wait for the replica are looked at. */
const expireEveryMs = 100

/** A thread that appends. */
interface Client {
  calls: Pick<Caller<AppenderCalls>, 'tell'>
  /**
   * Index of the appender among the other threads, by the order of their ports; its appends are reported to main. Null
   * for main itself.
   */
  other: number | null
}

interface FrameWork {
  frame: Frame
  client: Client
}

export class WriterQueue {
  readonly #main: Pick<Caller<WriterReports>, 'tell'>
  readonly #writer: BufferWriter
  readonly #feed: FeedChannel
  readonly #clients: Client[] = []
  readonly #ports: MessagePort[] = []
  readonly #waiting: (FrameWork | (() => void))[] = []
  readonly #housekeeping: NodeJS.Timeout
  /** Null: a result is sent as soon as its frame is committed. */
  readonly #held: HeldResults | null
  readonly #expiring: NodeJS.Timeout | null
  #isTurnScheduled = false
  #isClosed = false

  /** `rules`: null, if nothing waits for a replica. */
  constructor(
    main: Pick<Caller<WriterReports>, 'tell'>,
    writer: BufferWriter,
    feed: FeedChannel,
    rules: ReplicaRules | null = null,
  ) {
    this.#main = main
    this.#writer = writer
    this.#feed = feed
    const held = rules === null ? null : new HeldResults(rules)
    this.#held = held
    this.#expiring = held && setInterval(() => held.expire(), expireEveryMs)
    feed.listen((message) => {
      if (message.kind === 'watermarks') writer.reportLowWatermarks(message.watermarks)
      else if (message.kind === 'pipe_deleted') writer.pipeDeleted(message.pipeId)
      else if (message.kind === 'segment_damaged') {
        writer.segmentDamaged(message, message.error)
        this.#scheduleTurn()
      }
    })
    this.#housekeeping = setInterval(() => {
      writer.housekeep()
      this.#postStatus()
      this.#scheduleTurn()
    }, housekeepingEveryMs)
    this.#scheduleTurn()
  }

  get status(): BufferStatus {
    const status = this.#writer.status()
    // Clients then reject appends by themselves.
    return this.#held?.rejects === true ? { ...status, unavailableReason: 'not_replicated' } : status
  }

  /** The handlers of main's calls. */
  ofMain(): Handlers<WriterCalls> {
    return this.#handlers({ calls: this.#main, other: null })
  }

  /** Resolves when all earlier work is done and the files are closed. */
  close(): Promise<void> {
    return this.#inTurn(() => {
      this.#isClosed = true
      clearInterval(this.#housekeeping)
      if (this.#expiring !== null) clearInterval(this.#expiring)
      this.#held?.end()
      this.#writer.close()
      this.#feed.close()
      this.#main.tell('closed', [])
      for (const port of this.#ports) port.close()
    })
  }

  #handlers(client: Client): Handlers<WriterCalls> {
    this.#clients.push(client)
    return {
      frame: (frame) => {
        this.#waiting.push({ frame, client })
        this.#scheduleTurn()
      },
      headSeq: () => this.#inTurn(() => this.#writer.headSeq),
      appended: () => this.#inTurn(() => this.#writer.appended()),
      findRepeat: (pipeId, idempotency) => this.#inTurn(() => this.#writer.findRepeat(pipeId, idempotency)),
      erase: (erasure) => this.#inTurn(() => this.#writer.erase(erasure)),
      replicated: (seq, provenMs) => this.#replicated(seq, provenMs),
      share: (port) => void this.#inTurn(() => this.#share(port)),
    }
  }

  /** Clients learn at once that frames are accepted again, and not with the next status. */
  #replicated(seq: number, provenMs: number): void {
    const before = this.#held?.rejects
    this.#held?.stored(seq, provenMs)
    if (this.#held?.rejects !== before) this.#postStatus()
  }

  #share(port: MessagePort): void {
    const calls = callsOver<AppenderCalls, WriterCalls>('buffer-writer', port)
    // Main is the first client itself.
    calls.serve(this.#handlers({ calls, other: this.#ports.length }))
    this.#ports.push(port)
    calls.tell('status', [this.status])
  }

  #inTurn<T>(work: () => T | Promise<T>): Promise<T> {
    return new Promise((resolve) => {
      this.#waiting.push(() => resolve(work()))
      this.#scheduleTurn()
    })
  }

  #scheduleTurn(): void {
    const hasWork = this.#waiting.length > 0 || this.#writer.isRewriting
    if (this.#isTurnScheduled || this.#isClosed || !hasWork) return
    this.#isTurnScheduled = true
    setImmediate(() => {
      this.#isTurnScheduled = false
      const work = this.#waiting.shift()
      if (typeof work === 'function') work()
      else if (work !== undefined)
        this.#take([work, ...takeFrames(this.#waiting, joinedMaxBytes - work.frame.length)])
      if (!this.#isClosed) this.#writer.rewriteSlice()
      this.#scheduleTurn()
    })
  }

  #take(works: readonly [FrameWork, ...FrameWork[]]): void {
    if (this.#held?.rejects === true) this.#reject(works, 'not_replicated')
    else this.#commit(works)
  }

  #commit(works: readonly [FrameWork, ...FrameWork[]]): void {
    const before = this.#writer.unavailableReason
    const [first, ...others] = works
    const frames: [Frame, ...Frame[]] = [first.frame, ...others.map(({ frame }) => frame)]
    const result = this.#writer.write(joinFrames(frames))
    if (result.ok) {
      const parts = splitCommitted(frames, result.committed)
      // Main is notified first, so that a client that reads the usage after a 202 finds that request counted.
      const appends = works.flatMap(({ client, frame }, index) =>
        client.other === null ? [] : countAppends(frame, parts[index]!.skipped, client.other),
      )
      if (appends.length > 0) this.#main.tell('sharedAppends', [appends])
      for (const [index, { client, frame }] of works.entries()) {
        const { firstSeq, skipped } = parts[index]!
        this.#settle(client, {
          kind: 'committed',
          buffer: frame.buffer,
          firstSeq,
          skipped: skipped.map(toResult),
        })
      }
      const { pipes } = result.committed
      if (pipes.length > 0) this.#feed.post({ kind: 'committed', pipes })
      this.#writer.afterCommit()
    } else if (others.length > 0 && this.#writer.unavailableReason === null) {
      // There is no room for all of them: each frame is tried separately, as if it had arrived alone.
      for (const work of works) this.#commit([work])
    } else this.#reject(works, result.reason)
    // Clients reject appends by themselves while they know that the writer would.
    if (this.#writer.unavailableReason !== before) this.#postStatus()
  }

  /** Each appender gets its results in the order of its frames, so later ones wait behind one that is held. */
  #settle(client: Client, result: Extract<FrameResult, { kind: 'committed' }>): void {
    const { buffer } = result
    if (this.#held === null) {
      client.calls.tell('settled', [result], [buffer])
      return
    }
    // A repeated message is possibly not in the replica yet either, so the newest seq counts, and not the frame's.
    this.#held.hold(this.#writer.headSeq, (isStored) => {
      const failed = { kind: 'failed', buffer, reason: 'not_replicated' } as const
      client.calls.tell('settled', [isStored ? result : failed], [buffer])
    })
  }

  #reject(works: readonly FrameWork[], reason: UnavailableReason): void {
    for (const { client, frame } of works) {
      const { buffer } = frame
      const reject = () => client.calls.tell('settled', [{ kind: 'failed', buffer, reason }], [buffer])
      // Behind the results that wait.
      if (this.#held === null) reject()
      else this.#held.hold(0, reject)
    }
  }

  #postStatus(): void {
    const { status } = this
    for (const { calls } of this.#clients) calls.tell('status', [status])
  }
}

/** The frames at the head of the queue, in order, up to `maxBytes`. */
function takeFrames(waiting: (FrameWork | (() => void))[], maxBytes: number): FrameWork[] {
  const taken: FrameWork[] = []
  let bytes = 0
  for (;;) {
    const next = waiting[0]
    if (next === undefined || typeof next === 'function') return taken
    bytes += next.frame.length
    if (bytes > maxBytes) return taken
    taken.push(next)
    waiting.shift()
  }
}

function toResult(append: SkippedAppend): SkippedResult {
  if (append.kind !== 'repeated') return { index: append.index, kind: append.kind }
  const { seq, msgId, recordCount } = append.first
  return { index: append.index, kind: 'repeated', seq, msgId, recordCount }
}

/** The size limit of joined frames, the same as that of a frame with several messages. */
const joinedMaxBytes = resourceLimits.frameBytes

/**
 * Joins frames of several threads that wait at the same time into one transaction with one fsync. Each frame then gets
 * its own part of the result, as if it had been committed separately.
 *
 * A single frame is returned as it is.
 */
export function joinFrames(frames: readonly [Frame, ...Frame[]]): Frame {
  const [first, ...others] = frames
  if (others.length === 0) return first
  const length = frames.reduce((sum, frame) => sum + frame.length, 0)
  const joined = new Uint8Array(length)
  let at = 0
  for (const frame of frames) {
    joined.set(new Uint8Array(frame.buffer, 0, frame.length), at)
    at += frame.length
  }
  return { buffer: joined.buffer, length, count: frames.reduce((sum, frame) => sum + frame.count, 0) }
}

export interface CommittedPart {
  firstSeq: number
  skipped: SkippedAppend[]
}

/** Returns the result of each frame, in their order. */
export function splitCommitted(
  frames: readonly Frame[],
  { firstSeq, skipped }: Pick<CommittedFrame, 'firstSeq' | 'skipped'>,
): CommittedPart[] {
  let begin = 0
  let seq = firstSeq
  return frames.map(({ count }) => {
    const first = begin
    const own = skipped
      .filter(({ index }) => index >= first && index < first + count)
      .map((append) => ({ ...append, index: append.index - first }))
    const part = { firstSeq: seq, skipped: own }
    begin += count
    seq += count - own.length
    return part
  })
}

/** Counts the new messages of an appender's committed frame, by pipe and hour. */
function countAppends(frame: Frame, skipped: readonly SkippedAppend[], appender: number): SharedAppends[] {
  const left = new Set(skipped.map(({ index }) => index))
  const counts = new Map<string, SharedAppends>()
  let index = -1
  for (const { pipeId, recordCount, body, receivedMs } of readFrame(frame)) {
    index += 1
    if (left.has(index)) continue
    const key = `${pipeId}/${Math.floor(receivedMs / hourMs)}`
    const count = counts.get(key) ?? {
      appender,
      pipeId,
      messages: 0,
      records: 0,
      bytes: 0,
      lastMs: receivedMs,
    }
    count.messages += 1
    count.records += recordCount
    count.bytes += body.length
    count.lastMs = Math.max(count.lastMs, receivedMs)
    counts.set(key, count)
  }
  return [...counts.values()]
}
