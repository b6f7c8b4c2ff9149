/**
 * Jobs that find or delete the records of a person (docs/personal-data.md).
 *
 *   waiting ──▶ running ──▶ done
 *      └───────────┴──────▶ cancelled, failed
 */
import Type, { type Static } from 'typebox'
import { AuditActor } from './audit.ts'
import { resourceLimits } from './resource-limits.ts'
import { boolean, closed, count, nullable, positive, string, timestamp, uuid } from './schema-parts.ts'
import { transformLimits } from './transform.ts'

export const privacyKinds = ['find', 'delete'] as const
export type PrivacyKind = (typeof privacyKinds)[number]

export const privacyStates = ['waiting', 'running', 'done', 'cancelled', 'failed'] as const
export type PrivacyState = (typeof privacyStates)[number]

/** The steps of a deletion, in order. A search has only the first one. */
export const privacyStages = ['search', 'buffer', 'lanes', 'parked', 'metadata', 'files'] as const
export type PrivacyStage = (typeof privacyStages)[number]

export const remainingKinds = ['destination', 'table_file', 'metadata', 'backup', 'replica', 'log'] as const

const { privacyKeys, privacyPipes, privacyMatches, conditionCharacters } = resourceLimits

export const PrivacyKey = Type.Object(
  {
    path: Type.String({
      minLength: 1,
      maxLength: transformLimits.pathCharacters,
      description:
        'The path of a key, as in transforms: `user_id`, or `customer.email` inside an object. An array on the way means any of its elements.',
    }),
    value: Type.String({
      minLength: 1,
      maxLength: conditionCharacters,
      description:
        'The value, as text. It is compared with a string itself, and with the JSON text of a number or boolean.',
    }),
  },
  closed,
)
export type PrivacyKey = Static<typeof PrivacyKey>

/** POST /v1/privacy/jobs. */
export const PrivacyRequest = Type.Object(
  {
    kind: Type.Enum([...privacyKinds], {
      description: '`find` counts and lists the records, and changes nothing. `delete` deletes them.',
    }),
    keys: Type.Array(PrivacyKey, {
      minItems: 1,
      maxItems: privacyKeys,
      description: 'A record matches if it has all of these values.',
    }),
    pipe_ids: Type.Optional(
      Type.Array(uuid(), {
        minItems: 1,
        maxItems: privacyPipes,
        description: 'Only these pipes. Without it: all pipes of the workspace, and those that were deleted.',
      }),
    ),
  },
  closed,
)
export type PrivacyRequest = Static<typeof PrivacyRequest>

const counts = {
  messages: count('Messages in the buffer with such a record.'),
  records: count('Such records in the buffer.'),
  parked: count('Such records that are parked.'),
} as const
export const PrivacyCounts = Type.Object(counts)
export type PrivacyCounts = Static<typeof PrivacyCounts>

export const PrivacyJob = Type.Object({
  job_id: uuid(),
  kind: Type.Enum([...privacyKinds]),
  state: Type.Enum([...privacyStates], {
    description: 'One job of the service runs at a time. `failed`: `error` says why; start the job again.',
  }),
  key_paths: Type.Array(Type.String(), {
    description:
      'The paths of the keys. The values are stored encrypted while the job waits or runs, and are removed at its end.',
  }),
  pipe_ids: nullable(Type.Array(uuid(), { description: 'Null: all pipes of the workspace.' })),
  stage: nullable(Type.Enum([...privacyStages], { description: 'The current step of a running job.' })),
  files_left: nullable(count('The files of the buffer that the current step has not covered yet.')),
  found: Type.Object(counts, {
    description: 'The records that matched when the job searched for them.',
  }),
  deleted: Type.Object(counts, {
    description:
      'The records that were deleted. More than `found` if matching records arrived meanwhile. After a crash, those of the last interrupted step can be missing here; `found` has them.',
  }),
  pipes: Type.Array(Type.Object({ pipe_id: uuid(), ...counts }), {
    description: 'The pipes with such records, as found.',
  }),
  matches: Type.Array(
    Type.Object({
      pipe_id: uuid(),
      msg_id: uuid(),
      stream_seq: positive(),
      record_index: count('The position of the record in its message, from 0.'),
      is_parked: boolean('True: it is parked. False: it is in the buffer.'),
    }),
    {
      maxItems: privacyMatches,
      description: `The first ${privacyMatches} records that matched. A record can be in the buffer and parked.`,
    },
  ),
  has_more_matches: boolean('There are more matches than those listed.'),
  upgrade_copies_removed: count('Copies of metadata.db from before an upgrade that were removed.'),
  remaining: Type.Array(
    Type.Object({
      kind: Type.Enum([...remainingKinds]),
      name: string('The destination as PIPE/NAME, or the name of a file or folder.'),
      note: string('What to do.'),
    }),
    { description: 'Where copies can remain, which pipectl does not delete.' },
  ),
  error: nullable(Type.String()),
  created_ts: timestamp('Records that were acknowledged before this time are covered.'),
  created_by: AuditActor,
  started_ts: nullable(timestamp()),
  finished_ts: nullable(timestamp()),
})
export type PrivacyJob = Static<typeof PrivacyJob>

const { finishedPrivacyJobs, finishedPrivacyDays, privacyJobsPerWorkspace } = resourceLimits

export const PrivacyJobList = Type.Object({
  jobs: Type.Array(PrivacyJob, {
    maxItems: privacyJobsPerWorkspace + finishedPrivacyJobs,
    description: `Newest first: all that wait or run, and the newest ${finishedPrivacyJobs} others of the last ${finishedPrivacyDays} days. Without their \`matches\`.`,
  }),
})
export type PrivacyJobList = Static<typeof PrivacyJobList>
