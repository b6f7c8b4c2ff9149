/**
 * Keys of one destination that may get a column (`auto_add_columns`): how often they occur, and values from which a type is
 * chosen. In memory only, so a restart begins again. Bounded, because keys and values come from clients.
 */
import { columnRules } from '../contract/column-rules.ts'
import { driftLimits } from '../contract/drift.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { Batch, DestinationSpec, TableSpec } from '../destinations/driver.ts'
import { members, stringValue } from '../log/record-text.ts'
import { RecordSampler } from './sampled-records.ts'

const { observedKeys, observedValues, observedValueBytes, numericTextCharacters } = resourceLimits

/** True for a destination whose table gets columns for keys that have none. */
export function addsColumns<Spec extends DestinationSpec>(spec: Spec): spec is Spec & TableSpec {
  return 'auto_add_columns' in spec.config && spec.config.auto_add_columns
}

/** A key that occurs once, or for a moment, can be a typo. */
export function isRepeated({
  records,
  first_ms,
  last_ms,
}: {
  records: number
  first_ms: number
  last_ms: number
}): boolean {
  const { repeatedRecords, repeatedSeconds } = driftLimits
  return records >= repeatedRecords || last_ms - first_ms >= repeatedSeconds * 1_000
}

interface Candidate {
  /** The key as JSON text. */
  literal: Buffer
  records: number
  first_ms: number
  last_ms: number
  /** The newest values that are not null, as JSON texts. */
  values: Buffer[]
}

export class ColumnCandidates {
  /** Keys that have a column, or that cannot get one. */
  readonly #settled: Set<string>
  readonly #found = new Map<string, Candidate>()
  readonly #sampler = new RecordSampler()

  constructor({ columns, timestampField }: Pick<TableSpec, 'columns' | 'timestampField'>) {
    const sources = columnRules(columns, timestampField).map(({ source }) => source)
    this.#settled = new Set(sources.flatMap((source) => (source.kind === 'key' ? [source.key] : [])))
  }

  look(batch: Batch, nowMs: number): void {
    for (const record of this.#sampler.sample(batch, nowMs)) {
      const seen = new Set<string>()
      for (const { key: literal, value } of members(record)) {
        if (literal.length > 6 * driftLimits.keyCharacters + 2) continue
        const key = stringValue(literal.toString('utf8'))
        if (key === null || key.length > driftLimits.keyCharacters || this.#settled.has(key) || seen.has(key))
          continue
        seen.add(key)
        this.#add(key, literal, value, nowMs)
      }
    }
  }

  /** The keys that occur repeatedly and have a value that is not null. */
  ripe(): string[] {
    return [...this.#found]
      .filter(([, candidate]) => candidate.values.length > 0 && isRepeated(candidate))
      .map(([key]) => key)
  }

  /** These keys are not considered again: they have a column, or cannot get one. */
  settle(keys: Iterable<string>): void {
    for (const key of keys) {
      // Bounded like the columns of a table. A key that is not settled is only looked up again.
      if (this.#settled.size < settledKeys) this.#settled.add(key)
      this.#found.delete(key)
    }
  }

  /** Records of one key each, as NDJSON, for the proposal of columns. */
  samples(keys: readonly string[]): Buffer[] {
    return keys.flatMap((key) => {
      const { literal, values } = this.#found.get(key) ?? { literal: Buffer.alloc(0), values: [] }
      return values.map((value) =>
        Buffer.concat([Buffer.from('{'), literal, Buffer.from(':'), value, Buffer.from('}')]),
      )
    })
  }

  #add(key: string, literal: Buffer, value: Buffer, nowMs: number): void {
    let candidate = this.#found.get(key)
    if (candidate === undefined) {
      if (this.#found.size >= observedKeys) this.#removeOldest(nowMs)
      if (this.#found.size >= observedKeys) return
      candidate = { literal: Buffer.from(literal), records: 0, first_ms: nowMs, last_ms: nowMs, values: [] }
      this.#found.set(key, candidate)
    }
    candidate.records += 1
    candidate.last_ms = nowMs
    if (value[0] === 0x6e) return
    candidate.values.push(shortValue(value))
    if (candidate.values.length > observedValues) candidate.values.shift()
  }

  /** A key that is not seen again must not keep others out. */
  #removeOldest(nowMs: number): void {
    for (const [key, { last_ms }] of this.#found)
      if (nowMs - last_ms > keptMs) {
        this.#found.delete(key)
        return
      }
  }
}

/** A table has at most 1,600 columns. */
const settledKeys = 5_000
const keptMs = 10 * 60_000

/** A copy, so that the batch is not kept in memory. A long value is replaced by a short one that gets the same type. */
function shortValue(value: Buffer): Buffer {
  if (value.length <= observedValueBytes) return Buffer.from(value)
  switch (value[0]) {
    case 0x22:
      return Buffer.from('"text"')
    case 0x7b:
      return Buffer.from('{}')
    case 0x5b:
      return Buffer.from('[]')
    default:
      return Buffer.from('9'.repeat(numericTextCharacters + 1))
  }
}
