/**
 * Parses large bodies in threads, so that they do not block the main thread. A thread gets the decoded bytes and
 * returns the body to store, or the error. Memory is transferred in both directions, not copied.
 *
 *   prepare ──▶ queue (in turns by pipe) ──▶ thread ──▶ result
 *
 * A thread is started on demand and handles one body at a time. A thread that dies because a body needs too much memory
 * fails only that body; the next body starts another thread. An idle thread is ended, because the memory of its scanner
 * grows with the largest body and never shrinks.
 */
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { errorCode } from '../platform/error-code.ts'
import { Thread, ThreadPool, threadEntry } from '../platform/threads.ts'
import { newMsgId } from './msg-ids.ts'
import type { ParserCalls } from './parser-thread.ts'
import type { Preparation, Prepared } from './prepare.ts'
import { stepsInThread } from './schema/record-check.ts'

export interface BodyParsers {
  /**
   * `prepare` without the limit of values, in a thread. `bytes` is transferred and empty afterwards. Throws the errors
   * of `prepare`, and `buffer_unavailable` when too many bodies of this pipe wait.
   */
  prepare(
    bytes: Buffer,
    preparation: Preparation,
    pipe: { workspaceId: string; pipeId: string },
  ): Promise<Prepared>
  /** Ends the threads; bodies under way are rejected. */
  close(): Promise<void>
}

/** `heapBytes` is the heap limit of one thread; `idleMs` is how long an idle thread is kept. */
export function openBodyParsers(
  heapBytes: number,
  maxThreads: number = resourceLimits.parserThreads,
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
  const pool = new ThreadPool(start, { most: maxThreads, idleMs })

  return {
    async prepare(bytes, preparation, { workspaceId, pipeId }) {
      const turn = { group: workspaceId, member: pipeId }
      if (pool.waiting(turn) >= resourceLimits.parserWaitingPerPipe) throw busy()
      const limits = { ...preparation.limits, maxValues: Number.POSITIVE_INFINITY }
      const schema = preparation.schema && {
        ...preparation.schema,
        steps: stepsInThread(bytes.length),
        isInTurn: false,
      }
      const parse = (thread: Thread<ParserCalls>) => {
        const sent = ownMemory(bytes)
        const transfer = [sent.buffer as ArrayBuffer]
        return thread.call('prepare', [sent, { ...preparation, limits, schema }], { transfer })
      }
      const { recordCount, body: parsed, bodyHash, mismatched, parked } = await pool.run(parse, { turn })
      const body = Buffer.from(parsed.buffer, parsed.byteOffset, parsed.length)
      return { recordCount, body, isBorrowed: false, bodyHash, mismatched, parked }
    },
    close: () => pool.close(),
  }
}

/** Small Buffers share their memory, which must not be transferred. */
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
