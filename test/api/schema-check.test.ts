/** POST …/schema/check: which stored records, or records of a sample, a schema would not accept. */
import t from 'tap'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { checkedApi, created, errorsIn, unknownId } from './management-client.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)
const check = async (pipeId: string, body: object) => {
  const answer = await api('POST', `/v1/pipes/${pipeId}/schema/check`, body)
  t.equal(answer.status, 200, answer.text)
  return Object(answer.body)
}
const schema = {
  type: 'object',
  properties: {
    id: { type: 'integer' },
    code: { type: 'string', pattern: '^[A-Z]+$' },
    lines: { type: 'array', items: { type: 'object', required: ['sku'] } },
  },
  required: ['id'],
  additionalProperties: false,
}

t.test('stored records, without the keys that the pipe adds', async (t) => {
  const fields = { pipe_add_ingest_ts: true, pipe_ingest_ts_field: 'at' }
  const pipeId = await created(api, '/v1/pipes', { pipe_name: 'orders', ...fields }, 'pipe_id')
  t.match(await check(pipeId, { schema }), { records_seen: 0, mismatching: 0, errors: [], mismatches: [] })
  await daemon.ingest(pipeId, { id: 'secret value' })
  await daemon.ingest(pipeId, [
    { id: 1, code: 'AT', lines: [{ sku: 1 }] },
    { id: 2, code: 'lower', lines: [{}, {}] },
    { id: 3, extra: true },
  ])
  const result = await check(pipeId, { schema })
  t.match(result, { source: 'pipe', records_seen: 4, mismatching: 3, ended_by: null })
  t.same(
    result.mismatches.map((one: { record_index: number }) => one.record_index),
    [1, 2, 0],
    'newest message first',
  )
  t.match(result.mismatches[0], { msg_id: /-7/, received_ts: /T/, errors: [{ path: '/code' }] })
  const paths = result.errors.map(
    ({ path, records }: { path: string; records: number }) => `${path} ${records}`,
  )
  t.same(paths.sort(), ['/code 1', '/extra 1', '/id 1', '/lines/*/sku 1'].sort(), 'both lines count once')
  t.notMatch(JSON.stringify(result), /secret value|lower/, 'no value is shown')
  t.match(await check(pipeId, { schema, records: 3 }), {
    records_seen: 3,
    mismatching: 2,
    ended_by: 'records',
  })
  t.match(await check(pipeId, { schema: { type: 'object' } }), { mismatching: 0, errors: [] })
})

t.test('the schema of the pipe, and a sample as it is', async (t) => {
  const pipeId = await created(api, '/v1/pipes', { pipe_name: 'own' }, 'pipe_id')
  const none = await api('POST', `/v1/pipes/${pipeId}/schema/check`, { sample: '{"id":1}' })
  t.match(errorsIn(none), { schema: /the pipe has none/ })
  await api('PATCH', `/v1/pipes/${pipeId}`, { pipe_schema: schema })
  const sample = '{"id":1}\n{"id":1.5}\n{"id":2,"ingest_ts":1}'
  t.match(await check(pipeId, { sample }), {
    source: 'sample',
    records_seen: 3,
    mismatching: 2,
    oldest_ts: null,
    mismatches: [
      { msg_id: null, record_index: 1 },
      { msg_id: null, record_index: 2 },
    ],
  })
})

t.test('a schema that is not one, and an unknown pipe', async (t) => {
  const pipeId = await created(api, '/v1/pipes', { pipe_name: 'wrong' }, 'pipe_id')
  const wrong = { type: 'object', properties: { a: { typ: 'string' }, b: { pattern: '(?=x)' } } }
  const answer = await api('POST', `/v1/pipes/${pipeId}/schema/check`, { schema: wrong })
  t.equal(answer.status, 400)
  t.match(errorsIn(answer), {
    'schema.properties.a.typ': /is not a keyword/,
    'schema.properties.b.pattern': /must be a regular expression of RE2/,
  })
  t.equal((await api('POST', `/v1/pipes/${unknownId}/schema/check`, { schema })).status, 404)
})

t.test('a schema and records that are slow to check end within the time of a request', async (t) => {
  const pipeId = await created(api, '/v1/pipes', { pipe_name: 'slow', pipe_add_ingest_ts: false }, 'pipe_id')
  let slow: object = { type: 'string' }
  for (let level = 0; level < 5; level += 1) slow = { anyOf: Array.from({ length: 4 }, () => slow) }
  const record = { list: Array.from({ length: 10_000 }, (_, at) => at) }
  for (let request = 0; request < 5; request += 1)
    await daemon.ingest(pipeId, [record, record, record, record])
  const hostile = { type: 'object', properties: { list: { type: 'array', items: slow } } }
  const [result, other] = await Promise.all([
    check(pipeId, { schema: hostile }),
    check(pipeId, { schema: { type: 'object' } }),
  ])
  t.equal(result.mismatching, result.records_seen)
  t.equal(other.mismatching, 0)
  t.equal(other.records_seen, 20)
})
