/** GET …/destinations/{id}/drift on the real daemon, and what is left of it after a restart. */
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
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
