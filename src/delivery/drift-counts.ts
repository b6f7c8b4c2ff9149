/** Counts the drift of one destination in memory: `drift.ts` decides which batches are sampled and when it is saved. */
import { type ColumnRule, columnRules } from '../contract/column-rules.ts'
import type { ColumnMapping } from '../contract/destination.ts'
import { type DriftState, driftLimits, type SavedDrift } from '../contract/drift.ts'
import { mappingHash } from '../contract/mapping-hash.ts'
import type { Batch, DatabaseSpec } from '../destinations/driver.ts'
import { members, stringValue } from '../log/record-text.ts'
import { RecordSampler } from './sampled-records.ts'

/** The counts of one destination. */
export class DriftCounts {
  readonly #hash: string
  /** By key, the columns that the key fills. */
  readonly #known = new Map<string, string[]>()
  #state: DriftState
  #isLoaded = false
  #isChanged = false
  #hasNews = false
  readonly #sampler = new RecordSampler()

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

  /** Identifies the column mapping with which it counts. */
  get hash(): string {
    return this.#hash
  }
  /** The keys without a column, as counted so far. */
  get keys(): DriftState['keys'] {
    return this.#state.keys
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

  /** Returns the number of sampled records that have a key without a column. */
  look(batch: Batch, nowMs: number): number {
    let unmapped = 0
    for (const record of this.#sampler.sample(batch, nowMs)) if (this.#lookAt(record, nowMs)) unmapped += 1
    return unmapped
  }

  /** Returns whether the record has a key without a column. */
  #lookAt(record: Buffer, nowMs: number): boolean {
    this.#isChanged = true
    this.#state.records += 1
    const seen = new Set<string>()
    const otherKeys = this.#state.other_keys
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
    return seen.size > 0 || this.#state.other_keys > otherKeys
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
