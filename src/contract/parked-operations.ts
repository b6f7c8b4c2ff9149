/** Operations on a destination's parked records. `management/` serves them. */
import { everyManaged, type Operation, replayBody, withBody } from './operation.ts'
import { at } from './operation-paths.ts'
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
    ...at('listParked'),
    area: 'management',
    summary: 'List the parked records of a destination, without their content',
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: parkedParameters,
    success: { status: 200, description: 'One page of parked records', schema: ParkedList },
    errors: ['destination_not_found', 'validation_error', ...everyManaged],
  },
  {
    ...at('getParked'),
    area: 'management',
    summary: 'Show one parked record, or parked message, with its records as sent',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 200, description: 'The parked record or message', schema: ParkedDetail },
    errors: ['destination_not_found', 'parked_not_found', ...everyManaged],
  },
  {
    ...at('replayParked'),
    area: 'management',
    summary: 'Deliver a parked record again, edited or unchanged',
    description:
      'The lane delivers it as a batch of its own, after the current batch. A stored record is no longer parked; a record that is rejected again is parked with the new error. The replay waits while the destination is blocked.',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: ParkedReplayRequest,
    isBodyOptional: true,
    bodyLimits: replayBody,
    success: { status: 202, description: 'The record will be replayed', schema: ParkedReplay },
    errors: ['destination_not_found', 'parked_not_found', 'parked_replaying', ...withBody],
  },
  {
    ...at('replayManyParked'),
    area: 'management',
    summary: 'Deliver several parked records again, or all of them, each as a batch of its own',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: ParkedSelection,
    success: { status: 200, description: 'The number of records', schema: ParkedReplayed },
    errors: ['destination_not_found', ...withBody],
  },
  {
    ...at('deleteParked'),
    area: 'management',
    summary: 'Delete a parked record permanently',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 204, description: 'Discarded' },
    errors: ['destination_not_found', 'parked_not_found', 'parked_replaying', ...everyManaged],
  },
  {
    ...at('discardManyParked'),
    area: 'management',
    summary:
      'Delete several parked records permanently, or all of them, except those that are being replayed',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: ParkedSelection,
    success: { status: 200, description: 'The number of records', schema: ParkedDiscarded },
    errors: ['destination_not_found', ...withBody],
  },
] as const satisfies readonly Operation[]
