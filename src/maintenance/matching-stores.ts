/**
 * Metadata and buffer store the id of their data directory, and a buffer stores its format. Both are compared before
 * either is opened for writing. If they do not match, nothing is changed. Otherwise the daemon would not know the
 * pipes of the messages, or would start a log below the cursors of its lanes.
 */
import { existsSync } from 'node:fs'
import { current } from '../contract/epochs.ts'
import { type FoundBuffer, findBuffer } from '../log/segments/read-identity.ts'
import { segmentFormat } from '../log/segments/segment-file.ts'
import type { DataDirIdentity } from '../metadata/identity.ts'
import { readIdentity } from '../metadata/sqlite/offline.ts'
import { ConfigError } from '../platform/config-error.ts'

interface StorePaths {
  metadataFile: string
  bufferDir: string
}

/**
 * Throws ConfigError if another version wrote the buffer, or if the buffer contains messages but the metadata is
 * missing, empty or from another directory.
 */
export function requireMatchingStores(dir: StorePaths): void {
  const buffer = findBuffer(dir.bufferDir)
  requireKnownFormat(dir.bufferDir, buffer)
  if (!buffer.holdsMessages && buffer.identity === null) return
  const fault = existsSync(dir.metadataFile) ? faultOf(dir, buffer) : 'is missing'
  if (fault === null) return
  throw new ConfigError(
    `metadata: ${dir.metadataFile} ${fault}, and ${dir.bufferDir} contains messages. Nothing was changed. ` +
      'Put back the metadata.db of this buffer, or restore a backup into a new directory (pipectl restore). ' +
      `To start without these messages, move ${dir.bufferDir} away`,
  )
}

/** Throws ConfigError if another version wrote the buffer. */
export function requireKnownFormat(bufferDir: string, { format }: FoundBuffer = findBuffer(bufferDir)): void {
  if (format === null || format === segmentFormat) return
  throw new ConfigError(
    `buffer: ${bufferDir} was written by ${format > segmentFormat ? 'a newer' : 'an earlier'} pipectl (log format ${format}, ` +
      `this one reads ${segmentFormat}). Nothing was changed. Install that version or restore a backup`,
  )
}

function faultOf(dir: StorePaths, buffer: FoundBuffer): string | null {
  const stored = readIdentity(dir.metadataFile)
  switch (stored.kind) {
    case 'empty':
      return 'is empty'
    case 'unreadable':
      return null
    case 'found':
      return mismatch(stored.identity, buffer)
  }
}

function mismatch({ dataDirId, epochs }: DataDirIdentity, { identity }: FoundBuffer): string | null {
  if (identity === null) return null
  if (identity.dataDirId !== dataDirId) return 'is of another data directory'
  return identity.epoch > current(epochs).epoch ? 'is from before the last restore' : null
}
