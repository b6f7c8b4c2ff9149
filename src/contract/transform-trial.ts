/**
 * The result of a transform before it is used: for the check when a destination is saved (`transform_check`), and for
 * POST …/destinations/try-transform.
 */
import Type, { type Static } from 'typebox'
import { closed, nullable } from './destinations/fields.ts'
import { resourceLimits } from './resource-limits.ts'
import { givenTransform, type Transform } from './transform.ts'

export const transformTrialLimits = { shown: 10, mostShown: 200, faults: 5 } as const
const { shown, mostShown, faults } = transformTrialLimits
const { inferredRecords, inferredSampleCharacters } = resourceLimits
const count = (description?: string) =>
  Type.Integer({ minimum: 0, maximum: inferredRecords, ...(description ? { description } : {}) })

const faultFields = {
  path: Type.String({
    description: 'What fails: `transform.filter`, or the step of the map, `transform.map.0`.',
  }),
  code: Type.String({
    description: 'As `last_error` of a lane would have it: `filter_error`, `transform_timeout`.',
  }),
  message: Type.String({ description: 'Without values of the record.' }),
}
const places = {
  msg_id: nullable(Type.String({ format: 'uuid', description: 'Null: it is of the sample.' })),
  record_index: Type.Integer({
    minimum: 0,
    description: 'The place in its message, or in the sample, from 0.',
  }),
}

export const TransformFault = Type.Object({
  ...faultFields,
  records: Type.Integer({ minimum: 1, description: 'How many fail so; the next two name one of them.' }),
  ...places,
})
export type TransformFault = Static<typeof TransformFault>

const counts = {
  records_seen: count('The newest of the pipe, or those of the sample.'),
  kept: count(),
  filtered: count(),
  failed: count(),
  faults: Type.Array(TransformFault, { maxItems: faults, description: 'The commonest first.' }),
}

/** Beside what was created or changed. */
export const TransformCheck = Type.Object(
  {
    not_checked: nullable(
      Type.Enum(['timed_out', 'unavailable'], {
        description:
          '`timed_out`: it took too long, the counts are of what was tried until then. `unavailable`: the records could not be read for now. It was saved all the same.',
      }),
    ),
    ...counts,
    warning: nullable(Type.String({ description: 'In words, where there is anything to say.' })),
  },
  {
    description:
      'What the transform makes of the newest records of the pipe, when it was given or changed, unless `check_transform` was false.',
  },
)
export type TransformCheck = Static<typeof TransformCheck>

export const trialOutcomes = ['kept', 'filtered', 'failed'] as const
export type TrialOutcome = (typeof trialOutcomes)[number]

/** POST …/destinations/try-transform. */
export const TransformTrialRequest = Type.Object(
  {
    destination_id: Type.Optional(
      Type.String({
        format: 'uuid',
        description: 'Its stored transform, or, with `transform`, the salt of it.',
      }),
    ),
    ...givenTransform,
    sample: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: inferredSampleCharacters,
        description: `Records as NDJSON: one object a line, the first ${inferredRecords} of them. Without it the newest records of the pipe.`,
      }),
    ),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: mostShown,
        default: shown,
        description: 'How many records to show. Counted are all of them.',
      }),
    ),
    only: Type.Optional(
      Type.Enum([...trialOutcomes], { description: 'Show only records of which this became.' }),
    ),
  },
  closed,
)
export type TransformTrialRequest = Static<typeof TransformTrialRequest>

const anyRecord = () => nullable(Type.Record(Type.String(), Type.Unknown()))

export const TransformTrialResult = Type.Object({
  is_complete: Type.Boolean({
    description: 'False: it took too long, the counts are of what was tried until then.',
  }),
  ...counts,
  records: Type.Array(
    Type.Object({
      ...places,
      outcome: Type.Enum([...trialOutcomes]),
      before: anyRecord(),
      after: anyRecord(),
      error: nullable(Type.Object(faultFields)),
      too_large: Type.Boolean({
        description: `More than ${resourceLimits.trialRecordBytes / 1024} KiB before and after together: neither is shown.`,
      }),
    }),
    {
      maxItems: mostShown,
      description: `The newest first, of a sample the first first; as sent. Fewer than \`limit\` where they hold more than ${resourceLimits.shownRecordBytes / 1024 / 1024} MiB together.`,
    },
  ),
  truncated: Type.Boolean({ description: 'True when there are more such records than are shown.' }),
})

/** Where a step stands in a body: 0 the filter, from 1 on the steps of the map. */
export function stepPath(step: number, { map }: Pick<Transform, 'map'>): string {
  if (step === 0) return 'transform.filter'
  return map.length === 0 ? 'transform' : `transform.map.${step - 1}`
}
