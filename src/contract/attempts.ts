/** The delivery attempts of a lane, as `GET …/attempts` lists them and as metadata stores them. */
import Type, { type Static } from 'typebox'
import { resourceLimits } from './resource-limits.ts'
import {
  boolean,
  count,
  moment,
  nullable,
  pageSize,
  positive,
  query,
  string,
  timestamp,
  uuid,
} from './schema-parts.ts'

export const attemptPage = { default: 50, max: 500 } as const
export const attemptOutcomes = ['delivered', 'failed'] as const

const headers = () => Type.Record(Type.String(), Type.String())

export const AttemptRequest = Type.Object({
  method: Type.String(),
  url: string('Without its secrets.'),
  headers: Type.Record(Type.String(), Type.String(), { description: 'Secret values are `[redacted]`.' }),
})
export type AttemptRequest = Static<typeof AttemptRequest>

export const AttemptResponse = Type.Object({
  status: Type.Integer(),
  request_id: nullable(
    string('The id that the server has given the request, in a header such as `x-request-id`.'),
  ),
  headers: headers(),
  excerpt: string(
    `The beginning of the body: at most ${resourceLimits.attemptExcerptBytes / 1024} KiB, without secrets.`,
  ),
})
export type AttemptResponse = Static<typeof AttemptResponse>

export const DeliveryAttempt = Type.Object({
  attempt_no: positive('Its number among all attempts of the lane.'),
  attempt_ts: timestamp('The time at which it began.'),
  duration_ms: Type.Number({
    minimum: 0,
    description: 'Until its outcome was known, including waits for the `rate`.',
  }),
  outcome: Type.Enum([...attemptOutcomes]),
  batch_id: uuid('The same for every attempt at the same messages.'),
  batch_attempt: positive('Its number among the attempts at these messages.'),
  is_replay: boolean('It was a replay, of parked records or of a range of messages.'),
  first_seq: positive(),
  last_seq: positive(),
  records: count(),
  bytes: count(),
  stored_records: count('The number of records that the destination has after it.'),
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
  next: nullable(positive('`before` of the next page; null: this is the last one.')),
})
export type AttemptList = Static<typeof AttemptList>

export const attemptParameters = [
  query('outcome', Type.Enum([...attemptOutcomes]), 'Only attempts with this outcome.'),
  query('since', moment, 'Only attempts that began then or later.'),
  query('limit', pageSize(attemptPage), 'The number of attempts in one response.'),
  query('before', positive(), 'Only attempts with a smaller `attempt_no`: the `next` of the previous page.'),
] as const
