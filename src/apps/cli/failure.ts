/** How a failed command ends: an error message with the next step, and an exit code for scripts and systemd. */
import { DataDirError, type DataDirProblem } from '../../maintenance/errors.ts'
import { ConfigError } from '../../platform/config-error.ts'
import { missingAddon } from '../../platform/node-bugs.ts'
import { inWords, isCorrupt, isStorageError } from '../../platform/storage-error.ts'
import { sayFailure } from './terminal.ts'

/** Exit codes of the daemon's commands. 75 and 78 are those of sysexits: temporary failure, configuration error. */
export const exitCodes = {
  failed: 1,
  usage: 2,
  notFound: 3,
  conflict: 5,
  /** The service manager restarts the daemon. */
  broken: 70,
  tryAgain: 75,
  configuration: 78,
} as const

const dataDirProblems: Record<DataDirProblem, number> = {
  missing: exitCodes.notFound,
  conflict: exitCodes.conflict,
  damaged: exitCodes.failed,
  unfit: exitCodes.usage,
}

/** By the name of the error, because its class is loaded only with the code that throws it. */
const namedErrors: Record<string, number> = {
  ListenError: exitCodes.configuration,
  AddressInUseError: exitCodes.tryAgain,
  DataDirInUseError: exitCodes.tryAgain,
  ServersUnreachableError: exitCodes.tryAgain,
  StorageUnavailableError: exitCodes.tryAgain,
  StreamUnavailableError: exitCodes.tryAgain,
  AlreadySetUpError: exitCodes.failed,
}

/** Prints the error and returns the exit code. Expected errors are one line. Only bugs show a stack. */
export function reportFailure(error: unknown): number {
  if (error instanceof ConfigError) return say(error.message, exitCodes.configuration, error.hint)
  if (error instanceof DataDirError) return say(error.message, dataDirProblems[error.problem], error.hint)
  if (error instanceof Error && Object.hasOwn(namedErrors, error.name))
    return say(error.message, namedErrors[error.name]!)
  if (error instanceof Error && (error as { code?: unknown }).code === 'UWS_BINDING_UNAVAILABLE')
    return say(error.message, exitCodes.configuration)
  const missing = missingAddon(error)
  if (missing !== null) return say(missing.message, exitCodes.configuration, missing.hint)
  // These commands meet only the API's rules for names.
  if (error instanceof Error && error.name === 'ApiError') return say(describe(error), exitCodes.usage)
  const worded = inWords(error, 'using', 'the data directory')
  if (isStorageError(worded)) {
    // A restart does not repair damage, so the service manager must not try.
    const code = isCorrupt(worded) ? exitCodes.configuration : exitCodes.broken
    return say(worded.message, code, worded.hint)
  }
  return say(worded.stack ?? worded.message, exitCodes.failed)
}

function describe(error: Error): string {
  const details = (error as { details?: { errors?: Record<string, string> } }).details?.errors
  if (details === undefined) return error.message
  return Object.entries(details)
    .map(([field, text]) => `${field}: ${text}`)
    .join('; ')
}

function say(message: string, code: number, hint = ''): number {
  sayFailure(message, hint)
  return code
}
