/** POST …/schema/check: compares records with a schema. */
import Type, { type Static } from 'typebox'
import { checkLimits } from './schema-mismatches.ts'
import { anyObject, closed, count, nullable, string, timestamp, uuid } from './schema-parts.ts'
import { readRecords, recordSelection } from './schema-proposal.ts'

export const SchemaCheckRequest = Type.Object(
  {
    ...recordSelection,
    schema: Type.Optional(anyObject('The schema to check against. Without it: the schema of the pipe.')),
  },
  closed,
)
export type SchemaCheckRequest = Static<typeof SchemaCheckRequest>

const message = () => string('The rule that the value breaks. Never contains the value.')

export const SchemaCheckResult = Type.Object({
  ...readRecords,
  mismatching: count('The records that do not match.'),
  errors: Type.Array(
    Type.Object({
      path: string('JSON Pointer into the records, with `*` for the indexes of lists.'),
      message: message(),
      records: count('The records with this error.'),
    }),
    {
      maxItems: checkLimits.shownErrors,
      description: 'The errors by path, most frequent first. At most ten errors of a record are counted.',
    },
  ),
  mismatches: Type.Array(
    Type.Object({
      msg_id: nullable(uuid('Null: a record of the sample.')),
      record_index: count('The index of the record in the message, or in the sample, from 0.'),
      received_ts: nullable(timestamp()),
      errors: Type.Array(Type.Object({ path: string('JSON Pointer into the record.'), message: message() })),
    }),
    {
      maxItems: checkLimits.shownRecords,
      description: 'The first records that do not match: the newest, or in the order of the sample.',
    },
  ),
})
export type SchemaCheckResult = Static<typeof SchemaCheckResult>
