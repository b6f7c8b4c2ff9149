/**
 * Snapshots: a copy of the metadata and the list of what else a restore needs.
 *
 *   snapshots/<slot>     sealed: [length of the manifest, 4 bytes][manifest, JSON][metadata.db]
 *
 * A snapshot is published only after its slot was created, whose rows cover everything that the copy refers to. So a
 * restore from it ends at its slot or later. `appliesAfter` is the newest complete slot from before the copy was begun: rows of
 * metadata in later slots can be older than the copy, and the slots up to its own bring the newest state of them.
 */
import { createReadStream, statSync } from 'node:fs'
import { isObject } from '../contract/is-object.ts'
import type { Bucket } from './bucket.ts'
import { streamPatiently } from './patience.ts'
import { sealChunks, unsealChunks } from './sealing.ts'
import type { SegmentObject } from './segment-objects.ts'

export interface Manifest {
  format: 1
  /** A restore from this snapshot ends here or later. */
  slot: number
  /** Rows of metadata are applied from the next slot on. */
  appliesAfter: number
  /** Rows of the log are taken from this slot on; what is older is in the segments. */
  logFrom: number
  createdMs: number
  dataDirId: string
  epoch: number
  /** The recording of changes that the copy is a part of: rows of another one do not apply to it. */
  recordingId: string
  /** The first seq that retention keeps. */
  keptFromSeq: number
  segments: SegmentObject[]
  metadataBytes: number
  /** The release of pipectl that wrote it. */
  version: string
}

export const snapshotPrefix = 'snapshots/'
const digits = 17
const maxManifestBytes = 16 * 1024 * 1024

/** The snapshot cannot be used. `message` says why. */
export class SnapshotError extends Error {
  override readonly name = 'SnapshotError'
}

export function snapshotName(slot: number): string {
  return `${snapshotPrefix}${String(slot).padStart(digits, '0')}`
}

/**
 * The first slot that a restore reads. The slot of the snapshot is always among them, so that the newest slot, which the next
 * one has to name, is never removed.
 */
export function firstSlotOf({ slot, logFrom, appliesAfter }: Manifest): number {
  return Math.min(logFrom, appliesAfter + 1, slot)
}

/** The slots of all snapshots, oldest first. Throws BucketError. */
export async function listSnapshots(bucket: Bucket): Promise<number[]> {
  const slots: number[] = []
  for await (const { name } of bucket.list(snapshotPrefix)) {
    const text = name.slice(snapshotPrefix.length)
    if (/^\d{17}$/.test(text)) slots.push(Number(text))
  }
  return slots
}

/** Throws BucketError. Until it returns there is no such snapshot. */
export async function uploadSnapshot(
  bucket: Bucket,
  key: Buffer,
  { manifest, file }: { manifest: Omit<Manifest, 'metadataBytes'>; file: string },
): Promise<{ bytes: number }> {
  const name = snapshotName(manifest.slot)
  const text = Buffer.from(JSON.stringify({ ...manifest, metadataBytes: statSync(file).size }))
  async function* content(): AsyncGenerator<Buffer> {
    const length = Buffer.alloc(4)
    length.writeUInt32BE(text.length)
    yield Buffer.concat([length, text])
    yield* createReadStream(file, { highWaterMark: 1024 * 1024 }) as AsyncIterable<Buffer>
  }
  return await bucket.upload(name, sealChunks(key, name, content()))
}

export interface OpenSnapshot {
  manifest: Manifest
  /** The content of metadata.db, to be read to its end. */
  metadata: AsyncIterable<Buffer>
}

/** Null: there is no such snapshot. Throws BucketError, SealError, SnapshotError. */
export async function openSnapshot(
  bucket: Bucket,
  key: Buffer,
  slot: number,
  attempts = 1,
): Promise<OpenSnapshot | null> {
  const name = snapshotName(slot)
  const sealed = await streamPatiently(bucket, name, attempts)
  if (sealed === null) return null
  const chunks = unsealChunks(key, name, sealed)[Symbol.asyncIterator]()
  let head = Buffer.alloc(0)
  const fill = async (bytes: number) => {
    while (head.length < bytes) {
      const { done, value } = await chunks.next()
      if (done === true) throw new SnapshotError(`${name} is incomplete`)
      head = Buffer.concat([head, value])
    }
  }
  await fill(4)
  const length = head.readUInt32BE()
  if (length > maxManifestBytes) throw new SnapshotError(`${name} has a manifest of ${length} bytes`)
  await fill(4 + length)
  const manifest = parsed(name, head.toString('utf8', 4, 4 + length))
  const rest = head.subarray(4 + length)
  async function* metadata(): AsyncGenerator<Buffer> {
    if (rest.length > 0) yield rest
    for (;;) {
      const { done, value } = await chunks.next()
      if (done === true) return
      yield value
    }
  }
  return { manifest, metadata: metadata() }
}

/** Only the manifest. Null: there is no such snapshot. Throws as `openSnapshot`. */
export async function readManifest(
  bucket: Bucket,
  key: Buffer,
  slot: number,
  attempts = 1,
): Promise<Manifest | null> {
  const open = await openSnapshot(bucket, key, slot, attempts)
  if (open === null) return null
  await open.metadata[Symbol.asyncIterator]().return?.()
  return open.manifest
}

function parsed(name: string, text: string): Manifest {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new SnapshotError(`${name} has a manifest that is not JSON`)
  }
  if (!isObject(value) || value.format !== 1 || !Array.isArray(value.segments))
    throw new SnapshotError(`${name} has a manifest that this version does not know`)
  // The seal proves that a pipectl with this key wrote it.
  return value as unknown as Manifest
}
