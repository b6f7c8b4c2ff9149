/**
 * `pipectl version --check-data-dir`: whether this version can open the data, and what an upgrade would change.
 * Read-only; the daemon can run meanwhile.
 */
import { existsSync, statfsSync, statSync } from 'node:fs'
import type Database from 'better-sqlite3'
import { findBuffer } from '../log/segments/read-identity.ts'
import { segmentFormat } from '../log/segments/segment-file.ts'
import { migrations, newestFormat, oldestFormat } from '../metadata/migrations.ts'
import { readSqliteFile } from '../metadata/sqlite/file.ts'
import { formatOf } from '../metadata/sqlite/upgrade-copy.ts'
import { messageOf } from '../platform/error-code.ts'
import type { Settings } from '../settings/settings.ts'
import { clusterSettings } from '../stores/cluster-settings.ts'
import { lastOpenedBy } from '../stores/open-metadata.ts'
import { type DataDir, dataDirAt } from './data-dir.ts'

/** The formats that this version writes. */
export const knownFormats = { metadata_format: newestFormat, log_format: segmentFormat }

export interface FormatCheck {
  /** The directory, or the database of a cluster. */
  place: string
  /**
   * `current`: opens without changes.
   * `upgrade`: opens after `migrations`.
   * `newer`: written by a newer version.
   * `older`: written by an earlier version in a format that this version cannot read.
   * `unreadable`: `problem` has the reason.
   * `not_set_up`: there is no data.
   */
  result: 'current' | 'upgrade' | 'newer' | 'older' | 'unreadable' | 'not_set_up'
  /** Null: unknown. */
  metadata_format: number | null
  /** The format of the newest segment. Null: there is none, it cannot be read, or this is a cluster. */
  log_format: number | null
  /** The version that opened it last. Null: unknown. */
  last_opened_by: string | null
  /** The migrations that an upgrade runs. */
  migrations: string[]
  /** The size in bytes of the copy that pipectl makes before an upgrade. Null: no copy is made. */
  copy_bytes: number | null
  free_bytes: number | null
  problem: string | null
}

const unknown = {
  metadata_format: null,
  log_format: null,
  last_opened_by: null,
  migrations: [],
  copy_bytes: null,
  free_bytes: null,
  problem: null,
}

/** Throws ConfigError, and StorageUnavailableError if the database of a cluster does not respond. */
export async function checkFormat(settings: Settings): Promise<FormatCheck> {
  const cluster = clusterSettings(settings)
  if (cluster === null) return ofDataDir(dataDirAt(settings.data_dir))
  // Loaded only in a cluster.
  const { inspectPostgres } = await import('../cluster/postgresql/inspect.ts')
  const { label: place, metadata } = await inspectPostgres(cluster.metadata.url)
  if (metadata === null) return { ...unknown, place, result: 'not_set_up' }
  const { format, lastOpenedBy: last_opened_by } = metadata
  return { ...unknown, place, last_opened_by, ...compared(format, null) }
}

function ofDataDir({ root, metadataFile, bufferDir }: DataDir): FormatCheck {
  const place = root
  if (!existsSync(metadataFile)) return { ...unknown, place, result: 'not_set_up' }
  try {
    return readSqliteFile(metadataFile, (database) => {
      const format = formatOf(database)
      const { format: logFormat } = findBuffer(bufferDir)
      const found = compared(format, logFormat)
      const isCopied = found.result === 'upgrade'
      const { bavail, bsize } = statfsSync(root)
      return {
        ...unknown,
        place,
        last_opened_by: readLastOpenedBy(database),
        ...found,
        ...(isCopied ? { copy_bytes: statSync(metadataFile).size, free_bytes: bavail * bsize } : {}),
      }
    })
  } catch (error) {
    return { ...unknown, place, result: 'unreadable', problem: `${metadataFile}: ${messageOf(error)}` }
  }
}

function compared(metadataFormat: number, logFormat: number | null) {
  const formats = { metadata_format: metadataFormat, log_format: logFormat }
  const log = logFormat ?? segmentFormat
  if (metadataFormat > newestFormat || log > segmentFormat) return { ...formats, result: 'newer' as const }
  if (metadataFormat < oldestFormat || log < segmentFormat) return { ...formats, result: 'older' as const }
  const missing = migrations.filter((one) => one.number > metadataFormat)
  const result = missing.length === 0 ? ('current' as const) : ('upgrade' as const)
  return { ...formats, result, migrations: missing.map(({ number, name }) => `${number} ${name}`) }
}

function readLastOpenedBy(database: Database.Database): string | null {
  const value = database
    .prepare('SELECT value FROM metadata_settings WHERE name = ?')
    .pluck()
    .get(lastOpenedBy)
  return value === undefined ? null : String(value)
}
