/** Processes that a test stops for a while. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'

/**
 * SIGSTOP. On Linux it returns once no thread of the process runs any more: `kill` alone returns before, and the process can
 * answer one more request. Throws ESRCH if there is no such process, or if it does not stand still within 5 s.
 */
export function standStill(pid: number): void {
  process.kill(pid, 'SIGSTOP')
  if (process.platform !== 'linux') return
  for (const end = Date.now() + 5_000; !isStill(pid); ) {
    if (Date.now() > end) throw new Error(`process ${pid} did not stop`)
  }
}

/** Each thread is stopped (T) or gone (Z, X). */
function isStill(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).every((thread) => {
      const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1')
      return 'TtZX'.includes(stat.slice(stat.lastIndexOf(')') + 2).charAt(0))
    })
  } catch (error) {
    // A thread ended between two reads: the next look counts the others.
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ESRCH') return !existsSync(`/proc/${pid}`)
    throw error
  }
}
