/** Writes orphans into a file of NDJSON, with their records unchanged. The crash table is in `replica-orphans.ts`. */
import { closeSync, fsyncSync, openSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { errorCode } from '../platform/error-code.ts'
import { fsyncDirectory } from '../platform/fsync.ts'
import { DataDirError } from './errors.ts'
import { type Orphans, recordTextsOf } from './replica-orphans.ts'

/** Returns the number of messages. The file is durable before their pipes are settled. */
export function exportOrphans(orphans: Orphans, file: string): number {
  const names = new Map(orphans.report.pipes.map(({ pipe_id, pipe_name }) => [pipe_id, pipe_name]))
  const part = `${file}.part`
  const fd = openPart(part)
  let messages = 0
  try {
    for (const { pipeId, msgId, seq, receivedMs, body } of orphans.messages()) {
      const known = {
        ...{ pipe_id: pipeId, pipe_name: names.get(pipeId) ?? null, msg_id: msgId, stream_seq: seq },
        received_ts: new Date(receivedMs).toISOString(),
      }
      // The texts of records are never parsed and written again: numbers would change.
      const head = JSON.stringify(known).slice(0, -1)
      writeFileSync(fd, `${head},"records":[${recordTextsOf(body).join(',')}]}\n`)
      messages += 1
    }
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(part, file)
  fsyncDirectory(path.dirname(path.resolve(file)))
  orphans.settle(orphans.report.pipes, 'exported')
  return messages
}

function openPart(file: string): number {
  try {
    return openSync(file, 'w', 0o600)
  } catch (error) {
    const why = errorCode(error) ?? 'unknown error'
    throw new DataDirError('conflict', `${file} cannot be written (${why})`, 'choose another file', error)
  }
}
