/** The responses of each operation in OpenAPI form: success, errors by status with their details, and headers. */
import { type ErrorCode, errorCatalogue } from './errors.ts'
import { openapiSchema, type SchemaObject } from './openapi-schema.ts'
import type { Operation } from './operation.ts'
import { operationTable } from './operations.ts'
import { queryFailures } from './query-limits.ts'
import { hookRefusalNames } from './source-words.ts'

type Names = ReadonlyMap<object, string>
type Responses = Record<string, unknown>

export const errorSchema: SchemaObject = {
  type: 'object',
  required: ['error', 'message'],
  properties: {
    error: { type: 'string', description: 'The code, for programs.', enum: Object.keys(errorCatalogue) },
    message: { type: 'string', description: 'A sentence for people.' },
  },
}

const exceededLimit = {
  limit: {
    type: 'string',
    description:
      'The limit that was exceeded: a field of the pipe limits, a setting of the daemon, or a fixed limit.',
  },
  limit_value: { type: 'integer' },
  current: { type: 'integer' },
}
const exceededRate = { ...exceededLimit, retry_after_seconds: { type: 'integer' } }

/** The fields that some codes carry in addition to `error` and `message`. */
const details: Partial<Record<ErrorCode, Record<string, SchemaObject>>> = {
  validation_error: {
    errors: {
      type: 'object',
      additionalProperties: { type: 'string' },
      description: 'Dot-joined path of each invalid field → a sentence. The empty path is the body itself.',
    },
  },
  missing_required_fields: {
    record_index: { type: 'integer', minimum: 0 },
    fields: { type: 'array', items: { type: 'string' } },
  },
  schema_mismatch: {
    errors: {
      type: 'array',
      description: 'The first errors. No message contains a value of a record.',
      items: {
        type: 'object',
        required: ['record', 'path', 'message'],
        properties: {
          record: { type: 'integer', minimum: 0, description: 'The index in the request.' },
          path: { type: 'string', description: 'JSON Pointer into the record.' },
          message: { type: 'string' },
        },
      },
    },
  },
  parked_mismatch: {
    errors: {
      type: 'array',
      description: 'The first errors. No message contains a value of a record.',
      items: {
        type: 'object',
        required: ['path', 'message'],
        properties: {
          path: { type: 'string', description: 'JSON Pointer into the record.' },
          message: { type: 'string' },
        },
      },
    },
  },
  changed_meanwhile: {
    present: {
      type: 'object',
      description:
        'The pipe, the destination or the alerts as a GET shows them now. Omitted if they were deleted in the meantime.',
    },
  },
  workspace_full: { limit: exceededLimit.limit, limit_value: exceededLimit.limit_value },
  payload_too_large: exceededLimit,
  invalid_payload: {
    limit: exceededLimit.limit,
    limit_value: exceededLimit.limit_value,
    record_index: { type: 'integer', minimum: 0 },
  },
  batch_too_large: exceededLimit,
  rate_limit_exceeded: exceededRate,
  daily_quota_exceeded: exceededRate,
  buffer_unavailable: {
    msg_id: { type: 'string', format: 'uuid' },
    details: {
      type: 'object',
      required: ['reason'],
      properties: {
        reason: {
          type: 'string',
          description:
            'over_quota, low_disk_space, too_many_bytes_in_flight, write_failed, not_in_cluster, not_replicated or closing: nothing is accepted. pipe_share: the buffer is almost full and this pipe, or its workspace, holds more than its share. idempotency_full: the same for the space of idempotency keys; requests without a key are accepted.',
        },
      },
    },
  },
  server_error: {
    request_id: { type: 'string', format: 'uuid', description: 'The log has the cause under this id.' },
  },
  hook_rejected: { reason: { type: 'string', enum: [...hookRefusalNames] } },
  query_failed: { reason: { type: 'string', enum: [...queryFailures] } },
  cursor_ahead: { head_seq: { type: 'integer', minimum: 0 } },
  cursor_expired: {
    earliest_seq: { type: 'integer', minimum: 0 },
    reason: {
      type: 'string',
      enum: ['retention', 'restored'],
      description: '`restored`: a backup was restored, and `after_seq` is a number from after the backup.',
    },
  },
}

/** Under `components`: header name → its description and schema. */
export const sharedHeaders: Record<string, { description: string; schema: SchemaObject }> = {
  'WWW-Authenticate': {
    description: '`Bearer`; for a webhook `Signature` or `Basic`.',
    schema: { type: 'string' },
  },
  'Retry-After': { description: 'Seconds.', schema: { type: 'integer' } },
  ETag: {
    description: 'The version of the settings, for If-Match. Counters of the service do not change it.',
    schema: { type: 'string' },
  },
  'X-RateLimit-Limit': { description: 'The limit, in records.', schema: { type: 'integer' } },
  'X-RateLimit-Remaining': { description: 'The records that are left of it.', schema: { type: 'integer' } },
  'X-RateLimit-Reset': {
    description: 'Seconds until the full limit is available again.',
    schema: { type: 'integer' },
  },
  Vary: { description: 'Always `Origin`.', schema: { type: 'string' } },
  'Access-Control-Allow-Origin': {
    description: 'The Origin of the request if the pipe allows it; otherwise absent.',
    schema: { type: 'string' },
  },
  'Access-Control-Expose-Headers': { description: 'Sent for an allowed Origin.', schema: { type: 'string' } },
  'Access-Control-Max-Age': {
    description: 'Sent for an allowed Origin; in seconds.',
    schema: { type: 'integer' },
  },
  'Access-Control-Allow-Methods': {
    description: 'Sent in the response to a preflight.',
    schema: { type: 'string' },
  },
  'Access-Control-Allow-Headers': {
    description: 'Sent in the response to a preflight.',
    schema: { type: 'string' },
  },
}

const rateLimit = ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset']
const cors = [
  'Vary',
  'Access-Control-Allow-Origin',
  'Access-Control-Expose-Headers',
  'Access-Control-Max-Age',
]

export function responses(operation: Operation, names: Names): Responses {
  const { success, otherResponses, errors } = operation
  const result: Responses = {}
  for (const [status, { description, schema, contentType }] of [
    [success.status, success] as const,
    ...Object.entries(otherResponses ?? {}),
  ])
    result[status] = {
      description,
      ...headersOf(operation, Number(status)),
      ...(schema ? content(openapiSchema(schema, names), contentType) : {}),
    }
  for (const [status, codes] of byStatus(errors)) {
    const withoutBody = otherResponses?.[status]?.description
    if (codes.length === 1 && withoutBody === undefined && operation.area !== 'ingest') {
      result[status] = { $ref: `#/components/responses/${codes[0]}` }
      continue
    }
    const { description, ...response } = errorResponse(codes)
    result[status] = {
      description: [withoutBody, description].filter((part) => part !== undefined).join(' '),
      ...response,
      ...headersOf(operation, status),
    }
  }
  return result
}

/**
 * Under `components`: responses for codes that are the only one of their status in some operation. They are written
 * once and referenced.
 */
export function sharedResponses(): Responses {
  const alone = new Set<ErrorCode>()
  for (const { area, errors } of operationTable)
    if (area !== 'ingest')
      for (const codes of byStatus(errors).values()) if (codes.length === 1) alone.add(codes[0]!)
  return Object.fromEntries(
    [...alone].map((code) => {
      const { description, ...response } = errorResponse([code])
      return [code, { description, ...headerRefs(usualHeaders(errorCatalogue[code].status)), ...response }]
    }),
  )
}

function byStatus(errors: readonly ErrorCode[]): Map<number, ErrorCode[]> {
  const groups = new Map<number, ErrorCode[]>()
  for (const code of errors) {
    const { status } = errorCatalogue[code]
    groups.set(status, [...(groups.get(status) ?? []), code])
  }
  return groups
}

function errorResponse(codes: readonly ErrorCode[]): { description: string; content: unknown } {
  const extra: Record<string, SchemaObject> = Object.assign({}, ...codes.map((code) => details[code] ?? {}))
  return {
    description: codes.map((code) => `${code}: ${errorCatalogue[code].message}`).join(' '),
    ...content({
      allOf: [
        { $ref: '#/components/schemas/Error' },
        { type: 'object', properties: { error: { type: 'string', enum: [...codes] }, ...extra } },
      ],
    }),
  }
}

function headersOf({ area, method, versioned, success }: Operation, status: number): Responses {
  const hasEtag = versioned !== undefined && status === success.status && success.schema !== undefined
  if (area !== 'ingest') return headerRefs([...(hasEtag ? ['ETag'] : []), ...usualHeaders(status)])
  const limits = method === 'POST' && (status === 202 || status === 429) ? rateLimit : []
  const preflight =
    method === 'OPTIONS' && status === 204
      ? ['Access-Control-Allow-Methods', 'Access-Control-Allow-Headers']
      : []
  return headerRefs([...usualHeaders(status), ...limits, ...cors, ...preflight])
}

function usualHeaders(status: number): string[] {
  if (status === 401) return ['WWW-Authenticate']
  if (status === 412) return ['ETag']
  return status === 429 || status === 503 ? ['Retry-After'] : []
}

function headerRefs(names: readonly string[]): Responses {
  if (names.length === 0) return {}
  return {
    headers: Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }])),
  }
}

function content(schema: SchemaObject, type = 'application/json'): { content: unknown } {
  return { content: { [type]: { schema } } }
}
