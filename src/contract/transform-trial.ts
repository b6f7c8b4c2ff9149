/**
 * The result of a transform before it is used: for the check on saving a destination (`transform_check`), and for
 * POST …/destinations/try-transform.
 */
import Type, { type Static } from 'typebox'
import { resourceLimits } from './resource-limits.ts'
import { anyObject, boolean, closed, count, nullable, positive, string, uuid } from './schema-parts.ts'
import { givenTransform, type Transform } from './transform.ts'

export const transformTrialLimits = { shown: 10, maxShown: 200, faults: 5 } as const
const { shown, maxShown, faults } = transformTrialLimits
const { inferredRecords, inferredSampleCharacters } = resourceLimits
const ofSample = (description?: string) =>
  Type.Integer({ minimum: 0, maximum: inferredRecords, ...(description ? { description } : {}) })

const faultFields = {
  path: string('The part that fails: `transform.filter`, or a step of the map, `transform.map.0`.'),
  code: string('The code, as in `last_error` of a lane: `filter_error`, `transform_timeout`.'),
  message: string('The error, without values of the record.'),
}
const places = {
  msg_id: nullable(uuid('Null: the record is from the sample.')),
  record_index: count('The index in its message, or in the sample, from 0.'),
}

export const TransformFault = Type.Object({
  ...faultFields,
  records: positive('The number of records with this error; the next two fields name one of them.'),
  ...places,
})
export type TransformFault = Static<typeof TransformFault>

const counts = {
  records_seen: ofSample('The newest records of the pipe, or those of the sample.'),
  kept: ofSample(),
  filtered: ofSample(),
  failed: ofSample(),
  faults: Type.Array(TransformFault, { maxItems: faults, description: 'The most frequent error first.' }),
}

/** The check's result, in addition to the created or changed destination. */
export const TransformCheck = Type.Object(
  {
    not_checked: nullable(
      Type.Enum(['timed_out', 'unavailable'], {
        description:
          '`timed_out`: the test took too long, and the counts cover the records until then. `unavailable`: the records could not be read. The transform was saved in both cases.',
      }),
    ),
    ...counts,
    warning: nullable(string('The result in words, if there is something to report.')),
  },
  {
    description:
      'The result of the transform for the newest records of the pipe, if it is new or changed, unless `check_transform` was false.',
  },
)
export type TransformCheck = Static<typeof TransformCheck>

export const trialOutcomes = ['kept', 'filtered', 'failed'] as const
export type TrialOutcome = (typeof trialOutcomes)[number]

/** POST …/destinations/try-transform. */
export const TransformTrialRequest = Type.Object(
  {
    destination_id: Type.Optional(
      uuid('Use the stored transform of this destination, or, with `transform`, only its salt.'),
    ),
    ...givenTransform,
    sample: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: inferredSampleCharacters,
        description: `Records as NDJSON, one object per line; the first ${inferredRecords} are used. Without it, the newest records of the pipe are used.`,
      }),
    ),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: maxShown,
        default: shown,
        description: 'The number of records to show. All records are counted.',
      }),
    ),
    only: Type.Optional(
      Type.Enum([...trialOutcomes], { description: 'Show only records with this result.' }),
    ),
  },
  closed,
)
export type TransformTrialRequest = Static<typeof TransformTrialRequest>

const anyRecord = () => nullable(anyObject())

export const TransformTrialResult = Type.Object({
  is_complete: boolean('False: the test took too long, and the counts cover the records until then.'),
  ...counts,
  records: Type.Array(
    Type.Object({
      ...places,
      outcome: Type.Enum([...trialOutcomes]),
      before: anyRecord(),
      after: anyRecord(),
      error: nullable(Type.Object(faultFields)),
      too_large: boolean(
        `More than ${resourceLimits.trialRecordBytes / 1024} KiB before and after in total: neither is shown.`,
      ),
    }),
    {
      maxItems: maxShown,
      description: `Newest first, or in the order of the sample; as sent. Fewer than \`limit\` if they are larger than ${resourceLimits.shownRecordBytes / 1024 / 1024} MiB in total.`,
    },
  ),
  truncated: boolean('True if there are more such records than are shown.'),
})

/** The path of a step in a request body. Step 0 is the filter; from 1 on the steps are those of `map`. */
export function stepPath(step: number, { map }: Pick<Transform, 'map'>): string {
  if (step === 0) return 'transform.filter'
  return map.length === 0 ? 'transform' : `transform.map.${step - 1}`
}
