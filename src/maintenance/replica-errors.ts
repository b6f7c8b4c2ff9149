/** Errors of reading a replica, in words for the operator. */
import { ConfigError } from '../platform/config-error.ts'
import { BucketError } from '../replica/bucket.ts'
import { SealError } from '../replica/sealing.ts'
import { SlotError } from '../replica/slot.ts'
import { SnapshotError } from '../replica/snapshot.ts'
import { ArchiveError } from './archive.ts'
import { DataDirError } from './errors.ts'

/** `isDamage`: the bucket has answered, and what it holds cannot be restored. */
export interface WordedError {
  error: unknown
  isDamage: boolean
}

/** The next steps of a command. */
export interface ReplicaHints {
  unreachable: string
  anotherKey: string
  damaged: string
}

export function inReplicaWords(error: unknown, url: string, hints: ReplicaHints): WordedError {
  if (error instanceof BucketError) {
    const message = `${url}: ${error.message}`
    return { isDamage: false, error: new DataDirError('damaged', message, hints.unreachable, error) }
  }
  if (isAnotherKey(error)) {
    const message = `secrets.key_file: ${url} was sealed with another key; ${hints.anotherKey}`
    return { isDamage: true, error: new ConfigError(message) }
  }
  const isDamage = [SealError, SlotError, SnapshotError, ArchiveError].some((one) => error instanceof one)
  if (!isDamage) return { isDamage, error }
  const message = `${url} cannot be restored: ${(error as Error).message}`
  return { isDamage, error: new DataDirError('damaged', message, hints.damaged, error) }
}

function isAnotherKey(error: unknown): boolean {
  return (error instanceof SealError || error instanceof SlotError) && error.fault === 'another_key'
}
