/** Looking at messages: served by `management/`. */
import Type from 'typebox'
import { messageListParameters, tailParameters } from './message.ts'
import { everyManaged, type Operation } from './operation.ts'
import { at } from './operation-paths.ts'
import { resourceLimits } from './resource-limits.ts'
import { responseBodies } from './responses.ts'

export const messageOperations = [
  {
    ...at('getMessage'),
    area: 'management',
    summary: 'Show a message by its id, with its first 20 records as sent and what became of it in each lane',
    description:
      'As long as the message is kept. What became of it is kept with it; of a lane that has delivered very many batches since, `delivered_ts` and `batch_id` are null.',
    auth: 'key',
    boundKeys: 'its_part',
    success: { status: 200, description: 'The message', schema: responseBodies.message },
    errors: ['message_not_found', ...everyManaged],
  },
  {
    ...at('listMessages'),
    area: 'management',
    summary: 'List the messages of a pipe that are kept, newest first',
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: messageListParameters,
    success: { status: 200, description: 'The messages', schema: responseBodies.messageList },
    errors: ['pipe_not_found', 'validation_error', ...everyManaged],
  },
  {
    ...at('tailPipe'),
    area: 'tail',
    summary: 'Follow the records of a pipe as they are stored: Server-Sent Events',
    description: `Events: \`record\` with \`{msg_id, stream_seq, index, received_ts, record}\`, of which \`record\` is as it was sent; \`dropped\` with \`{records}\`, how many were left out because more came than \`sample\`, or are larger than ${resourceLimits.tailRecordBytes / 1024} KiB; \`end\` with \`{reason}\`: \`shutdown\`, \`pipe_deleted\` or \`access_ended\`. The \`id\` of an event as \`Last-Event-ID\` goes on behind it; the first id comes alone, before any event.`,
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: tailParameters,
    success: {
      status: 200,
      description: 'The events, until the client goes',
      contentType: 'text/event-stream',
      schema: Type.String(),
    },
    errors: ['pipe_not_found', 'validation_error', 'tail_concurrency_exceeded', ...everyManaged],
  },
] as const satisfies readonly Operation[]
