/** Checks whether a daemon runs on a data directory. */
import { existsSync } from 'node:fs'
import { dataDirAt } from './data-dir.ts'
import { DataDirInUseError, lockDataDir } from './lock.ts'

export function isDaemonRunning(root: string): boolean {
  const dir = dataDirAt(root)
  if (!existsSync(dir.lockFile)) return false
  try {
    lockDataDir(dir)()
    return false
  } catch (error) {
    // Other commands report a lock file that cannot be opened.
    return error instanceof DataDirInUseError
  }
}
