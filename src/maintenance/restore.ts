/**
 * Restores a backup into an empty or missing data directory. All files are written into a directory next to it,
 * verified against the manifest and flushed. Only then is that directory renamed. A failed restore leaves nothing
 * behind. Writing next to the data directory needs rights that the user of a service does not have in /var/lib.
 * Therefore root can restore for the owner of the empty directory.
 *
 * Receivers have seen more than the backup contains. The restored directory therefore starts a new epoch in its
 * metadata, before the rename. No seq, batch identity or object key of the lost timeline is used again. The files of SQLite
 * destinations are part of the backup: their marks of `exactly_once` continue in the new epoch.
 */
import { createHash } from 'node:crypto'
import {
  createReadStream,
  existsSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs'
import { open, rename } from 'node:fs/promises'
import path from 'node:path'
import { createGunzip } from 'node:zlib'
import { timelineOf } from '../contract/epochs.ts'
import { isObject } from '../contract/is-object.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { type FoundBuffer, findBuffer } from '../log/segments/read-identity.ts'
import { beginEpoch, readIdentity } from '../metadata/sqlite/offline.ts'
import { errorCode } from '../platform/error-code.ts'
import { fsyncDirectory } from '../platform/fsync.ts'
import { ArchiveError, readArchive } from './archive.ts'
import { manifestName } from './backup.ts'
import { makeDirectory } from './data-dir.ts'
import { DataDirError } from './errors.ts'
import { continueMarks, fsyncTableDirectories } from './table-files.ts'
import { commandNow } from './workspaces.ts'

/** The only names that a backup can contain. The archive never decides where a file is written. */
const knownNames =
  /^(metadata\.db|sealing\.key|buffer\/(high-water|idempotency\.db|\d{20}(?:\.\d+)?\.db)|tables\/[0-9a-f-]{36}\/[A-Za-z0-9][A-Za-z0-9_-]{0,63}\.sqlite|quarantine\/[A-Za-z0-9_][A-Za-z0-9._-]*)$/

export interface Restored {
  files: number
  includesKey: boolean
  /** From the manifest. */
  dataDirId: string
}

/**
 * `paused`: every destination is blocked. Throws DataDirError: `conflict` if the directory is not empty, `damaged` if
 * the backup is.
 */
export async function restoreBackup(
  file: string,
  dataDir: string,
  { paused = false }: { paused?: boolean } = {},
): Promise<Restored> {
  if (!existsSync(file)) {
    throw new DataDirError('missing', `${file} does not exist`, 'use a file that `pipectl backup` created')
  }
  const target = emptyTarget(dataDir)
  const beside = `${target}.restoring-${process.pid}`
  prepare(beside)
  try {
    const restored = await unpack(file, beside)
    await nameRestored({ beside, target, dataDirId: restored.dataDirId, paused, recordingId: null })
    return restored
  } catch (error) {
    rmSync(beside, { recursive: true, force: true })
    const isDamage = error instanceof ArchiveError || errorCode(error)?.startsWith('Z_')
    if (!isDamage) throw error
    const why = error instanceof ArchiveError ? error.message : 'its compression is damaged or truncated'
    throw new DataDirError(
      'damaged',
      `${file} is not a complete backup: ${why}; nothing was changed`,
      'use another backup',
      error,
    )
  }
}

/** The directory that is replaced. Throws DataDirError if it is not empty. */
export function emptyTarget(dataDir: string): string {
  if (existsSync(dataDir) && readdirSync(dataDir).length > 0) {
    throw new DataDirError(
      'conflict',
      `${dataDir} is not empty; nothing was changed`,
      'restore into a new directory, or move the old one away first',
    )
  }
  // A service with a dynamic user has a symbolic link in /var/lib. Only the directory behind it can be replaced.
  return existsSync(dataDir) ? realpathSync(dataDir) : dataDir
}

/**
 * Begins the new epoch in a complete directory, and gives it its name. `beside` is next to `target`, which does not exist or
 * is empty. Throws ArchiveError if the parts of the directory do not belong together.
 */
export async function nameRestored(restored: {
  beside: string
  target: string
  dataDirId: string
  paused: boolean
  /** See `beginEpoch`. */
  recordingId: string | null
  continues?: string | undefined
}): Promise<void> {
  const { beside, target, paused: isPaused, recordingId, continues } = restored
  const metadataFile = path.join(beside, 'metadata.db')
  const { lastSeq } = requireOwnBuffer(path.join(beside, 'buffer'), metadataFile, restored)
  const { dataDirId, epochs } = beginEpoch(metadataFile, lastSeq, commandNow(), {
    isPaused,
    recordingId,
    continues,
  })
  continueMarks(beside, timelineOf(dataDirId, epochs.slice(0, -1)), timelineOf(dataDirId, epochs))
  giveToOwnerOf(target, beside)
  fsyncDirectory(path.join(beside, 'buffer'))
  fsyncTableDirectories(beside)
  fsyncDirectory(beside)
  // Replaces an empty directory. Fails if it was filled in the meantime.
  await rename(beside, target)
  fsyncDirectory(path.dirname(path.resolve(target)))
}

function giveToOwnerOf(target: string, beside: string): void {
  if (process.getuid?.() !== 0 || !existsSync(target)) return
  const { uid, gid } = statSync(target)
  if (uid === 0 && gid === 0) return
  for (const name of ['.', ...readdirSync(beside, { recursive: true, encoding: 'utf8' })])
    lchownSync(path.join(beside, name), uid, gid)
}

/** Checks that all parts of the archive belong to the data directory in the manifest. */
function requireOwnBuffer(
  bufferDir: string,
  metadataFile: string,
  { dataDirId }: { dataDirId: string },
): FoundBuffer {
  const buffer = findBuffer(bufferDir)
  const stored = readIdentity(metadataFile)
  const found = stored.kind === 'found' ? stored.identity.dataDirId : null
  const ids = new Set([dataDirId, found, ...(buffer.identity === null ? [] : [buffer.identity.dataDirId])])
  if (ids.size > 1) throw new ArchiveError('its metadata and its buffer are from different data directories')
  return buffer
}

function prepare(beside: string): void {
  try {
    makeDirectory(path.join(path.resolve(beside), 'buffer'))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new DataDirError(
      'damaged',
      `${beside} cannot be created (${code})`,
      'choose another --data-dir',
      error,
    )
  }
}

async function unpack(file: string, into: string): Promise<Restored> {
  const found = new Map<string, { size: number; sha256: string }>()
  let manifest: Buffer | null = null
  for await (const { name, size, content } of readArchive(createReadStream(file).pipe(createGunzip()))) {
    if (name === manifestName) {
      if (size > resourceLimits.manifestBytes)
        throw new ArchiveError(`its manifest has more than ${resourceLimits.manifestBytes} bytes`)
      const parts: Buffer[] = []
      for await (const part of content) parts.push(part)
      manifest = Buffer.concat(parts)
    } else if (!knownNames.test(name) || found.has(name)) {
      throw new ArchiveError(`it contains ${JSON.stringify(name)}, which no backup has`)
    } else found.set(name, { size, sha256: await writeFlushed(path.join(into, name), content) })
  }
  if (manifest === null) throw new ArchiveError('it has no manifest')
  return checkManifest(manifest, found)
}

async function writeFlushed(file: string, content: AsyncIterable<Buffer>): Promise<string> {
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 })
  const hash = createHash('sha256')
  const handle = await open(file, 'wx', 0o600)
  try {
    for await (const part of content) {
      hash.update(part)
      await handle.write(part)
    }
    await handle.sync()
  } finally {
    await handle.close()
  }
  return hash.digest('hex')
}

function parsed(manifest: Buffer): unknown {
  try {
    return JSON.parse(manifest.toString('utf8'))
  } catch {
    throw new ArchiveError('its manifest is not JSON')
  }
}

function checkManifest(manifest: Buffer, found: Map<string, { size: number; sha256: string }>): Restored {
  const value = parsed(manifest)
  const isKnown = isObject(value) && value.format === 1 && typeof value.data_dir_id === 'string'
  if (!isKnown || !Array.isArray(value.files)) {
    throw new ArchiveError('its manifest has a format that this version does not know')
  }
  for (const one of value.files) {
    const name = isObject(one) ? String(one.name) : ''
    const has = found.get(name)
    if (!isObject(one) || has === undefined || has.size !== one.size || has.sha256 !== one.sha256) {
      throw new ArchiveError(`${name} is missing or damaged`)
    }
  }
  if (value.files.length !== found.size)
    throw new ArchiveError('it contains files that its manifest does not list')
  return { files: found.size, includesKey: value.includes_key === true, dataDirId: String(value.data_dir_id) }
}
