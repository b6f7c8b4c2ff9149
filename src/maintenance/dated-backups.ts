/**
 * Backups of one data directory with dated names, of which only the newest are kept: `pipectl backup --keep`.
 *
 *   pipectl-3f2a9c1e-20270131T031700.123Z.tar.gz
 *           │        └ the start of the backup, UTC
 *           └ the first digits of the data directory's id: several daemons can share a directory
 *
 * Older backups are removed after the new one is durable under its name:
 *
 * | crash | on disk | next run |
 * |---|---|---|
 * | during the backup | every older backup; a folder `.pipectl-backup-…` | creates its own backup, keeps the newest |
 * | before or between the removals | the new backup, and more than `keep` | removes the surplus |
 */
import { accessSync, constants, readdirSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'
import { type BackupSettings, backUp, type Manifest, requireDataDir, requireIdentity } from './backup.ts'
import { DataDirError } from './errors.ts'

export interface DatedBackup {
  manifest: Manifest
  file: string
  /** Names of the removed older backups, oldest first. */
  removed: string[]
}

/**
 * Writes a backup into `directory` and then removes the oldest backups of the same data directory, so that `keep` (at
 * least 1) are left. No other file is changed, and a failed backup removes nothing. Throws DataDirError.
 */
export async function backUpDated(
  { dataDir, keyFile }: Omit<BackupSettings, 'file'>,
  directory: string,
  keep: number,
): Promise<DatedBackup> {
  requireDirectory(directory)
  const owner = ownerOf(dataDir)
  const name = `pipectl-${owner}-${new Date().toISOString().replaceAll(/[-:]/g, '')}.tar.gz`
  const file = path.join(directory, name)
  const manifest = await backUp({ dataDir, file, keyFile })
  // The new backup is kept even if its name is the oldest because the clock was set back.
  const others = datedBackups(directory, owner).filter((one) => one !== name)
  const removed = others.slice(0, Math.max(0, others.length - (keep - 1)))
  for (const one of removed) remove(path.join(directory, one), file)
  return { manifest, file, removed }
}

function requireDirectory(directory: string): void {
  const found = statSync(directory, { throwIfNoEntry: false })
  if (found === undefined) {
    throw new DataDirError(
      'missing',
      `--keep writes into a directory, and ${directory} does not exist`,
      `create it for the user who runs the backup: mkdir -p ${directory}`,
    )
  }
  if (!found.isDirectory()) {
    throw new DataDirError(
      'conflict',
      `--keep writes into a directory, and ${directory} is a file`,
      'use a directory, or omit --keep to write one file',
    )
  }
  try {
    accessSync(directory, constants.W_OK | constants.X_OK)
  } catch (error) {
    throw new DataDirError(
      'unfit',
      `--keep writes into a directory, and ${directory} cannot be written by this user`,
      'run it as the owner of the directory, or use another one',
      error,
    )
  }
}

/** The part of a name that identifies the data directory. */
function ownerOf(dataDir: string): string {
  return requireIdentity(requireDataDir(dataDir)).dataDirId.slice(0, 8)
}

/** Names of complete backups of this data directory, oldest first. */
function datedBackups(directory: string, owner: string): string[] {
  const pattern = new RegExp(`^pipectl-${owner}-\\d{8}T\\d{6}\\.\\d{3}Z\\.tar\\.gz$`)
  return readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isFile() && pattern.test(entry.name))
    .map(({ name }) => name)
    .sort()
}

function remove(old: string, made: string): void {
  try {
    rmSync(old, { force: true })
  } catch (error) {
    throw new DataDirError(
      'conflict',
      `${made} is complete, but --keep cannot remove ${old}: ${(error as Error).message}`,
      'remove it manually, or check its owner',
      error,
    )
  }
}
