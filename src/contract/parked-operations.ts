/** Parked records of a destination: served by `management/`. */
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
    summary: 'List the records of a destination that were put aside, without their content',
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: parkedParameters,
    success: { status: 200, description: 'One page of them', schema: ParkedList },
    errors: ['destination_not_found', 'validation_error', ...everyManaged],
  },
  {
    ...at('getParked'),
    area: 'management',
    summary: 'Show one parked record, or parked message, with its records as sent',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 200, description: 'What is parked', schema: ParkedDetail },
    errors: ['destination_not_found', 'parked_not_found', ...everyManaged],
  },
  {
    ...at('replayParked'),
    area: 'management',
    summary: 'Deliver a parked record again, edited or as it is',
    description:
      'It goes through the lane as a batch of its own, after the batch under way. Stored, it is no longer parked; refused again, it is parked with the new error. While the destination is blocked it waits.',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: ParkedReplayRequest,
    isBodyOptional: true,
    bodyLimits: replayBody,
    success: { status: 202, description: 'It will be replayed', schema: ParkedReplay },
    errors: ['destination_not_found', 'parked_not_found', 'parked_replaying', ...withBody],
  },
  {
    ...at('replayManyParked'),
    area: 'management',
    summary: 'Deliver several parked records again, or all of them, each as a batch of its own',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: ParkedSelection,
    success: { status: 200, description: 'How many', schema: ParkedReplayed },
    errors: ['destination_not_found', ...withBody],
  },
  {
    ...at('deleteParked'),
    area: 'management',
    summary: 'Discard a parked record for good',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 204, description: 'Discarded' },
    errors: ['destination_not_found', 'parked_not_found', 'parked_replaying', ...everyManaged],
  },
  {
    ...at('discardManyParked'),
    area: 'management',
    summary: 'Discard several parked records for good, or all of them, except those that are being replayed',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: ParkedSelection,
    success: { status: 200, description: 'How many', schema: ParkedDiscarded },
    errors: ['destination_not_found', ...withBody],
  },
] as const satisfies readonly Operation[]
