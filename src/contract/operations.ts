/**
 * Every operation of /v1 as data: THE route table. The HTTP layer builds its routes from it, the OpenAPI document is
 * emitted from it, and a test asks for each operation and each of its error codes to have been seen.
 */
import Type, { type TSchema } from 'typebox'
import { answers } from './answers.ts'
import { ApiKeyCreate } from './api-key.ts'
import {
  DestinationCreate,
  DestinationStatusBody,
  DestinationUpdate,
  RewindRequest,
} from './destination-requests.ts'
import type { ErrorCode } from './errors.ts'
import { PipeLimits } from './limits.ts'
import { OriginCreate } from './origin.ts'
import { PipeCreate, PipeUpdate } from './pipe.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'

export interface OperationParameter {
  in: 'query' | 'header'
  name: string
  required?: boolean
  schema: TSchema
  description: string
}

export interface Operation {
  operationId: string
  method: Method
  /** Parameters in braces; each is a UUID. */
  path: string
  /** Which module serves it. `health` is on every address; `ingest` and `pull` are on `{data_url}`. */
  area: 'management' | 'health' | 'ingest' | 'pull'
  summary: string
  description?: string
  /** `key`: Bearer key required. `pipe`: as the pipe says. */
  auth: 'none' | 'key' | 'pipe'
  parameters?: readonly OperationParameter[]
  /** The JSON body. Absent: the operation takes none. */
  request?: TSchema
  /** Further content types of the body, beside application/json. */
  requestContentTypes?: readonly string[]
  success: { status: number; description: string; schema?: TSchema }
  /** Further statuses without an error body, e.g. 204 of an empty pull. */
  alsoAnswers?: Readonly<Record<number, string>>
  errors: readonly ErrorCode[]
}

const everyKeyed = ['unauthorized', 'server_error'] as const
const withBody = ['validation_error', 'payload_too_large', ...everyKeyed] as const
const base = '/v1/pipes/{pipe_id}'
const oneDestination = `${base}/destinations/{destination_id}` as const

const idempotencyKey: OperationParameter = {
  in: 'header',
  name: 'Idempotency-Key',
  schema: Type.String({ minLength: 1, maxLength: 255 }),
  description: 'For 24 hours the same key on the same pipe gives the first 202 again and buffers nothing.',
}
const origin: OperationParameter = {
  in: 'header',
  name: 'Origin',
  schema: Type.String(),
  description: 'Sent by browsers; checked against the pipe.',
}
const msgIdBody = Type.Object({ msg_id: Type.String({ format: 'uuid' }) }, { additionalProperties: false })
const ingestRecord = Type.Object({}, { additionalProperties: true })

export const operations = [
  {
    operationId: 'listPipes',
    method: 'GET',
    path: '/v1/pipes',
    area: 'management',
    summary: 'List the pipes of the workspace with their usage of the last 24 hours',
    auth: 'key',
    success: { status: 200, description: 'All pipes', schema: answers.pipeList },
    errors: everyKeyed,
  },
  {
    operationId: 'createPipe',
    method: 'POST',
    path: '/v1/pipes',
    area: 'management',
    summary: 'Create a pipe',
    auth: 'key',
    request: PipeCreate,
    success: { status: 201, description: 'Created, active', schema: answers.pipeCreated },
    errors: ['duplicate_pipe_name', ...withBody],
  },
  {
    operationId: 'getPipe',
    method: 'GET',
    path: base,
    area: 'management',
    summary: 'Show a pipe with its destinations, limits, allowed origins and the keys of the workspace',
    auth: 'key',
    success: { status: 200, description: 'The pipe', schema: answers.pipeDetail },
    errors: ['pipe_not_found', ...everyKeyed],
  },
  {
    operationId: 'updatePipe',
    method: 'PATCH',
    path: base,
    area: 'management',
    summary: 'Change, pause or resume a pipe',
    auth: 'key',
    request: PipeUpdate,
    success: { status: 200, description: 'The pipe as it is now', schema: answers.pipe },
    errors: ['pipe_not_found', ...withBody],
  },
  {
    operationId: 'deletePipe',
    method: 'DELETE',
    path: base,
    area: 'management',
    summary: 'Delete a pipe with its destinations and everything buffered in it',
    auth: 'key',
    success: { status: 204, description: 'Deleted' },
    errors: ['pipe_not_found', ...everyKeyed],
  },
  {
    operationId: 'createDestination',
    method: 'POST',
    path: `${base}/destinations`,
    area: 'management',
    summary: 'Attach a destination to a pipe',
    auth: 'key',
    request: DestinationCreate,
    success: { status: 201, description: 'Created, active', schema: answers.destinationCreated },
    errors: ['pipe_not_found', ...withBody],
  },
  {
    operationId: 'testDestination',
    method: 'POST',
    path: `${base}/destinations/test`,
    area: 'management',
    summary: 'Try a destination without storing it',
    auth: 'key',
    request: DestinationCreate,
    success: { status: 200, description: 'What was found', schema: answers.tested },
    errors: ['pipe_not_found', ...withBody],
  },
  {
    operationId: 'getDestination',
    method: 'GET',
    path: oneDestination,
    area: 'management',
    summary: 'Show a destination and its lane',
    auth: 'key',
    success: { status: 200, description: 'The destination', schema: answers.destination },
    errors: ['destination_not_found', ...everyKeyed],
  },
  {
    operationId: 'updateDestination',
    method: 'PATCH',
    path: oneDestination,
    area: 'management',
    summary: 'Change a destination',
    auth: 'key',
    request: DestinationUpdate,
    success: { status: 200, description: 'The destination as it is now', schema: answers.destination },
    errors: ['destination_not_found', ...withBody],
  },
  {
    operationId: 'deleteDestination',
    method: 'DELETE',
    path: oneDestination,
    area: 'management',
    summary: 'Remove a destination and its lane',
    auth: 'key',
    success: { status: 204, description: 'Deleted' },
    errors: ['destination_not_found', ...everyKeyed],
  },
  {
    operationId: 'setDestinationStatus',
    method: 'PATCH',
    path: `${oneDestination}/status`,
    area: 'management',
    summary: 'Block a destination (it keeps its backlog) or make it active again',
    auth: 'key',
    request: DestinationStatusBody,
    success: { status: 200, description: 'The status as it is now', schema: DestinationStatusBody },
    errors: ['destination_not_found', ...withBody],
  },
  {
    operationId: 'skipBlockingMessage',
    method: 'POST',
    path: `${oneDestination}/skip`,
    area: 'management',
    summary: 'Move the lane past its blocking message',
    auth: 'key',
    success: { status: 200, description: 'Skipped, or nothing was blocking', schema: answers.skipped },
    errors: ['destination_not_found', ...everyKeyed],
  },
  {
    operationId: 'retryNow',
    method: 'POST',
    path: `${oneDestination}/retry-now`,
    area: 'management',
    summary: 'Retry the blocking message at once',
    auth: 'key',
    success: { status: 200, description: 'Retried, or nothing was blocking', schema: answers.retried },
    errors: ['destination_not_found', ...everyKeyed],
  },
  {
    operationId: 'getBlockingMessage',
    method: 'GET',
    path: `${oneDestination}/blocking-message`,
    area: 'management',
    summary: 'Show the message that blocks the lane, with its first 20 records as they were sent',
    auth: 'key',
    success: { status: 200, description: 'The blocking message', schema: answers.blockingMessage },
    errors: ['destination_not_found', 'no_blocking_message', ...everyKeyed],
  },
  {
    operationId: 'rewindDestination',
    method: 'POST',
    path: `${oneDestination}/rewind`,
    area: 'management',
    summary: 'Move the lane back, to deliver again what is still kept',
    auth: 'key',
    request: RewindRequest,
    success: { status: 200, description: 'Where the lane stands now', schema: answers.rewound },
    errors: ['destination_not_found', ...withBody],
  },
  {
    operationId: 'putLimits',
    method: 'PUT',
    path: `${base}/limits`,
    area: 'management',
    summary: 'Set the limits of a pipe',
    auth: 'key',
    request: PipeLimits,
    success: { status: 200, description: 'The limits as they are now', schema: answers.limits },
    errors: ['pipe_not_found', ...withBody],
  },
  {
    operationId: 'addAllowedOrigin',
    method: 'POST',
    path: `${base}/allowed-origins`,
    area: 'management',
    summary: 'Allow a browser origin',
    auth: 'key',
    request: OriginCreate,
    success: { status: 201, description: 'Allowed', schema: answers.originCreated },
    errors: ['pipe_not_found', 'duplicate_origin', ...withBody],
  },
  {
    operationId: 'removeAllowedOrigin',
    method: 'DELETE',
    path: `${base}/allowed-origins/{origin_id}`,
    area: 'management',
    summary: 'No longer allow a browser origin',
    auth: 'key',
    success: { status: 204, description: 'Removed' },
    errors: ['origin_not_found', ...everyKeyed],
  },
  {
    operationId: 'listApiKeys',
    method: 'GET',
    path: '/v1/api-keys',
    area: 'management',
    summary: 'List the API keys of the workspace, never the keys themselves',
    auth: 'key',
    success: { status: 200, description: 'All keys', schema: answers.apiKeyList },
    errors: everyKeyed,
  },
  {
    operationId: 'createApiKey',
    method: 'POST',
    path: '/v1/api-keys',
    area: 'management',
    summary: 'Create an API key; it is shown this once',
    auth: 'key',
    request: ApiKeyCreate,
    success: { status: 201, description: 'Created', schema: answers.apiKeyCreated },
    errors: ['duplicate_api_key_name', ...withBody],
  },
  {
    operationId: 'revokeApiKey',
    method: 'DELETE',
    path: '/v1/api-keys/{api_key_id}',
    area: 'management',
    summary: 'Revoke an API key; it stops working before this answers',
    auth: 'key',
    success: { status: 204, description: 'Revoked' },
    errors: ['cannot_revoke_current_key', 'api_key_not_found', ...everyKeyed],
  },
  {
    operationId: 'getHealth',
    method: 'GET',
    path: '/v1/health',
    area: 'health',
    summary: 'Whether the service is up',
    auth: 'none',
    success: { status: 200, description: 'It is', schema: answers.health },
    errors: [],
  },
  {
    operationId: 'ingestRecords',
    method: 'POST',
    path: '/v1/ingest/{pipe_id}',
    area: 'ingest',
    summary: 'Send one record or an array of records into a pipe',
    description:
      '202 means the message is on disk and fsynced; it is delivered afterwards. Content-Encoding gzip, deflate and br are taken.',
    auth: 'pipe',
    parameters: [idempotencyKey, origin],
    request: Type.Union([ingestRecord, Type.Array(ingestRecord, { minItems: 1 })]),
    requestContentTypes: ['application/x-ndjson'],
    success: { status: 202, description: 'Durably buffered', schema: answers.accepted },
    errors: [
      'invalid_pipe_id',
      'pipe_not_found',
      'unauthorized',
      'forbidden',
      'configuration_error',
      'payload_too_large',
      'unsupported_encoding',
      'invalid_payload',
      'empty_payload',
      'batch_too_large',
      'missing_required_fields',
      'rate_limit_exceeded',
      'daily_quota_exceeded',
      'buffer_unavailable',
      'server_error',
    ],
  },
  {
    operationId: 'ingestHint',
    method: 'GET',
    path: '/v1/ingest/{pipe_id}',
    area: 'ingest',
    summary: 'Say how to send records; ingests nothing',
    auth: 'none',
    success: { status: 200, description: 'The hint', schema: answers.ingestHint },
    errors: ['invalid_pipe_id', 'pipe_not_found', 'server_error'],
  },
  {
    operationId: 'ingestPreflight',
    method: 'OPTIONS',
    path: '/v1/ingest/{pipe_id}',
    area: 'ingest',
    summary: 'CORS preflight',
    auth: 'none',
    parameters: [{ ...origin, required: true }],
    success: { status: 204, description: 'The origin may send records' },
    alsoAnswers: { 400: 'No Origin; empty body.', 403: 'Origin not allowed; empty body.' },
    errors: ['invalid_pipe_id', 'pipe_not_found'],
  },
  {
    operationId: 'pullMessage',
    method: 'GET',
    path: '/v1/pull/{destination_id}',
    area: 'pull',
    summary: "Take the next message of a pull destination's lane, waiting for one if need be",
    auth: 'key',
    parameters: [
      {
        in: 'query',
        name: 'wait_ms',
        schema: Type.Integer({ minimum: 0, default: 5000 }),
        description: 'How long to wait for a message; more than 30000 counts as 30000.',
      },
      {
        in: 'query',
        name: 'after_seq',
        schema: Type.Integer({ minimum: 0 }),
        description: 'Commit everything up to this stream_seq, then give the first message after it.',
      },
    ],
    success: { status: 200, description: 'One message', schema: answers.pulled },
    alsoAnswers: { 204: 'No message came in time' },
    errors: [
      'invalid_destination_id',
      'invalid_wait_ms',
      'invalid_after_seq',
      'destination_not_found',
      'cursor_expired',
      'pull_concurrency_exceeded',
      ...everyKeyed,
    ],
  },
  {
    operationId: 'ackMessage',
    method: 'POST',
    path: '/v1/pull/{destination_id}/ack',
    area: 'pull',
    summary: 'Lanes with explicit ack: the leased message is done',
    auth: 'key',
    request: msgIdBody,
    success: { status: 204, description: 'The lane moved on' },
    errors: [
      'invalid_destination_id',
      'invalid_msg_id',
      'destination_not_found',
      'lease_expired',
      ...everyKeyed,
    ],
  },
  {
    operationId: 'nackMessage',
    method: 'POST',
    path: '/v1/pull/{destination_id}/nack',
    area: 'pull',
    summary: 'Lanes with explicit ack: give the leased message again',
    auth: 'key',
    request: msgIdBody,
    success: { status: 204, description: 'It will be given again at once' },
    errors: [
      'invalid_destination_id',
      'invalid_msg_id',
      'destination_not_found',
      'lease_expired',
      ...everyKeyed,
    ],
  },
] as const satisfies readonly Operation[]

/** The same table for those who walk through it: every entry as the general type. */
export const operationTable: readonly Operation[] = operations

export type OperationId = (typeof operations)[number]['operationId']
/** The operations that `management/` answers: /v1/pipes…, /v1/api-keys… and health. */
export type ManagementOperationId = Extract<
  (typeof operations)[number],
  { area: 'management' | 'health' }
>['operationId']
