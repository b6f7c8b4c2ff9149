/** Errors of a write transaction that did not complete: it can be repeated, or its outcome is unknown. */
import { setTimeout as delay } from 'node:timers/promises'
import { StorageUnavailableError } from '../platform/error-code.ts'

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
