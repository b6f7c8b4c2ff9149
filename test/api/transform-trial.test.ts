/**
 * Transforms tried before they are used, on the real daemon: when a destination is saved, and with try-transform; what is slow, what
 * is large, and what a sample or a proposed table is made of.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import t from 'tap'
import { createWorkspace, startDaemon } from '../support/daemon.ts'
import { hangs } from '../support/hanging-filter.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { checkedApi, created, errorsIn, pullDestination, unknownId } from './management-client.ts'

const [daemon, pg] = await Promise.all([startDaemon(), startPostgres()])
t.teardown(async () => {
  await daemon.close()
  await pg.stop()
})
const api = checkedApi(daemon)
const salt = 'salt-of-the-test'

const pipe = (pipe_name: string) =>
  created(api, '/v1/pipes', { pipe_name, pipe_add_ingest_ts: false }, 'pipe_id')
/** Nobody listens there: nothing is delivered. */
const endpoint = {
  destination_type: 'destination_http_endpoint',
  destination_config: { url: 'http://127.0.0.1:9/x', body_format: 'ndjson' },
}
const database = (table: string) => {
  const { host, port, database: name, user: username, password } = pg
  return {
    destination_type: 'destination_database',
    destination_config: { host, port, database: name, username, password, table },
  }
}
const isLate = ({ body }: { body: Record<string, unknown> }) =>
  Object(body.transform_check).not_checked === 'timed_out'
/** On a machine that is busy with other things a check may take too long: it is asked for again. */
const create = async (pipeId: string, transform: unknown, query = '', body: object = endpoint) =>
  await until('there was time to check it', async () => {
    const on = `/v1/pipes/${pipeId}/destinations`
    const answer = await api('POST', `${on}${query}`, { ...body, transform })
    if (!isLate(answer)) return answer
    await api('DELETE', `${on}/${answer.body.destination_id}`)
    return null
  })
const change = async (path: string, body: object) =>
  await until('there was time to check it', async () => {
    const { transform } = Object((await api('GET', path)).body).destination
    const answer = await api('PATCH', path, body)
    if (!isLate(answer)) return answer
    await api('PATCH', `${path}?check_transform=false`, { transform })
    return null
  })
const tried = async (pipeId: string, body: object) => {
  return await until('there was time for it', async () => {
    const answer = await api('POST', `/v1/pipes/${pipeId}/destinations/try-transform`, body)
    assert.equal(answer.status, 200, answer.text)
    return answer.body.is_complete === true ? Object(answer.body) : null
  })
}
const hanging = { s: `${'a'.repeat(40)}!` }

t.test('a transform that fails on all newest records is not saved, unless somebody insists', async (t) => {
  const pipeId = await pipe('refused')
  const { msg_id } = await daemon.ingest(pipeId, [{ n: 1, secret: 'v4lue' }])
  await daemon.ingest(pipeId, [{ n: 2 }, { n: 3 }])
  const refused = await create(pipeId, { filter: 'record.status == "paid"' })
  t.equal(refused.status, 400)
  t.match(errorsIn(refused), {
    'transform.filter':
      /^fails on all 3 newest records of the pipe: .*No such key: status\. \(One is record \d of message [0-9a-f-]{36}\.\) With check_transform=false \(--no-transform-check\) it is saved/,
  })
  t.notMatch(refused.text, 'v4lue')
  t.match((await api('GET', `/v1/pipes/${pipeId}`)).body, { destinations: [] })
  const different = await create(pipeId, { filter: 'has(record.secret) ? record.a : record.b' })
  t.match(errorsIn(different), {
    'transform.filter': /newest records of the pipe, on 2 of them so: .*key: b/,
  })

  const saved = await create(pipeId, { filter: 'record.status == "paid"' }, '?check_transform=false')
  t.equal(saved.status, 201)
  t.notOk('transform_check' in saved.body)
  const path = `/v1/pipes/${pipeId}/destinations/${saved.body.destination_id}`
  const other = { transform: { filter: 'record.stat == "paid"' } }
  t.match(errorsIn(await change(path, other)), { 'transform.filter': /key: stat\./ })
  t.match((await api('GET', path)).body, {
    destination: { transform: { filter: 'record.status == "paid"' } },
  })
  t.match(
    await api('PATCH', path, { transform: { filter: 'record.status == "paid"' }, rate: null }),
    { status: 200 },
    'it is not new: it is not looked at again',
  )
  t.equal((await api('PATCH', `${path}?check_transform=false`, other)).status, 200)
  t.match(errorsIn(await api('PATCH', `${path}?check_transform=no`, other)), {
    check_transform: 'must be true or false',
  })
  const only = await pipe('refused-one')
  await daemon.ingest(only, [{ n: 1 }])
  t.match(errorsIn(await create(only, { filter: 'record.status == "paid"' })), {
    'transform.filter': /fails on the only record/,
  })
  t.ok(msg_id)
})

t.test('what fails on some is saved, and the response says on how many', async (t) => {
  const pipeId = await pipe('some')
  t.match((await create(pipeId, { filter: 'record.n > 1' })).body, {
    transform_check: { not_checked: null, records_seen: 0, failed: 0, warning: null },
  })
  const { msg_id } = await daemon.ingest(pipeId, [{ n: 1 }, { n: 2 }, { m: 1 }])
  const { body, status } = await create(pipeId, { filter: 'record.n > 1' })
  t.equal(status, 201)
  t.match(body, {
    transform_check: {
      not_checked: null,
      ...{ records_seen: 3, kept: 1, filtered: 1, failed: 1 },
      faults: [{ path: 'transform.filter', code: 'filter_error', records: 1, msg_id, record_index: 2 }],
      warning: /fails on 1 of the 3 newest records: transform\.filter: .*No such key: n/,
    },
  })
  const path = `/v1/pipes/${pipeId}/destinations/${body.destination_id}`
  t.match((await change(path, { transform: { filter: 'has(record.x)' } })).body, {
    transform_check: {
      kept: 0,
      filtered: 3,
      failed: 0,
      warning: 'The filter keeps 0 of the 3 newest records.',
    },
    destination: { transform: { filter: 'has(record.x)' } },
  })
  const good = await change(path, { transform: { map: [{ op: 'drop', paths: ['n'] }] } })
  t.match(good.body, { transform_check: { kept: 3, faults: [], warning: null } })
  t.notOk('transform_check' in (await api('PATCH', path, { rate: null })).body)
  t.notOk('transform_check' in (await api('PATCH', path, { transform: null })).body)
})

t.test('the newest of more than a thousand records are tried', async (t) => {
  const pipeId = await pipe('many')
  await daemon.ingest(pipeId, Array(900).fill({ old: true }))
  await daemon.ingest(pipeId, Array(900).fill({ n: 1 }))
  await daemon.ingest(pipeId, Array(900).fill({ n: 2 }))
  t.match(errorsIn(await create(pipeId, { filter: 'record.old' })), {
    'transform.filter': /fails on all 1,000 newest/,
  })
  t.match(await tried(pipeId, { transform: { filter: 'record.n == 2' }, limit: 1 }), {
    ...{ records_seen: 1000, kept: 900, filtered: 100, truncated: true },
    records: [{ record_index: 0, before: { n: 2 } }],
  })
  const large = await pipe('one-large-message')
  await daemon.ingest(large, Array(5_000).fill({ n: 1 }))
  t.match((await create(large, { filter: 'record.n == 1' })).body, {
    transform_check: { records_seen: 1000, kept: 1000 },
  })
})

t.test('a filter that hangs is saved unchecked within seconds, and lanes go on meanwhile', async (t) => {
  const pipeId = await pipe('hanging')
  await daemon.ingest(pipeId, Array(9).fill(hanging))
  const others = await pipe('beside')
  const pullId = await created(
    api,
    `/v1/pipes/${others}/destinations`,
    { ...endpoint, transform: { filter: 'true' } },
    'destination_id',
  )
  const on = `/v1/pipes/${pipeId}/destinations`
  const transform = { filter: hangs }
  const saves = [1, 2, 3, 4].map(() => api('POST', on, { ...endpoint, transform }))
  t.equal((await api('GET', `/v1/pipes/${others}/destinations/${pullId}`)).status, 200)
  for (const { status, body } of await Promise.all(saves)) {
    t.equal(status, 201)
    t.match(body, { transform_check: { not_checked: 'timed_out', warning: /took too long/ } })
  }
  const late = await api('POST', `${on}/try-transform`, { transform })
  t.match(late.body, { is_complete: false, kept: 0 })
})

/** On a busy machine the trial can end before the record has had its second of processor time: it says so, and blames no other. */
t.test('of three records only the one that hangs is blamed', async (t) => {
  const pipeId = await pipe('hangs-once')
  const { msg_id } = await daemon.ingest(pipeId, [{ s: 'a' }, hanging, { s: 'b' }])
  const trial = { transform: { filter: hangs } }
  const { body } = await api('POST', `/v1/pipes/${pipeId}/destinations/try-transform`, trial)
  if (body.is_complete !== true) return t.match(body, { is_complete: false, failed: 0, faults: [] })
  t.match(body, {
    ...{ kept: 1, filtered: 1, failed: 1 },
    faults: [{ path: 'transform.filter', code: 'transform_timeout', msg_id, record_index: 1 }],
  })
})

t.test('large records, and what takes too much memory', async (t) => {
  const pipeId = await pipe('large')
  const text = 'x'.repeat(5_000_000)
  await daemon.ingest(pipeId, { n: 1, text })
  const kept = await tried(pipeId, { transform: { map: [{ op: 'drop', paths: ['n'] }] } })
  t.match(kept, { kept: 1, records: [{ outcome: 'kept', before: null, after: null, too_large: true }] })
  const doubled =
    'cel.bind(a, record.text+record.text+record.text+record.text, cel.bind(b, a+a+a+a+a+a+a+a, cel.bind(c, b+b+b+b+b+b+b+b, size(c+c+c+c+c+c+c+c) > 0)))'
  const { status, body } = await api('POST', `/v1/pipes/${pipeId}/destinations`, {
    ...endpoint,
    transform: { filter: doubled },
  })
  if (status === 201) t.match(body, { transform_check: { not_checked: 'timed_out' } })
  else t.match(body.errors, { 'transform.filter': /fails on the only record/ })
  // Every record becomes larger: more than a thread makes at once, and yet each of them may go.
  const small = await pipe('growing')
  const keys = Array.from({ length: 900 }, (_, at) => `k${at}`)
  await daemon.ingest(small, Array(200).fill(Object.fromEntries(keys.map((key) => [key, 1]))))
  const map = [100, 200, 300, 400, 500, 600, 700].map((end) => ({
    op: 'mask',
    paths: keys.slice(end - 100, end),
  }))
  t.match((await create(small, { map, mask_salt: salt })).body, {
    transform_check: { records_seen: 200, kept: 200, failed: 0, warning: null },
  })
})

t.test('before and after, digit by digit', async (t) => {
  const pipeId = await pipe('shown')
  const { msg_id } = await daemon.ingest(
    pipeId,
    '[{"id":12345678901234567890,"total":1.10,"mail":"a@b"},{"total":0},{"id":1}]',
  )
  const map = [
    { op: 'mask', paths: ['mail'] },
    { op: 'rename', from: 'total', to: 'sum' },
  ]
  const transform = { filter: 'record.total > 0.0', map, mask_salt: salt }
  const answer = await api('POST', `/v1/pipes/${pipeId}/destinations/try-transform`, { transform })
  const hash = createHash('sha256').update(`${salt}a@b`).digest('hex')
  t.match(answer.text, '"before":{"id":12345678901234567890,"total":1.10,"mail":"a@b"}')
  t.match(answer.text, `"after":{"id":12345678901234567890,"sum":1.10,"mail":"${hash}"}`)
  t.match(answer.body, {
    ...{ is_complete: true, records_seen: 3, kept: 1, filtered: 1, failed: 1, truncated: false },
    records: [
      { msg_id, record_index: 0, outcome: 'kept', error: null, too_large: false },
      { msg_id, record_index: 1, outcome: 'filtered', before: { total: 0 }, after: null },
      {
        ...{ record_index: 2, outcome: 'failed', before: { id: 1 }, after: null },
        error: { path: 'transform.filter', code: 'filter_error', message: /No such key: total/ },
      },
    ],
  })
  t.match(await tried(pipeId, { transform, only: 'failed', limit: 1 }), {
    ...{ kept: 1, truncated: false },
    records: [{ record_index: 2 }],
  })

  const { body } = await create(pipeId, transform)
  const { destination_id } = body
  t.match(await tried(pipeId, { destination_id }), { kept: 1, filtered: 1 })
  t.match(
    await tried(pipeId, { destination_id, transform: { map }, sample: ' {"mail":"a@b"}\r\n\n{"x":1}' }),
    { records: [{ msg_id: null, record_index: 0, after: { mail: hash } }, { record_index: 1 }] },
    'the stored salt stays; records that were brought along',
  )
  t.match(await tried(await pipe('shown-empty'), { transform }), { records_seen: 0, records: [] })
})

t.test('records of others are not there, and bodies that are not right are named', async (t) => {
  const pipeId = await pipe('own')
  await daemon.ingest(pipeId, [{ n: 1 }])
  const other = await createWorkspace(daemon.dataDir, 'other')
  const path = `/v1/pipes/${pipeId}/destinations/try-transform`
  const transform = { filter: 'true' }
  const foreign = await daemon.api('POST', path, { transform }, { key: other.api_key })
  t.match(foreign, { status: 404, body: { error: 'pipe_not_found' } })
  const elsewhere = await pipe('elsewhere')
  const { body } = await create(elsewhere, transform)
  const { destination_id } = body
  t.equal((await api('POST', path, { destination_id })).body.error, 'destination_not_found')
  t.equal((await api('POST', path, { destination_id: unknownId })).body.error, 'destination_not_found')
  const errors = async (given: object) => errorsIn(await api('POST', path, given))
  t.match(await errors({}), { transform: 'is required' })
  t.match(await errors({ transform: null }), { transform: 'is required' })
  t.match(await errors({ transform, limit: 201 }), { limit: /at most 200/ })
  t.match(await errors({ transform, only: 'x' }), { only: /one of kept, filtered, failed/ })
  t.match(await errors({ transform, records: [] }), { records: 'Unknown field.' })
  t.match(await errors({ transform, sample: '[1]' }), { sample: /line 1/ })
  t.match(await errors({ transform: { filter: '1' } }), { 'transform.filter': /not int/ })
  t.match(await errors({ transform: { map: [{ op: 'x' }] } }), { 'transform.map.0.op': /one of/ })
  const pull = await created(api, `/v1/pipes/${pipeId}/destinations`, pullDestination, 'destination_id')
  t.match(await errors({ destination_id: pull }), { transform: /the destination has none/ })
})

t.test('a sample, and a proposed table, are of what the transform gives', async (t) => {
  const pipeId = await pipe('inferred')
  const transform = {
    filter: 'record.kind == "sale"',
    map: [
      { op: 'drop', paths: ['kind'] },
      { op: 'rename', from: 'total', to: 'amount' },
    ],
  }
  await pg.query('CREATE TABLE amounts (amount int NOT NULL CHECK (amount = 7))')
  await daemon.ingest(pipeId, [
    { kind: 'sale', total: 8 },
    { kind: 'view', total: 9 },
  ])
  await daemon.ingest(pipeId, [
    { kind: 'view', url: 'x' },
    { kind: 'sale', total: 7 },
  ])
  await daemon.ingest(pipeId, [{ kind: 'view', url: 'x' }])
  const body = { ...database('amounts'), columns: [{ column_name: 'amount', column_type: 'number' }] }
  const test = async (given: unknown) => {
    const answer = await api('POST', `/v1/pipes/${pipeId}/destinations/test?sample=true`, {
      ...body,
      transform: given,
    })
    return Object(answer.body).checks
  }
  t.match(
    (await test(transform)).filter(({ name }: { name: string }) => /sample|transform/.test(name)),
    [
      { name: 'sample', ok: true, message: /newest record that the transform keeps was inserted/ },
      { name: 'transform', ok: true, message: /5 newest records 2 are kept, 3 filtered out, and 0 fail\./ },
    ],
  )
  t.match(
    (await test({ ...transform, filter: 'false' })).find(({ name }: { name: string }) => name === 'sample'),
    { message: /^A generated record/ },
  )

  const infer = async (more: object) => {
    const answer = await api('POST', `/v1/pipes/${pipeId}/destinations/infer`, more)
    t.equal(answer.status, 200, answer.text)
    return Object(answer.body)
  }
  const proposal = await infer({ ...database('proposed'), transform })
  t.match(proposal, {
    ...{ ok: true, records_seen: 2, observations: [{ key: 'amount', seen: 2 }] },
    warnings: [/filters out 3 of the 5 records/],
  })
  t.equal(proposal.observations.length, 1)
  const made = await create(pipeId, transform, '', { ...body, destination_name: 'stored' })
  const { destination_id } = made.body
  t.match(await infer({ destination_id }), { records_seen: 2, observations: [{ key: 'amount' }] })
  t.match(await infer({ destination_id, transform: null }), { records_seen: 5 })
  t.match(
    await infer({ destination_id, sample: '{"kind":"sale","total":1,"x":2}\n{"kind":"no"}' }),
    { records_seen: 1, observations: [{ key: 'amount' }, { key: 'x' }] },
    'a sample is of records as the pipe has them',
  )
  t.match(await infer({ ...database('proposed'), transform: { filter: 'false' } }), {
    ok: false,
    failure: { code: 'no_records', message: /keeps none of the 5 records: 5 are filtered out, and 0 fail/ },
  })
})

t.test('keys that the pipe adds are proposed as the map leaves them', async (t) => {
  const pipeId = await created(
    api,
    '/v1/pipes',
    { pipe_name: 'enriched', pipe_add_ingest_ip: true },
    'pipe_id',
  )
  await daemon.ingest(pipeId, [{ n: 1 }])
  const map = [
    { op: 'rename', from: 'ingest_ts', to: 'received' },
    { op: 'drop', paths: ['ingest_ip'] },
  ]
  const answer = await api('POST', `/v1/pipes/${pipeId}/destinations/infer`, {
    ...database('enriched'),
    transform: { map },
    dedupe_id: 'none',
  })
  t.same(
    Object(answer.body).observations.map((one: { key: string; proposed_type: string }) => [
      one.key,
      one.proposed_type,
    ]),
    [
      ['n', 'bigint'],
      ['received', 'timestamptz'],
    ],
  )
})
