/** GET …/destinations/{id}/drift on the real daemon, and what is left of it after a restart. */
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { checkedApi, created, pullDestination, unknownId } from './management-client.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const pg = await startPostgres()
t.teardown(() => pg.stop())
const api = checkedApi(daemon)
await pg.query('CREATE TABLE orders (id int, note text)')
const pipeId = await created(api, '/v1/pipes', { pipe_name: 'orders', pipe_add_ingest_ts: false }, 'pipe_id')
const base = `/v1/pipes/${pipeId}/destinations`
const { host, port, database, user: username, password } = pg
const destination_config = { host, port, database, username, password, table: 'orders' }
const column = (column_name: string) => ({ column_name, column_type: 'string' })
const id = await created(
  api,
  base,
  { destination_type: 'destination_database', destination_config, columns: [column('id'), column('note')] },
  'destination_id',
)
const drift = async (destinationId = id) =>
  Object((await api('GET', `${base}/${destinationId}/drift`)).body).drift
const seen = (key: string) =>
  until(`the key ${key} is in the drift`, async () =>
    (await drift()).keys.find((one: { key: string }) => one.key === key),
  )

t.test('a key without a column shows by itself, and goes when the columns are changed', async (t) => {
  t.match(await drift(), {
    mapping: 'columns',
    since_ts: null,
    records_seen: 0,
    keys: [],
    unfilled_columns: [],
  })
  await daemon.ingest(pipeId, [
    { id: 1, gift: true },
    { id: 2, gift: false },
  ])
  t.match(await seen('gift'), { records: 2, type: 'boolean', example: 'true' })
  t.match(await drift(), { records_seen: 2, other_keys: 0, unfilled_columns: ['note'] })

  await pg.query('ALTER TABLE orders ADD gift text')
  const columns = [column('id'), column('note'), column('gift')]
  t.equal((await api('PATCH', `${base}/${id}`, { columns })).status, 200)
  t.match(await drift(), { records_seen: 0, keys: [] })
  await daemon.ingest(pipeId, [{ id: 3, gift: true, 'odd key': [1.1] }])
  t.match(await seen('odd key'), { records: 1, type: 'array', example: '[1.1]' })
  t.equal((await drift()).keys.length, 1)
})

t.test('keys without a column are reported, and no longer once they have one', async (t) => {
  const receiver = await startHttpSink()
  t.teardown(() => receiver.stop())
  await pg.query('CREATE TABLE sales (id int)')
  const columns = [column('id')]
  const body = {
    destination_type: 'destination_database',
    destination_name: 'sales',
    destination_config: { ...destination_config, table: 'sales' },
    columns,
  }
  const pipe = await created(api, '/v1/pipes', { pipe_name: 'sales', pipe_add_ingest_ts: false }, 'pipe_id')
  const path = `/v1/pipes/${pipe}/destinations`
  const sales = await created(api, path, body, 'destination_id')
  const lane = async () => Object((await api('GET', `${path}/${sales}`)).body.destination).lane
  const metric = async (name: string) => {
    const text = await (await fetch(daemon.metricsUrl)).text()
    const line = text.split('\n').find((one) => one.startsWith(`${name}{`) && one.includes(sales))
    return line === undefined ? null : Number(line.split(' ').at(-1))
  }
  await api('PUT', '/v1/alerts', { url: receiver.url, events: ['lane.drift'] })
  const few = Array.from({ length: 19 }, (_, id) => ({ id, 'a "key"\u202e': 1 }))
  await daemon.ingest(pipe, few)
  await until('they are counted', async () => (await metric('pipectl_lane_unmapped_records_total')) === 19)
  t.notOk(Object.hasOwn(await lane(), 'unmapped_keys'), 'a few records are no pattern')
  await daemon.ingest(pipe, [{ id: 20, 'a "key"\u202e': 1 }])
  await until('the lane shows it', async () => (await lane()).unmapped_keys === 1)
  t.equal(await metric('pipectl_lane_unmapped_keys'), 1)
  await until('the alert arrives', () => receiver.deliveries.length > 0)
  t.match(JSON.parse(receiver.deliveries[0]!.text), {
    type: 'lane.drift',
    destination: { id: sales, name: 'sales' },
    count: 1,
    keys: ['a "key" '],
    message:
      'sales → sales: no column takes 1 key of the records, whose values are not stored: "a \\"key\\" ".',
  })
  await daemon.stop()
  await daemon.start()
  await until('it is known after a restart', async () => (await lane()).unmapped_keys === 1)

  await pg.query('ALTER TABLE sales ADD other text')
  const mapped = [...columns, { ...column('other'), source_field: 'a "key"\u202e' }]
  t.equal((await api('PATCH', `${path}/${sales}`, { columns: mapped })).status, 200)
  await until('the lane has none', async () => !Object.hasOwn(await lane(), 'unmapped_keys'))
  t.equal(await metric('pipectl_lane_unmapped_keys'), 0)
  const alertIds = new Set(receiver.deliveries.map(({ text }) => JSON.parse(text).alert_id))
  t.equal(alertIds.size, 1, 'the restart can repeat an alert, but raises no other')
})

t.test('it outlasts a restart, counts that were not saved yet included', async (t) => {
  await daemon.ingest(pipeId, [
    { id: 4, 'odd key': 1 },
    { id: 5, 'odd key': 1 },
  ])
  await until('they are stored', async () => (await pg.query('SELECT 1 FROM orders')).length === 5)
  await daemon.stop()
  await daemon.start()
  t.match(await drift(), { records_seen: 3, keys: [{ key: 'odd key', records: 3 }] })
})

t.test('destinations without columns, and those that do not exist', async (t) => {
  const pullId = await created(api, base, pullDestination, 'destination_id')
  t.match(await drift(pullId), { mapping: 'none', keys: [] })
  const byName = await created(
    api,
    base,
    { destination_type: 'destination_database', destination_config },
    'destination_id',
  )
  t.match(await drift(byName), { mapping: 'by_name', keys: [] })
  t.equal((await api('GET', `${base}/${unknownId}/drift`)).body.error, 'destination_not_found')
})
