/** How `--url` of the command line names a destination of a type; secrets are never part of it. */
import type { Config } from './config-field.ts'

export interface ConnectionUrl {
  /** Without the colon. */
  readonly schemes: readonly string[]
  /** An example for help texts. */
  readonly form: string
  /** The config that a URL with one of the schemes names. `text` is the URL as it was written. Throws ConnectionUrlError. */
  parse(url: URL, text: string): Config
}

/** The URL does not name a destination. The message never repeats a password. */
export class ConnectionUrlError extends Error {
  readonly hint: string

  constructor(message: string, hint: string) {
    super(message)
    this.name = 'ConnectionUrlError'
    this.hint = hint
  }
}

/** Throws ConnectionUrlError. */
export function rejectUnknownParameters(url: URL, known: readonly string[]): void {
  for (const name of url.searchParams.keys()) {
    if (known.includes(name)) continue
    const tls = /^ssl/i.test(name) ? '; TLS is decided by the daemon (DESTINATION_DB_SSL), not by a URL' : ''
    throw new ConnectionUrlError(
      `it has the unknown parameter ${JSON.stringify(name)}${tls}`,
      `known: ${known.join(', ')}`,
    )
  }
}
