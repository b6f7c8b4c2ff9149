/**
 * `npm ci` runs this after better-sqlite3 is installed. Its SQLite calls fsync, which also writes the file's inode: a commit is
 * then two flushes of the disk, not one. With fdatasync, which on Linux flushes all that reading the data needs, it is one. No
 * setting of npm can hand a flag to a compiler, and a binary that was downloaded has none: so it is compiled again, in a copy.
 * Where that fails, the one that is there stays: its commits are as durable, and slower.
 *
 *   node vendor/compile-sqlite.mjs [FOLDER]     another better-sqlite3 than that of node_modules
 *
 * `CFLAGS=-DHAVE_FDATASYNC npm ci` compiles it once.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'

/** fdatasync of macOS is not to be trusted; SQLite uses F_FULLFSYNC there. */
export const sqliteFlags = process.platform === 'linux' ? '-DHAVE_FDATASYNC' : ''
export const sqliteSources = ['src', 'deps', 'binding.gyp', 'package.json']

/** `file`: the native part of better-sqlite3, or the archive of its SQLite. An older one has no such name in it. */
export function usesFdatasync(file) {
  return readFileSync(file).includes('fdatasync')
}

/** The files are replaced, not written: another checkout can have links to them. */
function compile(folder) {
  // Next to it, so that a rename is one step.
  const copy = mkdtempSync(path.join(folder, 'compiling-'))
  try {
    for (const name of sqliteSources)
      cpSync(path.join(folder, name), path.join(copy, name), { recursive: true })
    const env = { JOBS: 'max', ...process.env, CFLAGS: `${process.env.CFLAGS ?? ''} ${sqliteFlags}` }
    execFileSync('npm', ['run', 'build-release'], { cwd: copy, env, stdio: 'pipe', encoding: 'utf8' })
    const release = path.join(folder, 'build/Release')
    mkdirSync(release, { recursive: true })
    for (const name of ['sqlite3.a', 'better_sqlite3.node'])
      renameSync(path.join(copy, 'build/Release', name), path.join(release, name))
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

const isMain = process.argv[1] !== undefined && realpathSync(process.argv[1]) === import.meta.filename
if (isMain && process.platform === 'linux') {
  const folder = path.resolve(
    process.argv[2] ?? path.join(import.meta.dirname, '../node_modules/better-sqlite3'),
  )
  try {
    if (!usesFdatasync(path.join(folder, 'build/Release/better_sqlite3.node'))) compile(folder)
  } catch (error) {
    const reason = String(error.stderr || error.message).slice(-2000)
    process.stderr.write(`better-sqlite3 is not compiled with fdatasync; commits take longer: ${reason}\n`)
  }
}
