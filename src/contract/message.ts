/**
 * Messages for inspection: one by its id, a page of a pipe's messages, or the newest as they arrive
 * (docs/dev/contract.md#looking-at-messages).
 */
import Type, { type Static } from 'typebox'
import { LaneStatus } from './destination.ts'
import { resourceLimits } from './resource-limits.ts'
import {
  anyObject,
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
import { messageStates } from './state-words.ts'

export const messagePage = { default: 50, max: resourceLimits.messagesPerPage } as const
export const tailSample = { default: 50, max: 1_000 } as const

const state = Type.Enum([...messageStates], {
  description:
    '`stuck`: an attempt at it failed and the lane is blocked at it; after a transient error the lane is only retrying. `parked`: some of its records, or all, are parked now. `dropped`: lost before the lane had delivered it, by age or to a damaged disk. After a rewind it is `pending` until it is delivered again.',
})

const ofMessage = {
  msg_id: uuid(),
  stream_seq: positive(),
  received_ts: timestamp(),
  records_count: positive(),
} as const

export const MessageLane = Type.Object({
  destination_id: uuid(),
  state,
  delivered_ts: nullable(timestamp()),
  batch_id: nullable(
    uuid(
      'The id of the batch that delivered it: the `webhook-id` of an HTTP request. Null if it was pulled, or is no longer known.',
    ),
  ),
  attempts: count('The number of attempts; 0: none, or no longer known.'),
  last_error: LaneStatus.properties.last_error,
})
export type MessageLane = Static<typeof MessageLane>

export const MessageDetail = Type.Object({
  msg_id: ofMessage.msg_id,
  pipe_id: uuid(),
  stream_seq: ofMessage.stream_seq,
  received_ts: ofMessage.received_ts,
  records_count: ofMessage.records_count,
  records: Type.Array(anyObject(), {
    maxItems: resourceLimits.shownRecords,
    description: `The first ${resourceLimits.shownRecords}, as sent; fewer if they are larger than ${resourceLimits.shownRecordBytes / 1024 / 1024} MiB in total.`,
  }),
  truncated: boolean('True when the message has more records than shown.'),
  lanes: Type.Array(MessageLane, {
    description:
      'One entry for each destination of the message, oldest first, as of the last save of its lane.',
  }),
})
export type MessageDetail = Static<typeof MessageDetail>

const Excerpt = Type.Object(
  {
    record_index: count('The index of the record in the message, from 0.'),
    text: string(`The beginning of its JSON text, at most ${resourceLimits.excerptCharacters} characters.`),
    truncated: boolean('True when the record has more text.'),
  },
  {
    description: `The first record, or with \`where\` the first that matches. Null for a message larger than ${resourceLimits.listedBodyBytes / 1024} KiB, unless \`where\` was given.`,
  },
)

export const MessageSummary = Type.Object({
  ...ofMessage,
  bytes: count('Of its records.'),
  excerpt: nullable(Excerpt),
  lanes: Type.Array(Type.Object({ destination_id: uuid(), state }), {
    description: 'One entry for each destination of the message, oldest first.',
  }),
})

export const MessageList = Type.Object({
  messages: Type.Array(MessageSummary, { maxItems: messagePage.max, description: 'Newest first.' }),
  next: nullable(
    Type.Integer({
      description:
        '`after` of the next page; null: this is the last one. A search ends a page early when it has looked at as much as one request can.',
    }),
  ),
  searched: Type.Object(
    {
      messages: count('The messages that were compared with the filters.'),
      bytes: count('Bytes of records that were read for `where`.'),
      oldest_ts: nullable(
        timestamp('When the oldest of these messages was received; null: there were none.'),
      ),
    },
    { description: 'How far this request looked.' },
  ),
})
export type MessageList = Static<typeof MessageList>

export const messageListParameters = [
  query('since', moment, 'Only messages received from this time on.'),
  query('until', moment, 'Only messages received before this time.'),
  query('limit', pageSize(messagePage), 'The number of messages in one response.'),
  query('after', positive(), 'Only messages older than the one with this stream_seq.'),
  query(
    'destination_id',
    uuid(),
    'Only messages for this destination of the pipe. With `state`: its state there, instead of in any lane.',
  ),
  query('state', Type.Enum([...messageStates]), 'Only messages with this state in a lane.'),
  query(
    'where',
    Type.String({ minLength: 1, maxLength: resourceLimits.conditionCharacters }),
    `\`key=value\`: only messages with a record whose value at this key is this text. A string is given with or without its quotes, anything else exactly as it was sent: 1.10 is not 1.1. A key inside an object is written with dots: \`customer.country=AT\`. One request reads at most ${resourceLimits.searchedBytes / 1024 / 1024} MiB, for about ${resourceLimits.searchMs / 1000} second; \`searched\` says how far it came, and \`next\` continues.`,
  ),
  query('msg_id', uuid(), 'Only the message with this id.'),
] as const

export const tailParameters = [
  query('sample', pageSize(tailSample), 'The maximum number of records per second.'),
  query('after_seq', count(), 'Starts after this stream_seq, as far as messages are kept, instead of now.'),
  {
    in: 'header',
    name: 'Last-Event-ID',
    schema: Type.String(),
    description: 'The id of the last event: the stream continues after it. Overrides after_seq.',
  },
] as const
