/**
 * Detects Node.js versions with known bugs or without security fixes, and platforms without a native build. The start and
 * `pipectl doctor` report them with the remedy.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { ConfigError } from './config-error.ts'
import { errorCode } from './error-code.ts'

export const otherNode = 'run Node.js 24: docs/tuning.md#supported-nodejs-versions'

/** End of support by major version, from the Node.js release schedule. */
const supportEnds: Record<number, string> = {
  20: '2026-04-30',
  22: '2027-04-30',
  24: '2028-04-30',
  26: '2029-04-30',
}

/**
 * The day since which this version has received no security fixes. Null when it is still supported, or its schedule is
 * not known.
 */
export function endOfSupport(version = process.versions.node, now = Date.now()): string | null {
  const day = supportEnds[Number.parseInt(version, 10)]
  return day !== undefined && now > Date.parse(`${day}T23:59:59Z`) ? day : null
}

/**
 * Throws ConfigError when better-sqlite3 was compiled against headers of Node.js 24.19 or newer: their ObjectWrap removes a
 * clean-up hook when the garbage collector takes an object, and then Node.js aborts the process. Only from those headers does
 * the addon call this function.
 */
export function requireSoundSqliteAddon(
  version = process.versions.node,
  addon: () => Buffer | null = installedAddon,
): void {
  if (Number.parseInt(version, 10) < 24 || !addon()?.includes('RemoveEnvironmentCleanupHook')) return
  throw new ConfigError(
    `Node.js ${version}: better-sqlite3 was compiled against headers with which the process will abort. ` +
      'Compile it against the headers of Node.js 24.18: docs/tuning.md#better-sqlite3.',
  )
}

/**
 * Returns the error to show when `error` says that better-sqlite3 is not there or does not load, otherwise null. The package
 * contains it for some platforms only.
 */
export function missingAddon(error: unknown): ConfigError | null {
  if (!(error instanceof Error)) return null
  // `bindings` lists the paths that it has tried.
  const isAbsent = 'tries' in error && error.message.includes('better_sqlite3.node')
  const isUnloadable = errorCode(error) === 'ERR_DLOPEN_FAILED' && error.message.includes('better_sqlite3')
  if (!isAbsent && !isUnloadable) return null
  const library = glibc() === null && process.platform === 'linux' ? ' without glibc' : ''
  const own = `${process.platform} ${process.arch}${library} with Node.js ${process.versions.node}`
  const reason = isUnloadable ? ` (${error.message.split('\n')[0]})` : ''
  return new ConfigError(
    `pipectl has no native build of SQLite for this platform: ${own}${reason}`,
    error,
    'the npm package is for Linux x64 and arm64 with glibc 2.34 or newer, and Node.js 24 or 20. Elsewhere use the container ' +
      'image, or build pipectl from source: docs/install.md#platforms',
  )
}

function glibc(): string | null {
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } }
  return report.header?.glibcVersionRuntime ?? null
}

/** The addon's file. Null when it is not where npm compiles it. The package has sound builds, in other places. */
function installedAddon(): Buffer | null {
  const { resolve } = createRequire(import.meta.url)
  try {
    return readFileSync(resolve('better-sqlite3/build/Release/better_sqlite3.node'))
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'MODULE_NOT_FOUND') return null
    throw error
  }
}
