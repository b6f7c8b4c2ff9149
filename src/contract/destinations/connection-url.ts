/** How `--url` on the command line describes a destination of a type. The URL never contains secrets. */
import type { Config } from './config-field.ts'

export interface ConnectionUrl {
  /** Without the colon. */
  readonly schemes: readonly string[]
  /** An example for help texts. */
  readonly form: string
  /**
   * Returns the config for a URL with one of the schemes. `text` is the URL as the user wrote it. Throws
   * ConnectionUrlError.
   */
  parse(url: URL, text: string): Config
}

/** Thrown for a URL that does not describe a destination. The message never contains a password. */
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
