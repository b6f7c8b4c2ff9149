/**
 * The start on a full disk. What a daemon opens needs a little space: files beside each database, a commit. Where even
 * the ballast is not enough it waits and tries again, and does not end: a service manager gives up after some starts,
 * and then nobody is there when the space comes back.
 *
 *   start ──no space──▶ waiting: each second again ──opened──▶ as any other start
 *                          └──SIGTERM, SIGINT──▶ null: nothing was opened
 */
import { statfsSync } from 'node:fs'
import { endsWithin } from '../platform/deadline.ts'
import { errorCode, isNoSpace } from '../platform/error-code.ts'
import type { Logger } from '../platform/log.ts'
import type { ServiceManager } from './service-manager.ts'

export interface SpaceWait {
  /** On the disk in question; it or its parent must exist. */
  directory: string
  log: Logger
  serviceManager: ServiceManager
  /** Resolves at a signal to stop. Called only when there is something to wait for: until then a signal ends the process. */
  stopSignal(): Promise<unknown>
}

const retryMs = 1_000
/** Telling the service manager is a process each time. */
const notifyEvery = 5
/** Less is no room for the smallest thing that SQLite makes: the -shm file of one database. */
const minBytes = 64 * 1024

/** `start` leaves nothing open when it throws. Null: stopped while waiting. Throws what is not for lack of space. */
export async function startWhenSpace<T>(start: () => Promise<T>, wait: SpaceWait): Promise<T | null> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await start()
    } catch (error) {
      if (!isForSpace(error, wait.directory)) throw error
      // Before it is said: whoever reads the line may send a signal at once.
      const stopped = wait.stopSignal()
      if (tries === 1) {
        const fields = { directory: wait.directory, free_bytes: freeBytes(wait.directory), err: error }
        wait.log.warn(fields, 'daemon.waiting_for_space')
      }
      if (tries % notifyEvery === 1) {
        wait.serviceManager.starting('waiting for disk space', 4 * notifyEvery * retryMs)
      }
      if (await endsWithin(retryMs, stopped)) return null
    }
  }
}

/** SQLite has codes of its own for a file that it could not make or grow, which do not say why. */
function isForSpace(error: unknown, directory: string): boolean {
  const isFull = freeBytes(directory) < minBytes
  for (let cause = error; typeof cause === 'object' && cause !== null; ) {
    if (isNoSpace(cause)) return true
    if (isFull && /^SQLITE_(CANTOPEN|IOERR)/.test(errorCode(cause) ?? '')) return true
    cause = 'cause' in cause ? cause.cause : null
  }
  return false
}

function freeBytes(directory: string): number {
  try {
    const { bavail, bsize } = statfsSync(directory)
    return bavail * bsize
  } catch {
    // Not made yet, for lack of space.
    return 0
  }
}
