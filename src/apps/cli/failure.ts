/** How a failed command ends: an error with what to do next, and an exit code that scripts and systemd distinguish. */
import { DataDirError, type DataDirProblem } from '../../maintenance/errors.ts'
import { ConfigError } from '../../platform/config-error.ts'
import { inWords, isCorrupt, isStorageError } from '../../platform/storage-error.ts'
import { sayFailure } from './terminal.ts'

/** Exit codes of the daemon's commands; 75 and 78 are sysexits: try again later, the configuration is wrong. */
export const exitCodes = {
  failed: 1,
  usage: 2,
  notFound: 3,
  conflict: 5,
  /** The service manager starts the daemon again. */
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

/** By the name of the error: its class is loaded with what throws it. */
const namedErrors: Record<string, number> = {
  ListenError: exitCodes.configuration,
  AddressInUseError: exitCodes.tryAgain,
  DataDirInUseError: exitCodes.tryAgain,
  ServersUnreachableError: exitCodes.tryAgain,
  StorageUnavailableError: exitCodes.tryAgain,
  StreamUnavailableError: exitCodes.tryAgain,
  AlreadySetUpError: exitCodes.failed,
}

/** Prints the error and returns the exit code. Expected errors are one line; only our own bugs show a stack. */
export function reportFailure(error: unknown): number {
  if (error instanceof ConfigError) return say(error.message, exitCodes.configuration, error.hint)
  if (error instanceof DataDirError) return say(error.message, dataDirProblems[error.problem], error.hint)
  if (error instanceof Error && Object.hasOwn(namedErrors, error.name))
    return say(error.message, namedErrors[error.name]!)
  if (error instanceof Error && (error as { code?: unknown }).code === 'UWS_BINDING_UNAVAILABLE')
    return say(error.message, exitCodes.configuration)
  // The only rules of the API that these commands meet are those for names.
  if (error instanceof Error && error.name === 'ApiError') return say(describe(error), exitCodes.usage)
  const worded = inWords(error, 'using', 'the data directory')
  if (isStorageError(worded)) {
    // Starting again repairs no damage: a service manager must not try.
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
