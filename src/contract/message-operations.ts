/** Looking at messages: served by `management/`. */
import { messageListParameters } from './message.ts'
import { everyKeyed, type Operation, onePipe } from './operation.ts'
import { responseBodies } from './responses.ts'

export const messageOperations = [
  {
    operationId: 'getMessage',
    method: 'GET',
    path: '/v1/messages/{msg_id}',
    area: 'management',
    summary: 'Show a message by its id, with its first 20 records as sent and what became of it in each lane',
    description:
      'As long as the message is kept. What became of it is kept with it; of a lane that has delivered very many batches since, `delivered_ts` and `batch_id` are null.',
    auth: 'key',
    boundKeys: 'its_part',
    success: { status: 200, description: 'The message', schema: responseBodies.message },
    errors: ['message_not_found', ...everyKeyed],
  },
  {
    operationId: 'listMessages',
    method: 'GET',
    path: `${onePipe}/messages`,
    area: 'management',
    summary: 'List the messages of a pipe that are kept, newest first',
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: messageListParameters,
    success: { status: 200, description: 'The messages', schema: responseBodies.messageList },
    errors: ['pipe_not_found', 'validation_error', ...everyKeyed],
  },
] as const satisfies readonly Operation[]
