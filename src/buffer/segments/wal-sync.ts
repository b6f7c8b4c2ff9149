/**
 * Syncs the WAL that a connection commits to: in libuv's pool while that connection commits on, or at once. By descriptors
 * of its own, one for each of the two: Linux reports a failed write-back once to every descriptor that was open by then, so
 * neither takes the other's failure away from it. (SQLite holds no locks on a WAL: closing one of these gives none up.)
 *
 * fdatasync is enough: SQLite has synced the name of the file with its header, and a length that grew is synced with the data.
 *
 * After a failed sync the kernel may count pages as written that are not, so no later success says anything: whatever the
 * reason, it ends the process, as a failed fsync inside COMMIT would. That goes for a full disk too: the commit is there
 * and cannot be taken back.
 */
import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs'
import { StorageError } from '../../storage-error.ts'

/**
 * Commits that may wait for a sync: one that is being synced, one behind it. Each of them would be a transaction that a
 * power cut can tear (usable-wal.ts); and with more of them groups are smaller.
 */
export const mostUnsyncedCommits = 2

export class WalSync {
  readonly #file: string
  readonly #fds: readonly [inPool: number, atOnce: number]
  #isUnderWay = false
  #isClosed = false

  constructor(file: string, fds: readonly [inPool: number, atOnce: number]) {
    this.#file = file
    this.#fds = fds
  }

  /** One at a time. When `onSynced` is called, all that was in the WAL before this call is durable; else the thread ends. */
  start(onSynced: () => void): void {
    const [fd] = this.#fds
    this.#isUnderWay = true
    fdatasync(fd, (error) => {
      this.#isUnderWay = false
      if (this.#isClosed) this.#closeFiles()
      if (error !== null) throw syncFailed(this.#file, error)
      onSynced()
    })
  }

  /** All that is in the WAL is durable when this returns. Waits for no sync that is under way. */
  syncNow(): void {
    const [, fd] = this.#fds
    try {
      fdatasyncSync(fd)
    } catch (error) {
      throw syncFailed(this.#file, error)
    }
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    // A descriptor in use must not be given to another file.
    if (!this.#isUnderWay) this.#closeFiles()
  }

  #closeFiles(): void {
    for (const fd of this.#fds) closeSync(fd)
  }
}

/** The WAL must be there. */
export function openWalSync(file: string): WalSync {
  const first = openSync(file, 'r')
  try {
    return new WalSync(file, [first, openSync(file, 'r')])
  } catch (error) {
    closeSync(first)
    throw error
  }
}

/** By SQLite's code for it, which is never one of a full disk. */
function syncFailed(file: string, error: unknown): StorageError {
  const said = error instanceof Error ? error.message : String(error)
  return new StorageError('syncing', file, Object.assign(new Error(said), { code: 'SQLITE_IOERR_FSYNC' }))
}
