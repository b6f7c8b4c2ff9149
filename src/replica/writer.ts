/**
 * Creates slots, one after the other. `writer-file.ts` has the table of what a crash leaves when a directory joins.
 *
 *   | between …                                  | in the bucket        | afterwards                                              |
 *   |--------------------------------------------|----------------------|---------------------------------------------------------|
 *   | the fsync of a message and the PUT         | not yet              | the next slot has it; lost with the machine until then  |
 *   | the PUT and its response                   | the slot             | it is read back: the same slot is not written twice     |
 *   | the response and the release of its rows   | the slot             | the rows are sent again, in their newest state          |
 *   | two slots of one moment                    | a part of a group    | a restore leaves it out, and so does the next writer    |
 *   another writer created the slot              its slot               `ReplacedError`: nothing more is written
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { BufferIdentity } from '../log/buffer.ts'
import { backoffMs } from '../platform/backoff.ts'
import { type Bucket, BucketError } from './bucket.ts'
import { type FoundSlot, maxSlotBytes, newestSlot } from './chain.ts'
import { decodeSlot, encodeSlot, type Slot, type SlotHeader } from './slot.ts'
import { readWriterFile, type WriterFile, writeWriterFile } from './writer-file.ts'

/** The end of the chain. */
export interface Position {
  slot: number
  checksum: string
  /** The newest seq of the log that is in a slot. */
  headSeq: number
}

export interface WriterSpec {
  /** The data directory. */
  root: string
  target: string
  identity: BufferIdentity
  /** See `RowChanges.recordingId`. */
  recordingId: string
  version: string
}

/** Another writer has the log in the bucket. This process must neither acknowledge nor deliver. */
export class ReplacedError extends Error {
  readonly by: SlotHeader
  constructor(by: SlotHeader, target: string) {
    const since = new Date(by.createdMs).toISOString()
    super(
      `${target} is written by another data directory: slot ${by.slot}, generation ${by.generation}, ${since}`,
    )
    this.name = 'ReplacedError'
    this.by = by
  }
}

/** The content of a slot, besides its place in the chain. */
export interface SlotContent
  extends Pick<Slot, 'logRows' | 'metadataRows'>,
    Pick<SlotHeader, 'log' | 'headSeq' | 'keptFromSeq' | 'complete'> {
  metadataCount: number
  /** The slot's group has everything that was acknowledged before this moment, ms since the epoch. */
  createdMs: number
}

const nothing = Buffer.alloc(0)
/** A slot that is filled is a little larger than its rows. */
const keptBytes = 6 * 1024 * 1024
const firstRetryMs = 200
const longestRetryMs = 10_000

export class SlotWriter {
  readonly file: WriterFile
  readonly #bucket: Bucket
  readonly #key: Buffer
  readonly #spec: WriterSpec
  /** Called with each failed attempt, which is repeated, and with null after a success. */
  onAttempt: (error: BucketError | null) => void = () => {}
  #position: Position
  #body: Buffer = nothing

  private constructor(
    { bucket, key }: { bucket: Bucket; key: Buffer },
    spec: WriterSpec,
    file: WriterFile,
    position: Position,
  ) {
    this.#bucket = bucket
    this.#key = key
    this.#spec = spec
    this.file = file
    this.#position = position
  }

  /**
   * Continues the log in the bucket, or begins it. Throws BucketError; ReplacedError if it belongs to another directory;
   * SlotError if its newest slot is damaged or was sealed with another key.
   */
  static async join(store: { bucket: Bucket; key: Buffer }, spec: WriterSpec): Promise<SlotWriter> {
    const { root, target } = spec
    const newest = await newestSlot(store.bucket, store.key)
    const header = newest?.slot.header ?? null
    const known = readWriterFile(root)
    const isKnown = known !== null && known.target === target
    if (isKnown && newest !== null && header?.writerId === known.writerId) {
      const { slot, headSeq } = newest.slot.header
      const file = { ...known, after: null }
      if (known.after !== null) writeWriterFile(root, file)
      return new SlotWriter(store, spec, file, { slot, checksum: newest.checksum, headSeq })
    }
    const isNext =
      isKnown &&
      known.after !== null &&
      known.after.slot === (header?.slot ?? 0) &&
      known.after.checksum === (newest?.checksum ?? '')
    if (newest !== null && !isNext) throw new ReplacedError(newest.slot.header, target)
    const file = isNext
      ? known
      : { target, writerId: randomUUID(), generation: 1, after: { slot: 0, checksum: '' } }
    if (!isNext) writeWriterFile(root, file)
    return await SlotWriter.#begin(store, spec, file, newest)
  }

  /**
   * Takes the log over after its newest slot. Throws BucketError; ReplacedError if there is a newer slot: what it has must be
   * read first.
   */
  static async takeOver(
    store: { bucket: Bucket; key: Buffer },
    spec: WriterSpec,
    last: FoundSlot,
  ): Promise<SlotWriter> {
    const { slot, generation } = last.slot.header
    const after = { slot, checksum: last.checksum }
    const file = { target: spec.target, writerId: randomUUID(), generation: generation + 1, after }
    writeWriterFile(spec.root, file)
    return await SlotWriter.#begin(store, spec, file, last)
  }

  /** Creates the first slot of this writer. */
  static async #begin(
    store: { bucket: Bucket; key: Buffer },
    spec: WriterSpec,
    file: WriterFile,
    last: FoundSlot | null,
  ): Promise<SlotWriter> {
    const { slot = 0, headSeq = 0 } = last?.slot.header ?? {}
    const writer = new SlotWriter(store, spec, file, { slot, checksum: last?.checksum ?? '', headSeq })
    const rows = { logRows: nothing, log: null, metadataRows: nothing, metadataCount: 0 }
    await writer.create({ ...rows, headSeq, keptFromSeq: 0, complete: true, createdMs: Date.now() })
    writeWriterFile(spec.root, { ...file, after: null })
    return writer
  }

  /** One slot is sent at a time, so the next one uses the same memory. */
  readonly #memory = (bytes: number): Buffer => {
    if (bytes > keptBytes) return Buffer.allocUnsafe(bytes)
    if (bytes > this.#body.length) this.#body = Buffer.allocUnsafe(Math.min(keptBytes, bytes * 2))
    return this.#body.subarray(0, bytes)
  }

  get position(): Position {
    return this.#position
  }

  /**
   * Creates the next slot, and repeats that until it exists or `signal` ends it. Throws ReplacedError, and the error of an
   * aborted signal.
   */
  async create(content: SlotContent, signal?: AbortSignal): Promise<void> {
    const { generation, writerId } = this.file
    const { version, recordingId, identity } = this.#spec
    const { logRows, metadataRows, metadataCount, createdMs, ...place } = content
    const header: SlotHeader = {
      format: 1,
      slot: this.#position.slot + 1,
      generation,
      writerId,
      previous: this.#position.checksum,
      createdMs,
      dataDirId: identity.dataDirId,
      epoch: identity.epoch,
      ...place,
      metadataRows: metadataCount,
      recordingId,
      version,
    }
    const { name, body, checksum } = encodeSlot(this.#key, { header, logRows, metadataRows }, this.#memory)
    for (let failures = 0; ; ) {
      try {
        if (!(await this.#createOnce(name, body, checksum, signal))) continue
        this.onAttempt(null)
        break
      } catch (error) {
        if (!(error instanceof BucketError) || signal?.aborted === true) throw error
        failures += 1
        this.onAttempt(error)
        const pause = error.retryAfterMs ?? backoffMs(failures, firstRetryMs, longestRetryMs)
        await delay(Math.min(pause, longestRetryMs), undefined, signal === undefined ? {} : { signal })
      }
    }
    this.#position = { slot: header.slot, checksum, headSeq: place.headSeq }
  }

  /** False: the slot was there and is gone, so it has to be tried again. */
  async #createOnce(name: string, body: Buffer, checksum: string, signal?: AbortSignal): Promise<boolean> {
    if ((await this.#bucket.create(name, body, signal)) === 'created') return true
    // An earlier attempt can have created it although its response was lost.
    const stored = await this.#bucket.get(name, maxSlotBytes, signal)
    if (stored === null) return false
    const found = decodeSlot(this.#key, name, stored)
    if (found.checksum !== checksum) throw new ReplacedError(found.slot.header, this.#spec.target)
    return true
  }
}
