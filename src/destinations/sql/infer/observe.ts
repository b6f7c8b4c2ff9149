/** Observes the records of a sample, key by key. Bounded: records and their keys come from untrusted clients. */
import { resourceLimits } from '../../../contract/resource-limits.ts'
import { members, records, stringValue } from '../../../log/record-text.ts'
import { factsOf, plainFacts, type ValueFacts, type ValueKind } from './value.ts'

export interface Observation {
  key: string
  /** Records that have the key, null included. */
  seen: number
  /** Number of values of each kind. */
  kinds: Partial<Record<ValueKind, number>>
  /** Each fact is true for every value, or for any. */
  facts: Omit<ValueFacts, 'kind'>
  /** Bytes of the longest value's text. */
  longestBytes: number
  /** Number of values that occur in more than one record, for keys that may be an id. Null: not counted. */
  repeated: number | null
}

export interface Observed {
  records: number
  /** In the order of their first appearance. */
  keys: Map<string, Observation>
  /** Number of members whose key is longer than a mapping allows. */
  longKeys: number
  /** Number of members beyond the maximum number of keys. */
  furtherKeys: number
}

const { inferredKeys, inferredRecords, inferredBytes } = resourceLimits
/** The limit of `source_field`. An escape in a JSON literal takes six bytes for one character. */
export const maxKeyCharacters = 1_000
const maxKeyBytes = 6 * maxKeyCharacters + 2
/** A longer value is not an id. */
const maxIdBytes = 1_000

/** `dedupeKey` is counted as a possible id, whatever its name. */
export function observe(bodies: readonly Buffer[], dedupeKey: string | null = null): Observed {
  const observed: Observed = { records: 0, keys: new Map(), longKeys: 0, furtherKeys: 0 }
  const values = new Map<string, Set<string>>()
  let bytes = 0
  for (const body of bodies) {
    for (const record of records(body)) {
      bytes += record.length
      // The first record is always observed, whatever its size.
      if (observed.records === inferredRecords || (observed.records > 0 && bytes > inferredBytes))
        return observed
      observed.records += 1
      observeRecord(record, observed, values, dedupeKey)
    }
  }
  return observed
}

function observeRecord(
  record: Buffer,
  observed: Observed,
  values: Map<string, Set<string>>,
  dedupeKey: string | null,
): void {
  // The last of two equal keys counts, as in the database.
  const last = new Map<string, Buffer>()
  for (const { key, value } of members(record)) {
    const name = key.length > maxKeyBytes ? null : stringValue(key.toString('utf8'))
    if (name === null || name.length > maxKeyCharacters) observed.longKeys += 1
    else last.set(name, value)
  }
  for (const [key, value] of last) {
    const found = observed.keys.get(key) ?? begun(key, observed, dedupeKey)
    if (found === null) observed.furtherKeys += 1
    else count(found, value, values)
  }
}

function begun(key: string, { keys }: Observed, dedupeKey: string | null): Observation | null {
  if (keys.size === inferredKeys) return null
  const mayBeId = key === dedupeKey || looksLikeId(key)
  const observation: Observation = {
    key,
    seen: 0,
    kinds: {},
    facts: { ...plainFacts },
    longestBytes: 0,
    repeated: mayBeId ? 0 : null,
  }
  keys.set(key, observation)
  return observation
}

function count(observation: Observation, value: Buffer, values: Map<string, Set<string>>): void {
  const { kind, ...facts } = factsOf(value)
  const { facts: all } = observation
  observation.seen += 1
  observation.kinds[kind] = (observation.kinds[kind] ?? 0) + 1
  observation.longestBytes = Math.max(observation.longestBytes, value.length)
  all.wholeDigits = Math.max(all.wholeDigits, facts.wholeDigits)
  all.fractionDigits = Math.max(all.fractionDigits, facts.fractionDigits)
  all.isInt64 &&= facts.isInt64
  all.isUtc &&= facts.isUtc
  all.hasNul ||= facts.hasNul
  all.hasLoneSurrogate ||= facts.hasLoneSurrogate
  all.hasLongNumber ||= facts.hasLongNumber
  all.hasHugeNumber ||= facts.hasHugeNumber
  if (observation.repeated === null || value.length > maxIdBytes) return
  const seen = values.get(observation.key) ?? new Set()
  values.set(observation.key, seen)
  const text = value.toString('utf8')
  if (seen.has(text)) observation.repeated += 1
  else seen.add(text)
}

/** True for common names of ids: id, order_id, orderId, uuid, … */
export function looksLikeId(key: string): boolean {
  return /^(id|uuid|guid|key)$/i.test(key) || /([_\-.](id|uuid|guid|key)|[a-z]I[dD])$/.test(key)
}
