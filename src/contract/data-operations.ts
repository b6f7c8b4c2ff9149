/** Operations that accept and return records, and the health checks. */
import Type from 'typebox'
import { accepted, everyKeyed, noContent, type Operation, ok } from './operation.ts'
import { at } from './operation-paths.ts'
import { responseBodies } from './responses.ts'
import { closed, count, query, uuid } from './schema-parts.ts'

const idempotencyKey = {
  in: 'header',
  name: 'Idempotency-Key',
  schema: Type.String({ minLength: 1, maxLength: 255 }),
  description:
    'For 24 hours a request with the same key and body on the same pipe returns the first 202 again and stores nothing. The same key with another body is rejected.',
} as const
const idempotencyKeyInUrl = query(
  'idempotency_key',
  Type.String({ minLength: 1, maxLength: 255 }),
  'The same as Idempotency-Key, for requests that cannot have headers, such as those of navigator.sendBeacon. Send only one of the two.',
)
const origin = {
  in: 'header',
  name: 'Origin',
  schema: Type.String(),
  description: 'Sent by browsers; checked against the pipe.',
} as const
const msgIdBody = Type.Object({ msg_id: uuid() }, closed)
const ingestRecord = Type.Object({}, { additionalProperties: true })

export const healthOperations = [
  {
    ...at('getHealth'),
    area: 'health',
    summary: 'Whether the process serves requests',
    auth: 'none',
    boundKeys: 'open',
    success: ok('The process serves requests', responseBodies.health),
    errors: [],
  },
  {
    ...at('getReady'),
    area: 'health',
    summary: 'Whether the service is ready',
    description: 'For load balancers. /v1/health stays ok while the process serves.',
    auth: 'none',
    boundKeys: 'open',
    success: ok('Ready', responseBodies.ready),
    otherResponses: { 503: { description: 'Not ready, with the reasons.', schema: responseBodies.notReady } },
    errors: [],
  },
] as const satisfies readonly Operation[]

export const ingestOperations = [
  {
    ...at('ingestRecords'),
    area: 'ingest',
    summary: 'Send one record or an array of records into a pipe',
    description:
      '202 means the message is on disk and fsynced; it is delivered afterwards. Content-Encoding can be gzip, deflate or br. A body of type text/plain is read as JSON; browsers send it to another origin without a preflight. A body that arrives more slowly than about 16 KB/s is cut off after 10 seconds without a response: send smaller bodies over slow links.',
    auth: 'pipe',
    boundKeys: 'its_pipe',
    parameters: [idempotencyKey, idempotencyKeyInUrl, origin],
    request: Type.Union([ingestRecord, Type.Array(ingestRecord, { minItems: 1 })]),
    requestContentTypes: ['application/x-ndjson', 'text/plain'],
    success: accepted('Durably buffered', responseBodies.accepted),
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
      'idempotency_key_reused',
      'batch_too_large',
      'missing_required_fields',
      'schema_mismatch',
      'rate_limit_exceeded',
      'daily_quota_exceeded',
      'buffer_unavailable',
      'server_error',
    ],
  },
  {
    ...at('ingestHint'),
    area: 'ingest',
    summary: 'Show how to send records; stores nothing',
    auth: 'none',
    boundKeys: 'open',
    success: ok('The hint', responseBodies.ingestHint),
    errors: ['invalid_pipe_id', 'pipe_not_found', 'server_error'],
  },
  {
    ...at('ingestPreflight'),
    area: 'ingest',
    summary: 'CORS preflight',
    auth: 'none',
    boundKeys: 'open',
    parameters: [{ ...origin, required: true }],
    success: noContent('The origin can send records'),
    otherResponses: {
      400: { description: 'No Origin; empty body.' },
      403: { description: 'Origin not allowed; empty body.' },
    },
    errors: ['invalid_pipe_id', 'pipe_not_found'],
  },
] as const satisfies readonly Operation[]

const webhook = {
  area: 'hooks',
  summary: 'Receive a webhook of the source of a pipe',
  description:
    'The source of the pipe verifies the signature over the body as it was sent. A valid webhook is stored like a request of ingest: the same limits, required fields, enrichment and quotas. The delivery id of the provider is its Idempotency-Key. A body of type application/x-www-form-urlencoded becomes one object. A request that only verifies the address (url_verification of Slack) gets its response and is not stored.',
  auth: 'none',
  boundKeys: 'open',
  request: Type.Union([ingestRecord, Type.Array(ingestRecord, { minItems: 1 })]),
  requestContentTypes: ['application/x-www-form-urlencoded', 'text/plain'],
  success: accepted('Durably buffered', responseBodies.accepted),
  otherResponses: {
    200: {
      description:
        'The response that verifies the address; nothing is stored. For slack and twilio also the response to a stored webhook: empty, or an empty TwiML document.',
      schema: Type.Unknown(),
      contentType: '*/*',
    },
  },
  errors: [
    'hook_not_found',
    'hook_rejected',
    'payload_too_large',
    'unsupported_encoding',
    'invalid_payload',
    'empty_payload',
    'batch_too_large',
    'missing_required_fields',
    'schema_mismatch',
    'rate_limit_exceeded',
    'daily_quota_exceeded',
    'buffer_unavailable',
    'server_error',
  ],
} as const
const challenge = {
  area: 'hooks',
  summary: 'Answer the request with which a provider verifies the address; stores nothing',
  auth: 'none',
  boundKeys: 'open',
  success: {
    status: 200,
    description: 'The text that the provider expects.',
    schema: Type.String(),
    contentType: 'text/plain',
  },
  errors: ['hook_not_found', 'hook_rejected', 'server_error'],
} as const

/** A pipe without a source, an unknown pipe and a wrong token get the same 404 (docs/dev/contract.md#webhooks). */
export const hookOperations = [
  { ...at('receiveHook'), ...webhook },
  { ...at('answerHookChallenge'), ...challenge },
  { ...at('receiveHookAtSecretUrl'), ...webhook },
  { ...at('answerHookChallengeAtSecretUrl'), ...challenge },
] as const satisfies readonly Operation[]

export const pullOperations = [
  {
    ...at('pullMessage'),
    area: 'pull',
    summary: 'Get the next message of a pull destination, waiting for one if there is none',
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: [
      query(
        'wait_ms',
        Type.Integer({ minimum: 0, default: 5000 }),
        'How long to wait for a message, in milliseconds; larger values count as 30000.',
      ),
      query(
        'after_seq',
        count(),
        'Commit everything up to this stream_seq, then return the first message after it.',
      ),
    ],
    success: ok('One message', responseBodies.pulled),
    otherResponses: { 204: { description: 'No message arrived in time' } },
    errors: [
      'invalid_destination_id',
      'invalid_wait_ms',
      'invalid_after_seq',
      'destination_not_found',
      'cursor_ahead',
      'cursor_expired',
      'pull_concurrency_exceeded',
      ...everyKeyed,
    ],
  },
  {
    ...at('ackMessage'),
    area: 'pull',
    summary: 'Acknowledge the leased message (ack_mode explicit)',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: msgIdBody,
    success: noContent('Acknowledged; the lane has moved on'),
    errors: [
      'invalid_destination_id',
      'invalid_msg_id',
      'destination_not_found',
      'lease_expired',
      ...everyKeyed,
    ],
  },
  {
    ...at('nackMessage'),
    area: 'pull',
    summary: 'Return the leased message to be redelivered (ack_mode explicit)',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: msgIdBody,
    success: noContent('Returned; the next request gets it at once'),
    errors: [
      'invalid_destination_id',
      'invalid_msg_id',
      'destination_not_found',
      'lease_expired',
      ...everyKeyed,
    ],
  },
] as const satisfies readonly Operation[]
