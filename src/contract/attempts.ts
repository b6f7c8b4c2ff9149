/** The delivery attempts of a lane, as `GET …/attempts` lists them and as metadata stores them. */
import Type, { type Static } from 'typebox'
import { moment, nullable } from './destinations/fields.ts'
import { resourceLimits } from './resource-limits.ts'

export const attemptPage = { default: 50, max: 500 } as const
export const attemptOutcomes = ['delivered', 'failed'] as const

const count = (minimum = 0) => Type.Integer({ minimum })
const headers = () => Type.Record(Type.String(), Type.String())

export const AttemptRequest = Type.Object({
  method: Type.String(),
  url: Type.String({ description: 'Without its secrets.' }),
  headers: Type.Record(Type.String(), Type.String(), { description: 'Secret values are `[redacted]`.' }),
})
export type AttemptRequest = Static<typeof AttemptRequest>

export const AttemptResponse = Type.Object({
  status: Type.Integer(),
  request_id: nullable(
    Type.String({
      description: 'The id that the server has given the request, in a header such as `x-request-id`.',
    }),
  ),
  headers: headers(),
  excerpt: Type.String({
    description: `The beginning of the body: at most ${resourceLimits.attemptExcerptBytes / 1024} KiB, without secrets.`,
  }),
})
export type AttemptResponse = Static<typeof AttemptResponse>

export const DeliveryAttempt = Type.Object({
  attempt_no: Type.Integer({ minimum: 1, description: 'Its number among all attempts of the lane.' }),
  attempt_ts: Type.String({ format: 'date-time', description: 'The time at which it began.' }),
  duration_ms: Type.Number({
    minimum: 0,
    description: 'Until its outcome was known, including waits for the `rate`.',
  }),
  outcome: Type.Enum([...attemptOutcomes]),
  batch_id: Type.String({ format: 'uuid', description: 'The same for every attempt at the same messages.' }),
  batch_attempt: Type.Integer({
    minimum: 1,
    description: 'Its number among the attempts at these messages.',
  }),
  is_replay: Type.Boolean({ description: 'It delivered parked records.' }),
  first_seq: count(1),
  last_seq: count(1),
  records: count(),
  bytes: count(),
  stored_records: Type.Integer({
    minimum: 0,
    description: 'The number of records that the destination has after it.',
  }),
  error: nullable(
    Type.Object({
      class: Type.Enum(['transient', 'permanent']),
      code: Type.String(),
      message: Type.String(),
    }),
  ),
  request: nullable(AttemptRequest),
  response: nullable(AttemptResponse),
})
export type DeliveryAttempt = Static<typeof DeliveryAttempt>

export const AttemptList = Type.Object({
  attempts: Type.Array(DeliveryAttempt, { maxItems: attemptPage.max, description: 'The newest first.' }),
  next: nullable(
    Type.Integer({ minimum: 1, description: '`before` of the next page; null: this is the last one.' }),
  ),
})
export type AttemptList = Static<typeof AttemptList>

export const attemptParameters = [
  {
    in: 'query',
    name: 'outcome',
    schema: Type.Enum([...attemptOutcomes]),
    description: 'Only attempts with this outcome.',
  },
  {
    in: 'query',
    name: 'since',
    schema: moment,
    description: 'Only attempts that began then or later.',
  },
  {
    in: 'query',
    name: 'limit',
    schema: Type.Integer({ minimum: 1, maximum: attemptPage.max, default: attemptPage.default }),
    description: 'The number of attempts in one response.',
  },
  {
    in: 'query',
    name: 'before',
    schema: Type.Integer({ minimum: 1 }),
    description: 'Only attempts with a smaller `attempt_no`: the `next` of the previous page.',
  },
] as const
