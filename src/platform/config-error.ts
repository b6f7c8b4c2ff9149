/** A setting, or what it leads to, cannot be used: one line naming it and what is allowed. The daemon exits 78. */
export class ConfigError extends Error {
  /** The next step; empty: the message says it. */
  readonly hint: string

  constructor(message: string, cause?: unknown, hint = '') {
    super(message, { cause })
    this.name = 'ConfigError'
    this.hint = hint
  }
}
