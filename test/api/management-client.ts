/**
 * The management API as these tests use it: every response is checked against the contract on the way. A success has the
 * status and the body shape of its operation, an error has a code of the catalogue with its status, and nothing that
 * was sent as a secret is in any response.
 */
import assert from 'node:assert/strict'
import type { TSchema } from 'typebox'
import { type DestinationType, fieldsOf } from '../../src/contract/destination-words.ts'
import { errorCatalogue } from '../../src/contract/errors.ts'
import { operationTable } from '../../src/contract/operations.ts'
import { shapeFaults } from '../../src/contract/validate.ts'
import type { Answer, CallOptions } from '../support/api-client.ts'
import type { TestDaemon } from '../support/daemon.ts'
import { operationAt } from '../support/observations.ts'

/** Put this into every secret that a test sends: no response may hold it. */
export const secretMark = 'S3CR3T'
export const unknownId = '00000000-0000-4000-8000-000000000000'

export type Api = (method: string, path: string, body?: unknown, options?: CallOptions) => Promise<Answer>

export function checkedApi(daemon: TestDaemon): Api {
  return async (method, path, body, options) => {
    const answer = await daemon.api(method, path, body, options)
    checkAnswer(method, path, answer)
    return answer
  }
}

function checkAnswer(method: string, path: string, answer: Answer): void {
  const what = `${method} ${path} → ${answer.status} ${answer.text}`
  assert(!answer.text.includes(secretMark), `a secret is in the answer: ${what}`)
  if (answer.status >= 400) {
    const code = Object.entries(errorCatalogue).find(([code]) => code === answer.body.error)
    assert.equal(code?.[1].status, answer.status, `not an error of the catalogue: ${what}`)
    assert.equal(typeof answer.body.message, 'string', what)
    return
  }
  const operationId = operationAt(method, path.split('?')[0] ?? '')
  const operation = operationTable.find((known) => known.operationId === operationId)
  assert(operation, `not an operation: ${what}`)
  assert.equal(answer.status, operation.success.status, what)
  const { schema } = operation.success
  if (schema === undefined) assert.equal(answer.text, '', what)
  else assertFits(schema, answer.body, what)
}

function assertFits(schema: TSchema, body: unknown, what: string): void {
  const errors = shapeFaults(schema, body)
  assert.deepEqual({ ...errors }, {}, `not the contract's shape: ${what}`)
}

export const databaseConfig = {
  host: '127.0.0.1',
  database: 'app',
  username: 'app',
  password: `${secretMark}-password`,
  table: 'events',
}
export const databaseDestination = {
  destination_type: 'destination_database',
  destination_config: databaseConfig,
}
export const objectStoreDestination = {
  destination_type: 'destination_object_store',
  destination_config: {
    bucket: 'archive',
    endpoint: 'http://127.0.0.1:9',
    access_key: 'AKIA',
    secret_key: `${secretMark}-key`,
    session_token: `${secretMark}-token`,
  },
}
export const httpDestination = {
  destination_type: 'destination_http_endpoint',
  destination_config: {
    url: 'http://127.0.0.1:9/hook',
    auth_header: `Bearer ${secretMark}`,
    // Not the mark itself: it has to be base64. Its text is looked for where it is used.
    signing_secret: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
  },
}
export const natsDestination = {
  destination_type: 'destination_nats',
  destination_config: {
    url: 'nats://127.0.0.1:9',
    subject: 'events.{pipe_name}',
    username: 'loader',
    password: secretMark,
  },
}
export const pullDestination = { destination_type: 'destination_pull', destination_config: {} }

interface DestinationBody {
  destination_type: string
  destination_config: Record<string, unknown>
}

/** A destination of the type that has only what it needs, from the table of its fields. */
export function minimalDestination(type: DestinationType): DestinationBody {
  const needed = fieldsOf(type).filter(([, field]) => field.needed)
  const config = needed.map(([key, { example }]) => [key, example ?? 'x'])
  return { destination_type: type, destination_config: Object.fromEntries(config) }
}

/** A destination of the type with its secrets, which have the mark in them; of a type without secrets, a minimal one. */
export function fullDestination(type: DestinationType): DestinationBody {
  const full = [databaseDestination, objectStoreDestination, httpDestination, natsDestination]
  return full.find((one) => one.destination_type === type) ?? minimalDestination(type)
}

export const fullLimits = {
  pl_ingest_max_records_per_request: 100,
  pl_ingest_max_records_per_second: 1000,
  pl_ingest_max_records_per_day: 1_000_000,
  pl_ingest_max_bytes_per_day: 1_000_000_000,
  pl_delivery_max_records_per_flush: 500,
  pl_delivery_max_bytes_per_flush: 1_000_000,
  pl_delivery_max_seconds_per_flush: 5,
}

/** The id a create answered. Throws when it was no success. */
export async function created(
  api: Api,
  path: string,
  body: unknown,
  key: 'pipe_id' | 'destination_id' | 'pipe_allowed_origin_id' | 'api_key_id',
  options?: CallOptions,
): Promise<string> {
  const answer = await api('POST', path, body, options)
  assert.equal(answer.status, 201, answer.text)
  return String(answer.body[key])
}

/** The `errors` map of a validation error; fails when it was answered otherwise. */
export function errorsIn(answer: Answer): Record<string, string> {
  assert.equal(answer.body.error, 'validation_error', answer.text)
  return Object.fromEntries(
    Object.entries(Object(answer.body.errors)).map(([path, message]) => [path, String(message)]),
  )
}
