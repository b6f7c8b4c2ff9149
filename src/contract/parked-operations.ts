/** Operations on a destination's parked records. `management/` serves them. */
import {
  accepted,
  everyManaged,
  managed,
  noContent,
  type Operation,
  ok,
  replayBody,
  withBody,
} from './operation.ts'
import {
  ParkedDetail,
  ParkedDiscarded,
  ParkedList,
  ParkedReplay,
  ParkedReplayed,
  ParkedReplayRequest,
  ParkedSelection,
  parkedParameters,
} from './parked.ts'

export const parkedOperations = [
  {
    ...managed('listParked', 'its_pipe'),
    summary: 'List the parked records of a destination, without their content',
    parameters: parkedParameters,
    success: ok('One page of parked records', ParkedList),
    errors: ['destination_not_found', 'validation_error', ...everyManaged],
  },
  {
    ...managed('getParked', 'its_pipe'),
    summary: 'Show one parked record, or parked message, with its records as sent',
    success: ok('The parked record or message', ParkedDetail),
    errors: ['destination_not_found', 'parked_not_found', ...everyManaged],
  },
  {
    ...managed('replayParked', 'its_pipe'),
    summary: 'Deliver a parked record again, edited or unchanged',
    description:
      'The lane delivers it as a batch of its own, after the current batch. A stored record is no longer parked; a record that is rejected again is parked with the new error. The replay waits while the destination is blocked.',
    request: ParkedReplayRequest,
    isBodyOptional: true,
    bodyLimits: replayBody,
    success: accepted('The record will be replayed', ParkedReplay),
    errors: ['destination_not_found', 'parked_not_found', 'parked_replaying', ...withBody],
  },
  {
    ...managed('replayManyParked', 'its_pipe'),
    summary: 'Deliver several parked records again, or all of them, each as a batch of its own',
    request: ParkedSelection,
    success: ok('The number of records', ParkedReplayed),
    errors: ['destination_not_found', ...withBody],
  },
  {
    ...managed('deleteParked', 'its_pipe'),
    summary: 'Delete a parked record permanently',
    success: noContent('Discarded'),
    errors: ['destination_not_found', 'parked_not_found', 'parked_replaying', ...everyManaged],
  },
  {
    ...managed('discardManyParked', 'its_pipe'),
    summary:
      'Delete several parked records permanently, or all of them, except those that are being replayed',
    request: ParkedSelection,
    success: ok('The number of records', ParkedDiscarded),
    errors: ['destination_not_found', ...withBody],
  },
] as const satisfies readonly Operation[]
