/** Pipes over HTTP on the real daemon: docs/dev/contract.md#pipes, docs/dev/contract.md#request-bodies, docs/dev/contract.md#quotas. */
import t from 'tap'
import { geoFieldKeys } from '../../src/contract/pipe.ts'
import { startDaemon } from '../support/daemon.ts'
import { connectRaw } from '../support/raw-http.ts'
import { until } from '../support/until.ts'
import {
  checkedApi,
  created,
  databaseDestination,
  errorsIn,
  fullLimits,
  unknownId,
} from './management-client.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)
const newPipe = (body: Record<string, unknown>) => created(api, '/v1/pipes', body, 'pipe_id')
const getPipe = async (id: string) => (await api('GET', `/v1/pipes/${id}`)).body
const stamped = (pipe: unknown) => {
  const { pipe_id, pipe_created_ts, pipe_updated_ts, ...rest } = Object(pipe)
  return rest
}

const defaults = {
  pipe_status: 'active',
  pipe_description: '',
  pipe_add_ingest_ts: true,
  pipe_add_ingest_ip: false,
  pipe_client_ip: 'full',
  pipe_ingest_ts_field: 'ingest_ts',
  pipe_ingest_ip_field: 'ingest_ip',
  ...Object.fromEntries(geoFieldKeys.map((key) => [key, null])),
  pipe_api_key_required: true,
  pipe_allow_any_browser_origin: false,
  pipe_retention_hours: null,
  pipe_source: null,
  pipe_source_headers: [],
  pipe_source_raw: false,
  pipe_schema: null,
  pipe_schema_on_mismatch: 'reject',
  pipe_schema_tag_field: 'schema_errors',
}

t.test('POST /v1/pipes: a name is enough, everything else has its default', async (t) => {
  const id = await newPipe({ pipe_name: 'defaults' })
  const detail = await getPipe(id)
  t.same(stamped(detail.pipe), { pipe_name: 'defaults', ...defaults })
  t.match(detail.pipe, { pipe_id: id })
  t.same(detail.destinations, [])
  t.equal(detail.limits, null)
  t.same(detail.allowed_origins, [])
  t.match(detail.api_keys, [{ api_key_status: 'active' }])
  t.notOk(JSON.stringify(detail).includes(daemon.apiKey), 'the key itself is never shown')
})

t.test('POST /v1/pipes: every field is stored as given, then changed by PATCH', async (t) => {
  const given = {
    pipe_name: 'Every_field-1',
    pipe_description: 'd'.repeat(500),
    pipe_add_ingest_ts: false,
    pipe_add_ingest_ip: true,
    pipe_client_ip: 'truncated',
    pipe_ingest_ts_field: 't'.repeat(100),
    pipe_ingest_ip_field: 'ip',
    ...Object.fromEntries(geoFieldKeys.map((key) => [key, key.slice(5)])),
    pipe_api_key_required: false,
    pipe_allow_any_browser_origin: true,
    pipe_retention_hours: 168,
    pipe_source: null,
    pipe_source_headers: ['x-event'],
    pipe_source_raw: true,
    pipe_schema: { type: 'object', required: ['id'], properties: { id: { type: 'string', pattern: '^o-' } } },
    pipe_schema_on_mismatch: 'tag',
    pipe_schema_tag_field: 'errors',
  }
  const id = await newPipe(given)
  t.same(stamped((await getPipe(id)).pipe), { ...given, pipe_status: 'active' })
  const { pipe_name, ...settable } = { ...defaults, pipe_name: given.pipe_name, pipe_status: 'paused' }
  for (const [field, value] of Object.entries(settable)) {
    const answer = await api('PATCH', `/v1/pipes/${id}`, { [field]: value })
    t.equal(answer.status, 200)
    t.same(Object(answer.body.pipe)[field], value, field)
  }
  t.same(stamped((await getPipe(id)).pipe), { ...defaults, pipe_name, pipe_status: 'paused' })
})

t.test('POST /v1/pipes: pipe_status is always active (rule 3)', async (t) => {
  for (const pipe_status of ['paused', 'nonsense', null]) {
    const id = await newPipe({ pipe_name: `status-${pipe_status}`, pipe_status })
    t.match((await getPipe(id)).pipe, { pipe_status: 'active' })
  }
})

t.test('pipe_name: 1 to 100 characters, letters, digits, hyphen and underscore only', async (t) => {
  await newPipe({ pipe_name: 'x' })
  await newPipe({ pipe_name: 'y'.repeat(100) })
  for (const pipe_name of [
    '',
    'z'.repeat(101),
    'a b',
    'a.b',
    'ä',
    'a/b',
    'a\n',
    5,
    null,
    true,
    ['a'],
    {},
    undefined,
  ]) {
    const answer = await api('POST', '/v1/pipes', { pipe_name })
    t.equal(answer.status, 400)
    t.same(Object.keys(errorsIn(answer)), ['pipe_name'], JSON.stringify(pipe_name))
  }
})

t.test('pipe_name is unique per workspace: 409 duplicate_pipe_name', async (t) => {
  await newPipe({ pipe_name: 'twice' })
  const answer = await api('POST', '/v1/pipes', { pipe_name: 'twice' })
  t.equal(answer.status, 409)
  t.equal(answer.body.error, 'duplicate_pipe_name')
})

t.test('a name in a race: one create wins, all others get 409', async (t) => {
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => api('POST', '/v1/pipes', { pipe_name: 'race' })),
  )
  t.same(answers.map((answer) => answer.status).sort(), [201, ...Array(7).fill(409)])
})

const badValues: [field: string, value: unknown][] = [
  ['pipe_description', 'd'.repeat(501)],
  ['pipe_description', 5],
  ['pipe_description', null],
  ['pipe_add_ingest_ts', 'true'],
  ['pipe_add_ingest_ip', 1],
  ['pipe_client_ip', 'some'],
  ['pipe_retention_hours', 0],
  ['pipe_retention_hours', 1.5],
  ['pipe_retention_hours', '1'],
  ['pipe_retention_hours', 169],
  ['pipe_client_ip', null],
  ['pipe_ingest_ts_field', ''],
  ['pipe_ingest_ts_field', 't'.repeat(101)],
  ['pipe_ingest_ts_field', null],
  ['pipe_ingest_ip_field', ''],
  ['pipe_ingest_ip_field', 'i'.repeat(101)],
  ['pipe_api_key_required', null],
  ['pipe_allow_any_browser_origin', 'no'],
  ...geoFieldKeys.flatMap((key): [string, unknown][] => [
    [key, 'g'.repeat(101)],
    [key, 5],
    [key, false],
  ]),
  ['pipe_id', unknownId],
  ['pipe_created_ts', '2026-01-01T00:00:00Z'],
  ['__proto__', 1],
  ['nonsense', 1],
]

t.test('a wrong value is a validation_error on its field, on create and on PATCH', async (t) => {
  const id = await newPipe({ pipe_name: 'bad-values' })
  for (const [field, value] of badValues) {
    const text = `{"${field}":${JSON.stringify(value)}}`
    const change = await api('PATCH', `/v1/pipes/${id}`, text)
    t.same(Object.keys(errorsIn(change)), [field], `PATCH ${text.slice(0, 60)}`)
    const create = await api('POST', '/v1/pipes', text.replace('{', '{"pipe_name":"never",'))
    t.same(Object.keys(errorsIn(create)), [field], `POST ${text.slice(0, 60)}`)
  }
  t.same(stamped((await getPipe(id)).pipe), { pipe_name: 'bad-values', ...defaults }, 'nothing was changed')
})

t.test('PATCH takes back what GET showed, and names the read-only field that was changed', async (t) => {
  const id = await newPipe({ pipe_name: 'round-trip' })
  const { pipe } = await getPipe(id)
  const sent = { ...Object(pipe), pipe_description: 'new' }
  const answer = await api('PATCH', `/v1/pipes/${id}`, sent)
  t.match(answer.body.pipe, { pipe_name: 'round-trip', pipe_description: 'new' })
  for (const key of ['pipe_id', 'pipe_name', 'pipe_created_ts', 'pipe_updated_ts'])
    t.same(errorsIn(await api('PATCH', `/v1/pipes/${id}`, { [key]: 'other' })), {
      [key]: `${key} cannot be changed.`,
    })
})

t.test('text with lone surrogates or control characters is rejected', async (t) => {
  const id = await newPipe({ pipe_name: 'texts' })
  const bad: [method: string, path: string, body: string, field: string][] = [
    ['PATCH', `/v1/pipes/${id}`, '{"pipe_description":"a\\ud800b"}', 'pipe_description'],
    ['PATCH', `/v1/pipes/${id}`, '{"pipe_description":"a\\u0007b"}', 'pipe_description'],
    ['PATCH', `/v1/pipes/${id}`, '{"pipe_ingest_ts_field":"\\udc00"}', 'pipe_ingest_ts_field'],
    ['POST', '/v1/pipes', '{"pipe_name":"\\ud83d"}', 'pipe_name'],
    ['POST', '/v1/api-keys', '{"api_key_name":"x\\ud800"}', 'api_key_name'],
    ['POST', '/v1/api-keys', '{"api_key_name":"x\\u0000"}', 'api_key_name'],
  ]
  for (const [table, column, field] of [
    ['t\\ud800', 'c', 'destination_config.table'],
    ['t\\u0001', 'c', 'destination_config.table'],
    ['t', 'c\\ud800', 'columns.0.column_name'],
    ['t', 'c\\u0085', 'columns.0.column_name'],
  ] as const) {
    const config = `{"host":"h","database":"d","username":"u","password":"p","table":"${table}"}`
    const columns = `[{"column_name":"${column}","column_type":"string"}]`
    const body = `{"destination_type":"destination_database","destination_config":${config},"columns":${columns}}`
    bad.push(['POST', `/v1/pipes/${id}/destinations`, body, field])
  }
  for (const [method, path, body, field] of bad)
    t.same(Object.keys(errorsIn(await api(method, path, body))), [field], body)
  await api('PATCH', `/v1/pipes/${id}`, '{"pipe_description":"\\ud83d\\ude00 fine"}')
  t.equal((await getPipe(id)).pipe && Object((await getPipe(id)).pipe).pipe_description, '😀 fine')
})

t.test('every wrong field is named at once, unknown ones as "Unknown field."', async (t) => {
  const errors = errorsIn(
    await api('POST', '/v1/pipes', {
      pipe_description: 'd'.repeat(612),
      pipe_add_ingest_ts: 'yes',
      one: 1,
      two: 2,
    }),
  )
  t.same(errors, {
    pipe_name: 'is required',
    pipe_description: 'must be at most 500 characters, not 612',
    pipe_add_ingest_ts: 'must be true or false, not a string',
    one: 'Unknown field.',
    two: 'Unknown field.',
  })
})

t.test('PATCH: pipe_name cannot be changed; pipe_status is active or paused', async (t) => {
  const id = await newPipe({ pipe_name: 'patching' })
  const path = `/v1/pipes/${id}`
  t.same(errorsIn(await api('PATCH', path, { pipe_name: 'renamed' })), {
    pipe_name: 'pipe_name cannot be changed.',
  })
  for (const pipe_status of ['blocked', '', null, 1])
    t.same(Object.keys(errorsIn(await api('PATCH', path, { pipe_status }))), ['pipe_status'])
  for (const pipe_status of ['paused', 'paused', 'active', 'active'])
    t.match((await api('PATCH', path, { pipe_status })).body, { pipe: { pipe_status } })
  t.equal((await api('PATCH', path, {})).status, 200, 'an empty change changes nothing')
})

t.test('geo fields are trimmed; empty and null switch them off', async (t) => {
  const id = await newPipe({
    pipe_name: 'geo',
    pipe_ingest_geo_city_field: '  city ',
    pipe_ingest_geo_region_field: '   ',
    pipe_ingest_geo_country_field: ` ${'c'.repeat(100)} `,
  })
  t.match((await getPipe(id)).pipe, {
    pipe_ingest_geo_city_field: 'city',
    pipe_ingest_geo_region_field: null,
    pipe_ingest_geo_country_field: 'c'.repeat(100),
  })
  for (const [sent, stored] of [
    ['\t town\n', 'town'],
    ['', null],
    [' town ', 'town'],
    [null, null],
  ])
    t.match((await api('PATCH', `/v1/pipes/${id}`, { pipe_ingest_geo_city_field: sent })).body, {
      pipe: { pipe_ingest_geo_city_field: stored },
    })
})

t.test('two enrichments with one key: the second is named; switched off ones do not count', async (t) => {
  const same = { pipe_name: 'collide', pipe_add_ingest_ip: true, pipe_ingest_ip_field: 'ingest_ts' }
  t.same(Object.keys(errorsIn(await api('POST', '/v1/pipes', same))), ['pipe_ingest_ip_field'])
  const id = await newPipe({ ...same, pipe_add_ingest_ip: false, pipe_ingest_geo_city_field: 'city' })
  const path = `/v1/pipes/${id}`
  t.same(Object.keys(errorsIn(await api('PATCH', path, { pipe_add_ingest_ip: true }))), [
    'pipe_ingest_ip_field',
  ])
  t.same(Object.keys(errorsIn(await api('PATCH', path, { pipe_ingest_geo_postal_field: ' city ' }))), [
    'pipe_ingest_geo_postal_field',
  ])
  t.equal((await api('PATCH', path, { pipe_add_ingest_ts: false, pipe_add_ingest_ip: true })).status, 200)
})

t.test('DELETE: 204, then the pipe is gone with all that was in it, and its name is free', async (t) => {
  const id = await newPipe({ pipe_name: 'to-delete' })
  const path = `/v1/pipes/${id}`
  await created(api, `${path}/destinations`, databaseDestination, 'destination_id')
  await created(api, `${path}/allowed-origins`, { origin_domain: 'https://a.test' }, 'pipe_allowed_origin_id')
  await api('PUT', `${path}/limits`, fullLimits)
  await daemon.ingest(id, { n: 1 })
  t.equal((await api('DELETE', path)).status, 204)
  t.equal((await api('GET', path)).body.error, 'pipe_not_found')
  t.equal((await api('DELETE', path)).body.error, 'pipe_not_found')
  t.equal((await daemon.api('POST', `/v1/ingest/${id}`, { n: 2 })).body.error, 'pipe_not_found')
  const again = await newPipe({ pipe_name: 'to-delete' })
  t.same((await getPipe(again)).destinations, [])
})

t.test('a pipe that is deleted while a body for it comes in takes none of it', async (t) => {
  const id = await newPipe({ pipe_name: 'deleted-meanwhile' })
  const connection = await connectRaw(daemon.url)
  t.teardown(() => connection.reset())
  connection.write(
    `POST /v1/ingest/${id} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${daemon.apiKey}\r\n` +
      'Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{"n"',
  )
  await until('the body is being read', async () => {
    const metrics = await (await fetch(daemon.metricsUrl)).text()
    return Number(/^pipectl_ingest_in_flight_bytes (\S+)/m.exec(metrics)?.[1]) > 0
  })
  t.equal((await api('DELETE', `/v1/pipes/${id}`)).status, 204)
  connection.write(':1}')
  const { status, body } = await connection.answer()
  t.same([status, JSON.parse(body).error], [404, 'pipe_not_found'])
})

t.test('unknown and malformed pipe ids: 404 pipe_not_found', async (t) => {
  for (const id of [unknownId, 'not-a-uuid', '%00', unknownId.slice(1), `{${unknownId}}`]) {
    for (const [method, tail, body] of [
      ['GET', '', undefined],
      ['PATCH', '', {}],
      ['DELETE', '', undefined],
      ['POST', '/destinations', databaseDestination],
      ['POST', '/destinations/test', databaseDestination],
      ['PUT', '/limits', fullLimits],
      ['POST', '/allowed-origins', { origin_domain: 'https://a.test' }],
    ] as const) {
      const answer = await api(method, `/v1/pipes/${encodeURIComponent(id)}${tail}`, body)
      t.equal(answer.body.error, 'pipe_not_found', `${method} ${id}${tail}`)
    }
  }
})

t.test('ids are found in either case', async (t) => {
  const id = await newPipe({ pipe_name: 'upper' })
  t.match((await getPipe(id.toUpperCase())).pipe, { pipe_id: id })
})

t.test('a paused pipe rejects ingest with 404 and takes it again when active', async (t) => {
  const id = await newPipe({ pipe_name: 'pausing' })
  await daemon.ingest(id, { n: 1 })
  await api('PATCH', `/v1/pipes/${id}`, { pipe_status: 'paused' })
  t.equal((await daemon.api('POST', `/v1/ingest/${id}`, { n: 1 })).body.error, 'pipe_not_found')
  await api('PATCH', `/v1/pipes/${id}`, { pipe_status: 'active' })
  await daemon.ingest(id, { n: 1 })
})

t.test('GET /v1/pipes: all pipes with the usage of 24 hours, zeros not left out', async (t) => {
  const quiet = await newPipe({ pipe_name: 'quiet' })
  const busy = await newPipe({ pipe_name: 'busy' })
  const { body } = await api('GET', '/v1/pipes')
  t.equal(body.usage_stats_window_hours, 24)
  const ids: string[] = Object(body.pipes).map((pipe: { pipe_id: string }) => pipe.pipe_id)
  t.same(Object.keys(Object(body.usage_by_pipe)).sort(), [...ids].sort(), 'every pipe is present')
  t.same(Object(body.usage_by_pipe)[quiet], {
    ingest_requests: 0,
    ingest_records: 0,
    ingest_bytes: 0,
    rejected_requests: 0,
    delivered_records: 0,
    failed_attempts: 0,
    skipped_records: 0,
    filtered_records: 0,
    pending_messages: 0,
    pending_bytes: 0,
    blocked_lanes: 0,
    last_ingest_ts: null,
    rejected_hooks: {},
    schema_mismatches: {},
  })
  await daemon.ingest(busy, [{ n: 1 }, { n: 2 }])
  await daemon.ingest(busy, { n: 3 })
  await daemon.api('POST', `/v1/ingest/${busy}`, 'not json')
  const usage = await until('the usage is counted', async () => {
    const found = Object((await api('GET', '/v1/pipes')).body.usage_by_pipe)[busy]
    return found.ingest_records === 3 && found.rejected_requests === 1 && found.pending_messages === 2
      ? found
      : null
  })
  t.equal(usage.ingest_requests, 2)
  t.ok(usage.ingest_bytes > 0 && usage.pending_bytes > 0)
  t.match(usage.last_ingest_ts, /^\d{4}-\d\d-\d\dT.*Z$/)
})
