/** Connections to the database of the metadata, transactions on them, and the errors of a write. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Kysely, Transaction } from 'kysely'
import { backoffMs } from '../platform/backoff.ts'
import { endsWithin } from '../platform/deadline.ts'
import { StorageUnavailableError } from '../platform/error-code.ts'
import type { Tables } from './tables.ts'

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
  /** Removes old content of a file database. Null: this database is not a file of this machine. */
  readonly file: DatabaseFile | null
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

/** The file of a database, for a deletion of personal data. */
export interface DatabaseFile {
  /** Removes the content of deleted rows. Returns why some can be left; null: none is. Never rejects. */
  rewrite(): Promise<string | null>
  /** Removes the copies that upgrades have kept. Returns their number. */
  removeCopies(): number
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

/** Fewer than the handle has connections: reads find one. */
const maxConcurrent = 3

interface Waiting {
  isExclusive: boolean
  start(): void
}

/**
 * Schedules the write transactions of one handle: several run concurrently, and one that has conflicted too often runs
 * exclusively. The order is first come, first served: a transaction that waits to run exclusively blocks those behind it.
 */
class WriteQueue {
  readonly #waiting: Waiting[] = []
  readonly #idle: (() => void)[] = []
  #running = 0
  #isExclusive = false
  #begun = 0
  /** Attempts and whole transactions that have ended. */
  #steps = 0

  /** Counts the work that `ended` waits for: a transaction with all its attempts and the pauses between them. */
  async count<T>(whole: () => Promise<T>): Promise<T> {
    this.#begun += 1
    try {
      return await whole()
    } finally {
      this.#begun -= 1
      this.#steps += 1
      if (this.#begun === 0) for (const resolve of this.#idle.splice(0)) resolve()
    }
  }

  /** Resolves when no transaction is in progress. */
  async ended(): Promise<void> {
    if (this.#begun > 0) await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  /** The same, or when no attempt has ended for `silentMs`: the database does not respond. */
  async endedOrSilent(silentMs: number): Promise<void> {
    for (let before = -1; this.#begun > 0 && before !== this.#steps; ) {
      before = this.#steps
      await endsWithin(silentMs, this.ended())
    }
  }

  /** If no transaction waits, `work` begins at once. */
  async run<T>(isExclusive: boolean, work: () => Promise<T>): Promise<T> {
    let hasBegun = false
    const turn = new Promise<void>((resolve) => {
      const start = () => {
        hasBegun = true
        resolve()
      }
      this.#waiting.push({ isExclusive, start })
      this.#startNext()
    })
    if (!hasBegun) await turn
    try {
      return await work()
    } finally {
      this.#running -= 1
      this.#steps += 1
      if (isExclusive) this.#isExclusive = false
      this.#startNext()
    }
  }

  #startNext(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#isExclusive || this.#running >= (next.isExclusive ? 1 : maxConcurrent)) return
      this.#waiting.shift()
      this.#isExclusive = next.isExclusive
      this.#running += 1
      next.start()
    }
  }
}

/**
 * Another transaction changed the data that this one had read. Nothing was stored, and the transaction can run again.
 * Thrown by the dialect of a database that runs write transactions concurrently.
 */
export class WriteConflictError extends StorageUnavailableError {
  constructor(cause: unknown) {
    super('metadata: another transaction changed the same rows', cause)
    this.name = 'WriteConflictError'
  }
}

/**
 * The connection was lost during a commit, and it is not known yet if the transaction was committed. Thrown by the
 * dialect of a database that is reached over a network.
 */
export class UnknownOutcomeError extends StorageUnavailableError {
  /**
   * Resolves when the outcome is known: true: committed, false: not committed. Null: the database was closed before.
   */
  readonly outcome: Promise<boolean | null>

  constructor(message: string, outcome: Promise<boolean | null>, cause: unknown) {
    super(message, cause)
    this.name = 'UnknownOutcomeError'
    this.outcome = outcome
  }

  /**
   * For callers that would repeat the work. Waits for a moment, and throws this error if the outcome is still unknown.
   */
  async wasCommitted(): Promise<boolean> {
    const outcome = await Promise.race([this.outcome, delay(askAgainMs, null, { ref: false })])
    if (outcome === null) throw this
    return outcome
  }
}

const askAgainMs = 1_000

/**
 * Remembers a write whose outcome is unknown. The caller repeats it with newer content, and leaves out what turns out to
 * be stored, because counts would be added twice.
 */
export class UnknownWrite<Content> {
  #unknown: { error: UnknownOutcomeError; content: Content } | null = null

  /** Throws the error of the write. */
  note(error: unknown, content: Content): never {
    if (error instanceof UnknownOutcomeError) this.#unknown = { error, content }
    throw error
  }

  /** The content of the noted write if it is stored. Rejects with StorageUnavailableError while that is unknown. */
  async stored(): Promise<Content | null> {
    if (this.#unknown === null) return null
    const { error, content } = this.#unknown
    const wasCommitted = await error.wasCommitted()
    this.#unknown = null
    return wasCommitted ? content : null
  }
}
