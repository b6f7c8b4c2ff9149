/**
 * Threads for the bodies that would hold up the main thread: it hands over the decoded bytes and gets back what is to be
 * stored, or why the body is rejected. Both ways the memory is transferred, not copied.
 *
 *   prepare ──▶ queue (by turns) ──▶ thread ──▶ its result
 *
 * A thread is started when there is work for it, and takes one body at a time. One that dies, of a body that needs more
 * memory than a thread may have, takes that body with it and nothing else: the next body starts another. One that has had
 * nothing to do for a while is ended: the memory of its scanner grows with the largest body and never gets smaller.
 */
import { Worker } from 'node:worker_threads'
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { errorCode } from '../platform/error-code.ts'
import { threadEntry } from '../platform/threads.ts'
import { newMsgId } from './msg-id.ts'
import type { ParseRequest, ParseResult } from './parser-protocol.ts'
import type { Preparation, Prepared } from './prepare.ts'
import { FairQueue } from './turns.ts'

export interface BodyParsers {
  /**
   * `prepare` without a limit of values, elsewhere. `bytes` is transferred: it is empty afterwards. Throws what
   * `prepare` throws, and `buffer_unavailable` when too many bodies of this pipe wait.
   */
  prepare(bytes: Buffer, preparation: Preparation, workspaceId: string, pipeId: string): Promise<Prepared>
  /** Ends the threads; bodies under way are rejected. */
  close(): Promise<void>
}

interface Job {
  bytes: Buffer
  preparation: Preparation
  resolve(prepared: Prepared): void
  reject(error: Error): void
}

/** `heapBytes`: what one thread may have. `idleMs`: how long one is kept without a body. */
export function openBodyParsers(
  heapBytes: number,
  mostThreads: number = resourceLimits.parserThreads,
  idleMs: number = resourceLimits.parserIdleMs,
): BodyParsers {
  const queue = new FairQueue<Job>()
  const threads = new Set<ParserThread>()
  let isClosed = false

  const next = () => {
    if (isClosed) return
    const idle = [...threads].find((thread) => thread.isIdle)
    if (idle === undefined && threads.size >= mostThreads) return
    const job = queue.shift()
    if (job === undefined) return
    const thread = idle ?? new ParserThread({ heapBytes, idleMs }, next, () => threads.delete(thread))
    threads.add(thread)
    thread.take(job)
  }

  return {
    prepare: (bytes, preparation, workspaceId, pipeId) =>
      new Promise((resolve, reject) => {
        if (queue.waiting(workspaceId, pipeId) >= resourceLimits.parserWaitingPerPipe) return reject(busy())
        const limits = { ...preparation.limits, maxValues: Number.POSITIVE_INFINITY }
        queue.push(workspaceId, pipeId, {
          bytes,
          preparation: { ...preparation, limits },
          resolve,
          reject,
        })
        next()
      }),
    close: async () => {
      isClosed = true
      await Promise.all([...threads].map((thread) => thread.end()))
    },
  }
}

class ParserThread {
  readonly #worker: Worker
  #job: Job | null = null
  #idle: NodeJS.Timeout | undefined

  /**
   * `onIdle` after each job, also the one that it died of; `onEnd` before that, once the thread is gone or about to be for
   * want of work: it takes no more jobs then.
   */
  constructor(
    { heapBytes, idleMs }: { heapBytes: number; idleMs: number },
    onIdle: () => void,
    onEnd: () => void,
  ) {
    const maxOldGenerationSizeMb = Math.ceil(heapBytes / (1024 * 1024))
    this.#worker = new Worker(threadEntry(import.meta.url, './parser-thread'), {
      resourceLimits: { maxOldGenerationSizeMb },
    })
    // Only one that has a body keeps the process alive.
    this.#worker.unref()
    this.#worker.on('message', (result: ParseResult) => {
      this.#settle((job) => settleJob(job, result))
      this.#idle = setTimeout(() => {
        onEnd()
        void this.end()
      }, idleMs).unref()
      onIdle()
    })
    let cause: Error = new Error('a parser thread ended')
    this.#worker.once('error', (error: Error) => {
      cause = error
    })
    this.#worker.once('exit', () => {
      onEnd()
      this.#settle((job) => job.reject(fatalError(cause)))
      onIdle()
    })
  }

  get isIdle(): boolean {
    return this.#job === null
  }

  take(job: Job): void {
    clearTimeout(this.#idle)
    this.#job = job
    this.#worker.ref()
    const { bytes, preparation } = job
    const request: ParseRequest = { bytes: ownMemory(bytes), preparation }
    this.#worker.postMessage(request, [request.bytes.buffer as ArrayBuffer])
  }

  async end(): Promise<void> {
    clearTimeout(this.#idle)
    await this.#worker.terminate()
  }

  #settle(how: (job: Job) => void): void {
    const job = this.#job
    this.#job = null
    this.#worker.unref()
    if (job !== null) how(job)
  }
}

function settleJob({ resolve, reject }: Job, result: ParseResult): void {
  if (result.kind === 'prepared') {
    const { recordCount, bodyHash } = result
    const body = Buffer.from(result.body.buffer, result.body.byteOffset, result.body.length)
    resolve({ recordCount, body, isLent: false, bodyHash })
  } else if (result.kind === 'rejected') reject(new ApiError(result.error.code, result.error))
  else reject(new Error(`parsing a body failed: ${result.message}`))
}

/** Small Buffers share their memory with others, which must not be transferred with them. */
function ownMemory(bytes: Buffer): Uint8Array {
  return bytes.length > Buffer.poolSize ? bytes : new Uint8Array(bytes)
}

function fatalError(cause: Error): Error {
  if (errorCode(cause) !== 'ERR_WORKER_OUT_OF_MEMORY') return cause
  return new ApiError('payload_too_large', {
    message: 'Parsed, the body takes more memory than one request may have; send fewer values in a request.',
    details: { limit: 'parser_memory' },
  })
}

function busy(): ApiError {
  return new ApiError('buffer_unavailable', {
    message:
      'Too many large bodies of this pipe wait to be parsed. Nothing was stored; it is safe to send the request again.',
    details: { msg_id: newMsgId(), details: { reason: 'too_many_bytes_in_flight' } },
    headers: { 'Retry-After': '5' },
  })
}
