/**
 * Builds the files of a data directory from a replica: the newest snapshot, its segments, and the slots after them. The caller
 * (`src/maintenance/restore-replica.ts`) begins a new epoch and gives the directory its name.
 *
 * Complete downloads stay after a failure, and the next try continues with them: a segment has its name only when
 * it is complete and flushed. Everything is verified by its seal, and slots by the chain of their checksums.
 *
 *   | a crash after …                        | on disk                              | the next try                              |
 *   |----------------------------------------|--------------------------------------|-------------------------------------------|
 *   | a part of a segment                    | a file `….part`                      | downloads it again                        |
 *   | some segments                          | these, and the name of the snapshot  | skips them, if the snapshot is still used |
 *   | the copy of metadata, or rows of slots | files that are not complete          | writes metadata and the rows again        |
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import path from 'node:path'
import { segmentFile } from '../log/segments/layout.ts'
import { type LogCopy, openLogCopy } from '../log/segments/log-copy.ts'
import { type AppliedRows, openAppliedRows } from '../metadata/sqlite/replicated-file.ts'
import { fsyncDirectory, fsyncFile } from '../platform/fsync.ts'
import type { Bucket } from './bucket.ts'
import { type FoundSlot, readChain } from './chain.ts'
import { patiently, streamPatiently } from './patience.ts'
import { unsealChunks } from './sealing.ts'
import type { SegmentObject } from './segment-objects.ts'
import {
  firstSlotOf,
  listSnapshots,
  type Manifest,
  openSnapshot,
  readManifest,
  SnapshotError,
  snapshotName,
} from './snapshot.ts'

export interface RestoreOptions {
  bucket: Bucket
  key: Buffer
  /** The directory to fill. */
  into: string
  segmentMaxBytes: number
  /** The state of this moment, ms since the epoch; null: the newest. */
  atMs: number | null
  /** A request that fails for a time is repeated so often. */
  attempts: number
  onProgress(doneBytes: number, totalBytes: number): void
  /** Asked at the end of the chain: whether to look for a next slot. Null: the result is complete there. */
  follow: ((last: FoundSlot) => Promise<boolean>) | null
}

export interface Rebuilt {
  dataDirId: string
  generation: number
  /** The last slot that was read. */
  slot: number
  checksum: string
  /** Everything that was acknowledged before this moment, ms since the epoch, is there. */
  throughMs: number
  segments: number
  slots: number
  /** Later changes of metadata need a snapshot that was not stored: the daemon had been upgraded just before. */
  lacksMetadata: boolean
  /** The recording of changes that the result belongs to; null with `lacksMetadata`. */
  recordingId: string | null
}

/** How often a command repeats a request that failed for a time. */
export const restoreAttempts = 8

const progressName = 'restore.json'
const segmentsAtOnce = 4

/** Throws BucketError, SealError, SlotError, SnapshotError, and errors of the disk. */
export async function rebuild(options: RestoreOptions): Promise<Rebuilt> {
  const { bucket, key, into } = options
  for (;;) {
    const manifest = await chooseSnapshot(options)
    begin(into, manifest.slot)
    try {
      await fetchSegments(options, manifest)
      const opened = await openSnapshot(bucket, key, manifest.slot, options.attempts)
      if (opened === null) throw new Outdated()
      await writeMetadata(path.join(into, 'metadata.db'), opened.metadata, manifest.metadataBytes)
      const built = await applySlots(options, manifest)
      rmSync(path.join(into, progressName))
      return built
    } catch (error) {
      // A daemon that still runs has stored a newer snapshot and removed what only this one needed.
      if (!(error instanceof Outdated) || (await isNewest(bucket, manifest.slot))) throw error
    }
  }
}

/** Something that the snapshot needs is no longer in the bucket. */
class Outdated extends SnapshotError {
  constructor(what = 'the snapshot') {
    super(`${what} is missing in the bucket`)
  }
}

async function isNewest(bucket: Bucket, slot: number): Promise<boolean> {
  return (await listSnapshots(bucket)).at(-1) === slot
}

async function chooseSnapshot({ bucket, key, atMs, attempts }: RestoreOptions): Promise<Manifest> {
  const slots = await patiently(() => listSnapshots(bucket), attempts)
  if (slots.length === 0)
    throw new SnapshotError('there is no snapshot: nothing was replicated to this address')
  for (const slot of slots.toReversed()) {
    const manifest = await readManifest(bucket, key, slot, attempts)
    if (manifest !== null && (atMs === null || manifest.createdMs <= atMs)) return manifest
  }
  const oldest = await readManifest(bucket, key, slots[0]!)
  const from = oldest === null ? 'later' : new Date(oldest.createdMs).toISOString()
  throw new SnapshotError(`the oldest snapshot is of ${from}: choose a later time`)
}

/** Removes what another snapshot left. */
function begin(into: string, slot: number): void {
  const file = path.join(into, progressName)
  const isSame = existsSync(file) && readFileSync(file, 'utf8') === String(slot)
  if (!isSame) rmSync(path.join(into, 'buffer'), { recursive: true, force: true })
  mkdirSync(path.join(into, 'buffer'), { recursive: true, mode: 0o700 })
  writeFileSync(file, String(slot), { mode: 0o600 })
}

async function fetchSegments(options: RestoreOptions, { segments }: Manifest): Promise<void> {
  const dir = path.join(options.into, 'buffer')
  const wanted = new Map(segments.map((one) => [path.basename(segmentFile(dir, one)), one]))
  // The rows of slots that an earlier try has applied are applied again.
  for (const name of readdirSync(dir)) {
    const isComplete = wanted.has(name) && statSync(path.join(dir, name)).size === wanted.get(name)!.bytes
    if (!isComplete) rmSync(path.join(dir, name))
  }
  const totalBytes = segments.reduce((sum, { bytes }) => sum + bytes, 0)
  let doneBytes = 0
  const report = (bytes: number) => {
    doneBytes += bytes
    options.onProgress(doneBytes, totalBytes)
  }
  const waiting = [...wanted]
  const worker = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [name, object] = next
      const file = path.join(dir, name)
      if (existsSync(file)) report(object.bytes)
      else await fetchSegment(options, object, file, report)
    }
  }
  await Promise.all(Array.from({ length: segmentsAtOnce }, worker))
  fsyncDirectory(dir)
}

async function fetchSegment(
  { bucket, key, attempts }: RestoreOptions,
  { name, bytes }: SegmentObject,
  file: string,
  report: (bytes: number) => void,
): Promise<void> {
  const sealed = await streamPatiently(bucket, name, attempts)
  if (sealed === null) throw new Outdated(name)
  const written = await writeFlushed(`${file}.part`, unsealChunks(key, name, sealed), report)
  if (written !== bytes) throw new SnapshotError(`${name} has ${written} bytes instead of ${bytes}`)
  renameSync(`${file}.part`, file)
}

async function writeMetadata(file: string, content: AsyncIterable<Buffer>, bytes: number): Promise<void> {
  for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(file + suffix, { force: true })
  const written = await writeFlushed(file, content)
  if (written !== bytes)
    throw new SnapshotError(`the copy of metadata has ${written} bytes instead of ${bytes}`)
}

async function writeFlushed(
  file: string,
  content: AsyncIterable<Buffer>,
  report: (bytes: number) => void = () => {},
): Promise<number> {
  const handle = await open(file, 'w', 0o600)
  let written = 0
  try {
    for await (const part of content) {
      await handle.writeFile(part)
      written += part.length
      report(part.length)
    }
    await handle.sync()
  } finally {
    await handle.close()
  }
  return written
}

async function applySlots(options: RestoreOptions, manifest: Manifest): Promise<Rebuilt> {
  const { bucket, key, into, follow } = options
  const first = firstSlotOf(manifest)
  const copy = new Copy(options, manifest)
  try {
    for await (const found of readChain(bucket, key, { first, attempts: options.attempts }, follow)) {
      if (copy.isLater(found)) break
      copy.apply(found)
    }
    const built = copy.result()
    if (built === null) {
      const needs = snapshotName(manifest.slot)
      throw new Outdated(`a slot from ${first} to ${manifest.slot}, which ${needs} needs,`)
    }
    return built
  } finally {
    copy.close()
    fsyncFile(path.join(into, 'metadata.db'))
  }
}

/**
 * The log and the metadata while slots are applied. Messages are stored from every slot: each is complete by itself, and a log
 * that is newer than the cursors only repeats deliveries. Rows of metadata are stored by whole groups.
 */
class Copy {
  readonly #options: RestoreOptions
  readonly #manifest: Manifest
  readonly #log: LogCopy
  readonly #metadata: AppliedRows
  /** Slots of a group that is not complete. */
  #group: FoundSlot[] = []
  #last: FoundSlot | null = null
  #throughMs: number
  #slots = 0
  #isOtherRecording = false

  constructor(options: RestoreOptions, manifest: Manifest) {
    const { into, segmentMaxBytes } = options
    const { dataDirId, epoch, keptFromSeq } = manifest
    this.#options = options
    this.#manifest = manifest
    this.#throughMs = manifest.createdMs
    const identity = { dataDirId, epoch }
    this.#log = openLogCopy(path.join(into, 'buffer'), { identity, segmentMaxBytes, keptFromSeq })
    this.#metadata = openAppliedRows(path.join(into, 'metadata.db'))
  }

  isLater({ slot: { header } }: FoundSlot): boolean {
    const { atMs } = this.#options
    return atMs !== null && header.createdMs > atMs && header.slot > this.#manifest.slot
  }

  apply(found: FoundSlot): void {
    const { logFrom } = this.#manifest
    const { header, logRows } = found.slot
    if (header.slot >= logFrom && header.log !== null) this.#log.append(logRows)
    this.#last = found
    this.#slots += 1
    this.#applyMetadata(found)
  }

  #applyMetadata(found: FoundSlot): void {
    const { appliesAfter, recordingId } = this.#manifest
    const { header } = found.slot
    if (header.slot <= appliesAfter) return
    // Another writer began before this group was complete.
    if (this.#group[0]?.slot.header.writerId !== header.writerId) this.#group = []
    this.#group.push(found)
    if (!header.complete) return
    this.#isOtherRecording ||= this.#group.some((one) => one.slot.header.recordingId !== recordingId)
    if (!this.#isOtherRecording) {
      for (const { slot } of this.#group)
        if (slot.metadataRows.length > 0) this.#metadata.apply(slot.metadataRows)
      this.#throughMs = Math.max(this.#throughMs, header.createdMs)
    }
    this.#log.keepFrom(header.keptFromSeq)
    this.#group = []
  }

  /** Null: it has not reached the snapshot. */
  result(): Rebuilt | null {
    if (this.#last === null || this.#last.slot.header.slot < this.#manifest.slot) return null
    const { slot, generation } = this.#last.slot.header
    const { dataDirId, segments } = this.#manifest
    return {
      dataDirId,
      generation,
      slot,
      checksum: this.#last.checksum,
      throughMs: this.#throughMs,
      segments: segments.length,
      slots: this.#slots,
      lacksMetadata: this.#isOtherRecording,
      recordingId: this.#isOtherRecording ? null : this.#manifest.recordingId,
    }
  }

  close(): void {
    this.#metadata.close()
    this.#log.close()
  }
}
