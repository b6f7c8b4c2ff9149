/**
 * The worst bodies that an operation takes, for every operation of the contract that has one: each is rejected with an error in
 * words, none is stored, and explaining it has a bound. A body of another workspace's key must not hold up anyone else.
 */
import t from 'tap'
import type { TSchema } from 'typebox'
import { destinationTypes } from '../../src/contract/destination-words.ts'
import { type Operation, smallBody } from '../../src/contract/operation.ts'
import { operationTable } from '../../src/contract/operations.ts'
import { resourceLimits } from '../../src/contract/resource-limits.ts'
import { shapeFaults } from '../../src/contract/validate.ts'
import { startDaemon } from '../support/daemon.ts'
import {
  checkedApi,
  created,
  errorsIn,
  fullDestination,
  httpDestination,
  unknownId,
} from './management-client.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)
const pipe = await daemon.createPipe({ pipe_name: 'worst' })
const destinations = `/v1/pipes/${pipe}/destinations`
const destination = await created(api, destinations, httpDestination, 'destination_id')
const apiKey = await created(api, '/v1/api-keys', { api_key_name: 'other' }, 'api_key_id')
const user = await api('POST', '/v1/users', {
  user_email: 'ada@example.com',
  user_role: 'viewer',
  password: 'correct horse battery',
})
const ids: Record<string, string> = {
  pipe_id: pipe,
  destination_id: destination,
  api_key_id: apiKey,
  user_id: String(Object(user.body.user).user_id),
  parked_id: unknownId,
}

const withBody = operationTable.filter(({ request, area }) => request !== undefined && area === 'management')
const keyCounts = [1, 99, 100, 101, 10_000]
const keys = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`unknown_${index}`, index]))
const nested = (depth: number): unknown => (depth === 0 ? 'x' : [nested(depth - 1)])

/** For each field of the schema, and one that it does not have: lists, keys and depths that are far too many. */
function* worstBodies(schema: TSchema, { values }: { values: number }): Generator<Record<string, unknown>> {
  const many = values - 100
  for (const field of [...fieldsOf(schema), 'unknown']) {
    for (const element of ['x', 7, null, {}, { op: 'drop', paths: ['a'] }, `${unknownId}x`])
      yield { [field]: Array.from({ length: Math.floor(many / 4) }, () => element) }
    yield { [field]: Array.from({ length: many }, () => 'x') }
    yield { [field]: keys(many) }
    yield { [field]: nested(98) }
    yield { [field]: { map: Array.from({ length: Math.floor(many / 2) }, () => ({ op: 'none' })) } }
  }
  for (const count of keyCounts) yield keys(count)
}

function fieldsOf(schema: TSchema): string[] {
  const { properties = {}, anyOf = [] } = schema as { properties?: object; anyOf?: TSchema[] }
  return [...new Set([...Object.keys(properties), ...anyOf.flatMap(fieldsOf)])]
}

t.test('there are operations with a body', async (t) => t.ok(withBody.length > 15))

for (const operation of withBody) {
  t.test(`${operation.operationId} rejects the worst bodies within its limits, and says why`, async (t) => {
    const { request, bodyLimits = smallBody } = operation
    const before = await stored()
    for (const body of worstBodies(request!, bodyLimits)) {
      const answer = await api(operation.method, pathOf(operation), body)
      const what = `${JSON.stringify(body).slice(0, 60)} → ${answer.status} ${answer.text.slice(0, 200)}`
      t.ok(answer.status >= 400 && answer.status < 500, what)
      if (answer.status !== 400) continue
      const count = Object.keys(errorsIn(answer)).length
      t.ok(count >= 1 && count <= resourceLimits.explainedFields, what)
    }
    t.same(await stored(), before, 'nothing was stored')
  })
}

function pathOf({ path }: Operation): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? unknownId)
}

async function stored() {
  const { body } = await api('GET', `/v1/pipes/${pipe}`)
  const alerts = await api('GET', '/v1/alerts')
  const keys = await api('GET', '/v1/api-keys')
  const listed = Object(keys.body).api_keys as { api_key_id: string }[]
  return [body.destinations, body.pipe, alerts.body, listed.map((key) => key.api_key_id)]
}

for (const type of destinationTypes) {
  t.test(`unknown keys of a ${type} are rejected, however many there are`, async (t) => {
    const whole = fullDestination(type)
    const id = await created(api, destinations, whole, 'destination_id')
    for (const count of keyCounts) {
      const config = { ...whole.destination_config, ...keys(count) }
      const rejected = [
        await api('POST', destinations, { ...whole, destination_config: config }),
        await api('POST', destinations, { ...whole, ...keys(count) }),
        await api('POST', `${destinations}/test`, { ...whole, destination_config: config }),
        await api('PATCH', `${destinations}/${id}`, { destination_config: keys(count) }),
        await api('PATCH', `${destinations}/${id}`, keys(count)),
      ]
      for (const answer of rejected) {
        t.equal(answer.status, 400, `${count} keys`)
        t.ok(Object.keys(errorsIn(answer)).length >= 1, `${count} keys are explained`)
      }
    }
  })
}

t.test('wrong values among a hundred unknown keys are not stored', async (t) => {
  for (const wrong of [
    { timeout_ms: 1e12 },
    { auth_header: ['x'] },
    { headers: { a: 5 } },
    { body_format: 5 },
  ]) {
    const destination_config = { ...httpDestination.destination_config, ...keys(100), ...wrong }
    const answer = await api('POST', destinations, { ...httpDestination, destination_config })
    t.equal(answer.status, 400)
  }
})

t.test('a config has at most 64 KB, which no change can exceed', async (t) => {
  const id = await created(api, destinations, httpDestination, 'destination_id')
  const headers = (from: number) =>
    Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`x-${from + index}`, 'v'.repeat(4_000)]))
  const taken = await api('PATCH', `${destinations}/${id}`, { destination_config: { headers: headers(0) } })
  t.equal(taken.status, 200)
  const more = { destination_config: { secret_headers: headers(10) } }
  const rejected = await api('PATCH', `${destinations}/${id}`, more)
  t.match(errorsIn(rejected), { destination_config: /at most 65536 bytes as JSON/ })
})

t.test('a scope or an event that is named twice is rejected', async (t) => {
  const key = await api('POST', '/v1/api-keys', { api_key_name: 'twice', api_key_scopes: ['read', 'read'] })
  t.match(errorsIn(key), { api_key_scopes: /twice/ })
  const events = ['lane.stuck', 'lane.stuck']
  const alerts = await api('PUT', '/v1/alerts', { url: 'https://example.com/', events })
  t.match(errorsIn(alerts), { events: /twice/ })
})

/** Counts how often anything within the value is read. */
function counted<T>(value: T, reads: { count: number }): T {
  if (typeof value !== 'object' || value === null) return value
  return new Proxy(value, {
    get: (target, key) => {
      reads.count += 1
      return counted(Reflect.get(target, key), reads)
    },
    ownKeys: (target) => {
      const own = Reflect.ownKeys(target)
      reads.count += own.length
      return own
    },
  }) as T
}

t.test('explaining a body reads each of its values a few times, whatever is wrong with it', async (t) => {
  for (const { operationId, request, bodyLimits = smallBody } of withBody) {
    for (const body of worstBodies(request!, bodyLimits)) {
      const reads = { count: 0 }
      shapeFaults(request!, counted(body, reads))
      t.ok(
        reads.count < 60 * bodyLimits.values,
        `${operationId} ${JSON.stringify(body).slice(0, 60)}: ${reads.count}`,
      )
    }
  }
})
