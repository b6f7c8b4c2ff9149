/** `exactly_once` through the API on the real daemon: saved, tested, delivered, rewound, deleted. */
import t, { type Test } from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { startMariadb } from '../support/mariadb.ts'
import { startPostgres } from '../support/postgres.ts'
import { openTableFile } from '../support/table-file.ts'
import { until } from '../support/until.ts'

const [postgres, mariadb] = [await startPostgres(), await startMariadb()]
const daemon = await startDaemon()
t.teardown(async () => {
  await daemon.close()
  await Promise.all([postgres.stop(), mariadb.stop()])
})

interface World {
  name: string
  destination_type: string
  config: object
  query(sql: string): Promise<Record<string, unknown>[]>
}

const ofServer = (server: typeof postgres | typeof mariadb, dialect: string): World => {
  const { host, port, database, user: username, password } = server
  return {
    name: dialect,
    destination_type: 'destination_database',
    config: { host, port, database, username, password, dialect },
    query: (sql) => server.query(sql),
  }
}

async function lifeOf(t: Test, { name, destination_type, config, query }: World): Promise<void> {
  await query('CREATE TABLE events (n int)')
  const destination = {
    destination_type,
    destination_config: { ...config, table: 'events', exactly_once: true },
    columns: [{ column_name: 'n', column_type: 'number' }],
  }
  const pipeId = await daemon.createPipe({ pipe_name: `events-${name}` })
  const base = `/v1/pipes/${pipeId}/destinations`
  const tested = await daemon.api<{ checks: object[] }>('POST', `${base}/test?sample=true`, destination)
  t.match(tested.body, { ok: true })
  t.match(
    tested.body.checks.find((check) => Object(check).name === 'exactly_once'),
    { message: /_pipectl_lanes.* does not exist yet: the first delivery creates it/ },
  )
  const wrong = {
    ...destination,
    destination_config: { ...destination.destination_config, exactly_once: 'yes' },
  }
  t.match(await daemon.api('POST', base, wrong), {
    status: 400,
    text: /destination_config.exactly_once/,
  })

  const create = () => daemon.createDestination(pipeId, destination)
  const rows = async () =>
    (await query('SELECT n FROM events')).map(({ n }) => Number(n)).sort((a, b) => a - b)
  const laneRows = () => query('SELECT * FROM _pipectl_lanes')
  const first = await create()
  t.match(await daemon.api('GET', `${base}/${first}`), {
    body: { destination: { destination_config: { exactly_once: true } } },
  })
  const second = await create()
  for (const n of [1, 2, 3]) await daemon.ingest(pipeId, [{ n }])
  await until('both lanes are through', async () => (await rows()).length === 6)
  t.equal((await laneRows()).length, 2, 'a row for each lane')

  t.equal((await daemon.api('POST', `${base}/${first}/rewind`, { to: 'earliest' })).status, 200)
  await until('a rewind delivers again', async () => (await rows()).length === 9)
  await daemon.kill()
  await daemon.start()
  await daemon.ingest(pipeId, [{ n: 4 }])
  await until('the next record', async () => (await rows()).length === 11)
  t.same(await rows(), [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4])

  t.equal((await daemon.api('DELETE', `${base}/${first}`)).status, 204)
  await until('its row is gone', async () => (await laneRows()).length === 1)
  t.match(await laneRows(), [{ destination_id: second, target: 'events' }])
  t.equal((await daemon.api('DELETE', `/v1/pipes/${pipeId}`)).status, 204)
  await until('so are those of a deleted pipe', async () => (await laneRows()).length === 0)
}

t.test('PostgreSQL', (t) => lifeOf(t, ofServer(postgres, 'postgresql')))
t.test('MariaDB', (t) => lifeOf(t, ofServer(mariadb, 'mariadb')))
t.test('SQLite: the file of a deleted destination is kept', async (t) => {
  const file = openTableFile(daemon, 'once')
  const world = { name: 'sqlite', destination_type: 'destination_sqlite', config: { file: 'once' } }
  await lifeOf(t, { ...world, query: async (sql) => file.query(sql) })
  t.equal(file.query('SELECT n FROM events').length, 11)
})
