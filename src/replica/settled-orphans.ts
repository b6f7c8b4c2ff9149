/**
 * The file `replica-orphans.json` in a directory that was replaced: for which pipes the messages that were never replicated were
 * exported or sent. `pipectl replica rejoin` asks it.
 *
 * It is written after the messages are safe elsewhere, so a crash before it only means that they are exported or sent again.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { isObject } from '../contract/is-object.ts'
import { fsyncDirectory, fsyncFile } from '../platform/fsync.ts'

export interface Settlement {
  how: 'exported' | 'sent'
  /** The newest message that was. A daemon that was started once more can have accepted others since. */
  throughSeq: number
}

const fileName = 'replica-orphans.json'

/** By pipe id. Empty if there is no file of this writer. */
export function readSettled(root: string, writerId: string): Map<string, Settlement> {
  try {
    const value: unknown = JSON.parse(readFileSync(path.join(root, fileName), 'utf8'))
    if (!isObject(value) || value.writerId !== writerId || !isObject(value.pipes)) return new Map()
    return new Map(Object.entries(value.pipes).filter(isKnown))
  } catch {
    return new Map()
  }
}

function isKnown(entry: [string, unknown]): entry is [string, Settlement] {
  const [, value] = entry
  if (!isObject(value)) return false
  return (value.how === 'exported' || value.how === 'sent') && Number.isSafeInteger(value.throughSeq)
}

/** Durable when it returns. */
export function writeSettled(root: string, writerId: string, pipes: ReadonlyMap<string, Settlement>): void {
  const file = path.join(root, fileName)
  const temporary = `${file}.tmp`
  writeFileSync(temporary, `${JSON.stringify({ writerId, pipes: Object.fromEntries(pipes) })}\n`, {
    mode: 0o600,
  })
  fsyncFile(temporary)
  renameSync(temporary, file)
  fsyncDirectory(root)
}
