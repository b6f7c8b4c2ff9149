/** Messages as people look at them: one by its id, a page of a pipe's, the newest as they come (docs/dev/contract.md#looking-at-messages). */
import Type, { type Static } from 'typebox'
import { LaneStatus } from './destination.ts'
import { moment, nullable } from './destinations/fields.ts'
import { resourceLimits } from './resource-limits.ts'

export const messagePage = { default: 50, max: resourceLimits.messagesPerPage } as const
export const tailSample = { default: 50, max: 1_000 } as const

export const messageStates = ['delivered', 'pending', 'stuck', 'parked', 'skipped', 'dropped'] as const
export type MessageState = (typeof messageStates)[number]

const uuid = () => Type.String({ format: 'uuid' })
const timestamp = () => Type.String({ format: 'date-time' })
const state = Type.Enum([...messageStates], {
  description:
    '`stuck`: an attempt at it failed and the lane is blocked at it; after a transient error the lane is only retrying. `parked`: some of its records, or all, are parked now. `dropped`: lost before the lane had delivered it, by age or to a damaged disk. After a rewind it is `pending` until it is delivered again.',
})

const ofMessage = {
  msg_id: uuid(),
  stream_seq: Type.Integer({ minimum: 1 }),
  received_ts: timestamp(),
  records_count: Type.Integer({ minimum: 1 }),
} as const

export const MessageLane = Type.Object({
  destination_id: uuid(),
  state,
  delivered_ts: nullable(timestamp()),
  batch_id: nullable(
    Type.String({
      format: 'uuid',
      description:
        'Of the batch that carried it: the `webhook-id` of an HTTP request. Null where it was pulled, or nobody knows any more.',
    }),
  ),
  attempts: Type.Integer({ minimum: 0, description: '0: none, or nobody knows any more.' }),
  last_error: LaneStatus.properties.last_error,
})
export type MessageLane = Static<typeof MessageLane>

export const MessageDetail = Type.Object({
  msg_id: ofMessage.msg_id,
  pipe_id: uuid(),
  stream_seq: ofMessage.stream_seq,
  received_ts: ofMessage.received_ts,
  records_count: ofMessage.records_count,
  records: Type.Array(Type.Record(Type.String(), Type.Unknown()), {
    maxItems: resourceLimits.shownRecords,
    description: `The first ${resourceLimits.shownRecords}, as sent: fewer where they hold more than ${resourceLimits.shownRecordBytes / 1024 / 1024} MiB together.`,
  }),
  truncated: Type.Boolean({ description: 'True when the message has more records than shown.' }),
  lanes: Type.Array(MessageLane, {
    description:
      'Of every destination that was to get it, oldest first: as of the last time that the progress of its lane was saved.',
  }),
})
export type MessageDetail = Static<typeof MessageDetail>

export const MessageSummary = Type.Object({
  ...ofMessage,
  bytes: Type.Integer({ minimum: 0, description: 'Of its records.' }),
  lanes: Type.Array(Type.Object({ destination_id: uuid(), state }), {
    description: 'Of every destination that was to get it, oldest first.',
  }),
})

export const MessageList = Type.Object({
  messages: Type.Array(MessageSummary, { maxItems: messagePage.max, description: 'Newest first.' }),
  next: nullable(Type.Integer({ description: '`after` of the next page; null: this is the last one.' })),
})
export type MessageList = Static<typeof MessageList>

export const messageListParameters = [
  {
    in: 'query',
    name: 'since',
    schema: moment,
    description: 'Those received from this moment on.',
  },
  {
    in: 'query',
    name: 'until',
    schema: moment,
    description: 'Those received before this moment.',
  },
  {
    in: 'query',
    name: 'limit',
    schema: Type.Integer({ minimum: 1, maximum: messagePage.max, default: messagePage.default }),
    description: 'Messages of one response.',
  },
  {
    in: 'query',
    name: 'after',
    schema: Type.Integer({ minimum: 1 }),
    description: 'Messages that are older than the one with this stream_seq.',
  },
] as const

export const tailParameters = [
  {
    in: 'query',
    name: 'sample',
    schema: Type.Integer({ minimum: 1, maximum: tailSample.max, default: tailSample.default }),
    description: 'Records a second at most.',
  },
  {
    in: 'query',
    name: 'after_seq',
    schema: Type.Integer({ minimum: 0 }),
    description: 'From just after this stream_seq on, as far as it is kept, instead of from now on.',
  },
  {
    in: 'header',
    name: 'Last-Event-ID',
    schema: Type.String(),
    description: 'The id of the last event: goes on behind it. Wins over after_seq.',
  },
] as const
