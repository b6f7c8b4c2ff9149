/**
 * The data directory: its layout and its setting up.
 *
 *   metadata.db    workspaces, keys, pipes, destinations, lane state
 *   before-upgrade/  copies of it, each kept before a new version changed its tables
 *   sealing.key    seals stored secrets (mode 0600; not here when it comes from a file or a credential)
 *   first-link     the first setup link of the dashboard, likewise
 *   first-key      the first API key, where `serve --init` had no terminal to show it on (mode 0600)
 *   buffer/        the log of accepted messages
 *   quarantine/    damaged messages, put aside
 *   daemon.lock    held by the running daemon (lock.ts)
 *
 * A node of a cluster keeps metadata and buffer elsewhere: node-dir.ts.
 */
import { randomUUID } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { BufferSpec } from '../log/buffer-spec.ts'
import type { SegmentsSpec } from '../log/segments/protocol.ts'
import { mintApiKey } from '../metadata/key-tokens.ts'
import { loadSealingKey } from '../metadata/sealing-key.ts'
import { requireIntactMetadata } from '../metadata/sqlite/check.ts'
import type { Metadata, MetadataSpec } from '../metadata/store.ts'
import { ConfigError } from '../platform/config-error.ts'
import { isNoSpace } from '../platform/error-code.ts'
import { fsyncDirectory, fsyncFile } from '../platform/fsync.ts'
import type { Settings } from '../settings/settings.ts'
import { clusterSettings, jetStreamSpec } from '../stores/cluster-settings.ts'
import { type MetadataOptions, openMetadata } from '../stores/open-metadata.ts'
import { DataDirError } from './errors.ts'
import { firstSetupLink } from './first-setup-link.ts'
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

/** The data directory, or the cluster, was set up before: init changes nothing. */
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

/** Where the metadata is: what each thread opens. */
export function metadataSpec(settings: Settings): MetadataSpec {
  const { metadataFile } = dataDirAt(settings.data_dir)
  return clusterSettings(settings)?.metadata ?? { kind: 'sqlite', file: metadataFile }
}

/** The buffer of a directory. `channel` is this run's: two daemons of one process must not hear each other's commits. */
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
  }
}

/** The buffer of a directory, or of the cluster that its node is of. */
export function bufferSpec(settings: Settings, dir: DataDir): BufferSpec {
  const cluster = clusterSettings(settings)
  return cluster === null ? segmentsSpec(settings, dir) : jetStreamSpec(settings, cluster, dir.quarantineDir)
}

/** The output of `init` and `workspaces create`; the full key is shown here once and never again. */
export interface CreatedWorkspace {
  workspace_id: string
  workspace_name: string
  api_key_id: string
  api_key: string
  /** Below the daemon's address; one admin makes an account with it. */
  setup_path: string
}

/**
 * Makes the directory, sealing key, metadata and the workspace `default` with its first key. `keep` gets that key before
 * it is valid: when a crash comes in between, the next set-up makes another one.
 * Throws AlreadySetUpError. A set-up that was cut short (no workspace yet) is completed.
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
    // Another node of the cluster was quicker.
    await requireNew()
    throw error
  } finally {
    await metadata.close()
  }
}

/** For this user's eyes only, and durable when it returns. Replaces the key of a set-up that was cut short. */
export function writeFirstKey({ root, firstKeyFile }: DataDir, apiKey: string): void {
  writeSecret(root, firstKeyFile, apiKey)
}

/** The same for the first setup link. */
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
 * With its parents, mode 0700; each name survives a power cut. Trap: Node's own recursive mkdir never returns for a place where nothing can be made
 * although its parent is there, such as /proc/x (seen with Node 20 and 24).
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
 * Nobody else may look into the directory or hold its lock: one that was made beforehand is tightened. Throws ConfigError
 * when it is not ours to tighten, or looks like one that others use.
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

/** A workspace with a first key. Throws DataDirError when the name is taken, ApiError `validation_error` for a wrong one. */
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
  const { setup_path } = await firstSetupLink(metadata, workspaceId)
  const ids = { workspace_id: workspaceId, workspace_name: name, api_key_id: apiKeyId }
  return { ...ids, api_key: apiKey, setup_path }
}

/** Before a daemon opens anything in it. Throws ConfigError unless it is set up; a node's is made where it is missing. */
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

/** Throws ConfigError unless `init` has made the metadata file. */
export function requireSetUp(dir: DataDir): void {
  if (existsSync(dir.metadataFile)) return
  requireMatchingStores(dir)
  throw notSetUp(dir, 'is not set up')
}

/** Throws ConfigError when `init` was cut short: the first key was never made. */
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
 * Opens key and metadata: of a data directory, or of the cluster that its node is of. Throws ConfigError when it is not set up
 * and `create` is false, or when its metadata and its buffer do not belong together; StorageUnavailableError.
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
  const sealingKey = await loadSealingKey({
    file: settings['secrets.key_file'],
    dataDir: dir.root,
    // A new key beside existing metadata could open none of its secrets.
    create: create && !isSetUp,
    ...(isNode ? { whenMissing: copyKey } : {}),
    env,
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
