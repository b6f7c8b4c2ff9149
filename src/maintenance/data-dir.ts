/**
 * The data directory: its layout and its creation.
 *
 *   metadata.db      workspaces, keys, pipes, destinations, lane state
 *   before-upgrade/  copies of metadata.db, each made before a new version changed its tables
 *   sealing.key      encrypts stored secrets (mode 0600; absent if the key comes from a file or a credential)
 *   first-link       the first setup link of the dashboard (mode 0600)
 *   first-key        the first API key, if `serve --init` had no terminal to show it on (mode 0600)
 *   buffer/          the log of accepted messages
 *   tables/          the files of SQLite destinations, by workspace
 *   quarantine/      damaged messages that were set aside
 *   daemon.lock      held by the running daemon (lock.ts)
 *
 * A cluster node stores metadata and buffer elsewhere: node-dir.ts.
 */
import { randomUUID } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { checkedCall } from '../api/management/call.ts'
import { userUseCases } from '../api/management/users.ts'
import { localPrincipal } from '../contract/principal.ts'
import type { BufferSpec } from '../log/buffer-spec.ts'
import type { SegmentsSpec } from '../log/segments/protocol.ts'
import { mintApiKey } from '../metadata/key-tokens.ts'
import { Passwords } from '../metadata/password-hash.ts'
import { loadSealingKey } from '../metadata/sealing-key.ts'
import { requireIntactMetadata } from '../metadata/sqlite/check.ts'
import type { Metadata, MetadataSpec } from '../metadata/store.ts'
import { ConfigError } from '../platform/config-error.ts'
import { isNoSpace } from '../platform/error-code.ts'
import { fsyncDirectory, fsyncFile } from '../platform/fsync.ts'
import { systemUser } from '../platform/system-user.ts'
import { replicaRules } from '../replica/replica-options.ts'
import type { Settings } from '../settings/settings.ts'
import { clusterSettings, jetStreamSpec } from '../stores/cluster-settings.ts'
import { type MetadataOptions, openMetadata } from '../stores/open-metadata.ts'
import { DataDirError } from './errors.ts'
import { requireMatchingStores } from './matching-stores.ts'
import { clusterNotSetUp, copyKey, isClusterSetUp, nodeFiles, requireNoStores } from './node-dir.ts'

export interface DataDir {
  root: string
  metadataFile: string
  bufferDir: string
  quarantineDir: string
  lockFile: string
  firstKeyFile: string
  firstLinkFile: string
}

/** Thrown if the data directory, or the cluster, was already set up. `init` changes nothing. */
export class AlreadySetUpError extends Error {
  constructor(what: string) {
    super(`${what} is already set up; nothing was changed`)
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
    firstKeyFile: path.join(root, 'first-key'),
    firstLinkFile: path.join(root, 'first-link'),
  }
}

/** The location of the metadata, which each thread opens for itself. */
export function metadataSpec(settings: Settings): MetadataSpec {
  const { metadataFile } = dataDirAt(settings.data_dir)
  return clusterSettings(settings)?.metadata ?? { kind: 'sqlite', file: metadataFile }
}

/**
 * The buffer of a directory. `channel` identifies this run: two daemons in one process must not receive each other's
 * commits.
 */
export function segmentsSpec(settings: Settings, dir: DataDir): SegmentsSpec {
  return {
    kind: 'segments',
    channel: `buffer-${randomUUID()}`,
    dir: dir.bufferDir,
    quarantineDir: dir.quarantineDir,
    maxBytes: settings['buffer.max_bytes'],
    minFreeBytes: settings['buffer.min_free_bytes'],
    segmentMaxBytes: settings['buffer.segment_max_bytes'],
    segmentMaxSeconds: settings['buffer.segment_max_seconds'],
    undeliveredHours: settings['buffer.undelivered_hours'],
    deliveredHours: settings['buffer.delivered_hours'],
    deliveredMaxBytes: settings['buffer.delivered_max_bytes'],
    scrubHours: settings['buffer.scrub_hours'],
    replica: replicaRules(settings),
  }
}

/** The buffer of a directory, or of the cluster to which its node belongs. */
export function bufferSpec(settings: Settings, dir: DataDir): BufferSpec {
  const cluster = clusterSettings(settings)
  return cluster === null ? segmentsSpec(settings, dir) : jetStreamSpec(settings, cluster, dir.quarantineDir)
}

/** The output of `init` and `workspaces create`. The complete key is shown only here. */
export interface CreatedWorkspace {
  workspace_id: string
  workspace_name: string
  api_key_id: string
  api_key: string
  /** A path below the daemon's address. One admin can create an account with it. */
  setup_path: string
}

/**
 * Creates the directory, the sealing key, the metadata and the workspace `default` with its first key. `keep`
 * receives that key before it becomes valid; if the process crashes between the two, the next setup creates another
 * key. An interrupted setup (no workspace yet) is completed. Throws AlreadySetUpError.
 */
export async function setUpDataDir(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  keep: (apiKey: string) => void = () => {},
): Promise<CreatedWorkspace> {
  const dir = dataDirAt(settings.data_dir)
  createDirectory(dir)
  const { metadata } = await openDataDirMetadata(settings, env, { create: true })
  const requireNew = async () => {
    if ((await metadata.workspaces.list()).length === 0) return
    const cluster = clusterSettings(settings)
    throw new AlreadySetUpError(cluster ? `the cluster ${cluster.name}` : `data directory ${dir.root}`)
  }
  try {
    await requireNew()
    return await createWorkspace(metadata, 'default', keep)
  } catch (error) {
    // Another node of the cluster was faster.
    await requireNew()
    throw error
  } finally {
    await metadata.close()
  }
}

/** Readable only by this user, and durable on return. Replaces the key of an interrupted setup. */
export function writeFirstKey({ root, firstKeyFile }: DataDir, apiKey: string): void {
  writeSecret(root, firstKeyFile, apiKey)
}

/** The same as `writeFirstKey`, for the first setup link. */
export function writeFirstLink({ root, firstLinkFile }: DataDir, url: string): void {
  writeSecret(root, firstLinkFile, url)
}

function writeSecret(root: string, file: string, secret: string): void {
  rmSync(file, { force: true })
  writeFileSync(file, `${secret}\n`, { mode: 0o600, flag: 'wx' })
  fsyncFile(file)
  fsyncDirectory(root)
}

/**
 * Creates the directory and its parents with mode 0700; each name survives a power failure. Trap: Node's recursive
 * mkdir never returns for a path where nothing can be created although its parent exists, such as /proc/x (seen with
 * Node 20 and 24).
 */
export function makeDirectory(directory: string): void {
  try {
    mkdirSync(directory, { mode: 0o700 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && statSync(directory).isDirectory()) return
    const parent = path.dirname(directory)
    if (code !== 'ENOENT' || existsSync(parent)) throw error
    makeDirectory(parent)
    mkdirSync(directory, { mode: 0o700 })
  }
  fsyncDirectory(path.dirname(directory))
}

/**
 * Other users must not be able to read the directory or hold its lock. Restricts the mode of a directory that already
 * exists. Throws ConfigError if that is not permitted, or if other users seem to use the directory.
 */
export function requirePrivate({ root, metadataFile }: DataDir): void {
  if ((statSync(root).mode & 0o077) === 0) return
  const instead = `use a directory inside it, such as ${path.join(root, 'pipectl')}, which is then created`
  const ours = new Set(['lost+found', ...nodeFiles])
  if (!existsSync(metadataFile) && readdirSync(root).some((name) => !ours.has(name)))
    throw new ConfigError(`data_dir: ${root} can be read by other users and contains other files; ${instead}`)
  try {
    chmodSync(root, 0o700)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new ConfigError(
      `data_dir: ${root} can be read by other users, and its mode cannot be changed (${code}); ${instead}`,
    )
  }
}

function createDirectory(dir: DataDir): void {
  try {
    makeDirectory(dir.root)
    requirePrivate(dir)
  } catch (error) {
    if (isNoSpace(error) || error instanceof ConfigError) throw error
    throw new ConfigError(
      `data_dir: ${dir.root} cannot be created (${(error as NodeJS.ErrnoException).code})`,
      error,
    )
  }
}

/**
 * Creates a workspace with a first key. Throws DataDirError if the name is taken, ApiError `validation_error` if it
 * is invalid.
 */
export async function createWorkspace(
  metadata: Metadata,
  name: string,
  keep: (apiKey: string) => void = () => {},
): Promise<CreatedWorkspace> {
  if ((await metadata.workspaces.list()).some((one) => one.name === name)) {
    throw new DataDirError('conflict', `workspace ${name} already exists`, 'choose another name')
  }
  const { apiKey, key } = mintApiKey('default')
  keep(apiKey)
  const { workspaceId, apiKeyId } = await metadata.workspaces.create(name, key)
  const { createSetupLink } = userUseCases({ metadata, passwords: new Passwords(), now: Date.now })
  const principal = localPrincipal(workspaceId, systemUser())
  const firstAdmin = checkedCall('createSetupLink', { principal, body: { user_role: 'admin' } })
  const { setup_path } = await createSetupLink(firstAdmin)
  const ids = { workspace_id: workspaceId, workspace_name: name, api_key_id: apiKeyId }
  return { ...ids, api_key: apiKey, setup_path }
}

/**
 * Must be called before a daemon opens anything in the directory. Throws ConfigError unless it is set up. A node's
 * missing directory is created.
 */
export function requireDirectory(settings: Settings): void {
  const dir = dataDirAt(settings.data_dir)
  if (clusterSettings(settings) === null) {
    requireSetUp(dir)
    requirePrivate(dir)
  } else {
    requireNoStores(dir)
    createDirectory(dir)
  }
}

/** Throws ConfigError unless `init` has created the metadata file. */
export function requireSetUp(dir: DataDir): void {
  if (existsSync(dir.metadataFile)) return
  requireMatchingStores(dir)
  throw notSetUp(dir, 'is not set up')
}

/** Throws ConfigError if `init` was interrupted before it created the first key. */
export async function requireWorkspace(settings: Settings, metadata: Metadata): Promise<void> {
  if ((await metadata.workspaces.list()).length > 0) return
  const what = 'has no workspace and no API key: its setup was not finished'
  if (clusterSettings(settings) !== null) throw clusterNotSetUp(what)
  throw notSetUp(dataDirAt(settings.data_dir), what)
}

function notSetUp({ root }: DataDir, what: string): ConfigError {
  return new ConfigError(
    `data_dir: ${root} ${what}; run \`pipectl init --data-dir ${root}\` or \`pipectl serve --init\``,
  )
}

export interface OpenOptions extends Pick<MetadataOptions, 'onNoSpace' | 'onUpgraded' | 'onAudited'> {
  create: boolean
}

/**
 * Opens the key and the metadata of a data directory, or of the cluster to which its node belongs. Throws
 * StorageUnavailableError, and ConfigError if nothing is set up and `create` is false, or if metadata and buffer do
 * not belong together.
 */
export async function openDataDirMetadata(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  { create, ...options }: OpenOptions,
): Promise<{ metadata: Metadata; sealingKey: Buffer }> {
  const dir = dataDirAt(settings.data_dir)
  const isSetUp = await isMetadataSetUp(settings, dir)
  if (!create && !isSetUp) throw notSetUpYet(settings, dir)
  const isNode = clusterSettings(settings) !== null
  if (isSetUp && !isNode) requireIntactMetadata(dir.metadataFile)
  const sealingKey = await sealingKeyOf(settings, env, {
    // A new key could not decrypt the secrets of existing metadata.
    create: create && !isSetUp,
    ...(isNode ? { whenMissing: copyKey } : {}),
  })
  const quotas = {
    pipes: settings['workspace.max_pipes'],
    destinations: settings['workspace.max_destinations'],
    apiKeys: settings['workspace.max_api_keys'],
    origins: settings['workspace.max_origins'],
  }
  const metadata = await openMetadata(metadataSpec(settings), sealingKey, { ...options, quotas })
  return { metadata, sealingKey }
}

/** Throws the errors of `loadSealingKey`. */
export function sealingKeyOf(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  options: { create?: boolean; whenMissing?: string } = {},
): Promise<Buffer> {
  const { data_dir: dataDir, 'secrets.key_file': file } = settings
  return loadSealingKey({ file, dataDir, env, create: false, ...options })
}

async function isMetadataSetUp(settings: Settings, dir: DataDir): Promise<boolean> {
  const cluster = clusterSettings(settings)
  if (cluster === null) {
    requireMatchingStores(dir)
    return existsSync(dir.metadataFile)
  }
  requireNoStores(dir)
  return await isClusterSetUp(cluster)
}

function notSetUpYet(settings: Settings, dir: DataDir): ConfigError {
  return clusterSettings(settings) === null
    ? notSetUp(dir, 'is not set up')
    : clusterNotSetUp('contains no pipectl data yet')
}
