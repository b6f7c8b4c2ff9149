/** Parked records of a destination: served by `management/`. */
import { everyKeyed, type Operation, oneDestination, withBody } from './operation.ts'
import {
  ParkedDetail,
  ParkedList,
  ParkedReplay,
  ParkedReplayed,
  ParkedReplayManyRequest,
  ParkedReplayRequest,
  parkedParameters,
} from './parked.ts'

const everyParked = `${oneDestination}/parked` as const
const oneParked = `${everyParked}/{parked_id}` as const

export const parkedOperations = [
  {
    operationId: 'listParked',
    method: 'GET',
    path: everyParked,
    area: 'management',
    summary: 'List the records of a destination that were put aside, without their content',
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: parkedParameters,
    success: { status: 200, description: 'One page of them', schema: ParkedList },
    errors: ['destination_not_found', 'validation_error', ...everyKeyed],
  },
  {
    operationId: 'getParked',
    method: 'GET',
    path: oneParked,
    area: 'management',
    summary: 'Show one parked record, or parked message, with its records as sent',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 200, description: 'What is parked', schema: ParkedDetail },
    errors: ['destination_not_found', 'parked_not_found', ...everyKeyed],
  },
  {
    operationId: 'replayParked',
    method: 'POST',
    path: `${oneParked}/replay`,
    area: 'management',
    summary: 'Deliver a parked record again, edited or as it is',
    description:
      'It goes through the lane as a batch of its own, after the batch under way. Stored, it is no longer parked; refused again, it is parked with the new error. While the destination is blocked it waits.',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: ParkedReplayRequest,
    success: { status: 202, description: 'It will be replayed', schema: ParkedReplay },
    errors: ['destination_not_found', 'parked_not_found', 'parked_replaying', ...withBody],
  },
  {
    operationId: 'replayManyParked',
    method: 'POST',
    path: `${everyParked}/replay`,
    area: 'management',
    summary: 'Deliver several parked records again, or all of them, each as a batch of its own',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: ParkedReplayManyRequest,
    success: { status: 200, description: 'How many', schema: ParkedReplayed },
    errors: ['destination_not_found', ...withBody],
  },
  {
    operationId: 'deleteParked',
    method: 'DELETE',
    path: oneParked,
    area: 'management',
    summary: 'Discard a parked record for good',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 204, description: 'Discarded' },
    errors: ['destination_not_found', 'parked_not_found', 'parked_replaying', ...everyKeyed],
  },
] as const satisfies readonly Operation[]
