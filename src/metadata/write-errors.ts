/** Errors of a write transaction that did not complete: it can run again, or its outcome is unknown. */
import { setTimeout as delay } from 'node:timers/promises'
import { StorageUnavailableError } from '../platform/error-code.ts'

/**
 * Another transaction changed what this one had read: nothing of it was stored, and it may run again. Thrown by a
 * dialect of a database that lets write transactions run side by side.
 */
export class WriteConflictError extends StorageUnavailableError {
  constructor(cause: unknown) {
    super('metadata: another transaction changed the same rows', cause)
    this.name = 'WriteConflictError'
  }
}

/**
 * The connection was lost while a transaction was being committed, and whether it was is not known yet. Thrown by a dialect of
 * a database that is reached over a network.
 */
export class UnknownOutcomeError extends StorageUnavailableError {
  /** Resolves when it can be said: true: it is stored, false: it is not. Null: the database was closed before. */
  readonly outcome: Promise<boolean | null>

  constructor(message: string, outcome: Promise<boolean | null>, cause: unknown) {
    super(message, cause)
    this.name = 'UnknownOutcomeError'
    this.outcome = outcome
  }

  /** For callers that would repeat the work. Waits for a moment; throws this error while the outcome is unknown. */
  async wasCommitted(): Promise<boolean> {
    const said = await Promise.race([this.outcome, delay(askAgainMs, null, { ref: false })])
    if (said === null) throw this
    return said
  }
}

const askAgainMs = 1_000
