/** Processes that a test stops for a while. */
import { readdirSync, readFileSync } from 'node:fs'

/**
 * SIGSTOP, and back once no thread of the process runs any more: `kill` alone returns before, and the process can answer one
 * more request. Throws if it does not stand still within 5 s.
 */
export function standStill(pid: number): void {
  process.kill(pid, 'SIGSTOP')
  for (const end = Date.now() + 5_000; !isStill(pid); ) {
    if (Date.now() > end) throw new Error(`process ${pid} did not stop`)
  }
}

/** Each thread is stopped (T) or gone (Z, X). */
function isStill(pid: number): boolean {
  return readdirSync(`/proc/${pid}/task`).every((thread) => {
    try {
      const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1')
      return 'TtZX'.includes(stat.slice(stat.lastIndexOf(')') + 2).charAt(0))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      return true
    }
  })
}
