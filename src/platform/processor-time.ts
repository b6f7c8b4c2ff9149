/** Processor time of one thread of this process, as counted by the kernel. Available only on Linux. */
import { readFileSync, readlinkSync } from 'node:fs'

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
