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
import { destinationBody, everyManaged, type Operation, sampleBody, withBody } from './operation.ts'
import { at } from './operation-paths.ts'
import { resourceLimits } from './resource-limits.ts'
import { responseBodies } from './responses.ts'
import { TableInference, TableProposal } from './table-proposal.ts'
import { TransformTrialRequest, TransformTrialResult } from './transform-trial.ts'
import { hoursParameter, untilParameter } from './usage.ts'

const checkTransform = {
  in: 'query',
  name: 'check_transform',
  schema: Type.Boolean({ default: true }),
  description:
    'true: a new or changed transform is tested on the newest records of the pipe first, for 5 s at most, and rejected if it fails on all of them. false: it is saved without this test.',
} as const

export const destinationOperations = [
  {
    ...at('createDestination'),
    area: 'management',
    summary: 'Attach a destination to a pipe',
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: [checkTransform],
    request: DestinationCreate,
    prepare: withGivenConfig,
    bodyLimits: destinationBody,
    success: { status: 201, description: 'Created, active', schema: responseBodies.destinationCreated },
    errors: ['pipe_not_found', 'duplicate_destination_name', 'workspace_full', ...withBody],
  },
  {
    ...at('testDestination'),
    area: 'management',
    summary: 'Test a new or changed destination without storing it',
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: [
      {
        in: 'query',
        name: 'sample',
        schema: Type.Boolean({ default: false }),
        description:
          "Databases: insert the pipe's newest record, or a generated one, in a transaction that is rolled back.",
      },
    ],
    request: DestinationTest,
    prepare: withGivenConfig,
    bodyLimits: destinationBody,
    success: { status: 200, description: 'The result of each check', schema: responseBodies.tested },
    errors: ['pipe_not_found', 'destination_not_found', ...withBody],
  },
  {
    ...at('inferTable'),
    area: 'management',
    summary: 'Propose a table and its column mapping from records, and create or extend the table on request',
    description:
      'Reads the newest records of the pipe, or a sample, and proposes column types that return every value as it was sent. No destination and no record is stored. With `create_table` or `add_columns` the statements in `ddl` are run with the rights of the configured database user and recorded in the audit log. An error of the database is returned in `failure`, with the proposal.',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: TableInference,
    prepare: withGivenConfig,
    bodyLimits: sampleBody,
    success: {
      status: 200,
      description: 'The proposal, and the statements that were run',
      schema: TableProposal,
    },
    errors: ['pipe_not_found', 'destination_not_found', ...withBody],
  },
  {
    ...at('tryTransform'),
    area: 'management',
    summary: 'Show the result of a transform for the newest records of the pipe, or for a sample',
    description:
      'Applies a stored or a new transform for 5 s at most, and returns each record before and after, and how many are kept, filtered out and fail. Nothing is stored or delivered.',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: TransformTrialRequest,
    bodyLimits: sampleBody,
    success: { status: 200, description: 'The result for each record', schema: TransformTrialResult },
    errors: ['pipe_not_found', 'destination_not_found', ...withBody],
  },
  {
    ...at('getDestination'),
    area: 'management',
    versioned: 'destination',
    summary: 'Show a destination and its lane',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 200, description: 'The destination', schema: responseBodies.destination },
    errors: ['destination_not_found', ...everyManaged],
  },
  {
    ...at('getDestinationUsage'),
    area: 'management',
    summary: 'Show what the lane of a destination delivered, failed and skipped, by the hour',
    description:
      'One entry per hour (UTC), oldest first, including the current hour; zeros if nothing happened. The counts are those of the last save of the lane. For a pull destination, pulled records count as delivered.',
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: [hoursParameter, untilParameter],
    success: { status: 200, description: 'The hours', schema: responseBodies.laneByHour },
    errors: ['destination_not_found', 'validation_error', ...everyManaged],
  },
  {
    ...at('getDestinationLatency'),
    area: 'management',
    summary: 'Show how long records take to the destination, and how often attempts succeed',
    description: latencyDescription,
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: [hoursParameter, untilParameter],
    success: { status: 200, description: 'The whole range, and its hours', schema: LaneLatencyReport },
    errors: ['destination_not_found', 'validation_error', ...everyManaged],
  },
  {
    ...at('listAttempts'),
    area: 'management',
    summary: 'List the delivery attempts of a lane',
    description: `Kept are the newest ${resourceLimits.deliveredAttemptsPerLane} attempts that delivered, for ${resourceLimits.deliveredAttemptHours} h, and the newest ${resourceLimits.failedAttemptsPerLane} that failed, for ${resourceLimits.failedAttemptHours / 24} days. An attempt is listed once its outcome is saved with the lane. \`request\` and \`response\` are those of an HTTP endpoint: of an attempt with several requests the first that failed, otherwise the last. A pull destination has no attempts.`,
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: attemptParameters,
    success: { status: 200, description: 'The attempts', schema: AttemptList },
    errors: ['destination_not_found', 'validation_error', ...everyManaged],
  },
  {
    ...at('getDrift'),
    area: 'management',
    summary: 'Show the keys of delivered records that have no column, and the columns that no record fills',
    description:
      'Covers the records that were checked since the last change of the columns. A new key appears after some seconds, its count after a minute at most.',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: {
      status: 200,
      description: 'Keys and columns without a counterpart',
      schema: Type.Object({ drift: Drift }),
    },
    errors: ['destination_not_found', ...everyManaged],
  },
  {
    ...at('updateDestination'),
    area: 'management',
    versioned: 'destination',
    summary: 'Change a destination',
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: [checkTransform],
    request: DestinationUpdate,
    bodyLimits: destinationBody,
    success: {
      status: 200,
      description: 'The changed destination',
      schema: responseBodies.destinationUpdated,
    },
    errors: ['changed_meanwhile', 'destination_not_found', 'duplicate_destination_name', ...withBody],
  },
  {
    ...at('deleteDestination'),
    area: 'management',
    versioned: 'destination',
    summary: 'Remove a destination and its lane',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 204, description: 'Deleted' },
    errors: ['changed_meanwhile', 'destination_not_found', ...everyManaged],
  },
  {
    ...at('setDestinationStatus'),
    area: 'management',
    versioned: 'destination',
    summary: 'Block a destination (it keeps its backlog) or make it active again',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: DestinationStatusBody,
    success: { status: 200, description: 'The new status', schema: DestinationStatusBody },
    errors: ['changed_meanwhile', 'destination_not_found', ...withBody],
  },
  {
    ...at('skipBlockingMessage'),
    area: 'management',
    summary: 'Park the blocking message, and move the lane past it',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: {
      status: 200,
      description: 'The message was parked and skipped, or no message was blocking',
      schema: responseBodies.skipped,
    },
    errors: ['destination_not_found', 'parked_full', ...withBody],
  },
  {
    ...at('retryNow'),
    area: 'management',
    summary: 'Retry the blocking message at once',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: {
      status: 200,
      description: 'The message is being retried, or no message was blocking',
      schema: responseBodies.retried,
    },
    errors: ['destination_not_found', ...withBody],
  },
  {
    ...at('getBlockingMessage'),
    area: 'management',
    summary: 'Show the message that blocks the lane, with its records as sent, page by page',
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: [
      {
        in: 'query',
        name: 'from',
        schema: Type.Integer({ default: 0, minimum: 0 }),
        description:
          'The index of the first record to show, from 0. `failing.record_index` is the index of the rejected one.',
      },
      {
        in: 'query',
        name: 'limit',
        schema: Type.Integer({ default: blockingPage.default, minimum: 1, maximum: blockingPage.max }),
        description: 'The maximum number of records.',
      },
    ],
    success: { status: 200, description: 'The blocking message', schema: responseBodies.blockingMessage },
    errors: ['validation_error', 'destination_not_found', 'no_blocking_message', ...everyManaged],
  },
  {
    ...at('rewindDestination'),
    area: 'management',
    summary: 'Move the lane back, to redeliver messages that are still kept',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: RewindRequest,
    success: { status: 200, description: 'The new cursor of the lane', schema: responseBodies.rewound },
    errors: ['destination_not_found', ...withBody],
  },
  {
    ...at('resetTlsPin'),
    area: 'management',
    summary:
      'Reset the pinned key of the database server; the next connection pins the key that the server has then',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: {
      status: 200,
      description: 'The pin was reset, or there was none',
      schema: responseBodies.pinReset,
    },
    errors: ['destination_not_found', ...withBody],
  },
] as const satisfies readonly Operation[]
