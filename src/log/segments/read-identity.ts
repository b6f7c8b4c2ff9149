/**
 * Finds the owner of the messages in a buffer's directory without changing anything. Used before the buffer is opened
 * together with metadata that possibly belongs to another one.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import type { BufferIdentity } from '../buffer.ts'
import { readHighWater } from './high-water.ts'
import { listSegments, type SegmentName } from './layout.ts'
import { openReadOnly } from './segment-file.ts'

export interface FoundBuffer {
  /** There are, or were, messages. A segment that cannot be read counts. */
  holdsMessages: boolean
  /** The identity in the newest readable segment; null when there is none. */
  identity: BufferIdentity | null
  /** The newest seq in the high-water mark or in a segment. */
  lastSeq: number
  /** The format of the newest readable segment, which another version can have written; null when there is none. */
  format: number | null
}

/** The directory need not exist. */
export function findBuffer(dir: string): FoundBuffer {
  const names = existsSync(dir) ? listSegments(dir) : []
  const mark = readHighWater(path.join(dir, 'high-water'))
  const found: FoundBuffer = {
    holdsMessages: names.length > 1,
    identity: null,
    lastSeq: typeof mark === 'string' ? 0 : mark.seq,
    format: null,
  }
  for (const name of names.toReversed()) {
    const segment = readHead(dir, name)
    if (segment === null) {
      found.holdsMessages = true
      found.lastSeq = Math.max(found.lastSeq, name.firstSeq)
      continue
    }
    // Only the very first segment of a buffer is empty and has this name.
    found.holdsMessages ||= segment.lastSeq !== null || name.firstSeq > 1
    found.lastSeq = Math.max(found.lastSeq, segment.lastSeq ?? name.firstSeq - 1)
    found.format = segment.format
    found.identity = newer(segment.identity, typeof mark === 'string' ? null : mark.identity)
    return found
  }
  return found
}

/** A segment that was started in an older epoch is used until it is full; the high-water mark has the newer epoch. */
function newer(segment: BufferIdentity | null, mark: BufferIdentity | null): BufferIdentity | null {
  if (segment === null || mark === null || segment.dataDirId !== mark.dataDirId) return segment
  return { ...segment, epoch: Math.max(segment.epoch, mark.epoch) }
}

interface Head {
  lastSeq: number | null
  format: number
  identity: BufferIdentity | null
}

/** Null when the file cannot be read for any reason. */
function readHead(dir: string, name: SegmentName): Head | null {
  try {
    const db = openReadOnly(dir, name)
    try {
      const lastSeq = db.prepare('SELECT max(seq) FROM message').pluck().get() as number | null
      const segment = db.prepare('SELECT * FROM segment').get() as Record<string, unknown>
      const { data_dir_id: dataDirId, epoch } = segment
      return {
        lastSeq,
        // A segment of format 1 has no such column.
        format: Number(segment.format ?? 1),
        identity: typeof dataDirId === 'string' ? { dataDirId, epoch: Number(epoch) } : null,
      }
    } finally {
      db.close()
    }
  } catch {
    return null
  }
}
