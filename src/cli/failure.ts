/** How a failed command ends: one line on stderr and an exit code that scripts and systemd can tell apart. */
import { ConfigError } from '../config.ts'

/** Exit codes of the daemon's commands (sysexits): 75 try again later, 78 the configuration is wrong. */
export const exitCodes = { failed: 1, usage: 2, tryAgain: 75, configuration: 78 } as const

const tryAgainErrors = new Set(['DataDirInUseError', 'AddressInUseError'])

/** Prints the error and answers the exit code. Expected errors are one line; only our own bugs show a stack. */
export function reportFailure(error: unknown): number {
  if (error instanceof ConfigError || (error instanceof Error && error.name === 'ListenError')) {
    return say(error.message, exitCodes.configuration)
  }
  if (error instanceof Error && tryAgainErrors.has(error.name)) return say(error.message, exitCodes.tryAgain)
  if (error instanceof Error && (error as { code?: unknown }).code === 'UWS_BINDING_UNAVAILABLE') {
    return say(error.message, exitCodes.configuration)
  }
  if (error instanceof Error && (error.name === 'AlreadySetUpError' || error.name === 'ApiError')) {
    return say(describe(error), exitCodes.failed)
  }
  return say(error instanceof Error ? (error.stack ?? error.message) : String(error), exitCodes.failed)
}

function describe(error: Error): string {
  const details = (error as { details?: { errors?: Record<string, string> } }).details?.errors
  if (details === undefined) return error.message
  return Object.entries(details)
    .map(([field, text]) => `${field}: ${text}`)
    .join('; ')
}

function say(message: string, code: number): number {
  process.stderr.write(`pipectl: ${message}\n`)
  return code
}
