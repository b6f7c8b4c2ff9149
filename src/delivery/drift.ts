/**
 * Detects drift: keys of delivered records that no column of the destination takes, and columns that no record fills.
 * It samples some records of each batch after delivery. So it costs nothing without mapped columns, little otherwise,
 * and never delays delivery.
 *
 *   stored ─▶ up to 20 records per batch, 100 per second and destination ─▶ counts in memory
 *                                                   news after 2 s, counts after 60 s ─▶ metadata
 *
 * A crash loses the counts of at most one minute. Changing the columns restarts the counts (`mappingHash`).
 *
 * Alerts and metrics ask every few seconds (`unmapped`). The counts of a lane that is idle, or that has delivered nothing
 * since the start, stay in memory once they were read.
 */
import { wordsOf } from '../contract/destination-words.ts'
import { type DriftState, driftLimits, type UnmappedKeys } from '../contract/drift.ts'
import { mappingHash } from '../contract/mapping-hash.ts'
import type { Batch, DestinationSpec } from '../destinations/driver.ts'
import type { LaneOwner } from '../metadata/lane-ownership.ts'
import type { DriftStore, LaneSpec } from '../metadata/lane-state.ts'
import type { Logger } from '../platform/log.ts'
import { hourMs, minuteMs } from '../platform/quantities.ts'
import { SerialQueue } from '../platform/serial-queue.ts'
import type { Clock } from './clock.ts'
import { addsColumns, isRepeated } from './column-candidates.ts'
import { DriftCounts } from './drift-counts.ts'

const saveNewsMs = 2_000
const saveCountsMs = 60_000

interface Counting {
  readonly owner: LaneOwner
  readonly counts: DriftCounts
  /** Never rejects. */
  readonly loading: Promise<void>
  cancelSave: (() => void) | null
}

/** A key that gets a column within this time is not reported. */
const addedWithinMs = 5 * minuteMs

interface KnownKeys {
  readonly hash: string
  readonly keys: readonly Omit<DriftState['keys'][number], 'type' | 'example'>[]
}

/** No key without a column is known. */
const noneUnmapped: UnmappedKeys = { keys: 0, names: [] }

export class DriftWatch {
  readonly #store: DriftStore
  readonly #clock: Clock
  readonly #log: Logger
  readonly #counting = new Map<string, Counting>()
  /** The last write of each destination, possibly still under way. Restarted counting waits for it. */
  readonly #writes = new Map<string, Promise<void>>()
  /** By destination: the keys that were known last, for lanes that count nothing at the moment. */
  readonly #last = new Map<string, KnownKeys>()
  /** By destination: sampled records with a key that has no column, since the lane runs in this process. */
  readonly #unmappedRecords = new Map<string, number>()
  readonly #reading = new Set<string>()
  readonly #reads = new SerialQueue()
  readonly #hashes = new WeakMap<DestinationSpec, string>()

  constructor(store: DriftStore, clock: Clock, log: Logger) {
    this.#store = store
    this.#clock = clock
    this.#log = log
  }

  /** The destination has stored this batch. The destination has mapped columns; only databases have drift. */
  delivered(spec: LaneSpec, epoch: number, batch: Batch): void {
    const counting = this.#counting.get(spec.destinationId) ?? this.#begin(spec, epoch)
    if (counting === null) return
    const { counts } = counting
    const hadNews = counts.hasNews
    const unmapped = counts.look(batch, this.#clock.now())
    if (unmapped > 0)
      this.#unmappedRecords.set(spec.destinationId, this.unmappedRecords(spec.destinationId) + unmapped)
    if (counts.hasNews && !hadNews) this.#cancelSave(counting)
    if (!counts.isChanged || counting.cancelSave !== null) return
    counting.cancelSave = this.#clock.wake(counts.hasNews ? saveNewsMs : saveCountsMs, () => {
      counting.cancelSave = null
      void this.#written(spec.destinationId, this.#save(counting))
    })
  }

  /** The keys that occur repeatedly without a column. Null: not known yet. Reads metadata in the background. */
  unmapped(spec: LaneSpec): UnmappedKeys | null {
    const { destinationId } = spec
    if (!wordsOf(spec.type).isDatabase || spec.columns.length === 0) return noneUnmapped
    const current = this.#counting.get(destinationId)?.counts
    const known = current?.isLoaded === true ? current : this.#last.get(destinationId)
    if (known === undefined) {
      this.#readLater(spec)
      return null
    }
    // The columns were changed after the last record.
    if (known.hash !== this.#hashOf(spec)) return noneUnmapped
    const nowMs = this.#clock.now()
    const graceMs = addsColumns(spec) ? addedWithinMs : 0
    const keys = known.keys.filter((one) => isReported(one, nowMs, graceMs))
    if (keys.length === 0) return noneUnmapped
    return { keys: keys.length, names: keys.slice(0, driftLimits.namedKeys).map(({ key }) => key) }
  }

  /** The number of sampled records with a key that has no column. */
  unmappedRecords(destinationId: string): number {
    return this.#unmappedRecords.get(destinationId) ?? 0
  }

  /** The lane has ended here. */
  laneGone(destinationId: string): void {
    this.#last.delete(destinationId)
    this.#unmappedRecords.delete(destinationId)
    this.#reading.delete(destinationId)
  }

  #hashOf(spec: LaneSpec): string {
    const hash = this.#hashes.get(spec) ?? mappingHash(spec.columns, spec.timestampField)
    this.#hashes.set(spec, hash)
    return hash
  }

  /** One lane after the other, because all of them can be asked for at once. */
  #readLater(spec: LaneSpec): void {
    const { destinationId } = spec
    if (this.#reading.has(destinationId)) return
    this.#reading.add(destinationId)
    void this.#reads.run(async () => {
      const counts = new DriftCounts(spec, this.#clock.now())
      // A failed read is repeated with the next question.
      const saved = await this.#store.load(destinationId).catch(() => undefined)
      if (!this.#reading.delete(destinationId) || saved === undefined) return
      counts.begin(saved)
      if (!this.#last.has(destinationId)) this.#last.set(destinationId, knownOf(counts))
    })
  }

  /** The destination's driver was closed: saves its counts and removes them from memory. Never rejects. */
  async close(destinationId: string): Promise<void> {
    const counting = this.#counting.get(destinationId)
    if (counting === undefined) return
    this.#counting.delete(destinationId)
    if (counting.counts.isLoaded) this.#last.set(destinationId, knownOf(counting.counts))
    this.#cancelSave(counting)
    const before = Promise.all([counting.loading, this.#writes.get(destinationId)])
    await this.#written(
      destinationId,
      before.then(() => this.#save(counting)),
    )
  }

  /** Records were deleted: removes the examples in memory, once none of them is being saved. */
  async forgetExamples(destinationId: string): Promise<void> {
    const counting = this.#counting.get(destinationId)
    await counting?.loading
    counting?.counts.forgetExamples()
    await this.#writes.get(destinationId)
  }

  #begin(spec: LaneSpec, epoch: number): Counting | null {
    if (!wordsOf(spec.type).isDatabase) return null
    const { destinationId } = spec
    const counts = new DriftCounts(spec, this.#clock.now())
    const loading = this.#load(destinationId, counts)
    const counting = { owner: { destinationId, epoch }, counts, loading, cancelSave: null }
    this.#counting.set(destinationId, counting)
    return counting
  }

  #cancelSave(counting: Counting): void {
    counting.cancelSave?.()
    counting.cancelSave = null
  }

  async #load(destinationId: string, counts: DriftCounts): Promise<void> {
    try {
      await this.#writes.get(destinationId)
      counts.begin(await this.#store.load(destinationId))
    } catch (err) {
      // Counting starts from zero in memory; the stored counts are not overwritten.
      this.#log.warn({ err, destination_id: destinationId }, 'drift.not_loaded')
    }
  }

  async #save({ owner, counts }: Counting): Promise<void> {
    if (!counts.isChanged || !counts.isLoaded) return
    try {
      await this.#store.save(owner, counts.taken())
    } catch (err) {
      this.#log.warn({ err, destination_id: owner.destinationId }, 'drift.not_saved')
    }
  }

  async #written(destinationId: string, writing: Promise<void>): Promise<void> {
    this.#writes.set(destinationId, writing)
    await writing
    if (this.#writes.get(destinationId) === writing) this.#writes.delete(destinationId)
  }
}

/** Without the examples, so that idle lanes hold little memory. */
function knownOf({ hash, keys }: DriftCounts): KnownKeys {
  return {
    hash,
    keys: keys.map(({ key, records, first_ms, last_ms }) => ({ key, records, first_ms, last_ms })),
  }
}

/** The key occurs repeatedly and has occurred recently. */
function isReported(seen: KnownKeys['keys'][number], nowMs: number, graceMs: number): boolean {
  const isRecent = nowMs - seen.last_ms < driftLimits.endedHours * hourMs
  return isRecent && isRepeated(seen) && nowMs - seen.first_ms >= graceMs
}
