/**
 * The start on a full disk. A daemon needs a little space to open: files next to each database, and a commit. If even the
 * ballast does not provide enough, the daemon waits and retries. It does not end, because a service manager gives up after
 * some starts and would not start it when space is available again.
 *
 *   start ──no space──▶ waiting: retry each second ──opened──▶ same as any other start
 *                          └──SIGTERM, SIGINT──▶ null: nothing was opened
 */
import { statfsSync } from 'node:fs'
import { endsWithin } from '../platform/deadline.ts'
import { errorCode, isNoSpace } from '../platform/error-code.ts'
import type { Logger } from '../platform/log.ts'
import type { ServiceManager } from './service-manager.ts'

export interface SpaceWait {
  /** A path on the disk in question. It or its parent must exist. */
  directory: string
  log: Logger
  serviceManager: ServiceManager
  /** Resolves at a stop signal. Called only if the start has to wait; before that, a signal ends the process. */
  stopSignal(): Promise<unknown>
}

const retryMs = 1_000
/** Each notification of the service manager starts a process. */
const notifyEvery = 5
/** The smallest file that SQLite creates is the -shm file of a database. With less space it cannot be created. */
const minBytes = 64 * 1024

/**
 * `start` must leave nothing open when it throws. Returns null if stopped while waiting. Throws errors other than
 * lack of space.
 */
export async function startWhenSpace<T>(start: () => Promise<T>, wait: SpaceWait): Promise<T | null> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await start()
    } catch (error) {
      if (!isForSpace(error, wait.directory)) throw error
      // Listen before the log line, because a process that reads it can send a signal immediately.
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

/** SQLite has its own codes for a file that it could not create or grow. They do not include the reason. */
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
    // The directory does not exist yet, for lack of space.
    return 0
  }
}
