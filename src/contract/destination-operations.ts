/** Operations on destinations and their lanes. `management/` serves them. */
import Type from 'typebox'
import { AttemptList, attemptParameters } from './attempts.ts'
import { blockingPage } from './blocking-page.ts'
import {
  DestinationCreate,
  DestinationStatusBody,
  DestinationTest,
  DestinationUpdate,
  RewindRequest,
  withGivenConfig,
} from './destination-requests.ts'
import { Drift } from './drift.ts'
import { LaneLatencyReport, latencyDescription } from './latency.ts'
import {
  created,
  destinationBody,
  everyManaged,
  managed,
  noContent,
  type Operation,
  ok,
  sampleBody,
  withBody,
} from './operation.ts'
import { resourceLimits } from './resource-limits.ts'
import { responseBodies } from './responses.ts'
import { query } from './schema-parts.ts'
import { TableInference, TableProposal } from './table-proposal.ts'
import { TransformTrialRequest, TransformTrialResult } from './transform-trial.ts'
import { hoursParameter, LaneByHour, untilParameter } from './usage.ts'

const checkTransform = query(
  'check_transform',
  Type.Boolean({ default: true }),
  'true: a new or changed transform is tested on the newest records of the pipe first, for 5 s at most, and rejected if it fails on all of them. false: it is saved without this test.',
)

export const destinationOperations = [
  {
    ...managed('createDestination', 'its_pipe'),
    summary: 'Attach a destination to a pipe',
    parameters: [checkTransform],
    request: DestinationCreate,
    prepare: withGivenConfig,
    bodyLimits: destinationBody,
    success: created('Created, active', responseBodies.destinationCreated),
    errors: ['pipe_not_found', 'duplicate_destination_name', 'workspace_full', ...withBody],
  },
  {
    ...managed('testDestination', 'its_pipe'),
    summary: 'Test a new or changed destination without storing it',
    parameters: [
      query(
        'sample',
        Type.Boolean({ default: false }),
        "Databases: insert the pipe's newest record, or a generated one, in a transaction that is rolled back.",
      ),
    ],
    request: DestinationTest,
    prepare: withGivenConfig,
    bodyLimits: destinationBody,
    success: ok('The result of each check', responseBodies.tested),
    errors: ['pipe_not_found', 'destination_not_found', ...withBody],
  },
  {
    ...managed('inferTable', 'its_pipe'),
    summary: 'Propose a table and its column mapping from records, and create or extend the table on request',
    description:
      'Reads the newest records of the pipe, or a sample, and proposes column types that return every value as it was sent. No destination and no record is stored. With `create_table` or `add_columns` the statements in `ddl` are run with the rights of the configured database user and recorded in the audit log. An error of the database is returned in `failure`, with the proposal.',
    request: TableInference,
    prepare: withGivenConfig,
    bodyLimits: sampleBody,
    success: ok('The proposal, and the statements that were run', TableProposal),
    errors: ['pipe_not_found', 'destination_not_found', ...withBody],
  },
  {
    ...managed('tryTransform', 'its_pipe'),
    summary: 'Show the result of a transform for the newest records of the pipe, or for a sample',
    description:
      'Applies a stored or a new transform for 5 s at most, and returns each record before and after, and how many are kept, filtered out and fail. Nothing is stored or delivered.',
    request: TransformTrialRequest,
    bodyLimits: sampleBody,
    success: ok('The result for each record', TransformTrialResult),
    errors: ['pipe_not_found', 'destination_not_found', ...withBody],
  },
  {
    ...managed('getDestination', 'its_pipe'),
    versioned: 'destination',
    summary: 'Show a destination and its lane',
    success: ok('The destination', responseBodies.destination),
    errors: ['destination_not_found', ...everyManaged],
  },
  {
    ...managed('getDestinationUsage', 'its_pipe'),
    summary: 'Show what the lane of a destination delivered, failed and skipped, by the hour',
    description:
      'One entry per hour (UTC), oldest first, including the current hour; zeros if nothing happened. The counts are those of the last save of the lane. For a pull destination, pulled records count as delivered.',
    parameters: [hoursParameter, untilParameter],
    success: ok('The hours', LaneByHour),
    errors: ['destination_not_found', 'validation_error', ...everyManaged],
  },
  {
    ...managed('getDestinationLatency', 'its_pipe'),
    summary: 'Show how long records take to the destination, and how often attempts succeed',
    description: latencyDescription,
    parameters: [hoursParameter, untilParameter],
    success: ok('The whole range, and its hours', LaneLatencyReport),
    errors: ['destination_not_found', 'validation_error', ...everyManaged],
  },
  {
    ...managed('listAttempts', 'its_pipe'),
    summary: 'List the delivery attempts of a lane',
    description: `Kept are the newest ${resourceLimits.deliveredAttemptsPerLane} attempts that delivered, for ${resourceLimits.deliveredAttemptHours} h, and the newest ${resourceLimits.failedAttemptsPerLane} that failed, for ${resourceLimits.failedAttemptHours / 24} days. An attempt is listed once its outcome is saved with the lane. \`request\` and \`response\` are those of an HTTP endpoint: of an attempt with several requests the first that failed, otherwise the last. A pull destination has no attempts.`,
    parameters: attemptParameters,
    success: ok('The attempts', AttemptList),
    errors: ['destination_not_found', 'validation_error', ...everyManaged],
  },
  {
    ...managed('getDrift', 'its_pipe'),
    summary: 'Show the keys of delivered records that have no column, and the columns that no record fills',
    description:
      'Covers the records that were checked since the last change of the columns. A new key appears after some seconds, its count after a minute at most.',
    success: ok('Keys and columns without a counterpart', Type.Object({ drift: Drift })),
    errors: ['destination_not_found', ...everyManaged],
  },
  {
    ...managed('updateDestination', 'its_pipe'),
    versioned: 'destination',
    summary: 'Change a destination',
    parameters: [checkTransform],
    request: DestinationUpdate,
    bodyLimits: destinationBody,
    success: ok('The changed destination', responseBodies.destinationUpdated),
    errors: ['changed_meanwhile', 'destination_not_found', 'duplicate_destination_name', ...withBody],
  },
  {
    ...managed('deleteDestination', 'its_pipe'),
    versioned: 'destination',
    summary: 'Remove a destination and its lane',
    success: noContent('Deleted'),
    errors: ['changed_meanwhile', 'destination_not_found', ...everyManaged],
  },
  {
    ...managed('setDestinationStatus', 'its_pipe'),
    versioned: 'destination',
    summary: 'Block a destination (it keeps its backlog) or make it active again',
    request: DestinationStatusBody,
    success: ok('The new status', DestinationStatusBody),
    errors: ['changed_meanwhile', 'destination_not_found', ...withBody],
  },
  {
    ...managed('skipBlockingMessage', 'its_pipe'),
    summary: 'Park the blocking message, and move the lane past it',
    success: ok('The message was parked and skipped, or no message was blocking', responseBodies.skipped),
    errors: ['destination_not_found', 'parked_full', ...withBody],
  },
  {
    ...managed('retryNow', 'its_pipe'),
    summary: 'Retry the blocking message at once',
    success: ok('The message is being retried, or no message was blocking', responseBodies.retried),
    errors: ['destination_not_found', ...withBody],
  },
  {
    ...managed('getBlockingMessage', 'its_pipe'),
    summary: 'Show the message that blocks the lane, with its records as sent, page by page',
    parameters: [
      query(
        'from',
        Type.Integer({ default: 0, minimum: 0 }),
        'The index of the first record to show, from 0. `failing.record_index` is the index of the rejected one.',
      ),
      query(
        'limit',
        Type.Integer({ default: blockingPage.default, minimum: 1, maximum: blockingPage.max }),
        'The maximum number of records.',
      ),
    ],
    success: ok('The blocking message', responseBodies.blockingMessage),
    errors: ['validation_error', 'destination_not_found', 'no_blocking_message', ...everyManaged],
  },
  {
    ...managed('rewindDestination', 'its_pipe'),
    summary: 'Move the lane back, to redeliver messages that are still kept',
    request: RewindRequest,
    success: ok('The new cursor of the lane', responseBodies.rewound),
    errors: ['destination_not_found', ...withBody],
  },
  {
    ...managed('resetTlsPin', 'its_pipe'),
    summary:
      'Reset the pinned key of the database server; the next connection pins the key that the server has then',
    success: ok('The pin was reset, or there was none', responseBodies.pinReset),
    errors: ['destination_not_found', ...withBody],
  },
] as const satisfies readonly Operation[]
