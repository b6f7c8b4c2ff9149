/** The processor time of one thread of this process, as the kernel counts it. Only Linux does. */
import { readFileSync, readlinkSync } from 'node:fs'

/** The kernel's number of the thread that calls this; 0: there is none. */
export function kernelThread(): number {
  try {
    return Number(readlinkSync('/proc/thread-self').split('/').at(-1))
  } catch {
    return 0
  }
}

/** In ms since the thread began; null: the kernel does not tell, or the thread has ended. */
export function processorMs(thread: number): number | null {
  if (thread === 0) return null
  try {
    const [nanoseconds] = readFileSync(`/proc/self/task/${thread}/schedstat`, 'latin1').split(' ')
    // Zero where the kernel keeps no such statistics.
    return Number(nanoseconds) / 1e6 || null
  } catch {
    return null
  }
}
