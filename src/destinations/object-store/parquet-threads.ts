/**
 * Encodes Parquet objects in a separate thread, one at a time, so that encoding delays only lanes that wait for it.
 *
 *   delivery thread                                 parquet thread
 *     its turn ──encode(columns, compression)──────▶ reads records into a row group
 *     1 MiB of records, copied ◀──next──────────────┤   no room for the next row: the group is encoded and compressed
 *              └──────────────transferred───────────▶   before that row is added
 *     parked   ◀──park: up to 1,000 records────────┤
 *     kept     ◀──rowGroup: its bytes, transferred──┤
 *     object   ◀──the number of its rows────────────┘
 *
 * - Data between the threads: bytes of records and of row groups, which are transferred, and column mappings. Parsed
 *   records and secrets are never sent: the thread does not know where the object is stored.
 * - Memory: the thread has one portion of records and one row group (8 MiB of values, a million cells, or one
 *   record), never a batch or an object. It counts a row before it adds it (`RowGroup.hasRoom`). Texts of a row group
 *   are outside of the heap (`parquet-cells.ts`). The batch still counts in the lane's memory budget, and the object
 *   grows in the delivery thread. These counts are the only limit. The heap has none, because Node.js (20.20) aborts
 *   the process, not the thread, when a native call exceeds a heap limit.
 * - Lanes with Parquet read no batch ahead (`readsAhead` of the descriptor): while a batch waits for its turn, another
 *   one after it would only take memory.
 * - Failure of the thread: a thread that dies, or is silent for 30 s, fails only the file that it encodes. Nothing of
 *   that file is stored; the lane repeats the batch, in smaller parts if it has several messages. The next file
 *   starts another thread.
 * - Turns: workspaces take turns, and within a workspace its lanes do. A file that waits for its records to be parked
 *   keeps its turn until its attempt ends.
 * - A record that does not fit is detected in the thread. It becomes the same DeliveryError, or the same parked
 *   record, as without the thread.
 * - The thread starts with the first object and ends 10 s after the last one: without Parquet destinations it takes
 *   no memory.
 */
import { resourceLimits } from '../../contract/resource-limits.ts'
import { messageOf } from '../../platform/error-code.ts'
import { Transferred } from '../../platform/thread-calls.ts'
import { Thread, ThreadPool, threadEntry } from '../../platform/threads.ts'
import { BatchPortions, type Portion } from '../batch-portions.ts'
import { type Batch, DeliveryError, type ObjectStoreSpec, type RejectedRecord } from '../driver.ts'
import { untilStopped } from '../guards.ts'
import type { ParquetSchema } from './parquet.ts'

export interface ParquetFile {
  rowCount: number
  bytes: Buffer
}

interface ParquetOptions {
  /**
   * Receives the records that do not fit, in several calls. If it rejects, the file fails with that error. Null: the
   * first such record fails the file.
   */
  park: Park | null
  signal?: AbortSignal
}

type Park = (rejected: readonly RejectedRecord[]) => Promise<void>

export interface ParquetCalls {
  /** Returns the number of rows. */
  encode(id: number, schema: ParquetSchema, parks: boolean): number
}

/** Requests of the thread to the delivery thread, by the id of the file. */
export interface ParquetSource {
  next(id: number): Portion | null
  park(id: number, rejected: readonly RejectedRecord[]): void
  rowGroup(id: number, bytes: Uint8Array<ArrayBuffer>): void
}

const idleMs = 10_000
/** A row group takes a second or two, and up to ten times as long on a busy machine. */
const maxSilentTicks = 30

export class ParquetThreads {
  readonly #threads = new ThreadPool<ParquetCalls, ParquetSource>(() => this.#start(), { idleMs })
  readonly #files = new Map<number, OpenFile>()
  #lastId = 0

  /**
   * Rejects with a DeliveryError: a permanent one for a record that does not fit. Errors of the thread and of the
   * writer are transient, because fewer messages may succeed. Rejects as soon as the signal is aborted.
   */
  async encode(batch: Batch, spec: ObjectStoreSpec, { park, signal }: ParquetOptions): Promise<ParquetFile> {
    const { columns, timestampField, config, destinationId, pipeId, workspaceId = pipeId } = spec
    const schema = { columns, timestampField, compression: config.compression }
    const turn = { group: workspaceId, member: destinationId }
    const file = new OpenFile(batch, park, signal)
    try {
      const encoding = this.#threads.run((thread) => this.#encode(thread, file, schema), {
        ...(signal && { signal }),
        turn,
      })
      const rowCount = await file.orAborted(encoding)
      return { rowCount, bytes: file.bytes() }
    } catch (error) {
      throw encodingError(error, batch)
    }
  }

  async #encode(
    thread: Thread<ParquetCalls, ParquetSource>,
    file: OpenFile,
    schema: ParquetSchema,
  ): Promise<number> {
    this.#lastId += 1
    const id = this.#lastId
    this.#files.set(id, file)
    try {
      return await thread.call('encode', [id, schema, file.parks])
    } catch (error) {
      // Throws the original error instead of its copy from the thread.
      throw file.failure ?? error
    } finally {
      this.#files.delete(id)
    }
  }

  #start(): Thread<ParquetCalls, ParquetSource> {
    return new Thread<ParquetCalls, ParquetSource>({
      name: 'parquet',
      entry: threadEntry(import.meta.url, './parquet-thread'),
      limits: { maxYoungGenerationSizeMb: resourceLimits.parquetYoungHeapMiB },
      host: {
        next: (id) => this.#file(id).next(),
        park: (id, rejected) => this.#file(id).park(rejected),
        rowGroup: (id, bytes) => this.#files.get(id)?.add(bytes),
      },
      errors: { DeliveryError },
      maxSilentTicks,
      interrupted: (reason, cause) => new Error(cause?.message ?? reason, { cause }),
    })
  }

  /** A thread that is being terminated can still send requests. */
  #file(id: number): OpenFile {
    const file = this.#files.get(id)
    if (file === undefined) throw new Error('this file is over')
    return file
  }
}

/** The Parquet threads that all drivers of this thread share. */
export const parquetThreads = new ParquetThreads()

/** A file that waits for its turn or is being encoded, as the delivery thread sees it. */
class OpenFile {
  readonly #portions: BatchPortions
  readonly #park: Park | null
  readonly #signal: AbortSignal | undefined
  readonly #groups: Uint8Array<ArrayBuffer>[] = []
  /** The error with which parking its records failed, or the reason of the signal. */
  failure: unknown

  constructor({ messages }: Batch, park: Park | null, signal: AbortSignal | undefined) {
    this.#portions = new BatchPortions(messages)
    this.#park = park
    this.#signal = signal
  }

  get parks(): boolean {
    return this.#park !== null
  }

  /** After an abort the thread gets no more records and is free for the next file. */
  next(): Transferred<Portion | null> {
    this.#requireCurrent()
    const portion = this.#portions.next()
    return new Transferred(portion, portion === null ? [] : [portion.bytes.buffer])
  }

  async park(rejected: readonly RejectedRecord[]): Promise<void> {
    try {
      await this.orAborted(this.#park?.(rejected) ?? Promise.resolve())
    } catch (error) {
      this.failure = error
      throw error
    }
  }

  add(group: Uint8Array<ArrayBuffer>): void {
    this.#groups.push(group)
  }

  bytes(): Buffer {
    return Buffer.concat(this.#groups)
  }

  /** Stops waiting when the signal is aborted. The work itself continues. */
  orAborted<T>(work: Promise<T>): Promise<T> {
    return this.#signal === undefined ? work : untilStopped(work, this.#signal)
  }

  #requireCurrent(): void {
    if (!this.#signal?.aborted) return
    this.failure = this.#signal.reason
    throw this.failure
  }
}

/** Nothing is stored, and fewer messages may succeed. */
function encodingError(cause: unknown, { messages }: Batch): DeliveryError {
  if (cause instanceof DeliveryError) return cause
  const message = `The Parquet object could not be created: ${messageOf(cause)}.`
  const isDivisible = messages.length > 1
  return new DeliveryError('transient', 'parquet_failed', message, {
    ...(isDivisible ? { timedOut: 'rolled_back' } : {}),
    cause,
  })
}
