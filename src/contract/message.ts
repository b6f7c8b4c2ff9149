/**
 * Messages for inspection: one by its id, a page of a pipe's messages, or the newest as they arrive
 * (docs/dev/contract.md#looking-at-messages).
 */
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
        'The id of the batch that delivered it: the `webhook-id` of an HTTP request. Null if it was pulled, or is no longer known.',
    }),
  ),
  attempts: Type.Integer({ minimum: 0, description: 'The number of attempts; 0: none, or no longer known.' }),
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
    description: `The first ${resourceLimits.shownRecords}, as sent; fewer if they are larger than ${resourceLimits.shownRecordBytes / 1024 / 1024} MiB in total.`,
  }),
  truncated: Type.Boolean({ description: 'True when the message has more records than shown.' }),
  lanes: Type.Array(MessageLane, {
    description:
      'One entry for each destination of the message, oldest first, as of the last save of its lane.',
  }),
})
export type MessageDetail = Static<typeof MessageDetail>

export const MessageSummary = Type.Object({
  ...ofMessage,
  bytes: Type.Integer({ minimum: 0, description: 'Of its records.' }),
  lanes: Type.Array(Type.Object({ destination_id: uuid(), state }), {
    description: 'One entry for each destination of the message, oldest first.',
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
    description: 'Only messages received from this time on.',
  },
  {
    in: 'query',
    name: 'until',
    schema: moment,
    description: 'Only messages received before this time.',
  },
  {
    in: 'query',
    name: 'limit',
    schema: Type.Integer({ minimum: 1, maximum: messagePage.max, default: messagePage.default }),
    description: 'The number of messages in one response.',
  },
  {
    in: 'query',
    name: 'after',
    schema: Type.Integer({ minimum: 1 }),
    description: 'Only messages older than the one with this stream_seq.',
  },
] as const

export const tailParameters = [
  {
    in: 'query',
    name: 'sample',
    schema: Type.Integer({ minimum: 1, maximum: tailSample.max, default: tailSample.default }),
    description: 'The maximum number of records per second.',
  },
  {
    in: 'query',
    name: 'after_seq',
    schema: Type.Integer({ minimum: 0 }),
    description: 'Starts after this stream_seq, as far as messages are kept, instead of now.',
  },
  {
    in: 'header',
    name: 'Last-Event-ID',
    schema: Type.String(),
    description: 'The id of the last event: the stream continues after it. Overrides after_seq.',
  },
] as const
