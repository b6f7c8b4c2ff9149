/**
 * The data directory: its layout, its setting up and its lock.
 *
 *   metadata.db    workspaces, keys, pipes, destinations, lane state
 *   sealing.key    seals stored secrets (mode 0600; not here when it comes from a file or a credential)
 *   buffer/        the log of accepted messages
 *   quarantine/    damaged messages, put aside
 *   daemon.lock    held by the running daemon
 */
import { existsSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { ConfigError } from './config.ts'
import { mintApiKey } from './metadata/key-tokens.ts'
import { openMetadata } from './metadata/open.ts'
import { loadSealingKey } from './metadata/sealing-key.ts'
import type { Metadata } from './metadata/store.ts'
import type { Settings } from './settings.ts'

export interface DataDir {
  root: string
  metadataFile: string
  bufferDir: string
  quarantineDir: string
  lockFile: string
}

/** Another daemon has the data directory: exit 75. */
export class DataDirInUseError extends Error {
  constructor(root: string) {
    super(`data directory ${root} is in use by another pipectl daemon; stop it, or give another --data-dir`)
    this.name = 'DataDirInUseError'
  }
}

/** The data directory was set up before: init changes nothing. */
export class AlreadySetUpError extends Error {
  constructor(root: string) {
    super(`data directory ${root} is already set up; nothing was changed`)
    this.name = 'AlreadySetUpError'
  }
}

export function dataDirAt(root: string): DataDir {
  return {
    root,
    metadataFile: path.join(root, 'metadata.db'),
    bufferDir: path.join(root, 'buffer'),
    quarantineDir: path.join(root, 'quarantine'),
    lockFile: path.join(root, 'daemon.lock'),
  }
}

/** What `init` and `workspaces create` print; the full key is seen here once and never again. */
export interface CreatedWorkspace {
  workspace_id: string
  workspace_name: string
  api_key_id: string
  api_key: string
}

/**
 * Makes the directory, sealing key, metadata and the workspace `default` with its first key.
 * Throws AlreadySetUpError. A set-up that was cut short (no workspace yet) is completed.
 */
export async function setUpDataDir(settings: Settings, env: NodeJS.ProcessEnv): Promise<CreatedWorkspace> {
  const dir = dataDirAt(settings.data_dir)
  createDirectory(dir)
  const { metadata } = await openDataDirMetadata(settings, env, true)
  try {
    if ((await metadata.workspaces.list()).length > 0) throw new AlreadySetUpError(dir.root)
    return await createWorkspace(metadata, 'default')
  } finally {
    await metadata.close()
  }
}

function createDirectory(dir: DataDir): void {
  try {
    mkdirSync(dir.root, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw new ConfigError(
      `data_dir: ${dir.root} cannot be created (${(error as NodeJS.ErrnoException).code})`,
    )
  }
}

/** A workspace with a first key named after it. Throws ApiError `validation_error` when the name is taken. */
export async function createWorkspace(metadata: Metadata, name: string): Promise<CreatedWorkspace> {
  const { apiKey, key } = mintApiKey('default')
  const { workspaceId, apiKeyId } = await metadata.workspaces.create(name, key)
  return { workspace_id: workspaceId, workspace_name: name, api_key_id: apiKeyId, api_key: apiKey }
}

/** Throws ConfigError unless `init` has made the metadata file. */
export function requireSetUp(dir: DataDir): void {
  if (existsSync(dir.metadataFile)) return
  throw new ConfigError(
    `data_dir: ${dir.root} is not set up; run \`pipectl init --data-dir ${dir.root}\` or \`pipectl serve --init\``,
  )
}

/** Opens key and metadata of a data directory. Throws ConfigError when it is not set up and `create` is false. */
export async function openDataDirMetadata(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  create: boolean,
): Promise<{ metadata: Metadata; sealingKey: Buffer }> {
  const dir = dataDirAt(settings.data_dir)
  if (!create) requireSetUp(dir)
  const sealingKey = await loadSealingKey({
    file: settings['secrets.key_file'],
    dataDir: dir.root,
    // A new key beside existing metadata could open none of its secrets.
    create: create && !existsSync(dir.metadataFile),
    env,
  })
  return { metadata: await openMetadata({ file: dir.metadataFile, sealingKey }), sealingKey }
}

/**
 * Takes the directory for this process; the returned function gives it back. Node has no flock, so the lock is
 * SQLite's own exclusive file lock: the kernel drops it with the process, however that ends.
 */
export function lockDataDir(dir: DataDir): () => void {
  const lock = new Database(dir.lockFile, { timeout: 0 })
  try {
    lock.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    lock.close()
    if ((error as { code?: string }).code === 'SQLITE_BUSY') throw new DataDirInUseError(dir.root)
    throw error
  }
  return () => lock.close()
}
