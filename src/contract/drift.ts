/** Drift: record keys that no column of a destination takes, and columns that no record fills. */
import Type, { type Static } from 'typebox'
import { columnTypes } from './destination.ts'
import { count, nullable, positive, string, timestamp } from './schema-parts.ts'

/**
 * Limits per destination. A key is reported (alert, metrics, lane) once this many sampled records had it, or once its first and its
 * last record are this far apart; and until no sampled record has had it for `endedHours`.
 */
export const driftLimits = {
  keys: 100,
  keyCharacters: 200,
  exampleCharacters: 80,
  repeatedRecords: 20,
  repeatedSeconds: 60,
  endedHours: 24,
  /** Keys that an alert names, and the characters of each. */
  namedKeys: 5,
  namedKeyCharacters: 60,
} as const

/** The drift counters as delivery stores them. */
export interface DriftState {
  since_ms: number
  records: number
  keys: {
    key: string
    records: number
    first_ms: number
    last_ms: number
    type: (typeof columnTypes)[number]
    example: string
  }[]
  other_keys: number
  /** Names of columns that no record filled. */
  unfilled: string[]
}

/** The keys that occur repeatedly in the records of a database destination and that no column takes. */
export interface UnmappedKeys {
  keys: number
  /** The first of them, as they were sent. */
  names: readonly string[]
}

/** Why `auto_add_columns` has not added columns. */
export interface ColumnFailure {
  code: string
  message: string
  /** As they were sent. */
  keys: string[]
}

export interface SavedDrift {
  /** Identifies the column mapping with which the drift was counted. */
  mappingHash: string
  state: DriftState
}

export const Drift = Type.Object({
  mapping: Type.Enum(['columns', 'by_name', 'none'], {
    description:
      '`columns`: the following was counted. `by_name`: there are no mappings, and keys without a column of their name are not counted. `none`: the destination is not a database, and nothing is counted.',
  }),
  since_ts: nullable(
    timestamp('The time at which counting began: at the first record after the last change of the columns.'),
  ),
  records_seen: count(
    'The number of delivered records that were checked: up to 20 of a batch and 100 a second.',
  ),
  keys: Type.Array(
    Type.Object({
      key: Type.String({ maxLength: driftLimits.keyCharacters }),
      records: positive('The number of checked records that have the key.'),
      first_seen_ts: timestamp(),
      last_seen_ts: timestamp(),
      type: Type.Enum([...columnTypes]),
      example: string('The JSON text of the first value, truncated to 80 characters.'),
    }),
    { maxItems: driftLimits.keys, description: 'Keys without a column, the most frequent first.' },
  ),
  other_keys: count(
    `Occurrences of further keys: beyond ${driftLimits.keys}, or longer than ${driftLimits.keyCharacters} characters.`,
  ),
  unfilled_columns: Type.Array(Type.String(), {
    description: 'Mapped columns for which no checked record had a value.',
  }),
})
export type Drift = Static<typeof Drift>
