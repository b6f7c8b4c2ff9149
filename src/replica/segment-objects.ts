/**
 * Sealed segments as objects: `segments/<first seq>.<generation>.<writer>`. A sealed segment does not change, so it is uploaded
 * as it is. The name has the first part of the writer's id, because another writer can end its segments elsewhere.
 */
import { createReadStream } from 'node:fs'
import type { LogRows } from '../log/segments/replicated-rows.ts'
import type { Bucket } from './bucket.ts'
import { sealChunks } from './sealing.ts'

export type SealedSegment = ReturnType<LogRows['sealed']>[number]

/** A segment in a manifest. */
export interface SegmentObject {
  name: string
  firstSeq: number
  lastSeq: number
  generation: number
  /** The size of the file. */
  bytes: number
}

export const segmentPrefix = 'segments/'

export function segmentObject(segment: SealedSegment, writerId: string): SegmentObject {
  const { firstSeq, lastSeq, generation, bytes } = segment
  const digits = String(firstSeq).padStart(20, '0')
  return {
    name: `${segmentPrefix}${digits}.${generation}.${writerId.slice(0, 8)}`,
    firstSeq,
    lastSeq,
    generation,
    bytes,
  }
}

/**
 * Uploads the file. Returns false if it no longer exists: it was rewritten or dropped. Throws BucketError. An
 * interrupted upload is invisible.
 */
export async function uploadSegment(
  bucket: Bucket,
  key: Buffer,
  { file, object }: { file: string; object: SegmentObject },
): Promise<boolean> {
  const { name } = object
  try {
    await bucket.upload(name, sealChunks(key, name, createReadStream(file, { highWaterMark: 1024 * 1024 })))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}
