/**
 * The entry of the process that runs one query: reads a QueryJob from stdin, and writes `R` when the file is open, then `+` and
 * the JSON text of the result, or `-` and the fault.
 */
import { readFileSync, writeSync } from 'node:fs'
import { setPriority } from 'node:os'
import { messageOf } from '../../platform/error-code.ts'
import { openTableFileReadOnly } from './files.ts'
import { QueryFaultError, restrict, runQuery } from './query.ts'
import type { QueryJob } from './query-processes.ts'

/** Lower than the daemon's, so that queries do not delay ingest. */
const niceness = 10

function main(): void {
  const job: QueryJob = JSON.parse(readFileSync(0, 'utf8'))
  try {
    // The sandbox of the service can forbid it.
    setPriority(niceness)
  } catch {}
  write(answerTo(job))
}

function answerTo(job: QueryJob): string {
  try {
    requireMemoryLimit(job.maxMemoryBytes)
    const database = openTableFileReadOnly(job.path)
    restrict(database)
    write('R')
    return `+${runQuery(database, job)}`
  } catch (error) {
    const reason = error instanceof QueryFaultError ? error.reason : 'unreadable'
    return `-${JSON.stringify({ reason, message: messageOf(error) })}`
  }
}

/**
 * SQLite allocates outside of the heap of V8, and this build has no limit of its own (SQLITE_DEFAULT_MEMSTATUS=0). Linux counts
 * such memory as data. On other systems only the time is limited.
 */
function requireMemoryLimit(maxBytes: number): void {
  if (process.platform !== 'linux') return
  const limit = /^Max data size\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
  if (limit === undefined || Number(limit) > maxBytes)
    throw new QueryFaultError('unreadable', 'the memory of the query could not be limited')
}

function write(text: string): void {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at)
}

main()
