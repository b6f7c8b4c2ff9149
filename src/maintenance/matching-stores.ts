/**
 * Metadata and buffer know which data directory they are of. Before either is opened for writing they are compared, and
 * nothing is changed when they do not belong together: started all the same, the daemon would not know the pipes of the
 * messages, or would begin a log below the cursors of its lanes.
 */
import { existsSync } from 'node:fs'
import { current } from '../contract/epochs.ts'
import { type FoundBuffer, findBuffer } from '../log/segments/found-identity.ts'
import { readIdentity } from '../metadata/sqlite/offline.ts'
import type { DataDirIdentity } from '../metadata/store.ts'
import { ConfigError } from '../platform/config-error.ts'

interface StorePaths {
  metadataFile: string
  bufferDir: string
}

/** Throws ConfigError when the metadata is missing, empty or another directory's, while the buffer holds messages. */
export function requireMatchingStores(dir: StorePaths): void {
  const buffer = findBuffer(dir.bufferDir)
  if (!buffer.holdsMessages && buffer.identity === null) return
  const fault = existsSync(dir.metadataFile) ? faultOf(dir, buffer) : 'is missing'
  if (fault === null) return
  throw new ConfigError(
    `metadata: ${dir.metadataFile} ${fault}, and ${dir.bufferDir} holds messages. Nothing was changed. ` +
      'Put back the metadata.db of this buffer, or restore a backup into a new directory (pipectl restore). ' +
      `To begin without these messages, move ${dir.bufferDir} away`,
  )
}

function faultOf(dir: StorePaths, buffer: FoundBuffer): string | null {
  const stored = readIdentity(dir.metadataFile)
  switch (stored.kind) {
    case 'empty':
      return 'is empty'
    case 'unreadable':
      return null
    case 'none':
      return buffer.identity === null ? null : 'is older than its buffer or of another data directory'
    case 'found':
      return mismatch(stored.identity, buffer)
  }
}

function mismatch({ dataDirId, isAdopted, epochs }: DataDirIdentity, buffer: FoundBuffer): string | null {
  const { identity, isUnmarked } = buffer
  if (identity === null)
    return isUnmarked && !isAdopted ? 'is newer than its buffer: it was made for another' : null
  if (identity.dataDirId !== dataDirId) return 'is of another data directory'
  return identity.epoch > current(epochs).epoch ? 'is from before the last restore' : null
}
