/** POST …/destinations/infer: proposes a table from records, and optionally creates it. */
import Type, { type Static } from 'typebox'
import { columnTypes, configSchema, destinationTypes, StoredColumn } from './destination.ts'
import { changedConfig, fixedType } from './destination-requests.ts'
import { type DestinationType, wordsOf } from './destination-words.ts'
import { resourceLimits } from './resource-limits.ts'
import { boolean, closed, count, nullable, string, uuid } from './schema-parts.ts'
import { givenTransform } from './transform.ts'

const { inferredRecords, inferredSampleCharacters, inferredKeys } = resourceLimits

const shared = {
  ...givenTransform,
  sample: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: inferredSampleCharacters,
      description: `Records as NDJSON, one object per line; the first ${inferredRecords} are used. Without it, the newest records of the pipe are used. The records are those before the transform: the given or the stored one is applied to them first.`,
    }),
  ),
  create_table: Type.Optional(
    Type.Boolean({ default: false, description: 'Create the table if it does not exist.' }),
  ),
  add_columns: Type.Optional(
    Type.Boolean({ default: false, description: 'Add the missing columns to a table that exists.' }),
  ),
  keys: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 1000 }), {
      minItems: 1,
      maxItems: resourceLimits.inferredColumns,
      description: 'Use only these keys of the records; without it, all keys.',
    }),
  ),
  dedupe_key: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1000,
      description:
        'The key of the records that becomes the primary key of a new table, as dedupe_id: a record with the same value replaces the earlier one.',
    }),
  ),
  dedupe_id: Type.Optional(
    Type.Enum(['generated', 'none'], {
      default: 'generated',
      description:
        'Without dedupe_key: a new table gets a column `_pipectl_id` with `<msg_id>:<index>` as its primary key, so that a repeated delivery stores nothing twice; or none.',
    }),
  ),
}

/** The request for a new destination of each type with a table. `destination_type` selects the shape of the config. */
const newTableInferences = destinationTypes
  .filter((type) => wordsOf(type).isDatabase)
  .map((type) =>
    Type.Object(
      { destination_type: Type.Enum([type]), destination_config: configSchema(type), ...shared },
      closed,
    ),
  )
type NewTableInference = Static<(typeof newTableInferences)[number]> & { destination_type: DestinationType }

/** The request for a stored destination: uses its stored secrets, with the changes of a PATCH. */
export const StoredTableInference = Type.Object(
  {
    destination_id: uuid(),
    destination_config: Type.Optional(changedConfig()),
    ...shared,
  },
  { ...closed, refusals: fixedType },
)
export type TableInference = NewTableInference | Static<typeof StoredTableInference>
export const TableInference = Type.Unsafe<TableInference>(
  Type.Union([...newTableInferences, StoredTableInference]),
)

export const KeyObservation = Type.Object({
  key: Type.String(),
  seen: count('The number of records that have the key; 0: only the pipe will add it.'),
  nulls: count('The number of records in which it is null.'),
  types: Type.Array(Type.Enum([...columnTypes])),
  column_name: nullable(string('Null: the key gets no column; `reason` explains why.')),
  proposed_type: nullable(string('The type in SQL.')),
  reason: Type.String(),
})

export const TableProposal = Type.Object({
  ok: boolean('False: a requested change failed; see `failure`.'),
  failure: nullable(
    Type.Object({
      step: Type.Enum(['sample', 'connect', 'table', 'create_table', 'add_columns']),
      code: Type.String(),
      message: Type.String(),
    }),
  ),
  source: Type.Enum(['pipe', 'sample']),
  records_seen: Type.Integer({ minimum: 0, maximum: inferredRecords }),
  table: Type.String(),
  table_exists: nullable(
    boolean('Whether the table exists, after the changes. Null: the database did not respond.'),
  ),
  ddl: Type.Array(Type.String(), {
    description: 'The statements that adapt the table, whether or not they were run; empty: the table fits.',
  }),
  executed: Type.Array(Type.String(), { description: 'The statements that were run.' }),
  columns: Type.Array(StoredColumn, { description: 'The mapping of a destination once `ddl` is done.' }),
  missing_columns: Type.Array(Type.String(), {
    description: 'The `columns` that the table does not have, after the changes.',
  }),
  dedupe_candidates: Type.Array(Type.String(), {
    description: 'Keys that look like an id and differ in every record: candidates for dedupe_key.',
  }),
  observations: Type.Array(KeyObservation, { maxItems: inferredKeys + 20 }),
  warnings: Type.Array(Type.String()),
})
export type TableProposal = Static<typeof TableProposal>
