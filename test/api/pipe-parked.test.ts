/**
 * Records that do not match the schema of their pipe, with pipe_schema_on_mismatch: park, on the real daemon:
 * docs/dev/contract.md#records-parked-at-the-pipe.
 */
import t from 'tap'
import type { PipeParkedList } from '../../src/contract/pipe-parked.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { until } from '../support/until.ts'
import { checkedApi, errorsIn, unknownId } from './management-client.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)
const schema = {
  type: 'object',
  properties: { n: { type: 'number' }, m: { type: 'string' } },
  required: ['n'],
}

async function newPipe(name: string, change: object = {}) {
  const pipeId = await daemon.createPipe({
    ...{ pipe_name: name, pipe_add_ingest_ts: false, pipe_schema: schema },
    ...{ pipe_schema_on_mismatch: 'park', ...change },
  })
  const pullId = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
    start_from: 'earliest',
  })
  const path = `/v1/pipes/${pipeId}/parked`
  const list = async (query = '') => (await api('GET', `${path}${query}`)).body as unknown as PipeParkedList
  const send = (body: string, headers: Record<string, string> = {}) =>
    daemon.api<{ msg_id: string }>('POST', `/v1/ingest/${pipeId}`, body, { headers })
  const firstId = async () => (await list()).parked[0]?.parked_id ?? unknownId
  /** The texts of all stored records, through a pull destination. */
  const stored = async () => {
    const texts: unknown[] = []
    for (;;) {
      const reply = await daemon.api('GET', `/v1/pull/${pullId}?wait_ms=0`)
      if (reply.status !== 200) return texts
      texts.push(...(reply.body as { records: unknown[] }).records)
    }
  }
  /** Resolves when exactly these records are stored. */
  const arrived = async (wanted: object[]) => {
    const found: unknown[] = []
    await until('the records are stored', async () => {
      found.push(...(await stored()))
      return found.length >= wanted.length
    })
    t.same(found, wanted)
  }
  return { pipeId, path, list, send, firstId, stored, arrived }
}

t.test('records that match are stored, and the others are parked', async (t) => {
  const pipe = await newPipe('separated')
  const reply = await pipe.send('[{"n":1},{"n":"x","big":12345678901234567890},{"n":2},{}]')
  t.equal(reply.status, 202)
  t.match(reply.body, {
    accepted: true,
    records_count: 2,
    parked_records: 2,
    message: /2 records stored, 2 /,
  })
  t.match(await pipe.list(), {
    count: 2,
    next: null,
    parked: [
      { record_index: 1, state: 'parked', schema_version: 1, errors: [{ path: '/n' }], is_edited: false },
      { record_index: 3, reason: 'schema_mismatch', msg_id: reply.body.msg_id },
    ],
  })
  await pipe.arrived([{ n: 1 }, { n: 2 }])
  const { text } = await api('GET', `${pipe.path}/${await pipe.firstId()}`)
  t.ok(text.endsWith('"records":[{"n":"x","big":12345678901234567890}]}'), text)
  const { body } = await api('GET', `/v1/pipes/${pipe.pipeId}/usage?hours=1`)
  t.match(body, { schema_mismatches: { parked: 2 } })
})

t.test('a request without a record that matches is accepted, and no message is stored', async (t) => {
  const pipe = await newPipe('all-parked')
  const reply = await pipe.send('{"n":"x"}')
  t.match(reply, { status: 202, body: { records_count: 0, parked_records: 1 } })
  t.same(await pipe.stored(), [])
  const { msg_id } = reply.body
  t.equal((await api('GET', `/v1/messages/${msg_id}`)).status, 404)
})

t.test('a repeat with the same Idempotency-Key parks nothing twice', async (t) => {
  const pipe = await newPipe('keyed')
  for (const body of ['[{"n":1},{"n":"x"}]', '[{"n":"y"}]']) {
    const headers = { 'Idempotency-Key': body.replaceAll(/\W/g, '') }
    const first = await pipe.send(body, headers)
    t.same((await pipe.send(body, headers)).body, first.body)
  }
  t.equal((await pipe.list()).count, 2)
  t.match(await api('POST', `${pipe.path}/discard`, { all: true }), { body: { discarded: 2 } })
  const repeat = await pipe.send('[{"n":"y"}]', { 'Idempotency-Key': 'ny' })
  t.match(repeat.body, { records_count: 0, parked_records: 1 })
  t.equal((await pipe.list()).count, 0, 'nor after they were discarded')
  await pipe.arrived([{ n: 1 }])
})

t.test('a replay checks the record, and stores it once it matches', async (t) => {
  const pipe = await newPipe('replayed', { pipe_add_ingest_ts: true })
  await pipe.send('{"n":"x","price":1.10}')
  const id = await pipe.firstId()
  const rejected = await api('POST', `${pipe.path}/${id}/replay`)
  t.match(rejected, { status: 409, body: { error: 'parked_mismatch', errors: [{ path: '/n' }] } })
  const edited = await api('PATCH', `${pipe.path}/${id}`, '{"records":[{"n":true,\r\n"price":1.10}]}')
  t.match(edited, { status: 200, body: { is_edited: true, errors: [{ path: '/n' }] } })
  const reply = await api('POST', `${pipe.path}/${id}/replay`, '{"records":[{"n":7, "price":1.10}]}')
  t.match(reply, { status: 200, body: { parked_id: id } })
  const { msg_id } = reply.body as { msg_id: string }
  const message = await until('the message is found', async () => {
    const found = await api('GET', `/v1/messages/${msg_id}`)
    return found.status === 200 ? found : null
  })
  t.match(message.text, /"records":\[\{"n":7, "price":1\.10,"ingest_ts":"20/)
  t.equal((await api('GET', `${pipe.path}/${id}`)).status, 404)
  t.equal((await pipe.list()).count, 0)
})

t.test('force stores a record that does not match', async (t) => {
  const pipe = await newPipe('forced')
  await pipe.send('[{"n":"x"},{"n":"y"},{"n":2,"m":1}]')
  t.equal((await api('POST', `${pipe.path}/${await pipe.firstId()}/replay`, { force: true })).status, 200)
  const many = await api('POST', `${pipe.path}/replay`, { all: true })
  t.match(many.body, { replayed: 0, mismatched: 2 })
  const some = await api('POST', `${pipe.path}/replay`, { all: true, error_path: '/n', force: true })
  t.match(some.body, { replayed: 1, mismatched: 0 })
  await pipe.arrived([{ n: 'x' }, { n: 'y' }])
})

t.test('records that match after a change of the schema are replayed together', async (t) => {
  const pipe = await newPipe('changed')
  await pipe.send(JSON.stringify(Array.from({ length: 450 }, (_, n) => ({ n: String(n) }))))
  t.equal((await pipe.list('?limit=1')).count, 450)
  await api('PATCH', `/v1/pipes/${pipe.pipeId}`, { pipe_schema: { type: 'object' } })
  t.match(await api('POST', `${pipe.path}/replay`, { all: true }), {
    body: { replayed: 450, mismatched: 0 },
  })
  t.equal((await pipe.list()).count, 0)
  const numbers = new Set<string>()
  await until('all are stored', async () => {
    for (const one of await pipe.stored()) numbers.add((one as { n: string }).n)
    return numbers.size === 450
  })
})

t.test('a record that lacks a field that a destination requires stays parked', async (t) => {
  const pipe = await newPipe('required')
  await daemon.createDestination(pipe.pipeId, {
    destination_type: 'destination_database',
    destination_config: {
      ...{ host: '127.0.0.1', port: 1, database: 'x', username: 'x', password: 'x', table: 'x' },
    },
    columns: [{ column_name: 'id', column_type: 'number', source_field: 'id', nullable: false }],
  })
  const missing = await pipe.send('[{"n":"x"},{"n":1}]')
  t.match(missing, { status: 400, body: { error: 'missing_required_fields', record_index: 1 } })
  t.equal((await pipe.list()).count, 0, 'nothing of a rejected request is parked')
  await pipe.send('[{"n":"x"},{"n":1,"id":1}]')
  const id = await pipe.firstId()
  const reply = await api('POST', `${pipe.path}/${id}/replay`, { records: [{ n: 1 }] })
  t.match(reply, { status: 400, body: { error: 'missing_required_fields', fields: ['id'] } })
  t.match((await api('GET', `${pipe.path}/${id}`)).body, { state: 'parked', is_edited: true })
})

t.test('hostile records are kept as they are', async (t) => {
  const pipe = await newPipe('hostile')
  const deep = `{"n":${'['.repeat(60)}${']'.repeat(60)}}`
  const texts = [
    '{"n":"\\u0000\\ud800","\\u0000\\udfff":1}',
    '{"__proto__":{"n":1},"constructor":"x"}',
    deep,
    `{"n":"${'x'.repeat(300_000)}"}`,
    '{"n":"a","n":"b"}',
  ]
  t.match(await pipe.send(`[${texts.join(',\n')}]`), { status: 202, body: { parked_records: texts.length } })
  const { parked } = await pipe.list()
  for (const [index, one] of parked.entries()) {
    // Lone surrogates are not in the shape of the contract.
    const { text } = await daemon.api('GET', `${pipe.path}/${one.parked_id}`)
    t.ok(text.endsWith(`"records":[${texts[index]}]}`), `record ${index}`)
    t.equal((await api('POST', `${pipe.path}/${one.parked_id}/replay`, { force: true })).status, 200)
  }
  t.equal((await pipe.list()).count, 0)
})

t.test('faults of a request are named', async (t) => {
  const pipe = await newPipe('faults')
  await pipe.send('[{"n":"x"},{"n":"y"},{"n":"z"}]')
  for (const [query, field] of [
    ['limit=501', 'limit'],
    ['after=nonsense', 'after'],
    [`error_path=${'x'.repeat(201)}`, 'error_path'],
  ] as const)
    t.same(Object.keys(errorsIn(await api('GET', `${pipe.path}?${query}`))), [field], query)
  const page = await pipe.list('?limit=2')
  t.equal(page.parked.length, 2)
  t.equal((await pipe.list(`?limit=2&after=${encodeURIComponent(page.next ?? '')}`)).parked.length, 1)
  for (const body of [{}, { all: true, ids: [unknownId] }])
    for (const action of ['replay', 'discard'])
      t.match(errorsIn(await api('POST', `${pipe.path}/${action}`, body)), { '': /either ids or all/ })
  const id = await pipe.firstId()
  t.ok(errorsIn(await api('PATCH', `${pipe.path}/${id}`, { records: [] })).records)
  t.ok(errorsIn(await api('POST', `${pipe.path}/${id}/replay`, { records: [{}, {}] })).records)
})

t.test('an unknown record is not found', async (t) => {
  const { path } = await newPipe('unknown')
  for (const [method, at, body] of [
    ['GET', `${path}/${unknownId}`],
    ['PATCH', `${path}/${unknownId}`, { records: [{ n: 1 }] }],
    ['POST', `${path}/${unknownId}/replay`],
    ['POST', `${path}/${unknownId}/replay`, { records: [{ n: 1 }] }],
    ['DELETE', `${path}/${unknownId}`],
    ['GET', `${path}/nonsense`],
  ] as const)
    t.match(
      await api(method, at, body),
      { status: 404, body: { error: 'parked_not_found' } },
      `${method} ${at}`,
    )
  const other = path.replace(/pipes\/[^/]+/, `pipes/${unknownId}`)
  t.match(await api('GET', other), { status: 404, body: { error: 'pipe_not_found' } })
})

t.test('actions are in the audit log, without the records', async (t) => {
  const pipe = await newPipe('audited')
  await pipe.send('[{"n":"secret"},{"n":"secret"},{"n":"secret"}]')
  const id = await pipe.firstId()
  await api('PATCH', `${pipe.path}/${id}`, { records: [{ n: 'secret' }] })
  await api('POST', `${pipe.path}/${id}/replay`, { force: true })
  t.equal((await api('DELETE', `${pipe.path}/${await pipe.firstId()}`)).status, 204)
  await api('POST', `${pipe.path}/discard`, { all: true })
  const { body, text } = await api('GET', `/v1/audit?resource_id=${pipe.pipeId}`)
  const operations = (body as unknown as { audit: { operation: string }[] }).audit.map((one) => one.operation)
  t.same(operations.slice(0, 4), [
    'discardManyPipeParked',
    'deletePipeParked',
    'replayPipeParked',
    'editPipeParked',
  ])
  t.notMatch(text, /secret/)
})
