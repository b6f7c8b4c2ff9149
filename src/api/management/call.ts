/**
 * A request of an authenticated caller, checked against its operation: the path, then the query, then the body. The
 * OpenAPI document is generated from the same schemas. Rules that need more than the request are checked by the use
 * cases.
 */
import type { TSchema } from 'typebox'
import { ApiError, type ErrorCode } from '../../contract/errors.ts'
import type { Operation } from '../../contract/operation.ts'
import {
  type ManagementOperationId,
  type OperationId,
  operationTable,
  type RequestBody,
  type RequestPath,
  type RequestQuery,
} from '../../contract/operations.ts'
import type { Principal } from '../../contract/principal.ts'
import { isUuid } from '../../contract/uuid.ts'
import {
  type FieldErrors,
  requireObject,
  shapeFaults,
  throwIfErrors,
  validate,
} from '../../contract/validate.ts'
import { isForPipe } from '../../ingest/admission.ts'

export interface Call<Id extends OperationId> {
  principal: Principal
  /** Ids in lower case. A pipe in the path is one that the caller can access. */
  path: RequestPath<Id>
  query: RequestQuery<Id>
  body: RequestBody<Id>
  /** The bytes of the body, for text that must not pass through a parser. Absent if there was no body. */
  bodyBytes?: Buffer | undefined
}

/** One use case for each operation of management. Each returns the success body and throws ApiError. */
export type UseCases = { [Id in ManagementOperationId]: (call: Call<Id>) => Promise<unknown> }

interface UncheckedRequest {
  principal: Principal
  /** The parameters by name, as sent. */
  params?: Readonly<Record<string, string>>
  query?: URLSearchParams
  body?: unknown
  bodyBytes?: Buffer | undefined
}

/** Throws the 404 of the resource for an id that cannot exist, and `validation_error` for all other faults. */
export function checkedCall<Id extends OperationId>(operationId: Id, request: UncheckedRequest): Call<Id> {
  const operation = operationsById.get(operationId)!
  const { principal, params = {}, query, body, bodyBytes } = request
  const call = {
    principal,
    path: checkedPath(operation, params, principal),
    query: query === undefined ? {} : checkedQuery(operation, query),
    body: checkedBody(operation, body),
    bodyBytes,
  }
  // Each part was just checked against the schemas that these types are derived from.
  return call as Call<Id>
}

const operationsById = new Map(operationTable.map((operation) => [operation.operationId, operation]))

/** The 404 of each path parameter, outer resources first. */
const notFoundErrors: readonly (readonly [parameter: string, error: ErrorCode])[] = [
  ['pipe_id', 'pipe_not_found'],
  ['destination_id', 'destination_not_found'],
  ['parked_id', 'parked_not_found'],
  ['replay_id', 'replay_not_found'],
  ['job_id', 'privacy_job_not_found'],
  ['origin_id', 'origin_not_found'],
  ['api_key_id', 'api_key_not_found'],
  ['user_id', 'user_not_found'],
  ['msg_id', 'message_not_found'],
]

function checkedPath(
  { errors }: Operation,
  params: Readonly<Record<string, string>>,
  principal: Principal,
): Record<string, string> {
  const path: Record<string, string> = {}
  for (const [name, text] of Object.entries(params)) {
    const id = text.toLowerCase()
    const isAllowed = name !== 'pipe_id' || isForPipe(principal, id)
    if (!isUuid(text) || !isAllowed) throw new ApiError(notFoundError(name, errors))
    path[name] = id
  }
  return path
}

/**
 * If an operation has no error for the outer resource, the error of the next inner one is used: a destination under
 * an unknown pipe is not found.
 */
function notFoundError(parameter: string, errors: readonly ErrorCode[]): ErrorCode {
  const from = notFoundErrors.findIndex(([name]) => name === parameter)
  const found = notFoundErrors.slice(from).find(([, error]) => errors.includes(error))
  return found?.[1] ?? 'not_found'
}

function checkedQuery({ parameters = [] }: Operation, query: URLSearchParams): Record<string, unknown> {
  const values: Record<string, unknown> = {}
  const faults: FieldErrors = {}
  for (const { in: place, name, schema } of parameters) {
    const text = place === 'query' ? query.get(name) : null
    if (text === null) continue
    values[name] = parsedText(schema, text)
    const [fault] = Object.values(shapeFaults(schema, values[name], name))
    if (fault !== undefined) faults[name] = wordsFor(schema) ?? fault
  }
  throwIfErrors(faults)
  return values
}

/**
 * Converts a text of the query to the type in its schema. A text that cannot be converted stays a text, which the
 * schema then rejects.
 */
function parsedText({ type }: TSchema & { type?: string }, text: string): unknown {
  if (type === 'integer') return /^\d{1,16}$/.test(text) ? Number(text) : text
  if (type === 'boolean') return text === 'true' || text === 'false' ? text === 'true' : text
  return text
}

/**
 * The message for a query parameter, because the messages for wrong types in a body do not fit. Null: the message of
 * the schema fits.
 */
function wordsFor(schema: TSchema & { type?: string; minimum?: number; maximum?: number }): string | null {
  const { type, minimum = 0, maximum = Number.MAX_SAFE_INTEGER } = schema
  if (type === 'boolean') return 'must be true or false'
  if (type !== 'integer') return null
  return maximum === Number.MAX_SAFE_INTEGER
    ? `must be a whole number, ${minimum} or more`
    : `must be a whole number from ${minimum} to ${maximum}`
}

function checkedBody({ request, prepare, isBodyOptional = false }: Operation, body: unknown): unknown {
  if (request === undefined) return undefined
  const given = requireObject(body === undefined && isBodyOptional ? {} : body)
  return validate(request, prepare === undefined ? given : prepare(given))
}
