/**
 * Keeps what a restore begins with: sealed segments, snapshots, and no more than these need.
 *
 *   | a crash after …                           | in the bucket                | afterwards                                    |
 *   |-------------------------------------------|------------------------------|-----------------------------------------------|
 *   | some parts of a segment or snapshot       | invisible                    | it is uploaded again                          |
 *   | a segment was uploaded                    | it, and the slots of its rows| the next snapshot names it                    |
 *   | a snapshot was uploaded, nothing removed  | both                         | the next snapshot removes what is not needed  |
 *   | some objects were removed                 | the others                   | likewise                                      |
 *
 * Only objects that neither of the two newest snapshots needs are removed, and only if they were listed while this writer had
 * the log: it creates a slot between the listing and the removal. So one that was replaced, and wakes up in the middle of a removal,
 * removes nothing that the other has created, and nothing that the snapshots from which the other began need.
 */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import path from 'node:path'
import type { ReplicatorParts } from './replicator-parts.ts'
import { type SegmentObject, segmentObject, segmentPrefix, uploadSegment } from './segment-objects.ts'
import { slotOfName, slotPrefix } from './slot.ts'
import {
  firstSlotOf,
  listSnapshots,
  type Manifest,
  readManifest,
  snapshotName,
  snapshotPrefix,
  uploadSnapshot,
} from './snapshot.ts'

export interface KeeperParts extends ReplicatorParts {
  /** A directory for the copy of the metadata. */
  scratch: string
  signal: AbortSignal
  completeSlot(): number
  /** Stores everything of this moment. */
  ship(): Promise<void>
  /** Creates a slot, which only the writer of the log can. */
  prove(): Promise<void>
}

export interface StoredObjects {
  objects: number
  bytes: number
}

const snapshotsKept = 2

export class Keeper {
  readonly #parts: KeeperParts
  /** The end of the log in the slots of this process that have rows of it, oldest first; begins with the slots before it. */
  readonly #ends: { slot: number; lastSeq: number }[]
  /** No earlier slot has a row that is in no segment. Null: the snapshots in the bucket are not known yet. */
  #logFrom: number | null = null
  #uploaded: Set<string> | null = null
  snapshotMs: number | null = null
  /** The objects that stayed when the newest snapshot was stored. */
  stored: StoredObjects | null = null
  #hasSnapshot = false

  /** There is a snapshot that the present slots apply to. */
  get hasSnapshot(): boolean {
    return this.#hasSnapshot
  }

  /** Looks for a snapshot from before this start, the first time. Call it before `snapshot`. Throws BucketError. */
  async findSnapshot(): Promise<void> {
    if (this.#logFrom !== null) return
    const { bucket, key, changes } = this.#parts
    const newest = (await listSnapshots(bucket)).at(-1)
    const manifest = newest === undefined ? null : await readManifest(bucket, key, newest)
    this.#logFrom = manifest?.logFrom ?? 1
    if (manifest?.recordingId !== changes.recordingId) return
    this.#hasSnapshot = true
    this.snapshotMs = manifest.createdMs
  }

  constructor(parts: KeeperParts) {
    this.#parts = parts
    const { slot, headSeq } = parts.writer.position
    this.#ends = [{ slot, lastSeq: headSeq }]
  }

  noteSlot(slot: number, lastSeq: number): void {
    this.#ends.push({ slot, lastSeq })
  }

  /** Uploads the sealed segments that are not in the bucket. Throws BucketError. */
  async uploadSegments(): Promise<void> {
    const { bucket, key, rows, writer, signal } = this.#parts
    const uploaded = await this.#known()
    for (const segment of rows.sealed()) {
      const object = segmentObject(segment, writer.file.writerId)
      if (uploaded.has(object.name)) continue
      signal.throwIfAborted()
      if (await uploadSegment(bucket, key, { file: segment.file, object })) uploaded.add(object.name)
    }
  }

  /**
   * The order is what makes it complete. The segments are listed after the copy, so that every message in a slot before `logFrom`
   * is in one of them. They are listed before the last slot: compaction leaves out what lanes have, and the slot
   * has the cursors with which it did. Throws BucketError, ReplacedError, and errors of the disk.
   */
  async snapshot(): Promise<void> {
    const { bucket, key, changes, rows, scratch, spec, signal } = this.#parts
    const file = path.join(scratch, 'metadata.db')
    try {
      const appliesAfter = this.#parts.completeSlot()
      await changes.copyTo(file, signal)
      const segments = await this.#allSealed()
      const keptFromSeq = rows.keptFromSeq()
      await this.#parts.ship()
      const { dataDirId, epoch } = spec.identity
      const manifest: Omit<Manifest, 'metadataBytes'> = {
        format: 1,
        slot: this.#parts.completeSlot(),
        appliesAfter,
        logFrom: this.#logFromAfter(Math.max(segments.at(-1)?.lastSeq ?? 0, keptFromSeq - 1)),
        createdMs: Date.now(),
        dataDirId,
        epoch,
        recordingId: changes.recordingId,
        keptFromSeq,
        segments,
        version: spec.version,
      }
      const { bytes } = await uploadSnapshot(bucket, key, { manifest, file })
      this.snapshotMs = manifest.createdMs
      this.#hasSnapshot = true
      this.#parts.log.info(
        { slot: manifest.slot, segments: segments.length, bytes },
        'replica.snapshot_stored',
      )
    } finally {
      rmSync(file, { force: true })
    }
    await this.#removeUnneeded()
  }

  /** All sealed segments of this moment, once every one is uploaded. */
  async #allSealed(): Promise<SegmentObject[]> {
    for (;;) {
      await this.uploadSegments()
      const uploaded = await this.#known()
      const objects = this.#parts.rows
        .sealed()
        .map((segment) => segmentObject(segment, this.#parts.writer.file.writerId))
      if (objects.every(({ name }) => uploaded.has(name))) return objects
    }
  }

  /** The first slot with rows after `seq`, or one before it. */
  #logFromAfter(seq: number): number {
    assert(this.#logFrom !== null, 'the snapshot from before this start was looked for')
    while (this.#ends[0] !== undefined && this.#ends[0].lastSeq <= seq)
      this.#logFrom = this.#ends.shift()!.slot + 1
    return this.#logFrom
  }

  async #known(): Promise<Set<string>> {
    if (this.#uploaded !== null) return this.#uploaded
    const found = new Set<string>()
    for await (const { name } of this.#parts.bucket.list(segmentPrefix)) found.add(name)
    this.#uploaded = found
    return found
  }

  async #removeUnneeded(): Promise<void> {
    const { bucket, signal } = this.#parts
    const { unneeded, kept } = await this.#listUnneeded()
    this.stored = kept
    if (unneeded.length === 0) return
    await this.#parts.prove()
    for (const name of unneeded) {
      signal.throwIfAborted()
      await bucket.remove(name)
      this.#uploaded?.delete(name)
    }
  }

  async #listUnneeded(): Promise<{ unneeded: string[]; kept: StoredObjects }> {
    const { bucket, key, rows, writer } = this.#parts
    const slots = await listSnapshots(bucket)
    const manifests: Manifest[] = []
    for (const slot of slots.slice(-snapshotsKept)) {
      const manifest = await readManifest(bucket, key, slot)
      if (manifest !== null) manifests.push(manifest)
    }
    const firstNeeded = Math.min(...manifests.map(firstSlotOf))
    const needed = new Set(manifests.flatMap(({ segments }) => segments.map(({ name }) => name)))
    for (const segment of rows.sealed()) needed.add(segmentObject(segment, writer.file.writerId).name)
    const old = new Set(slots.slice(0, -snapshotsKept).map(snapshotName))
    const isUnneeded: Record<string, (name: string) => boolean> = {
      [slotPrefix]: (name) => (slotOfName(name) ?? firstNeeded) < firstNeeded,
      [segmentPrefix]: (name) => !needed.has(name),
      [snapshotPrefix]: (name) => old.has(name),
    }
    const unneeded: string[] = []
    const kept = { objects: 0, bytes: 0 }
    for (const [prefix, test] of Object.entries(isUnneeded))
      for await (const { name, bytes } of bucket.list(prefix)) {
        if (test(name)) unneeded.push(name)
        else {
          kept.objects += 1
          kept.bytes += bytes
        }
      }
    return { unneeded, kept }
  }
}
