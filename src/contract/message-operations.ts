/** Operations that read messages. `management/` serves them. */
import Type from 'typebox'
import { MessageDetail, MessageList, messageListParameters, tailParameters } from './message.ts'
import { everyManaged, managed, type Operation, ok } from './operation.ts'
import { at } from './operation-paths.ts'
import { resourceLimits } from './resource-limits.ts'

export const messageOperations = [
  {
    ...managed('getMessage', 'its_part'),
    summary: 'Show a message by its id, with its first 20 records as sent and its state in each lane',
    description:
      'Available as long as the message is kept, together with its delivery history. `delivered_ts` and `batch_id` are null for a lane that has delivered very many batches since.',
    success: ok('The message', MessageDetail),
    errors: ['message_not_found', ...everyManaged],
  },
  {
    ...managed('listMessages', 'its_pipe'),
    summary: 'List the kept messages of a pipe, newest first, and search in them',
    description:
      'All filters can be combined. Pages are stable: messages that arrive meanwhile do not move them. States are as of the last save of each lane.',
    parameters: messageListParameters,
    success: ok('The messages', MessageList),
    errors: ['pipe_not_found', 'validation_error', ...everyManaged],
  },
  {
    ...at('tailPipe'),
    area: 'tail',
    summary: 'Follow the records of a pipe as they are stored: Server-Sent Events',
    description: `Events: \`record\` with \`{msg_id, stream_seq, index, received_ts, record}\`, in which \`record\` is as it was sent; \`dropped\` with \`{records}\`, the number of records that were left out because there were more than \`sample\`, or because they are larger than ${resourceLimits.tailRecordBytes / 1024} KiB; \`end\` with \`{reason}\`: \`shutdown\`, \`pipe_deleted\` or \`access_ended\`. The \`id\` of an event, sent as \`Last-Event-ID\`, continues after it; the first id is sent before any event.`,
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: tailParameters,
    success: {
      status: 200,
      description: 'The events, until the client disconnects',
      contentType: 'text/event-stream',
      schema: Type.String(),
    },
    errors: ['pipe_not_found', 'validation_error', 'tail_concurrency_exceeded', ...everyManaged],
  },
] as const satisfies readonly Operation[]
