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
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { errorCode } from '../platform/error-code.ts'
import { Thread, ThreadPool, threadEntry } from '../platform/threads.ts'
import { newMsgId } from './msg-id.ts'
import type { ParserCalls } from './parser-thread.ts'
import type { Preparation, Prepared } from './prepare.ts'

export interface BodyParsers {
  /**
   * `prepare` without a limit of values, elsewhere. `bytes` is transferred: it is empty afterwards. Throws what
   * `prepare` throws, and `buffer_unavailable` when too many bodies of this pipe wait.
   */
  prepare(bytes: Buffer, preparation: Preparation, workspaceId: string, pipeId: string): Promise<Prepared>
  /** Ends the threads; bodies under way are rejected. */
  close(): Promise<void>
}

/** `heapBytes`: what one thread may have. `idleMs`: how long one is kept without a body. */
export function openBodyParsers(
  heapBytes: number,
  mostThreads: number = resourceLimits.parserThreads,
  idleMs: number = resourceLimits.parserIdleMs,
): BodyParsers {
  const start = () =>
    new Thread<ParserCalls>({
      name: 'parser',
      entry: threadEntry(import.meta.url, './parser-thread'),
      limits: { maxOldGenerationSizeMb: Math.ceil(heapBytes / (1024 * 1024)) },
      errors: { ApiError },
      interrupted: (reason, cause) => fatalError(cause ?? new Error(reason)),
    })
  const pool = new ThreadPool(start, { most: mostThreads, idleMs })

  return {
    async prepare(bytes, preparation, workspaceId, pipeId) {
      const turn = { group: workspaceId, member: pipeId }
      if (pool.waiting(turn) >= resourceLimits.parserWaitingPerPipe) throw busy()
      const limits = { ...preparation.limits, maxValues: Number.POSITIVE_INFINITY }
      const parse = (thread: Thread<ParserCalls>) => {
        const sent = ownMemory(bytes)
        const transfer = [sent.buffer as ArrayBuffer]
        return thread.call('prepare', [sent, { ...preparation, limits }], { transfer })
      }
      const { recordCount, body: parsed, bodyHash } = await pool.run(parse, { turn })
      const body = Buffer.from(parsed.buffer, parsed.byteOffset, parsed.length)
      return { recordCount, body, isLent: false, bodyHash }
    },
    close: () => pool.close(),
  }
}

/** Small Buffers share their memory with others, which must not be transferred with them. */
function ownMemory(bytes: Buffer): Uint8Array {
  return bytes.length > Buffer.poolSize ? bytes : new Uint8Array(bytes)
}

function fatalError(cause: Error): Error {
  if (errorCode(cause) !== 'ERR_WORKER_OUT_OF_MEMORY') return cause
  return new ApiError('payload_too_large', {
    message: 'The parsed body takes more memory than one request can use: send fewer values in a request.',
    details: { limit: 'parser_memory' },
  })
}

function busy(): ApiError {
  return new ApiError('buffer_unavailable', {
    message:
      'Too many large bodies of this pipe are waiting to be parsed. Nothing was stored; it is safe to send the request again.',
    details: { msg_id: newMsgId(), details: { reason: 'too_many_bytes_in_flight' } },
    headers: { 'Retry-After': '5' },
  })
}
