/**
 * Requests are checked by the schemas that the OpenAPI document shows: for every operation of management with a body, one body that
 * its schema accepts and one that it rejects; for every query parameter, a value of each kind.
 */

import t from 'tap'
import type { TSchema } from 'typebox'
import { Check } from 'typebox/schema'
import { smallBody } from '../../src/contract/operation.ts'
import { operationTable } from '../../src/contract/operations.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import {
  checkedApi,
  created,
  errorsIn,
  fullLimits,
  httpDestination,
  pullDestination,
  unknownId,
} from './management-client.ts'

const daemon = await sharedDaemon()
const api = checkedApi(daemon)
const pipeId = await created(api, '/v1/pipes', { pipe_name: 'schemas' }, 'pipe_id')
const destinationId = await created(
  api,
  `/v1/pipes/${pipeId}/destinations`,
  httpDestination,
  'destination_id',
)
const ids: Record<string, string> = { pipe_id: pipeId, destination_id: destinationId }

const database = {
  destination_type: 'destination_database',
  destination_config: {
    host: '127.0.0.1',
    port: 9,
    database: 'app',
    username: 'app',
    password: 'x',
    table: 't',
  },
}

/** A body that fits the operation's schema. It may still be refused by a rule that needs more than the body. */
const accepted: Record<string, object> = {
  createPipe: { pipe_name: 'another', pipe_ingest_geo_city_field: ' city ' },
  updatePipe: { pipe_id: pipeId, pipe_description: 'of this test' },
  putLimits: fullLimits,
  addAllowedOrigin: { origin_domain: 'HTTPS://example.test:443' },
  createApiKey: { api_key_name: 'of this test', api_key_scopes: ['read'] },
  rotateApiKey: { api_key_name: 'of this test' },
  createDestination: { ...pullDestination, destination_name: 'another' },
  testDestination: { destination_id: destinationId },
  inferTable: { ...database, sample: '{"a":1}' },
  checkSchema: { schema: { type: 'object' }, sample: '{"a":1}' },
  createPrivacyJob: { kind: 'find', keys: [{ path: 'user_id', value: '42' }] },
  inferSchema: { records: 10, sample: '{"a":1}', enums: false },
  tryTransform: { transform: { filter: 'record.a == 1' }, sample: '{"a":1}' },
  updateDestination: { destination_name: 'renamed' },
  setDestinationStatus: { destination_status: 'active' },
  rewindDestination: { to: 'earliest' },
  queryDestination: { sql: 'SELECT 1' },
  planReplay: { from: 'earliest', to: 'now' },
  createReplay: { from: 1, to: '2026-01-31T12:00:00Z' },
  replayParked: {},
  replayManyParked: { all: true },
  discardManyParked: { ids: [unknownId] },
  editPipeParked: { records: [{ n: 1 }] },
  replayPipeParked: { force: true },
  replayManyPipeParked: { all: true },
  discardManyPipeParked: { ids: [unknownId] },
  createUser: { user_email: 'ada@example.test', user_role: 'viewer', password: 'a long enough password' },
  updateUser: { user_role: 'admin' },
  createSetupLink: { user_role: 'viewer' },
  putAlerts: { url: 'http://127.0.0.1:9/alerts' },
}

const managed = operationTable.filter(({ area }) => area === 'management')
const withBody = managed.filter(({ request }) => request !== undefined)

const unprepared = (body: Record<string, unknown>) => body
const pathOf = (path: string) => path.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? unknownId)

t.test('every operation with a body is tried', async (t) => {
  t.same(Object.keys(accepted).sort(), withBody.map(({ operationId }) => operationId).sort())
})

for (const { operationId, method, path, request, prepare = unprepared, isBodyOptional = false } of withBody) {
  t.test(operationId, async (t) => {
    const good = accepted[operationId]!
    const bad = { ...good, no_such_field: 1 }
    t.ok(Check(request!, prepare({ ...good })), 'the schema accepts one')
    t.notOk(Check(request!, prepare(bad)), 'and rejects one with another field')
    const answer = await api(method, pathOf(path), good)
    const fault = answer.status === 400 ? errorsIn(answer) : {}
    // This pipe has no message yet.
    if (operationId === 'createReplay') t.match(fault, { '': /has no message/ })
    else t.same(fault, {}, 'what the schema accepts is no wrong request')
    const { no_such_field: named } = errorsIn(await api(method, pathOf(path), bad))
    t.equal(named, 'Unknown field.', 'what the schema rejects is named')
    const bodyless = await api(method, pathOf(path))
    if (isBodyOptional) t.not(bodyless.status, 400, 'no body stands for an empty one')
    else t.match(errorsIn(bodyless), { '': /must be a JSON object/ }, 'a body is required')
  })
}

t.test('query parameters', async (t) => {
  let tried = 0
  for (const { operationId, method, path, parameters = [], request } of managed) {
    for (const { in: place, name, schema } of parameters) {
      if (place !== 'query') continue
      for (const text of wrongTexts(schema)) {
        const body = request === undefined ? undefined : accepted[operationId]
        const answer = await api(method, `${pathOf(path)}?${name}=${encodeURIComponent(text)}`, body)
        t.ok(errorsIn(answer)[name], `${operationId}: ${name}=${text} is rejected`)
        tried += 1
      }
    }
  }
  t.ok(tried > 20, `${tried} values`)
})

/** Texts that cannot stand for a value of the schema. */
function wrongTexts(
  schema: TSchema & { type?: string; maximum?: number; anyOf?: unknown; enum?: unknown },
): string[] {
  if (schema.type === 'integer') {
    const beyond = schema.maximum === undefined ? [] : [String(schema.maximum + 1)]
    return ['', '-1', '1.5', 'x', '99999999999999999', ...beyond]
  }
  if (schema.type === 'boolean') return ['', '1', 'TRUE']
  return schema.anyOf === undefined && schema.enum === undefined
    ? []
    : ['', 'yesterday', '2026-13-45T00:00:00Z']
}

t.test('ids that can name nothing', async (t) => {
  for (const { operationId, method, path, errors } of managed) {
    for (const [parameter] of path.matchAll(/\{\w+\}/g)) {
      const wrong = pathOf(path.replace(parameter, 'no-uuid'))
      const { status, body } = await api(method, wrong, accepted[operationId])
      t.equal(status, 404, `${operationId} ${parameter}`)
      t.ok(
        errors.some((code) => code === body.error),
        String(body.error),
      )
    }
  }
})

t.test('whatever a body holds is bounded', async (t) => {
  for (const { operationId, request, bodyLimits = smallBody } of withBody) {
    t.ok(bodyLimits.bytes > 0 && bodyLimits.values > 0, operationId)
    for (const [where, schema] of partsOf({ ...request! }, operationId)) {
      if (schema.type === 'array') t.type(schema.maxItems, 'number', `${where} has maxItems`)
      t.notOk(Object.hasOwn(schema, 'uniqueItems'), `${where} has no uniqueItems`)
    }
  }
})

type Part = TSchema & Record<string, unknown>

function* partsOf(schema: Part, where: string): Generator<[where: string, schema: Part]> {
  yield [where, schema]
  for (const [key, inner] of Object.entries(schema)) {
    const parts =
      key === 'properties'
        ? Object.entries(Object(inner))
        : key === 'anyOf'
          ? Object.entries(Object(inner))
          : []
    for (const [name, part] of parts) yield* partsOf(part as Part, `${where}.${name}`)
    if (key === 'items') yield* partsOf(inner as Part, `${where}[]`)
  }
}
