/**
 * Restores a data directory from a replica in a bucket. It is built in a directory next to the target, `….restoring-replica`,
 * which stays after a failure: the next try continues with it. The end is that of any restore: a new epoch, then the name.
 *
 * The restored directory is the next writer of the replica: its first start with the same `replica.url` creates the slot after
 * the last one that was restored. If the lost machine still writes, that slot exists, and the start fails.
 */
import { randomUUID } from 'node:crypto'
import { copyFileSync, chmodSync, existsSync } from 'node:fs'
import path from 'node:path'
import { loadSealingKey } from '../metadata/sealing-key.ts'
import { ConfigError } from '../platform/config-error.ts'
import { fsyncFile } from '../platform/fsync.ts'
import { BucketError, openBucket } from '../replica/bucket.ts'
import { targetName, targetOf } from '../replica/replica-settings.ts'
import { type Rebuilt, rebuild } from '../replica/restore.ts'
import { replicaKey, SealError } from '../replica/sealing.ts'
import { SlotError } from '../replica/slot.ts'
import { SnapshotError } from '../replica/snapshot.ts'
import { writeWriterFile } from '../replica/writer-file.ts'
import type { Settings } from '../settings/settings.ts'
import { ArchiveError } from './archive.ts'
import { makeDirectory } from './data-dir.ts'
import { DataDirError } from './errors.ts'
import { emptyTarget, nameRestored } from './restore.ts'

export interface RestoreFromReplica {
  /** `s3://bucket/prefix`. The other settings of the store are those of `replica` in the settings. */
  url: string
  dataDir: string
  /** The sealing key of the lost directory. */
  keyFile: string | null
  /** The state of this moment, ms since the epoch; null: the newest. */
  atMs: number | null
  paused: boolean
  onProgress(doneBytes: number, totalBytes: number): void
}

export interface RestoredReplica extends Rebuilt {
  /** The key was copied into the directory. */
  includesKey: boolean
}

/** Throws DataDirError: `conflict` if the directory is not empty, `damaged` if the replica cannot be used; ConfigError for the key. */
export async function restoreReplica(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  options: RestoreFromReplica,
): Promise<RestoredReplica> {
  const { url, dataDir, keyFile, atMs, paused, onProgress } = options
  const target = targetOf(settings, url)
  const dir = emptyTarget(dataDir)
  const beside = `${path.resolve(dir)}.restoring-replica`
  const key = await keyOf(settings, env, keyFile)
  makeDirectory(beside)
  const bucket = openBucket(target)
  try {
    const segmentMaxBytes = settings['buffer.segment_max_bytes']
    const built = await rebuild({ bucket, key: replicaKey(key), into: beside, segmentMaxBytes, atMs, onProgress, follow: null })
    // A state of the past cannot continue the log in the bucket, which has what came after it.
    if (atMs === null)
      writeWriterFile(beside, {
        target: targetName(target),
        writerId: randomUUID(),
        generation: built.generation + 1,
        after: { slot: built.slot, checksum: built.checksum },
      })
    const includesKey = keyFile !== null && settings['secrets.key_file'] === null
    if (includesKey) copyKey(keyFile, path.join(beside, 'sealing.key'))
    await nameRestored({ beside, target: dir, dataDirId: built.dataDirId, paused })
    return { ...built, includesKey }
  } catch (error) {
    throw inWords(error, url)
  } finally {
    bucket.close()
  }
}

/** `file` or, without it, what the daemon would use, which cannot be in the directory that is lost. */
async function keyOf(settings: Settings, env: NodeJS.ProcessEnv, file: string | null): Promise<Buffer> {
  const whenMissing = 'give the sealing key of the lost directory with --key-file'
  const chosen = file ?? settings['secrets.key_file']
  return await loadSealingKey({ file: chosen, dataDir: settings.data_dir, env, create: false, whenMissing })
}

function copyKey(from: string, to: string): void {
  if (existsSync(to)) chmodSync(to, 0o600)
  copyFileSync(from, to)
  chmodSync(to, 0o600)
  fsyncFile(to)
}

function inWords(error: unknown, url: string): unknown {
  if (error instanceof BucketError)
    return new DataDirError('damaged', `${url}: ${error.message}`, 'run the same command again: it continues', error)
  if (error instanceof SealError)
    return new ConfigError(`secrets.key_file: ${url} was sealed with another key; give the key of the lost directory with --key-file`)
  const isDamage = error instanceof SlotError || error instanceof SnapshotError || error instanceof ArchiveError
  if (!isDamage) return error
  return new DataDirError(
    'damaged',
    `${url} cannot be restored: ${error.message}`,
    'choose an earlier moment with --at, or restore a backup',
    error,
  )
}
