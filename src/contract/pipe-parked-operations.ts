/** Operations on the records that are parked at a pipe. `management/` serves them. */
import { everyManaged, managed, noContent, type Operation, ok, replayBody, withBody } from './operation.ts'
import { ParkedDiscarded } from './parked.ts'
import {
  PipeParkedDetail,
  PipeParkedEdit,
  PipeParkedList,
  PipeParkedRecord,
  PipeParkedReplay,
  PipeParkedReplayed,
  PipeParkedReplayRequest,
  PipeParkedReplaySelection,
  PipeParkedSelection,
  pipeParkedParameters,
} from './pipe-parked.ts'

export const pipeParkedOperations = [
  {
    ...managed('listPipeParked', 'its_pipe'),
    summary: 'List the records that are parked at a pipe, without their content',
    parameters: pipeParkedParameters,
    success: ok('One page of parked records', PipeParkedList),
    errors: ['pipe_not_found', 'validation_error', ...everyManaged],
  },
  {
    ...managed('getPipeParked', 'its_pipe'),
    summary: 'Show one record that is parked at a pipe, as sent',
    success: ok('The parked record', PipeParkedDetail),
    errors: ['pipe_not_found', 'parked_not_found', ...everyManaged],
  },
  {
    ...managed('editPipeParked', 'its_pipe'),
    summary: 'Replace a record that is parked at a pipe, without replaying it',
    description: 'The record is checked: the response has the errors that are left.',
    request: PipeParkedEdit,
    bodyLimits: replayBody,
    success: ok('The parked record', PipeParkedRecord),
    errors: ['pipe_not_found', 'parked_not_found', 'parked_replaying', ...withBody],
  },
  {
    ...managed('replayPipeParked', 'its_pipe'),
    summary: 'Store a record that is parked at a pipe as a new message, edited or unchanged',
    description:
      'The record is checked against the present schema. A record that does not match stays parked, unless `force` is true. An edited record is stored as edited, whatever the result.',
    request: PipeParkedReplayRequest,
    isBodyOptional: true,
    bodyLimits: replayBody,
    success: ok('The record is stored in the pipe', PipeParkedReplay),
    errors: [
      'pipe_not_found',
      'parked_not_found',
      'parked_replaying',
      'parked_mismatch',
      'missing_required_fields',
      'buffer_unavailable',
      ...withBody,
    ],
  },
  {
    ...managed('replayManyPipeParked', 'its_pipe'),
    summary: 'Store several records that are parked at a pipe, or all of them, each as a new message',
    request: PipeParkedReplaySelection,
    success: ok('The number of records', PipeParkedReplayed),
    errors: ['pipe_not_found', 'buffer_unavailable', ...withBody],
  },
  {
    ...managed('deletePipeParked', 'its_pipe'),
    summary: 'Delete a record that is parked at a pipe permanently',
    success: noContent('Discarded'),
    errors: ['pipe_not_found', 'parked_not_found', 'parked_replaying', ...everyManaged],
  },
  {
    ...managed('discardManyPipeParked', 'its_pipe'),
    summary:
      'Delete several records that are parked at a pipe permanently, or all of them, except those that are being replayed',
    request: PipeParkedSelection,
    success: ok('The number of records', ParkedDiscarded),
    errors: ['pipe_not_found', ...withBody],
  },
] as const satisfies readonly Operation[]
