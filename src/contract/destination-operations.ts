/** Destinations and their lanes: served by `management/`. */
import Type from 'typebox'
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
import { destinationBody, everyManaged, type Operation, sampleBody, withBody } from './operation.ts'
import { at } from './operation-paths.ts'
import { responseBodies } from './responses.ts'
import { TableInference, TableProposal } from './table-proposal.ts'
import { TransformTrialRequest, TransformTrialResult } from './transform-trial.ts'
import { hoursParameter } from './usage.ts'

const checkTransform = {
  in: 'query',
  name: 'check_transform',
  schema: Type.Boolean({ default: true }),
  description:
    'A transform that is given or changed is tried on the newest records of the pipe first, for 5 s at most: one that fails on all of them is refused. false: it is saved without.',
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
    summary: 'Try a new or changed destination without storing it',
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: [
      {
        in: 'query',
        name: 'sample',
        schema: Type.Boolean({ default: false }),
        description:
          "Databases: insert the pipe's newest record, or a made-up one, in a transaction that is rolled back.",
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
    summary:
      'Propose a table and its column mapping from records, and create or extend the table where asked to',
    description:
      'Looks at the newest records of the pipe, or at a sample, and proposes column types that give back every value as it was sent. Stores no destination and no record. With `create_table` or `add_columns` the statements in `ddl` are run with the rights of the database user that the config names; what was run is in the audit log. What fails at the database is in `failure`, beside the proposal.',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: TableInference,
    prepare: withGivenConfig,
    bodyLimits: sampleBody,
    success: { status: 200, description: 'The proposal, and what was done', schema: TableProposal },
    errors: ['pipe_not_found', 'destination_not_found', ...withBody],
  },
  {
    ...at('tryTransform'),
    area: 'management',
    summary: 'Show what a transform makes of the newest records of the pipe, or of a sample',
    description:
      'A stored transform, or one that is not stored: each record before and after, and how many are kept, filtered out and fail. Nothing is stored or delivered. For 5 s at most.',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: TransformTrialRequest,
    bodyLimits: sampleBody,
    success: { status: 200, description: 'What became of the records', schema: TransformTrialResult },
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
      'One entry per hour of UTC, oldest first, the current hour included; zeros where nothing happened. As of the last time that the progress of the lane was saved. For a pull destination, records that were pulled count as delivered.',
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: [hoursParameter],
    success: { status: 200, description: 'The hours', schema: responseBodies.laneByHour },
    errors: ['destination_not_found', 'validation_error', ...everyManaged],
  },
  {
    ...at('getDrift'),
    area: 'management',
    summary: 'Show the keys of delivered records that no column takes, and the columns that no record fills',
    description:
      'Of the records that were looked at since the columns were changed last. A new key is there after some seconds, counts after a minute at most.',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 200, description: 'What was seen', schema: Type.Object({ drift: Drift }) },
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
      description: 'The destination as it is now',
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
    success: { status: 200, description: 'The status as it is now', schema: DestinationStatusBody },
    errors: ['changed_meanwhile', 'destination_not_found', ...withBody],
  },
  {
    ...at('skipBlockingMessage'),
    area: 'management',
    summary: 'Park the blocking message, and move the lane past it',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 200, description: 'Skipped, or nothing was blocking', schema: responseBodies.skipped },
    errors: ['destination_not_found', 'parked_full', ...withBody],
  },
  {
    ...at('retryNow'),
    area: 'management',
    summary: 'Retry the blocking message at once',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 200, description: 'Retried, or nothing was blocking', schema: responseBodies.retried },
    errors: ['destination_not_found', ...withBody],
  },
  {
    ...at('getBlockingMessage'),
    area: 'management',
    summary: 'Show the message that blocks the lane, with its records as sent, some at a time',
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: [
      {
        in: 'query',
        name: 'from',
        schema: Type.Integer({ default: 0, minimum: 0 }),
        description:
          'The place of the first record to show, from 0. `failing.record_index` shows the refused one.',
      },
      {
        in: 'query',
        name: 'limit',
        schema: Type.Integer({ default: blockingPage.default, minimum: 1, maximum: blockingPage.max }),
        description: 'How many records at most.',
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
    summary: 'Forget the pinned key of the database server; the next connection pins the one that it finds',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 200, description: 'Reset, or nothing was pinned', schema: responseBodies.pinReset },
    errors: ['destination_not_found', ...withBody],
  },
] as const satisfies readonly Operation[]
