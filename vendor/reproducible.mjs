/**
 * What makes two packages of one commit the same file, byte for byte: every time is SOURCE_DATE_EPOCH (default: the time of the
 * commit), and modes do not depend on the umask.
 */
import { execFileSync } from 'node:child_process'
import { chmodSync, lutimesSync, readdirSync, statSync } from 'node:fs'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')

/** In seconds. */
export const sourceDate = Number(process.env.SOURCE_DATE_EPOCH ?? commitTime())

function commitTime() {
  try {
    const stdio = ['ignore', 'pipe', 'ignore']
    return execFileSync('git', ['log', '-1', '--format=%ct'], { cwd: root, encoding: 'utf8', stdio }).trim()
  } catch {
    return Math.floor(statSync(path.join(root, 'package.json')).mtimeMs / 1000)
  }
}

/** Sets modes and times of a folder and of what is in it. `isProgram` gets the path of a file. */
export function normalise(folder, isProgram) {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name)
    if (entry.isDirectory()) chmodSync(file, 0o755)
    else if (!entry.isSymbolicLink()) chmodSync(file, isProgram(file) ? 0o755 : 0o644)
  }
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
    lutimesSync(path.join(folder, file), sourceDate, sourceDate)
  chmodSync(folder, 0o755)
  lutimesSync(folder, sourceDate, sourceDate)
}
