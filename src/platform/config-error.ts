/**
 * A setting, or a file it names, cannot be used. The message is one line with the setting and its allowed values. The
 * daemon exits with code 78.
 */
export class ConfigError extends Error {
  /** The next step for the operator. Empty when the message already says it. */
  readonly hint: string

  constructor(message: string, cause?: unknown, hint = '') {
    super(message, { cause })
    this.name = 'ConfigError'
    this.hint = hint
  }
}
