/**
 * The sealing key of a data directory and the secrets that it encrypts, while no daemon is running.
 *
 * At every step of a rotation, a key exists that decrypts the metadata:
 *
 *   1 FILE.new        the new key, on disk before anything is encrypted with it
 *   2 metadata.db     every secret encrypted again, in one transaction
 *   3 FILE.previous   the old key, which older backups still need
 *   4 FILE            replaced by FILE.new
 *
 * A crash between 2 and 4 leaves a key file that does not match. The next rotation finds FILE.new and completes the rotation.
 */
import { chownSync, existsSync, linkSync, renameSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'
import { loadSealingKey, makeSealingKey } from '../metadata/sealing-key.ts'
import {
  findLostSecrets,
  forgetSecrets,
  isSealedWith,
  type LostSecrets,
  resealSecrets,
} from '../metadata/sqlite/offline.ts'
import { ConfigError } from '../platform/config-error.ts'
import { fsyncDirectory } from '../platform/fsync.ts'
import type { Settings } from '../settings/settings.ts'
import { type DataDir, dataDirAt, requireSetUp, sealingKeyOf } from './data-dir.ts'
import { DataDirError } from './errors.ts'
import { lockDataDir } from './lock.ts'
import { commandNow } from './workspaces.ts'

export type { LostSecrets }

/**
 * The secrets that `forgetLostSecrets` would remove. Null: the current key decrypts every secret. Changes nothing.
 */
export async function lostSecrets(settings: Settings, env: NodeJS.ProcessEnv): Promise<LostSecrets[] | null> {
  const dir = dataDirAt(settings.data_dir)
  requireSetUp(dir)
  // If there is no key, a new one will be created that decrypts nothing. Any other key gives the same result here.
  const key = isKeyMade(settings, env) ? Buffer.alloc(32) : await sealingKeyOf(settings, env)
  const lost = findLostSecrets(dir.metadataFile, key)
  return lost.length === 0 && isSealedWith(dir.metadataFile, key) ? null : lost
}

/**
 * Makes the data directory usable again after the loss of its key. The present key (or a new one, if there is none)
 * becomes its key. Destinations whose secrets it cannot decrypt are blocked, and those secrets are removed.
 */
export function forgetLostSecrets(settings: Settings, env: NodeJS.ProcessEnv): Promise<LostSecrets[]> {
  return whileLocked(settings, async (dir) => {
    const isNew = isKeyMade(settings, env)
    const key = await sealingKeyOf(settings, env, { create: isNew })
    if (isNew) giveToOwnerOf(path.join(dir.root, 'sealing.key'), dir.root)
    return forgetSecrets(dir.metadataFile, key, commandNow())
  })
}

export interface Rotated {
  keyFile: string
  previousKeyFile: string
  /** The number of destinations that have secrets. */
  destinations: number
}

/** Throws DataDirError if the key is a systemd credential, ConfigError if it does not match. */
export function rotateSealingKey(settings: Settings, env: NodeJS.ProcessEnv): Promise<Rotated> {
  return whileLocked(settings, async (dir) => {
    const keyFile = writableKeyFile(settings, env)
    const [next, previous] = [`${keyFile}.new`, `${keyFile}.previous`]
    const oldKey = await sealingKeyOf(settings, env)
    let destinations = 0
    if (isSealedWith(dir.metadataFile, oldKey)) {
      rmSync(next, { force: true })
      makeSealingKey(next)
      giveToOwnerOf(next, keyFile)
      destinations = resealSecrets(dir.metadataFile, oldKey, await readKeyFile(next, dir.root), commandNow())
    } else if (!existsSync(next) || !isSealedWith(dir.metadataFile, await readKeyFile(next, dir.root))) {
      throw new ConfigError(
        `sealing key: ${keyFile} did not encrypt the secrets of ${dir.metadataFile}; put back the right key`,
      )
    }
    rmSync(previous, { force: true })
    linkSync(keyFile, previous)
    renameSync(next, keyFile)
    fsyncDirectory(path.dirname(keyFile))
    return { keyFile, previousKeyFile: previous, destinations }
  })
}

async function whileLocked<T>(settings: Settings, work: (dir: DataDir) => Promise<T>): Promise<T> {
  const dir = dataDirAt(settings.data_dir)
  requireSetUp(dir)
  const unlock = lockDataDir(dir)
  try {
    return await work(dir)
  } finally {
    unlock()
  }
}

function readKeyFile(file: string, dataDir: string): Promise<Buffer> {
  return loadSealingKey({ file, dataDir, create: false, env: {} })
}

/** True if no key is configured and none exists. */
function isKeyMade(settings: Settings, env: NodeJS.ProcessEnv): boolean {
  if (settings['secrets.key_file'] !== null || hasCredential(env)) return false
  return !existsSync(path.join(settings.data_dir, 'sealing.key'))
}

function writableKeyFile(settings: Settings, env: NodeJS.ProcessEnv): string {
  const named = settings['secrets.key_file']
  if (named === null && hasCredential(env)) {
    throw new DataDirError(
      'conflict',
      'the sealing key is a systemd credential, which cannot be replaced from inside the unit',
      'run this outside the unit, with PIPECTL_SECRETS_KEY_FILE set to the file of the credential',
    )
  }
  return named ?? path.join(settings.data_dir, 'sealing.key')
}

function hasCredential(env: NodeJS.ProcessEnv): boolean {
  const directory = env.CREDENTIALS_DIRECTORY
  return directory ? existsSync(path.join(directory, 'pipectl-sealing-key')) : false
}

/** If root runs the command, the daemon's user could not read the new file. */
function giveToOwnerOf(file: string, model: string): void {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = statSync(model)
  chownSync(file, uid, gid)
}
