/** Connections to the database of the metadata, and transactions on them. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Kysely, Transaction } from 'kysely'
import { backoffMs } from '../platform/backoff.ts'
import type { Tables } from './tables.ts'
import { WriteConflictError } from './write-errors.ts'
import { WriteQueue } from './write-queue.ts'

/** A connection, inside a transaction or not. */
export type Connection = Kysely<Tables>

/** The database that a dialect's folder opens. */
export interface OpenedDatabase {
  db: Connection
  /** For messages: which database it is. */
  label: string
  /** `Metadata.version`. */
  version(): Promise<string>
  /** Throws when a commit would not be durable. Called after the first write. */
  assertDurable(): void
  /**
   * Runs what brings the tables up to date, on a connection that waits for other processes which do so and has no limit of
   * time for a statement.
   */
  prepare<T>(work: (db: Connection) => Promise<T>): Promise<T>
  /**
   * Before tables of an earlier format are brought up to date: keeps a copy of them. Returns where; null: they are up to date, or
   * this database is backed up by other means. Throws StorageUnavailableError where there is no room.
   */
  keepCopy(newestFormat: number, now: number): string | null
  /**
   * For the leases of a cluster: where the database has several connections, few of their own, whose statements end soon. What
   * waits for the others does not hold up a heartbeat.
   */
  readonly leases: Connection
  /**
   * Calls back when any process has notified that channel; null: this database cannot. From a connection of its own, which is
   * made again when it is lost.
   */
  readonly listen: ((channel: string, onNotified: () => void) => () => Promise<void>) | null
  /** The error that ended the opening; a ConfigError if the operator has to fix something. */
  openingError(error: unknown): unknown
}

const maxAttempts = 30
/** After so many attempts a transaction runs exclusively on its handle: among many concurrent ones, another could always commit first. */
const attemptsBeforeExclusive = 3

/**
 * Runs `work` in one serialisable transaction: the result is as if write transactions ran one after the other, so what
 * is read inside may decide what is written. Every change goes this way, also one of a single statement. Durable when
 * it resolves; nothing of it stays when it rejects, unless with UnknownOutcomeError.
 *
 * `work` may run several times (WriteConflictError), so it changes nothing but the database. Inside, use `trx` alone:
 * the connection itself waits for the transaction to end.
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
 * The same for work in which every statement decides by the rows that it changes, as they are at that moment, and by nothing
 * that was read before: sums that grow, an UPDATE with its condition. Such transactions wait for each other's rows and do not
 * conflict. Several rows that others change too must be changed in the order of their keys, or two wait for each other.
 */
export async function inRowTransaction<T>(
  db: Connection,
  work: (trx: Transaction<Tables>) => Promise<T>,
): Promise<T> {
  return await untilNoConflict(queueOf(db), () =>
    db.transaction().setIsolationLevel('read committed').execute(work),
  )
}

/** Resolves when no write transaction is under way. */
export async function writesEnded(db: Connection): Promise<void> {
  await queueOf(db).ended()
}

function untilNoConflict<T>(queue: WriteQueue, run: (attempt: number) => Promise<T>): Promise<T> {
  return queue.count(async () => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await run(attempt)
      } catch (error) {
        if (!(error instanceof WriteConflictError) || attempt === maxAttempts) throw error
        // A random pause: two that conflicted must not meet again at once.
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
 * A change, or what decides it from what is stored: no other change comes between. The function may be called several
 * times, and what it throws leaves everything as it was.
 */
export type Decided<Stored, Change> = Change | ((current: Stored) => Change)

/** The change itself, also when it is decided from what is stored. */
export function decided<Stored, Change extends object>(
  change: Decided<Stored, Change>,
  stored: Stored,
): Change {
  return typeof change === 'function' ? change(stored) : change
}
