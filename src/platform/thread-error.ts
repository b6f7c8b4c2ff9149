/**
 * Errors between threads. `postMessage` keeps neither the class nor the fields of an error, but the class decides about the
 * response to the client and about retries. Both sides name the classes that can cross: those below, and more per channel.
 *
 * - An error of a named class, or of a subclass, arrives as the nearest named class with its message and fields.
 * - Any other error arrives as an Error with its message and its `code`, prefixed with the name of the thread.
 * - Causes are not sent: they can hold secrets of a destination.
 */
import {
  DeliveryElsewhereError,
  DeliveryUnavailableError,
  errorCode,
  LaneElsewhereError,
  StorageUnavailableError,
} from './error-code.ts'
import { StorageError } from './storage-error.ts'

/** By the name that is sent; class names are not used because a bundler can rename them. */
export type ErrorClasses = Readonly<Record<string, { readonly prototype: Error }>>

export interface SentError {
  /** Null when the error has none of the named classes. */
  kind: string | null
  message: string
  stack: string | undefined
  fields: Record<string, unknown>
}

const always: ErrorClasses = {
  StorageUnavailableError,
  DeliveryUnavailableError,
  DeliveryElsewhereError,
  LaneElsewhereError,
  StorageError,
}
/** Fields that every error has. */
const common = new Set(['stack', 'message', 'cause'])

export class ErrorCodec {
  readonly #names = new Map<object, string>()
  readonly #prototypes = new Map<string, Error>()
  readonly #thread: string

  /** `thread` is the name of the other thread in the messages of unknown errors. */
  constructor(thread: string, classes: ErrorClasses = {}) {
    this.#thread = thread
    for (const [name, { prototype }] of Object.entries({ ...classes, ...always })) {
      this.#names.set(prototype, name)
      this.#prototypes.set(name, prototype)
    }
  }

  encode(error: unknown): SentError {
    if (!(error instanceof Error)) return { kind: null, message: String(error), stack: undefined, fields: {} }
    const { message, stack } = error
    const kind = this.#kindOf(error)
    const code = errorCode(error)
    if (kind === null) return { kind, message, stack, fields: code === null ? {} : { code } }
    const fields = Object.fromEntries(Object.entries(error).filter(([name]) => !common.has(name)))
    return { kind, message, stack, fields }
  }

  decode({ kind, message, stack, fields }: SentError): Error {
    const prototype = kind === null ? undefined : this.#prototypes.get(kind)
    const error = new Error(prototype === undefined ? `${this.#thread}: ${message}` : message)
    if (prototype !== undefined) Object.setPrototypeOf(error, prototype)
    if (stack !== undefined) error.stack = stack
    return Object.assign(error, fields)
  }

  #kindOf(error: Error): string | null {
    for (let at: object | null = error; at !== null; at = Object.getPrototypeOf(at)) {
      const name = this.#names.get(at)
      if (name !== undefined) return name
    }
    return null
  }
}
