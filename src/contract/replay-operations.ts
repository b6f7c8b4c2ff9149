/** Operations that replay a range of kept messages to a destination. `management/` serves them. */
import { accepted, everyManaged, managed, noContent, type Operation, ok, withBody } from './operation.ts'
import { Replay, ReplayList, ReplayPlan, ReplayRequest } from './replays.ts'
import { resourceLimits } from './resource-limits.ts'

const rangeWords =
  'The range consists of the messages in the order of their `stream_seq`: from the first one that was accepted at or after `from`, to the one before the first that was accepted at or after `to`. So two ranges with a common bound share no message. Messages that the lane has not passed yet are left out, because it delivers them by itself.'

export const replayOperations = [
  {
    ...managed('listReplays', 'its_pipe'),
    summary: 'List the replays of a destination',
    success: ok('The replays, newest first', ReplayList),
    errors: ['destination_not_found', ...everyManaged],
  },
  {
    ...managed('planReplay', 'its_pipe'),
    summary: 'Count the messages that a replay would deliver again (dry run)',
    description: `Changes nothing. ${rangeWords}`,
    request: ReplayRequest,
    success: ok('The messages of the range', ReplayPlan),
    errors: ['destination_not_found', ...withBody],
  },
  {
    ...managed('createReplay', 'its_pipe'),
    summary: 'Deliver a range of kept messages to the destination again',
    description: `The lane continues with its own messages meanwhile: one batch of the replay alternates with one batch of its own. Its cursor and other destinations are not affected. One replay of a destination runs at a time, and at most ${resourceLimits.replaysPerLane} can wait or run. ${rangeWords} A pull destination has no delivery that could replay messages: rewind it instead.`,
    request: ReplayRequest,
    success: accepted('The replay, which waits or runs', Replay),
    errors: ['destination_not_found', 'too_many_replays', ...withBody],
  },
  {
    ...managed('getReplay', 'its_pipe'),
    summary: 'Show a replay and its progress',
    success: ok('The replay', Replay),
    errors: ['destination_not_found', 'replay_not_found', ...everyManaged],
  },
  {
    ...managed('cancelReplay', 'its_pipe'),
    summary: 'Cancel a replay; a batch that is being delivered is completed',
    description: 'The replay remains listed as `cancelled`.',
    success: noContent('Cancelled'),
    errors: ['destination_not_found', 'replay_not_found', 'replay_finished', ...everyManaged],
  },
] as const satisfies readonly Operation[]
