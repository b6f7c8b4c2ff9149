/**
 * Restores a data directory from a replica in a bucket. It is built in a directory next to the target, `….restoring-replica`,
 * which stays after a failure: the next try continues with it. The end is that of any restore: a new epoch, then the name.
 *
 * The restored directory is the next writer of the replica: its first start with the same `replica.url` creates the slot after
 * the last one that was restored. If the lost machine still writes, that slot exists, and the start fails.
 */
import { randomUUID } from 'node:crypto'
import { chmodSync, copyFileSync, existsSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { loadSealingKey } from '../metadata/sealing-key.ts'
import { fsyncFile } from '../platform/fsync.ts'
import { version } from '../platform/version.ts'
import { openBucket } from '../replica/bucket.ts'
import type { FoundSlot } from '../replica/chain.ts'
import { targetName } from '../replica/replica-options.ts'
import { type Rebuilt, rebuild, restoreAttempts } from '../replica/restore.ts'
import { replicaKey } from '../replica/sealing.ts'
import type { SlotHeader } from '../replica/slot.ts'
import { replicaTarget } from '../replica/target.ts'
import { ReplacedError, SlotWriter } from '../replica/writer.ts'
import { writeWriterFile } from '../replica/writer-file.ts'
import type { Settings } from '../settings/settings.ts'
import { dataDirAt, makeDirectory } from './data-dir.ts'
import { DataDirError } from './errors.ts'
import { DataDirInUseError, lockDataDir } from './lock.ts'
import { inReplicaWords } from './replica-errors.ts'
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
  /** Null: the restore ends at the newest slot, and the restored directory takes the replica over when it is started. */
  standby: Standby | null
}

/** A standby follows the replica until it is promoted. */
export interface Standby {
  /** Called at the end of the chain. Resolves after a moment: true when it is to take over. */
  isPromoted(last: SlotHeader): Promise<boolean>
}

export interface RestoredReplica extends Rebuilt {
  /** The key was copied into the directory. */
  includesKey: boolean
}

const hints = {
  unreachable: 'run the same command again: it continues',
  anotherKey: 'give the key of the lost directory with --key-file',
  damaged: 'choose an earlier moment with --at, or restore a backup',
}

/** Throws DataDirError: `conflict` if the directory is not empty, `damaged` if the replica cannot be used; ConfigError for the key. */
export async function restoreReplica(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  options: RestoreFromReplica,
): Promise<RestoredReplica> {
  const { url, dataDir, keyFile, atMs, paused, onProgress, standby } = options
  const target = replicaTarget(settings, { url, label: '--from' })
  const dir = emptyTarget(dataDir)
  const beside = besideOf(dir)
  const sealingKey = await keyOf(settings, env, keyFile)
  makeDirectory(beside)
  const unlock = lockDataDir(dataDirAt(beside))
  const bucket = openBucket(target)
  const key = replicaKey(sealingKey)
  const writer = { root: beside, target: targetName(target), version: version() }
  /** Takes over where the chain ends; if it has gone on meanwhile, that is read first. */
  const follow = async ({ isPromoted }: Standby, last: FoundSlot): Promise<boolean> => {
    const { dataDirId, epoch, recordingId } = last.slot.header
    if (!(await isPromoted(last.slot.header))) return true
    try {
      await SlotWriter.takeOver(
        { bucket, key },
        { ...writer, identity: { dataDirId, epoch }, recordingId },
        last,
      )
      return false
    } catch (error) {
      if (!(error instanceof ReplacedError)) throw error
      return true
    }
  }
  try {
    const built = await rebuild({
      bucket,
      key,
      into: beside,
      segmentMaxBytes: settings['buffer.segment_max_bytes'],
      atMs,
      attempts: standby === null ? restoreAttempts : Number.POSITIVE_INFINITY,
      onProgress,
      follow: standby && ((last) => follow(standby, last)),
    })
    // A state of the past cannot continue the log in the bucket, which has what came after it.
    if (standby === null && atMs === null) prepareWriter(beside, writer.target, built)
    const includesKey = keyFile !== null && settings['secrets.key_file'] === null
    if (includesKey) copyKey(keyFile, path.join(beside, 'sealing.key'))
    rmSync(path.join(beside, promoteName), { force: true })
    unlock()
    // A state of the past is another log: what was delivered since then is delivered again.
    const continues = atMs === null ? writer.target : undefined
    await nameRestored({ ...built, beside, target: dir, paused, continues })
    return { ...built, includesKey }
  } catch (error) {
    throw inReplicaWords(error, url, hints).error
  } finally {
    unlock()
    bucket.close()
  }
}

/** The directory in which a restore or a standby builds this one. */
function besideOf(dataDir: string): string {
  return `${path.resolve(existsSync(dataDir) ? realpathSync(dataDir) : dataDir)}.restoring-replica`
}

const promoteName = 'promote'

/** A standby of this data directory takes over when this file exists. */
export function promoteFileOf(dataDir: string): string {
  return path.join(besideOf(dataDir), promoteName)
}

/**
 * Asks the standby of this host to take over, and waits for that. Throws DataDirError if there is none, or if it takes longer
 * than `withinMs`.
 */
export async function promote(dataDir: string, withinMs: number): Promise<void> {
  const { metadataFile } = dataDirAt(dataDir)
  const beside = besideOf(dataDir)
  if (existsSync(metadataFile))
    throw new DataDirError(
      'conflict',
      `${dataDir} is complete: there is no standby`,
      'start its daemon: pipectl serve',
    )
  if (!existsSync(beside) || !isLocked(beside))
    throw new DataDirError(
      'missing',
      `no standby runs for ${dataDir}`,
      'start one: pipectl serve --standby s3://bucket/prefix',
    )
  const file = path.join(beside, promoteName)
  writeFileSync(file, '', { mode: 0o600 })
  const until = performance.now() + withinMs
  while (!existsSync(metadataFile)) {
    if (performance.now() > until)
      throw new DataDirError(
        'unfit',
        `the standby of ${dataDir} has not taken over yet`,
        'look at its log: the bucket has to answer',
      )
    await delay(50)
  }
}

function isLocked(dir: string): boolean {
  try {
    lockDataDir(dataDirAt(dir))()
    return false
  } catch (error) {
    if (error instanceof DataDirInUseError) return true
    throw error
  }
}

function prepareWriter(root: string, target: string, { slot, checksum, generation }: Rebuilt): void {
  writeWriterFile(root, {
    target,
    writerId: randomUUID(),
    generation: generation + 1,
    after: { slot, checksum },
  })
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
