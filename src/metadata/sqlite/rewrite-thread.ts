/**
 * The thread that rewrites the metadata file. `rewrite.ts` starts it. VACUUM copies the content into a temporary file,
 * which has no name, and back through the WAL in one transaction:
 *
 *   | the process ends …       | on the disk                    | the next start                            |
 *   |--------------------------|--------------------------------|-------------------------------------------|
 *   | before its commit        | the old file                   | SQLite ignores the part in the WAL        |
 *   | before the checkpoint    | the old file, the new one in   | SQLite reads the new one. The job, which  |
 *   |                          | the WAL                        | is not done, rewrites the file again      |
 *   | during the checkpoint    | the same                       | the same                                  |
 */
import { setTimeout as delay } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { lowerPriority } from '../../platform/processor-time.ts'
import { onFile } from '../../platform/storage-error.ts'
import { ThreadHost } from '../../platform/thread-calls.ts'
import { busyTimeoutMs } from './file.ts'

export interface RewriteCalls {
  /** False: a reader has kept an old state of the file for too long, and the WAL still has old content. */
  rewrite(): Promise<boolean>
}

const host = new ThreadHost<string, RewriteCalls>()
lowerPriority()

host.serve({ rewrite: () => rewrite(host.data) })

const truncateWithinMs = 60_000
const truncateEveryMs = 100

async function rewrite(file: string): Promise<boolean> {
  const database = new Database(file, { timeout: busyTimeoutMs, fileMustExist: true })
  try {
    database.pragma('synchronous = FULL')
    onFile('writing', file, () => database.exec('VACUUM'))
    const deadline = performance.now() + truncateWithinMs
    while (!isTruncated(database)) {
      if (performance.now() > deadline) return false
      await delay(truncateEveryMs)
    }
    return true
  } finally {
    database.close()
  }
}

/** Copies the WAL into the file and empties it, unless a reader or a writer is at work. */
function isTruncated(database: Database.Database): boolean {
  const [result] = onFile(
    'writing',
    database.name,
    () => database.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[],
  )
  return result?.busy === 0
}
