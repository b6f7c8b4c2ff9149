/**
 * Detects Node.js versions with known bugs or without security fixes. The start and `pipectl doctor` report them with
 * the remedy.
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

/** The addon's file. Null when it is not where npm installs it: nothing can be checked then. */
function installedAddon(): Buffer | null {
  const { resolve } = createRequire(import.meta.url)
  try {
    return readFileSync(resolve('better-sqlite3/build/Release/better_sqlite3.node'))
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'MODULE_NOT_FOUND') return null
    throw error
  }
}
