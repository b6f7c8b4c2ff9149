/** An error on its way to another thread: classes do not survive `postMessage`, and they decide what the client is told. */
import { StorageUnavailableError } from './error-code.ts'

export interface SentError {
  message: string
  /** `unavailable`: it can be asked again (503 with Retry-After). */
  reason: 'unavailable' | 'internal'
}

/** As it is posted. */
export function sentError(error: unknown): SentError {
  const message = error instanceof Error ? error.message : String(error)
  return { message, reason: error instanceof StorageUnavailableError ? 'unavailable' : 'internal' }
}

/** Creates an error of the class that it had where it was thrown. */
export function receivedError({ message, reason }: SentError): Error {
  return reason === 'unavailable' ? new StorageUnavailableError(message) : new Error(message)
}
