/**
 * The file `replica-verified.json` in the data directory: the result of the last `pipectl replica verify`. It is only information for
 * operators: no decision depends on it. So a file that cannot be read counts as none.
 *
 * The file is written under another name and renamed, so a crash leaves the old one or the new one. A command writes it next
 * to the running daemon, which reads it each time that it is asked for.
 */
import { chownSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { isObject } from '../contract/is-object.ts'
import { fsyncDirectory, fsyncFile } from '../platform/fsync.ts'

export interface VerifiedReplica {
  /** Bucket, prefix and endpoint, as `targetName` writes them. */
  target: string
  /** When it ended, ms since the epoch. */
  checkedMs: number
  result: 'ok' | 'failed'
  /** The newest slot that was restored; null: the restore failed. */
  slot: number | null
  /** Everything that was acknowledged before this moment was restored. */
  throughMs: number | null
  messages: number
  problems: number
}

const fileName = 'replica-verified.json'

/** Null: the replica has never been verified from this directory. */
export function readVerified(root: string): VerifiedReplica | null {
  try {
    const value: unknown = JSON.parse(readFileSync(path.join(root, fileName), 'utf8'))
    return isVerified(value) ? value : null
  } catch {
    return null
  }
}

/** Durable when it returns. The owner of the directory can read the file. */
export function writeVerified(root: string, verified: VerifiedReplica): void {
  const file = path.join(root, fileName)
  const temporary = `${file}.tmp`
  writeFileSync(temporary, `${JSON.stringify(verified)}\n`, { mode: 0o600 })
  const { uid, gid } = statSync(root)
  if (process.getuid?.() === 0 && uid !== 0) chownSync(temporary, uid, gid)
  fsyncFile(temporary)
  renameSync(temporary, file)
  fsyncDirectory(root)
}

function isVerified(value: unknown): value is VerifiedReplica {
  if (!isObject(value)) return false
  const { target, checkedMs, result, slot, throughMs, messages, problems } = value
  const isNumberOrNull = (one: unknown) => one === null || Number.isFinite(one)
  return (
    typeof target === 'string' &&
    (result === 'ok' || result === 'failed') &&
    [checkedMs, messages, problems].every(Number.isFinite) &&
    isNumberOrNull(slot) &&
    isNumberOrNull(throughMs)
  )
}
