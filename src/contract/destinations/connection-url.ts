/**
 * How a URL describes a destination of a type: `--url` on the command line, and connection strings that users paste into a
 * form. `parse` reads everything but secrets. The command line rejects URLs with secrets; a form splits them off first.
 */
import type { Config } from './config-field.ts'

export interface ConnectionUrl {
  /** Without the colon. */
  readonly schemes: readonly string[]
  /** An example for help texts. */
  readonly form: string
  /**
   * A form has a field of its own for the URL, and folds the fields of these keys, which the URL determines. Without this,
   * a form reads URLs that are pasted into a field of the config.
   */
  readonly field?: { readonly example: string; readonly keys: readonly string[] }
  /** Keys that a complete URL names. A form lets the user fill them in. */
  readonly needs: readonly string[]
  /** True if `parse` uses this query parameter. It rejects all others. */
  uses(name: string, value: string): boolean
  /** The key of the config for a password in the URL. */
  readonly passwordKey?: string
  /** The key of the config for the Authorization header with user and password of the URL. */
  readonly basicKey?: string
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
export function rejectUnknownParameters(
  url: URL,
  { uses }: Pick<ConnectionUrl, 'uses'>,
  known: readonly string[],
): void {
  for (const [name, value] of url.searchParams) {
    if (uses(name, value)) continue
    const tls = /^ssl/i.test(name) ? '; TLS is decided by the daemon (DESTINATION_DB_SSL), not by a URL' : ''
    throw new ConnectionUrlError(
      `it has the unknown parameter ${JSON.stringify(name)}${tls}`,
      `known: ${known.join(', ')}`,
    )
  }
}

/** A part of a URL without its percent-encoding. Throws ConnectionUrlError. */
export function decodedPart(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new ConnectionUrlError('it has a % that does not begin an escape', 'write a % as %25')
  }
}
