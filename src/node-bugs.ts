/**
 * Bugs of some versions of Node.js that can be seen without harm: the start and `pipectl doctor` name them, with what to do.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { ConfigError } from './config.ts'
import { errorCode } from './error-code.ts'

export const confusedKeysInWords =
  'JSON.parse of this Node.js takes some keys that are written with escapes for a key that begins with a backslash: columns of ' +
  'databases with such names may get nothing'
export const otherNode = 'run Node.js 20 or 22'

/**
 * JSON.parse of V8 13.6 (Node.js 24) compares a key as it is written, escapes and all, with the one that followed the same
 * keys in an earlier object: after a key `\`, one of a single character that is written as an escape is taken for it.
 */
export function confusesEscapedKeys(): boolean {
  // No object of a client begins with this key, so that V8 learns nothing about those.
  const written = (key: string) => `{"pipectl tries JSON.parse":0,"${key}":0}`
  JSON.parse(written('\\\\'))
  return !Object.hasOwn(JSON.parse(written('\\u005d')), ']')
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
    `Node.js ${version}: better-sqlite3 was compiled against headers with which the process aborts sooner or later. ` +
      'Run Node.js 22, or compile it against the headers of 24.18: README.md, "Node.js versions".',
  )
}

/** Null: it is elsewhere, and nothing can be said of it. */
function installedAddon(): Buffer | null {
  const { resolve } = createRequire(import.meta.url)
  try {
    return readFileSync(resolve('better-sqlite3/build/Release/better_sqlite3.node'))
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'MODULE_NOT_FOUND') return null
    throw error
  }
}
