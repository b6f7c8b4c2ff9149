/** Processor time and priority of one thread of this process. Available only on Linux. */
import { readFileSync, readlinkSync } from 'node:fs'
import { constants, setPriority } from 'node:os'

/** The kernel's id of the calling thread; 0 where it is not available. */
export function kernelThread(): number {
  try {
    return Number(readlinkSync('/proc/thread-self').split('/').at(-1))
  } catch {
    return 0
  }
}

/**
 * Milliseconds of processor time since the thread started. Null when the kernel does not report it, or the thread has
 * ended.
 */
export function processorMs(thread: number): number | null {
  if (thread === 0) return null
  try {
    const [nanoseconds] = readFileSync(`/proc/self/task/${thread}/schedstat`, 'latin1').split(' ')
    // Kernels without scheduler statistics report zero.
    return Number(nanoseconds) / 1e6 || null
  } catch {
    return null
  }
}

/**
 * Gives the calling thread a tenth of the normal weight. With the lowest priority (19), which is a hundredth, lanes with
 * a slow transform made no progress on a busy machine. Priority 0 is the thread on Linux; on other systems it is the
 * whole process, which is left as it is.
 */
export function lowerPriority(): void {
  if (process.platform !== 'linux') return
  try {
    setPriority(0, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // A sandbox can forbid this, as the packaged unit does (`@resources`). Then it only costs other work some processor
    // time.
  }
}
