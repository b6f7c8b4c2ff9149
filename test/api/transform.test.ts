/**
 * Transforms on the real daemon: what arrives at a table, an endpoint and one request a record, what parks and is replayed, what is
 * counted, and what an API client may say and sees.
 */
import { createHash } from 'node:crypto'
import t from 'tap'
import type { LaneHour } from '../../src/contract/usage.ts'
import { startDaemon } from '../support/daemon.ts'
import { hangs } from '../support/hanging-filter.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { checkedApi, created, errorsIn } from './management-client.ts'

const daemon = await startDaemon()
const sink = await startHttpSink()
const pg = await startPostgres()
t.teardown(async () => {
  await daemon.close()
  await sink.stop()
  await pg.stop()
})
const api = checkedApi(daemon)
const salt = 'salt-of-the-test'
const hash = (value: string) => createHash('sha256').update(`${salt}${value}`).digest('hex')

const pipe = (pipe_name: string) =>
  created(api, '/v1/pipes', { pipe_name, pipe_add_ingest_ts: false }, 'pipe_id')
const endpoint = (path: string, more: object = {}) => ({
  destination_type: 'destination_http_endpoint',
  destination_config: { url: `${sink.url}/${path}`, body_format: 'ndjson', ...more },
})
const attach = (pipeId: string, body: Record<string, unknown>) =>
  created(api, `/v1/pipes/${pipeId}/destinations`, body, 'destination_id')
const at = (path: string) => sink.deliveries.filter((one) => one.path === `/${path}`)
const laneOf = async (pipeId: string, id: string) =>
  Object(Object((await api('GET', `/v1/pipes/${pipeId}/destinations/${id}`)).body).destination).lane
const isThrough = (pipeId: string, id: string) =>
  until('the lane has nothing left', async () => {
    const lane = await laneOf(pipeId, id)
    return lane.cursor_seq === lane.head_seq && lane.lane_state === 'idle' ? lane : null
  })

t.test('an endpoint gets what the filter keeps, mapped, every other digit as it was', async (t) => {
  const pipeId = await pipe('mapped')
  const transform = {
    filter: 'record.kind == "sale"',
    map: [
      { op: 'move', from: 'user.email', to: 'email' },
      { op: 'mask', paths: ['email'] },
      { op: 'drop', paths: ['user'] },
      { op: 'constant', key: 'source', value: 'shop' },
    ],
    mask_salt: salt,
  }
  const id = await attach(pipeId, { ...endpoint('mapped'), transform })
  const plain = await attach(pipeId, { ...endpoint('plain'), transform: { filter: 'record.kind == "sale"' } })
  const sale = '{"kind":"sale","id":12345678901234567890,"price":1.10 ,"user":{"email":"ada@example.com"}}'
  await daemon.ingest(pipeId, `[${sale},{"kind":"view"}]`)
  await daemon.ingest(pipeId, '[{"kind":"view"},{"kind":"view"}]')
  const lane = await isThrough(pipeId, id)
  t.match(lane, { delivered_records: 1, filtered_records: 3, skipped_messages: 0, dropped_messages: 0 })
  const made = `{"kind":"sale","id":12345678901234567890,"price":1.10,"email":"${hash('ada@example.com')}","source":"shop"}`
  t.equal(
    at('mapped')
      .map(({ text }) => text)
      .join('\n')
      .trim(),
    made,
  )
  await isThrough(pipeId, plain)
  t.equal(
    at('plain')
      .map(({ text }) => text)
      .join('\n')
      .trim(),
    sale,
    'what is only filtered goes byte for byte',
  )
})

t.test('the salt is a secret, kept by a change that does not give it', async (t) => {
  const pipeId = await pipe('salted')
  const map = [{ op: 'mask', paths: ['a'] }]
  const id = await attach(pipeId, { ...endpoint('salted'), transform: { map, mask_salt: salt } })
  const path = `/v1/pipes/${pipeId}/destinations/${id}`
  const shown = await api('GET', path)
  t.match(shown.body, { destination: { transform: { filter: null, map, mask_salt: '[redacted]' } } })
  t.notMatch(shown.text, salt)
  for (const mask_salt of [undefined, '', '[redacted]']) {
    const change = {
      transform: { filter: 'record.a != 1', map, ...(mask_salt === undefined ? {} : { mask_salt }) },
    }
    t.equal((await api('PATCH', path, change)).status, 200)
  }
  await daemon.ingest(pipeId, [{ a: 'x' }])
  await isThrough(pipeId, id)
  t.equal(at('salted').at(-1)?.text.trim(), `{"a":"${hash('x')}"}`)
  t.equal((await api('PATCH', path, { transform: { map, mask_salt: `${salt}2` } })).status, 200)
  const audit = await api('GET', '/v1/audit?limit=20')
  t.notMatch(audit.text, salt)
  t.match(audit.text, 'transform.mask_salt', 'that it was changed is in the audit log')
  t.match((await api('PATCH', path, { transform: null })).body, { destination: { transform: null } })
})

t.test('a transform applies to what is not delivered yet', async (t) => {
  const pipeId = await pipe('changed')
  const id = await attach(pipeId, endpoint('changed'))
  await daemon.ingest(pipeId, [{ n: 1 }])
  await isThrough(pipeId, id)
  const path = `/v1/pipes/${pipeId}/destinations/${id}`
  await api('PATCH', `${path}/status`, { destination_status: 'blocked' })
  await daemon.ingest(pipeId, [{ n: 2 }, { n: 3 }])
  await api('PATCH', path, { transform: { filter: 'record.n == 3' } })
  await api('PATCH', `${path}/status`, { destination_status: 'active' })
  t.match(await isThrough(pipeId, id), { delivered_records: 2, filtered_records: 1 })
  t.strictSame(
    at('changed').map(({ text }) => text.trim()),
    ['{"n":1}', '{"n":3}'],
  )
})

t.test('a table: places and exactly_once are those of the records that were sent', async (t) => {
  await pg.query('CREATE TABLE sales (place text PRIMARY KEY, n int)')
  const { host, port, database, user: username, password } = pg
  const pipeId = await pipe('sales')
  for (const exactly_once of [false, true]) {
    const id = await attach(pipeId, {
      destination_type: 'destination_database',
      destination_config: { host, port, database, username, password, table: 'sales', exactly_once },
      columns: [
        {
          column_name: 'place',
          column_type: 'string',
          semantic_role: 'dedupe_id',
        },
        { column_name: 'n', column_type: 'number' },
      ],
      transform: { filter: 'record.n > 1 && record.n != 3' },
      on_permanent_error: 'park',
    })
    const { msg_id } = await daemon.ingest(pipeId, [{ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }, { m: 5 }])
    await daemon.ingest(pipeId, [{ n: 1 }])
    const lane = await isThrough(pipeId, id)
    t.match(lane, { delivered_records: 2, filtered_records: 3, parked_records: 1 })
    const rows = await pg.query("SELECT place, n FROM sales WHERE place LIKE $1 || '%' ORDER BY n", [msg_id])
    t.strictSame(rows, [
      { place: `${msg_id}:1`, n: 2 },
      { place: `${msg_id}:3`, n: 4 },
    ])
    await api('POST', `/v1/pipes/${pipeId}/destinations/${id}/rewind`, { to: 'earliest' })
    await isThrough(pipeId, id)
    const again = await pg.query("SELECT place FROM sales WHERE place LIKE $1 || '%'", [msg_id])
    t.equal(again.length, 2, 'a repeat stores nothing twice')
    await api('DELETE', `/v1/pipes/${pipeId}/destinations/${id}`)
  }
})

t.test('one request a record: ids are of the places, and what fails parks and is replayed', async (t) => {
  const pipeId = await pipe('single')
  let isRefusing = true
  sink.respondWith(({ text }) => ({ status: isRefusing && text.includes('"n":4') ? 422 : 200 }))
  const transform = { filter: 'record.n != 2', map: [{ op: 'rename', from: 'a', to: 'b' }] }
  const body = {
    ...endpoint('single', { body_format: 'json_object' }),
    transform,
    on_permanent_error: 'park',
  }
  const id = await attach(pipeId, body)
  await daemon.ingest(pipeId, '[{"n":1,"a":1.0},{"n":2},{"x":1},{"n":4,"a":4.0},{"n":5}]')
  const lane = await isThrough(pipeId, id)
  t.match(lane, { delivered_records: 2, filtered_records: 1, parked_records: 2 })
  const path = `/v1/pipes/${pipeId}/destinations/${id}/parked`
  const { parked } = Object((await api('GET', path)).body)
  t.match(parked, [
    { record_index: 2, error: { code: 'filter_error' } },
    { record_index: 3, error: { code: 'http_422' } },
  ])
  const kept = await api('GET', `${path}/${parked[1].parked_id}`)
  t.match(kept.text, '{"n":4,"a":4.0}', 'it is kept as it was received')
  isRefusing = false
  t.equal((await api('POST', `${path}/${parked[1].parked_id}/replay`)).status, 202)
  await until('it is replayed', async () => (await laneOf(pipeId, id)).parked_records === 1)
  t.equal(at('single').at(-1)?.text, '{"n":4,"b":4.0}', 'and transformed when it is replayed')
  const change = { filter: 'has(record.n) && record.n != 2' }
  await api('PATCH', `/v1/pipes/${pipeId}/destinations/${id}`, { transform: change })
  t.equal((await api('POST', `${path}/${parked[0].parked_id}/replay`)).status, 202)
  await until('it is filtered out', async () => (await laneOf(pipeId, id)).parked_records === 0)
  t.match(await laneOf(pipeId, id), { delivered_records: 3, filtered_records: 2 })
  sink.respondWith(() => ({ status: 200 }))
})

t.test('by default a lane stops at the record that the transform cannot be applied to', async (t) => {
  const pipeId = await pipe('blocking')
  const id = await attach(pipeId, { ...endpoint('blocking'), transform: { filter: 'record.n > 0' } })
  await daemon.ingest(pipeId, [{ n: 1 }])
  const { msg_id } = await daemon.ingest(pipeId, [{ n: 2 }, { m: 1 }])
  const lane = await until('the lane is stuck', async () => {
    const now = await laneOf(pipeId, id)
    return now.blocking_msg_id === msg_id && now.last_error.record_index === 1 ? now : null
  })
  t.match(lane.last_error, {
    class: 'permanent',
    code: 'filter_error',
    fault: 'records',
    message: /No such key: n/,
  })
  t.strictSame(
    at('blocking').map(({ text }) => text.trim()),
    ['{"n":1}'],
  )
  await api('PATCH', `/v1/pipes/${pipeId}/destinations/${id}`, { transform: { filter: 'has(record.n)' } })
  await isThrough(pipeId, id)
  t.strictSame(
    at('blocking').map(({ text }) => text.trim()),
    ['{"n":1}', '{"n":2}'],
  )
})

t.test('an expression that hangs parks its record, and other lanes go on', async (t) => {
  const pipeId = await pipe('hanging')
  const bad = await attach(pipeId, {
    ...endpoint('hanging'),
    transform: { filter: hangs },
    on_permanent_error: 'park',
  })
  const good = await attach(pipeId, { ...endpoint('beside'), transform: { filter: 'has(record.s)' } })
  await daemon.ingest(pipeId, [{ s: 'aaa' }, { s: `${'a'.repeat(40)}!` }])
  t.match(await isThrough(pipeId, good), { delivered_records: 2 })
  t.match(await isThrough(pipeId, bad), { delivered_records: 1, filtered_records: 0, parked_records: 1 })
  t.equal(at('hanging').at(-1)?.text.trim(), '{"s":"aaa"}')
})

t.test('a test of a destination tries its transform on the newest records', async (t) => {
  const pipeId = await pipe('tried')
  const body = { ...endpoint('tried'), transform: { filter: 'record.n > 1' } }
  const tried = async (filter = 'record.n > 1') => {
    const { body: found } = await api('POST', `/v1/pipes/${pipeId}/destinations/test`, {
      ...body,
      transform: { filter },
    })
    return Object(found).checks.find((one: { name: string }) => one.name === 'transform')
  }
  t.match(await tried(), { ok: true, message: /no records yet/ })
  await daemon.ingest(pipeId, [{ n: 1 }, { n: 2 }, { m: 1 }])
  t.match(await tried(), {
    ok: true,
    message:
      /3 newest records 1 are kept, 1 filtered out, and 1 fail, most often: transform\.filter: .*No such key: n/,
  })
  t.match(await tried('record.x > 1'), { ok: false, message: /0 are kept, 0 filtered out, and 3 fail/ })
})

t.test('what cannot be a transform is refused, and the field is named', async (t) => {
  const pipeId = await pipe('refused')
  const wrong = async (transform: unknown, errors: object, more: object = endpoint('refused')) => {
    const response = await api('POST', `/v1/pipes/${pipeId}/destinations`, { ...more, transform })
    t.equal(response.status, 400, JSON.stringify(transform))
    t.match(errorsIn(response), errors)
    t.strictSame(Object.keys(errorsIn(response)), Object.keys(errors))
  }
  await wrong('x', { transform: 'must be an object or null, not a string' })
  await wrong({ filter: 'record.a ==' }, { 'transform.filter': /^is not a valid expression/ })
  await wrong({ filter: '1 + 1' }, { 'transform.filter': 'must result in true or false, not int' })
  await wrong({ filter: 'x'.repeat(2_001) }, { 'transform.filter': /at most 2000 characters/ })
  await wrong({ run: 'x' }, { 'transform.run': 'Unknown field.' })
  await wrong({ map: [{ op: 'eval' }] }, { 'transform.map.0.op': /^must be one of rename, drop, keep/ })
  await wrong({ map: ['x'] }, { 'transform.map.0': 'must be an object, not a string' })
  await wrong({ map: [{ op: 'rename', from: 'a' }] }, { 'transform.map.0.to': 'is required' })
  await wrong(
    { map: [{ op: 'drop', paths: [] }] },
    { 'transform.map.0.paths': 'must have at least 1 element' },
  )
  await wrong({ map: [{ op: 'drop', paths: ['a', 'a..b'] }] }, { 'transform.map.0.paths.1': /empty key/ })
  await wrong({ map: [{ op: 'move', from: 'a\\b', to: 'c' }] }, { 'transform.map.0.from': /backslash/ })
  await wrong({ map: [{ op: 'constant', key: 'a', value: {} }] }, { 'transform.map.0.value': /must be/ })
  await wrong(
    { map: Array(51).fill({ op: 'drop', paths: ['a'] }) },
    { 'transform.map': /at most 50 elements, not 51/ },
  )
  const long = { op: 'constant', key: 'k', value: 'x'.repeat(1_000) }
  await wrong({ map: Array(9).fill(long) }, { 'transform.map': /at most 8000 characters/ })
  await wrong({ map: [{ op: 'mask', paths: ['a'] }] }, { 'transform.mask_salt': 'is required by mask' })
  await wrong(
    { map: [{ op: 'mask', paths: ['a'] }], mask_salt: 'short' },
    { 'transform.mask_salt': /at least 8 characters/ },
  )
  await wrong(
    { filter: 'true' },
    { transform: /destination_pull has no transform/ },
    { destination_type: 'destination_pull' },
  )
})

t.test(
  'what is filtered out is in the hours of its lane, of its pipe and of all, also after a restart',
  async (t) => {
    const pipeId = await pipe('hours')
    const look = async () => {
      const counts: number[][] = []
      for (const place of [
        `/v1/pipes/${pipeId}/destinations/${id}/usage`,
        `/v1/pipes/${pipeId}/usage`,
        '/v1/usage',
      ]) {
        const { hours }: { hours: LaneHour[] } = Object((await api('GET', place)).body)
        const sum = (of: (hour: LaneHour) => number) => hours.reduce((total, hour) => total + of(hour), 0)
        counts.push([sum((hour) => hour.delivered_records), sum((hour) => hour.filtered_records)])
      }
      return counts
    }
    const id = await attach(pipeId, { ...endpoint('hours'), transform: { filter: 'record.n > 2' } })
    const before = (await look())[2] ?? []
    await daemon.ingest(pipeId, [{ n: 1 }, { n: 2 }, { n: 3 }])
    await daemon.ingest(pipeId, [{ n: 1 }])
    t.match(await isThrough(pipeId, id), { delivered_records: 1, filtered_records: 3 })
    const found = await until('it is saved', async () => {
      const counts = await look()
      return counts[0]?.[1] === 3 ? counts : null
    })
    t.strictSame(found, [
      [1, 3],
      [1, 3],
      [(before[0] ?? 0) + 1, (before[1] ?? 0) + 3],
    ])
    const { pipes } = Object((await api('GET', '/v1/overview')).body)
    const { usage_today } = pipes.find((one: { pipe_id: string }) => one.pipe_id === pipeId)
    t.ok(usage_today.filtered_records <= 3, 'of today alone')
    await daemon.stop()
    await daemon.start()
    t.strictSame(await look(), found)
  },
)
