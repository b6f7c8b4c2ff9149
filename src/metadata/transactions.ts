/** Connections to the database of the metadata, and transactions on them. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Kysely, Transaction } from 'kysely'
import { backoffMs } from '../platform/backoff.ts'
import type { Tables } from './tables.ts'
import { WriteConflictError } from './write-errors.ts'
import { WriteQueue } from './write-queue.ts'

/** A connection, inside a transaction or not. */
export type Connection = Kysely<Tables>

/** The database as the folder of its dialect opens it. */
export interface OpenedDatabase {
  db: Connection
  /** Names the database in messages. */
  label: string
  /** Implements `Metadata.version`. */
  version(): Promise<string>
  /** Throws if a commit would not be durable. Called after the first write. */
  assertDurable(): void
  /** Runs migrations, on a connection that waits for other processes that migrate and has no statement timeout. */
  prepare<T>(work: (db: Connection) => Promise<T>): Promise<T>
  /**
   * Keeps a copy of the tables before they are migrated, and returns its path. Null: they are up to date, or this
   * database is backed up by other means. Throws StorageUnavailableError if there is no room.
   */
  keepCopy(newestFormat: number, now: number): string | null
  /**
   * For the leases of a cluster. If the database has several connections, these are a few separate ones with a short
   * statement timeout, so that a heartbeat does not wait for other statements.
   */
  readonly leases: Connection
  /**
   * Calls back when any process notifies that channel; null: this database has no notifications. Uses a connection of
   * its own, which is reopened when it is lost.
   */
  readonly listen: ((channel: string, onNotified: () => void) => () => Promise<void>) | null
  /** Returns the error that opening failed with: a ConfigError if the operator has to fix something. */
  openingError(error: unknown): unknown
}

const maxAttempts = 30
/**
 * After this many attempts a transaction runs exclusively on its handle. Among many concurrent transactions, another
 * one could always commit first.
 */
const attemptsBeforeExclusive = 3

/**
 * Runs `work` in one serialisable transaction. The result is as if write transactions ran one after the other, so reads
 * inside can decide what is written. Every change uses it, even one of a single statement. Durable when it resolves.
 * Nothing is stored when it rejects, except possibly with UnknownOutcomeError.
 *
 * `work` can run several times (WriteConflictError), so it must change nothing but the database. Inside, use only
 * `trx`: the connection itself waits for the transaction to end.
 */
export async function inWriteTransaction<T>(
  db: Connection,
  work: (trx: Transaction<Tables>) => Promise<T>,
): Promise<T> {
  const queue = queueOf(db)
  return await untilNoConflict(queue, (attempt) =>
    queue.run(attempt > attemptsBeforeExclusive, () =>
      db.transaction().setIsolationLevel('serializable').execute(work),
    ),
  )
}

/**
 * As `inWriteTransaction`, for work in which every statement depends only on the current rows that it changes, and not
 * on earlier reads: increments, conditional UPDATEs. Such transactions wait for each other's rows and do not conflict.
 * Rows that other transactions change too must be changed in the order of their keys, to avoid deadlocks.
 */
export async function inRowTransaction<T>(
  db: Connection,
  work: (trx: Transaction<Tables>) => Promise<T>,
): Promise<T> {
  return await untilNoConflict(queueOf(db), () =>
    db.transaction().setIsolationLevel('read committed').execute(work),
  )
}

/**
 * Resolves when no write transaction is in progress. With `silentMs`, also when none has made progress for that long.
 */
export async function writesEnded(db: Connection, silentMs = Number.POSITIVE_INFINITY): Promise<void> {
  const queue = queueOf(db)
  await (silentMs === Number.POSITIVE_INFINITY ? queue.ended() : queue.endedOrSilent(silentMs))
}

function untilNoConflict<T>(queue: WriteQueue, run: (attempt: number) => Promise<T>): Promise<T> {
  return queue.count(async () => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await run(attempt)
      } catch (error) {
        if (!(error instanceof WriteConflictError) || attempt === maxAttempts) throw error
        // The pause is random so that two conflicting transactions do not conflict again.
        await delay(Math.random() * backoffMs(attempt, 2, 100))
      }
    }
  })
}

const queues = new WeakMap<Connection, WriteQueue>()

function queueOf(db: Connection): WriteQueue {
  const queue = queues.get(db) ?? new WriteQueue()
  queues.set(db, queue)
  return queue
}

/** Runs several reads on one snapshot of the database, without waiting for writers. */
export function inSnapshot<T>(db: Connection, work: (trx: Transaction<Tables>) => Promise<T>): Promise<T> {
  return db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only').execute(work)
}

/**
 * A change, or a function that computes it from the stored state without any other change in between. The function can
 * be called several times. If it throws, nothing is changed.
 */
export type Decided<Stored, Change> = Change | ((current: Stored) => Change)

/** Returns the change, computing it from the stored state if it is a function. */
export function decided<Stored, Change extends object>(
  change: Decided<Stored, Change>,
  stored: Stored,
): Change {
  return typeof change === 'function' ? change(stored) : change
}
