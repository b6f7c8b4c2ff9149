/**
 * The buffer as the threads that append use it. Main starts the writer thread and calls it; other threads get a port to
 * it. Only the writer touches the files.
 */
import assert from 'node:assert'
import { MessageChannel } from 'node:worker_threads'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { type LogSettings, openLog } from '../../platform/log.ts'
import { beatEveryMs, type Caller, callsOver, type Handlers } from '../../platform/thread-calls.ts'
import { Thread, threadEntry } from '../../platform/threads.ts'
import {
  type Appended,
  type Appender,
  type AppenderPort,
  type Backlog,
  type BufferStatus,
  type Idempotency,
  IdempotencyKeyReusedError,
  type NewMessage,
  type OpenBuffer,
  type SharedAppends,
  type WriterHistograms,
} from '../buffer.ts'
import { appendToFrame, type Frame, openFrame } from '../frame.ts'
import { type Group, GroupCommit, type Waiter, WriterObserved } from '../group-commit.ts'
import { SegmentsErasure } from './open-erasure.ts'
import {
  type AppenderCalls,
  type FrameResult,
  type SegmentsSpec,
  type SkippedResult,
  type UnavailableReason,
  unavailable,
  type WriterCalls,
  type WriterData,
  type WriterReports,
} from './protocol.ts'
import { Scrubber } from './scrubber.ts'

export interface SegmentWriterDeps {
  log: LogSettings
  onFatal(error: Error): void
}

/** Rejects when the buffer on disk cannot be opened. */
export async function openSegmentBuffer(spec: SegmentsSpec, deps: SegmentWriterDeps): Promise<OpenBuffer> {
  const buffer = new SegmentBuffer(spec, deps)
  await buffer.opened
  return buffer
}

class SegmentBuffer implements OpenBuffer {
  readonly opened: Promise<void>
  readonly appender: FrameAppender
  readonly erasure: SegmentsErasure
  readonly replicated = (seq: number, provenMs: number): void =>
    this.#thread.tell('replicated', [seq, provenMs])
  readonly #thread: Thread<WriterCalls, WriterReports>
  readonly #scrubber: Scrubber
  readonly #observed = new WriterObserved()
  #status: BufferStatus | null = null
  #onSharedAppends: (appends: readonly SharedAppends[]) => void = () => {}
  #isClosed = false

  constructor(spec: SegmentsSpec, { log, onFatal }: SegmentWriterDeps) {
    this.#scrubber = new Scrubber({ spec, log }, openLog(log, 'buffer'))
    this.#thread = new Thread({
      name: 'buffer-writer',
      entry: threadEntry(import.meta.url, './writer-thread'),
      data: { spec, log, observed: this.#observed.memory } satisfies WriterData,
      holdsProcess: true,
      host: this.#handlers(),
    })
    this.appender = appenderOver(this.#thread)
    this.erasure = new SegmentsErasure(spec, this.#thread)
    this.opened = this.#thread.ready.then(() => {
      this.#scrubber.start()
      void this.#thread.ended.then(({ error }) => {
        if (this.#isClosed) return
        // Appends in flight stay unsettled, because it is not known whether they were stored.
        this.appender.setUnavailable('write_failed')
        onFatal(error)
      })
    })
  }

  shareAppender(): AppenderPort {
    const { port1, port2 } = new MessageChannel()
    // See openPortAppender in stores/open-log.ts.
    port1.postMessage({ kind: 'segments' })
    this.#thread.tell('share', [port1], [port1])
    return port2
  }

  onSharedAppends(listener: (appends: readonly SharedAppends[]) => void): void {
    this.#onSharedAppends = listener
  }

  headSeq(): Promise<number> {
    return this.#thread.call('headSeq', [])
  }

  silentMs(): number {
    return this.#thread.silentTicks * beatEveryMs
  }

  async status(): Promise<BufferStatus> {
    return this.#status!
  }

  histograms(): WriterHistograms {
    return this.#observed.histograms()
  }

  appended(): Promise<Map<string, Backlog>> {
    return this.#thread.call('appended', [])
  }

  async close(): Promise<void> {
    await this.#scrubber.close()
    await Promise.race([this.appender.drain(), this.#thread.ended])
    await this.#thread.close()
  }

  #handlers(): Handlers<WriterReports> {
    return {
      settled: (result) => this.appender.settle(result),
      status: (status) => {
        this.#status = status
        this.appender.setUnavailable(status.unavailableReason)
      },
      sharedAppends: (appends) => this.#onSharedAppends(appends),
      closed: () => {
        this.#isClosed = true
      },
    }
  }
}

/** Runs in the thread that received the port of `OpenBuffer.shareAppender`. */
export function openPortAppender(port: AppenderPort): Appender {
  const writer = callsOver<WriterCalls, AppenderCalls>('buffer-writer', port)
  const appender = appenderOver(writer)
  writer.serve({
    settled: (result) => appender.settle(result),
    status: ({ unavailableReason }) => appender.setUnavailable(unavailableReason),
  })
  return appender
}

function appenderOver(writer: Caller<WriterCalls>): FrameAppender {
  return new FrameAppender(
    (frame) => writer.tell('frame', [frame], [frame.buffer]),
    (pipeId, idempotency) => writer.call('findRepeat', [pipeId, idempotency]),
  )
}

/**
 * The appending thread's side: messages gather in a frame (group-commit.ts), the frame goes to the writer, and the
 * writer's results arrive in the order of the frames.
 *
 * A message is acknowledged only after the writer has responded for its frame. Messages that are gathering or queued
 * when the process dies got no 202.
 */
const firstCapacityBytes = 256 * 1024
/** ArrayBuffers kept for reuse: one gathers while two are in flight. */
const sparesKept = 3

export type FindRepeat = (pipeId: string, idempotency: Idempotency) => Promise<Appended | 'reused' | null>

export class FrameAppender {
  readonly findRepeat: FindRepeat
  readonly #send: (frame: Frame) => void
  readonly #groups = new GroupCommit({
    put: (message, waiter) => {
      appendToFrame(this.#frame, message)
      this.#waiters.push(waiter)
    },
    send: (group) => this.#sendFrame(group),
  })
  readonly #spares: ArrayBuffer[] = []
  #frame = openFrame(firstCapacityBytes)
  #waiters: Waiter[] = []
  /** Oldest first: the writer responds in this order. */
  readonly #inFlight: { group: Group; waiters: Waiter[] }[] = []
  #unavailableReason: UnavailableReason | null = null

  /** `send` transfers a frame to the writer; its buffer cannot be used afterwards. */
  constructor(send: (frame: Frame) => void, findRepeat: FindRepeat) {
    this.#send = send
    this.findRepeat = findRepeat
  }

  append(message: NewMessage): Promise<Appended> {
    if (this.#unavailableReason !== null) return Promise.reject(unavailable(this.#unavailableReason))
    return this.#groups.append(message)
  }

  drain(): Promise<void> {
    this.#unavailableReason = 'closing'
    return this.#groups.idle()
  }

  /** Rejects appends with this reason; null accepts them again. `closing` is final. */
  setUnavailable(reason: UnavailableReason | null): void {
    if (this.#unavailableReason !== 'closing') this.#unavailableReason = reason
  }

  /** Handles the writer's result for the oldest frame in flight. */
  settle(result: FrameResult): void {
    const settled = this.#inFlight.shift()
    assert(settled !== undefined, 'the writer has a result for each frame once')
    const { group, waiters } = settled
    const { buffer } = result
    if (buffer.byteLength <= resourceLimits.frameBytes && this.#spares.length < sparesKept)
      this.#spares.push(buffer)
    this.#groups.release(group)
    // The next frame is sent first, so that the writer works while this thread responds to clients.
    this.#groups.sendDue()
    if (result.kind === 'committed') settleAll(waiters, result.firstSeq, result.skipped)
    else for (const { reject } of waiters) reject(unavailable(result.reason))
  }

  #sendFrame(group: Group): void {
    const { buffer, length, count } = this.#frame
    this.#inFlight.push({ group, waiters: this.#waiters })
    this.#send({ buffer: wholeArrayBuffer(buffer), length, count })
    this.#frame = openFrame(firstCapacityBytes, this.#spares.pop())
    this.#waiters = []
  }
}

function settleAll(waiters: Waiter[], firstSeq: number, skipped: readonly SkippedResult[]): void {
  const byIndex = new Map(skipped.map((append) => [append.index, append]))
  let seq = firstSeq
  for (const [index, { msgId, recordCount, resolve, reject }] of waiters.entries()) {
    const result = byIndex.size === 0 ? undefined : byIndex.get(index)
    switch (result?.kind) {
      case undefined:
        resolve({ seq, msgId, recordCount, repeated: false })
        seq += 1
        break
      case 'repeated':
        resolve({ seq: result.seq, msgId: result.msgId, recordCount: result.recordCount, repeated: true })
        break
      case 'reused':
        reject(new IdempotencyKeyReusedError())
        break
      case 'pipe_share':
      case 'idempotency_full':
        reject(unavailable(result.kind))
        break
    }
  }
}

/** A frame's Buffer never shares its ArrayBuffer (see openFrame). */
function wholeArrayBuffer(buffer: Buffer): ArrayBuffer {
  if (!(buffer.buffer instanceof ArrayBuffer)) throw new TypeError('a frame is an ArrayBuffer')
  return buffer.buffer
}
