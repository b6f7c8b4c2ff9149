/**
 * Detects drift: keys of delivered records that no column of the destination takes, and columns that no record fills.
 * It samples some records of each batch after delivery. So it costs nothing without mapped columns, little otherwise,
 * and never delays delivery.
 *
 *   stored ─▶ up to 20 records per batch, 100 per second and destination ─▶ counts in memory
 *                                                   news after 2 s, counts after 60 s ─▶ metadata
 *
 * A crash loses the counts of at most one minute. Changing the columns restarts the counts (`mappingHash`).
 */
import { type ColumnRule, columnRules } from '../contract/column-rules.ts'
import type { ColumnMapping } from '../contract/destination.ts'
import { wordsOf } from '../contract/destination-words.ts'
import { type DriftState, driftLimits, type SavedDrift } from '../contract/drift.ts'
import { mappingHash } from '../contract/mapping-hash.ts'
import type { Batch, DatabaseSpec } from '../destinations/driver.ts'
import { members, records, stringValue } from '../log/record-text.ts'
import type { LaneOwner } from '../metadata/lane-ownership.ts'
import type { DriftStore, LaneSpec } from '../metadata/lane-state.ts'
import type { Logger } from '../platform/log.ts'
import type { Clock } from './clock.ts'

const recordsPerBatch = 20
const recordsPerSecond = 100
/** Larger records are not sampled: they would take longer than a millisecond. */
const maxRecordBytes = 256 * 1024
const saveNewsMs = 2_000
const saveCountsMs = 60_000

interface Counting {
  readonly owner: LaneOwner
  readonly counts: DriftCounts
  /** Never rejects. */
  readonly loading: Promise<void>
  cancelSave: (() => void) | null
}

export class DriftWatch {
  readonly #store: DriftStore
  readonly #clock: Clock
  readonly #log: Logger
  readonly #counting = new Map<string, Counting>()
  /** The last write of each destination, possibly still under way. Restarted counting waits for it. */
  readonly #writes = new Map<string, Promise<void>>()

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
    counts.look(batch, this.#clock.now())
    if (counts.hasNews && !hadNews) this.#cancelSave(counting)
    if (!counts.isChanged || counting.cancelSave !== null) return
    counting.cancelSave = this.#clock.wake(counts.hasNews ? saveNewsMs : saveCountsMs, () => {
      counting.cancelSave = null
      void this.#written(spec.destinationId, this.#save(counting))
    })
  }

  /** The destination's driver was closed: saves its counts and removes them from memory. Never rejects. */
  async close(destinationId: string): Promise<void> {
    const counting = this.#counting.get(destinationId)
    if (counting === undefined) return
    this.#counting.delete(destinationId)
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

/** The counts of one destination. */
export class DriftCounts {
  readonly #hash: string
  /** By key, the columns that the key fills. */
  readonly #known = new Map<string, string[]>()
  #state: DriftState
  #isLoaded = false
  #isChanged = false
  #hasNews = false
  #second = 0
  #leftInSecond = recordsPerSecond

  constructor({ columns, timestampField }: Pick<DatabaseSpec, 'columns' | 'timestampField'>, nowMs: number) {
    this.#hash = mappingHash(columns, timestampField)
    const rules = columnRules(columns, timestampField)
    for (const { name, source } of rules.filter(isFromKey)) {
      this.#known.set(source.key, [...(this.#known.get(source.key) ?? []), name])
    }
    this.#state = {
      since_ms: nowMs,
      records: 0,
      keys: [],
      other_keys: 0,
      unfilled: [...this.#known.values()].flat(),
    }
  }

  get isLoaded(): boolean {
    return this.#isLoaded
  }
  get isChanged(): boolean {
    return this.#isChanged
  }
  /** True when there is a key, or a filled column, that was not known before. */
  get hasNews(): boolean {
    return this.#hasNews
  }

  /** Continues the saved counts if the columns are the same. */
  begin(saved: SavedDrift | null): void {
    this.#isLoaded = true
    if (saved?.mappingHash !== this.#hash) return
    const before = structuredClone(saved.state)
    const mine = this.#state
    this.#state = {
      ...before,
      records: before.records + mine.records,
      other_keys: before.other_keys + mine.other_keys,
    }
    this.#state.unfilled = before.unfilled.filter((name) => mine.unfilled.includes(name))
    for (const key of mine.keys) this.#add(key)
  }

  /** Returns a copy for saving. */
  taken(): SavedDrift {
    this.#isChanged = false
    this.#hasNews = false
    return { mappingHash: this.#hash, state: structuredClone(this.#state) }
  }

  forgetExamples(): void {
    this.#state.keys = this.#state.keys.map((key) => ({ ...key, example: '' }))
  }

  look(batch: Batch, nowMs: number): void {
    const second = Math.floor(nowMs / 1000)
    if (second !== this.#second) this.#leftInSecond = recordsPerSecond
    this.#second = second
    let left = Math.min(recordsPerBatch, this.#leftInSecond)
    // Starts at the newest message, which shows recent changes.
    for (let at = batch.messages.length - 1; at >= 0 && left > 0; at--) {
      for (const record of records(batch.messages[at]!.body)) {
        if (left === 0) break
        left -= 1
        this.#leftInSecond -= 1
        if (record.length <= maxRecordBytes) this.#lookAt(record, nowMs)
      }
    }
  }

  #lookAt(record: Buffer, nowMs: number): void {
    this.#isChanged = true
    this.#state.records += 1
    const seen = new Set<string>()
    for (const { key: literal, value } of members(record)) {
      const isLong = literal.length > 6 * driftLimits.keyCharacters + 2
      const key = isLong ? null : stringValue(literal.toString('utf8'))
      const columns = key === null ? undefined : this.#known.get(key)
      if (columns !== undefined) this.#fill(columns, value)
      else if (key === null || key.length > driftLimits.keyCharacters) this.#state.other_keys += 1
      // A duplicate key in one record counts once.
      else if (!seen.has(key)) {
        seen.add(key)
        const [type, example] = [typeOf(value), exampleOf(value)]
        this.#add({ key, records: 1, first_ms: nowMs, last_ms: nowMs, type, example })
      }
    }
  }

  #fill(columns: readonly string[], value: Buffer): void {
    const isNull = value.length === 4 && value[0] === 0x6e
    if (isNull || this.#state.unfilled.length === 0) return
    const before = this.#state.unfilled.length
    this.#state.unfilled = this.#state.unfilled.filter((name) => !columns.includes(name))
    if (this.#state.unfilled.length < before) this.#hasNews = true
  }

  #add(found: DriftState['keys'][number]): void {
    const known = this.#state.keys.find(({ key }) => key === found.key)
    if (known !== undefined) {
      known.records += found.records
      known.last_ms = Math.max(known.last_ms, found.last_ms)
      // Null has no type information.
      if (known.type === 'null') [known.type, known.example] = [found.type, found.example]
    } else if (this.#state.keys.length < driftLimits.keys) {
      this.#state.keys.push(found)
      this.#hasNews = true
    } else this.#state.other_keys += found.records
  }
}

function isFromKey(rule: ColumnRule): rule is ColumnRule & { source: { kind: 'key'; key: string } } {
  return rule.source.kind === 'key'
}

function typeOf(value: Buffer): ColumnMapping['column_type'] {
  switch (value[0]) {
    case 0x22:
      return 'string'
    case 0x7b:
      return 'object'
    case 0x5b:
      return 'array'
    case 0x74:
    case 0x66:
      return 'boolean'
    case 0x6e:
      return 'null'
    default:
      return 'number'
  }
}

/** The beginning of the value's JSON text. */
function exampleOf(value: Buffer): string {
  const { exampleCharacters } = driftLimits
  const characters = [...value.subarray(0, 4 * exampleCharacters).toString('utf8')]
  if (characters.length <= exampleCharacters && value.length <= 4 * exampleCharacters)
    return characters.join('')
  return `${characters.slice(0, exampleCharacters - 1).join('')}…`
}
