/**
 * `npm run compile:sqlite`: compiles better-sqlite3 so that SQLite calls fdatasync. Packages contain this build. Does nothing
 * when it is there already, or on other systems than Linux.
 *
 * The build that `npm ci` fetches or compiles calls fsync. That writes the times of the file too, which on a journaling
 * file system is a second flush of the disk for each commit. No acknowledged record depends on which of the two it is:
 * openForWriting (src/log/segments/segment-file.ts) makes the names durable.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const sqliteFlags = '-DHAVE_FDATASYNC=1'
const folder = path.resolve(import.meta.dirname, '../node_modules/better-sqlite3')
const addon = path.join(folder, 'build/Release/better_sqlite3.node')

/** `file` is an addon, or an archive of object files. */
export function callsFdatasync(file) {
  return existsSync(file) && readFileSync(file).includes('fdatasync')
}

/** Throws when there is no compiler. */
export function compileSqlite() {
  if (process.platform !== 'linux' || callsFdatasync(addon)) return
  process.stderr.write('compiling better-sqlite3 with fdatasync (about a minute) …\n')
  const env = { ...process.env, CFLAGS: `${process.env.CFLAGS ?? ''} ${sqliteFlags}` }
  execFileSync('npm', ['run', '--silent', 'build-release'], { cwd: folder, env, stdio: 'pipe' })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) compileSqlite()
