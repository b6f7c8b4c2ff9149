/** A setting, or what it leads to, cannot be used: one line naming it and what is allowed. The daemon exits 78. */
export class ConfigError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'ConfigError'
  }
}
