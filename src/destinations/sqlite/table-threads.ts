/**
 * Writes table files in a separate thread, one batch at a time. SQLite runs in the thread that calls it, so that a commit,
 * which waits for the disk, would hold up every lane of the delivery thread.
 *
 *   delivery thread                                   table thread
 *     its turn ──store(target)─────────────────────────▶ BEGIN IMMEDIATE
 *     what is left of the batch ◀──begin(mark)───────────┤  only with exactly_once, whose mark is in the file
 *     1 MiB of records, copied ◀──next───────────────────┤  one INSERT for each record
 *              └──────────────transferred────────────────▶
 *     parked   ◀──park: up to 1,000 records──────────────┤
 *     not aborted ◀──mayCommit───────────────────────────┤
 *     stored   ◀──the result──────────────────────────────┘  COMMIT, fsync, the name is still that of the open file
 *
 * - Memory: the thread has one portion of records, up to 1,000 rejected ones, and 2 MiB of pages for each of 16 connections.
 *   Changed pages beyond that are written to the WAL.
 * - Turns: workspaces take turns, and within a workspace its lanes do. Lanes read no batch ahead (`readsAhead`).
 * - An aborted attempt never commits later: the thread asks before it commits, and then the outcome of an abort is unknown.
 * - A thread that is silent for 60 s is left behind, because it can be inside SQLite. It ends when its system call returns,
 *   and commits nothing that it has not been allowed to.
 * - The thread starts with the first batch and ends 10 s after the last one, when it closes all files.
 *
 * The state after a crash (kill, power cut) at any point, for a batch whose range is saved in the lane's row:
 *
 *   point                                  | in the file            | the next attempt
 *   ---------------------------------------|------------------------|--------------------------------------------------
 *   before the COMMIT is written           | nothing of the batch   | stores it
 *   COMMIT written, not synced, killed     | all of it, after a     | the opening syncs it first. exactly_once: the mark is at
 *                                          | power cut nothing      | the end of the batch, nothing is sent. Otherwise again
 *   synced, result lost; or received, and  | all of it              | the same
 *   the lane's position not saved          |                        |
 *   rejected records parked, not committed | nothing of the batch   | parks the same positions again (idempotent), stores
 *   creation of the file or table          | an empty file          | the next `infer` creates the table
 *
 * The effects of users and of the disk on a lane:
 *
 *   deleted between batches    | `no_such_table`, a permanent error: nothing is created. After it is restored the lane continues
 *   deleted or replaced during | noticed after the commit and before the result (inode of the file and of its WAL):
 *   a batch                    | `table_file_replaced`, and the batch is repeated in the file that has the name now
 *   replaced between batches   | the new file is opened. exactly_once: a mark before the batch, or none: the whole batch;
 *                              | beyond it: nothing, if this data directory has the same message there, else `lane_row_conflict`
 *   disk full, limit reached   | rolled back, transient: the lane waits
 *   read or write failed       | rolled back, transient; the file is opened again, and its mark is believed only after the
 *                              | whole WAL was written into the file again: a failed sync is reported only once
 *   damaged file               | SQLITE_CORRUPT or SQLITE_NOTADB, permanent
 *   restored data directory    | another timeline, so no mark applies and the kept messages are sent from the restored position:
 *                              | a file newer than the position gets repeats, a file that is older lacks the records between
 */
import { createHash } from 'node:crypto'
import { messageOf } from '../../platform/error-code.ts'
import { Transferred } from '../../platform/thread-calls.ts'
import { Thread, ThreadPool, threadEntry } from '../../platform/threads.ts'
import { BatchPortions, type Portion } from '../batch-portions.ts'
import { type AttemptProgress, type Batch, DeliveryError, type RejectedRecord } from '../driver.ts'
import { untilStopped } from '../guards.ts'
import { parkAll } from '../park.ts'
import { endOf, type MarkPosition, markTableName, startOf, undelivered } from '../sql/exactly-once-mark.ts'
import type { StoreRequest, TableCalls, TableSource, TableTarget } from './table-calls.ts'

const idleMs = 10_000
const maxSilentTicks = 60

class TableThreads {
  readonly #threads = new ThreadPool<TableCalls, TableSource>(() => this.#start(), { idleMs, end: 'close' })
  readonly #batches = new Map<number, OpenBatch>()
  #thread: Thread<TableCalls, TableSource> | null = null
  #lastId = 0

  /** Rejects with a DeliveryError, as soon as the signal is aborted. `turn`: see Semaphore. */
  async store(target: TableTarget, batch: OpenBatch, turn: { group: string; member: string }): Promise<void> {
    const { signal } = batch
    try {
      if (signal.aborted) throw signal.reason
      const storing = this.#threads.run((thread) => this.#store(thread, target, batch), { signal, turn })
      await untilStopped(storing, signal)
    } catch (error) {
      if (signal.aborted) throw aborted(batch.isCommitting)
      throw storeError(error, batch.isCommitting)
    }
  }

  /** Closes the connection of a lane. */
  async release(key: string): Promise<void> {
    const thread = this.#thread
    // A thread that has ended, or ends meanwhile, closes everything.
    if (thread?.isUsable) await thread.call('release', [key]).catch(() => {})
  }

  async #store(
    thread: Thread<TableCalls, TableSource>,
    target: TableTarget,
    batch: OpenBatch,
  ): Promise<void> {
    this.#thread = thread
    this.#lastId += 1
    const id = this.#lastId
    this.#batches.set(id, batch)
    try {
      await thread.call('store', [id, target, batch.request])
    } catch (error) {
      // Throws the original error instead of its copy from the thread.
      throw batch.failure ?? error
    } finally {
      this.#batches.delete(id)
    }
  }

  #start(): Thread<TableCalls, TableSource> {
    return new Thread<TableCalls, TableSource>({
      name: 'tables',
      entry: threadEntry(import.meta.url, './table-thread'),
      host: {
        begin: (id, position) => this.#batch(id).begin(position),
        next: (id) => this.#batch(id).next(),
        park: (id, rejected) => this.#batch(id).park(rejected),
        mayCommit: (id) => this.#batch(id).mayCommit(),
      },
      errors: { DeliveryError },
      maxSilentTicks,
      whenSilent: 'abandon',
      interrupted: (reason, cause) => new Error(cause?.message ?? reason, { cause }),
    })
  }

  /** A thread that was left behind can still send requests. */
  #batch(id: number): OpenBatch {
    const batch = this.#batches.get(id)
    if (batch === undefined) throw new Error('this batch is over')
    return batch
  }
}

/** The table threads that all drivers of this thread share. */
export const tableThreads = new TableThreads()

/** A batch that waits for its turn or is being stored, as the delivery thread sees it. */
export class OpenBatch {
  readonly signal: AbortSignal
  readonly request: StoreRequest
  readonly #batch: Batch
  readonly #progress: AttemptProgress
  #portions: BatchPortions
  /** The thread was allowed to commit: the outcome of an abort is unknown. */
  isCommitting = false
  /** The error with which a request of the thread failed. */
  failure: unknown

  constructor(batch: Batch, progress: AttemptProgress, signal: AbortSignal) {
    this.#batch = batch
    this.#progress = progress
    this.signal = signal
    this.request = { byteCount: batch.byteCount, parks: progress.park !== null }
    this.#portions = new BatchPortions(batch.messages)
  }

  begin(position: MarkPosition | null): Promise<MarkPosition | null> {
    return this.#kept(async () => {
      const at = position ?? startOf(this.#batch.generation)
      const rest = await undelivered(this.#batch, at, markTableName, this.#progress)
      if (rest === null) return null
      this.#portions = new BatchPortions(rest.messages)
      return endOf(rest)
    })
  }

  /** After an abort the thread gets no more records and is free for the next batch. */
  next(): Transferred<Portion | null> {
    this.#requireCurrent()
    const portion = this.#portions.next()
    return new Transferred(portion, portion === null ? [] : [portion.bytes.buffer])
  }

  park(rejected: readonly RejectedRecord[]): Promise<void> {
    return this.#kept(async () => {
      if (this.#progress.park !== null) await parkAll(this.#progress.park, rejected)
    })
  }

  mayCommit(): void {
    this.#requireCurrent()
    this.isCommitting = true
  }

  async #kept<T>(work: () => Promise<T>): Promise<T> {
    try {
      this.#requireCurrent()
      return await untilStopped(work(), this.signal)
    } catch (error) {
      this.failure = error
      throw error
    }
  }

  #requireCurrent(): void {
    if (!this.signal.aborted) return
    this.failure = this.signal.reason
    throw this.failure
  }
}

/** Identifies a connection: a lane whose destination was changed gets another one. */
export function connectionKey(target: Omit<TableTarget, 'key'>, lane: string): string {
  return createHash('sha256')
    .update(JSON.stringify([lane, target]))
    .digest('hex')
}

function aborted(isCommitting: boolean): DeliveryError {
  return new DeliveryError('transient', 'aborted', 'The attempt was cancelled.', {
    timedOut: isCommitting ? 'unknown' : 'rolled_back',
  })
}

function storeError(cause: unknown, isCommitting: boolean): DeliveryError {
  if (cause instanceof DeliveryError) return cause
  const outcome = isCommitting ? 'It is not known whether the batch is stored.' : 'Nothing was stored.'
  const message = `The thread that writes SQLite files failed: ${messageOf(cause)}. ${outcome}`
  return new DeliveryError('transient', 'table_thread_failed', message, {
    timedOut: isCommitting ? 'unknown' : 'rolled_back',
    cause,
  })
}
