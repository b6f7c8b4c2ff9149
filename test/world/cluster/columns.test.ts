/** `auto_add_columns` in a cluster: the pipe moves between nodes, and a previous owner adds nothing twice. */
import pg from 'pg'
import t, { type Test } from 'tap'
import { startCluster, type TestNode } from '../../support/cluster.ts'
import { until } from '../../support/until.ts'

const cluster = await startCluster({ nodes: 2 })
const [a] = cluster.nodes as [TestNode, TestNode]
const { host, port, user, password } = cluster.postgres
await cluster.postgres.query('CREATE DATABASE shop')
const shop = new pg.Client({ host, port, user, password, database: 'shop' })
await shop.connect()
t.teardown(async () => {
  await shop.end()
  await cluster.close()
})
const query = async (sql: string, values: unknown[] = []) => (await shop.query(sql, values)).rows

interface Overview {
  pipes: { pipe_id: string; node_name: string | null }[]
}

async function ownerOf(pipeId: string, asked = a): Promise<TestNode> {
  const name = await until('the pipe has an owner', async () => {
    const { body } = await asked.api<Overview>('GET', '/v1/overview')
    return body.pipes.find((one) => one.pipe_id === pipeId)?.node_name ?? null
  })
  return cluster.nodes.find((node) => node.name === name)!
}
const otherThan = (node: TestNode) => cluster.nodes.find((one) => one !== node)!

async function newLane(table: string) {
  await query(`CREATE TABLE ${table} (id int)`)
  const pipeId = await a.createPipe({ pipe_name: table, pipe_add_ingest_ts: false })
  const id = await a.createDestination(pipeId, {
    destination_type: 'destination_database',
    destination_config: {
      ...{ host, port, database: 'shop', username: user, password, dialect: 'postgresql' },
      ...{ table, auto_add_columns: true },
    },
    columns: [{ column_name: 'id', column_type: 'number' }],
  })
  const path = `/v1/pipes/${pipeId}/destinations/${id}`
  let sent = 0
  return {
    pipeId,
    /** Sends 20 records, which is enough for their keys, in one request. */
    async send(node: TestNode, record: object, count = 20) {
      await node.ingest(
        pipeId,
        Array.from({ length: count }, () => ({ id: ++sent, ...record })),
      )
    },
    async mapped(node: TestNode) {
      const { body } = await node.api<{ destination: { columns: { column_name: string }[] } }>('GET', path)
      return body.destination.columns.map(({ column_name }) => column_name)
    },
    /** The statements of each change that the audit log has. */
    async changes(node: TestNode) {
      const { body } = await node.api<{ audit: { after: { ddl: string[] } }[] }>(
        'GET',
        `/v1/audit?resource_id=${id}&operation=updateDestination`,
      )
      return body.audit.map(({ after }) => after.ddl)
    },
    columns: async () =>
      (
        await query(
          'SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 ORDER BY attnum',
          [table],
        )
      ).map(({ attname }) => attname),
    count: async (where = 'true') =>
      Number((await query(`SELECT count(*) FROM ${table} WHERE ${where}`))[0]!.count),
  }
}

t.test('the pipe moves to another node: each column is added once, and both nodes fill it', async (t) => {
  const lane = await newLane('moved')
  const owner = await ownerOf(lane.pipeId)
  const other = otherThan(owner)
  await lane.send(other, { gift: 'tea' })
  await until('the column is mapped', async () => (await lane.mapped(other)).includes('gift'))
  await lane.send(owner, { gift: 'cup' }, 1)
  await until('it is filled', async () => (await lane.count("gift = 'cup'")) === 1)
  await owner.kill()
  await lane.send(other, { gift: 'pot', cents: 5 })
  await until('the new owner adds the next one', async () => (await lane.mapped(other)).includes('cents'))
  await lane.send(other, { gift: 'jar', cents: 7 }, 1)
  await until('both are filled', async () => (await lane.count("gift = 'jar' AND cents = 7")) === 1)
  await owner.start()
  t.same(await lane.mapped(owner), ['id', 'gift', 'cents'])
  t.same(await lane.columns(), ['id', 'gift', 'cents'])
  const changes = await lane.changes(owner)
  t.equal(changes.length, 2)
  for (const ddl of changes) t.match(ddl, [/^ALTER TABLE/])
  t.ok((await lane.count()) >= 42, 'no record is missing')
})

/** The first ALTER TABLE waits at this event until the gate is open. Later ones pass. */
async function closeGate(t: Test, event: 'ddl_command_start' | 'ddl_command_end') {
  await query('CREATE TABLE gate (is_open bool); INSERT INTO gate VALUES (false)')
  await query('CREATE SEQUENCE arrivals')
  await query(`CREATE FUNCTION wait_for_gate() RETURNS event_trigger LANGUAGE plpgsql AS $$
    BEGIN IF nextval('arrivals') = 1 THEN
      LOOP EXIT WHEN (SELECT is_open FROM gate); PERFORM pg_sleep(0.02); END LOOP;
    END IF; END $$`)
  await query(
    `CREATE EVENT TRIGGER gate ON ${event} WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION wait_for_gate()`,
  )
  const isWaiting = async () =>
    (await query("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'ALTER TABLE%' AND state = 'active'"))
      .length > 0
  t.teardown(() =>
    query('DROP EVENT TRIGGER gate; DROP FUNCTION wait_for_gate; DROP TABLE gate; DROP SEQUENCE arrivals'),
  )
  return {
    /** A session is at the gate. */
    closed: () => until('the statement runs', isWaiting),
    async open() {
      await query('UPDATE gate SET is_open = true')
      await until('the statement has ended', async () => !(await isWaiting()))
    },
  }
}

/** The owner stands still, and the other node has the pipe. */
async function standStill(owner: TestNode, pipeId: string): Promise<TestNode> {
  owner.pause()
  const other = otherThan(owner)
  await until('the other node has the pipe', async () => (await ownerOf(pipeId, other)) === other)
  return other
}

t.test(
  'an owner that stands still after ALTER TABLE: the next one maps the column that is there',
  async (t) => {
    const lane = await newLane('altered')
    const owner = await ownerOf(lane.pipeId)
    const gate = await closeGate(t, 'ddl_command_end')
    await lane.send(owner, { gift: 1 })
    await gate.closed()
    const other = await standStill(owner, lane.pipeId)
    await gate.open()
    t.same(await lane.columns(), ['id', 'gift'])
    t.same(await lane.mapped(other), ['id'], 'the previous owner has not mapped it')
    await lane.send(other, { gift: 2 })
    await until('the column is mapped', async () => (await lane.mapped(other)).includes('gift'))
    owner.resume()
    await until(
      'the previous owner is back',
      async () => (await owner.api('GET', '/v1/ready')).status === 200,
    )
    await lane.send(owner, { gift: 3 })
    await until('it is filled', async () => (await lane.count('gift = 3')) === 20)
    t.same(await lane.mapped(owner), ['id', 'gift'])
    t.same(await lane.changes(owner), [[]], 'one change, and nothing was altered again')
  },
)

t.test(
  'an owner that stands still before ALTER TABLE: its statement comes late and changes nothing',
  async (t) => {
    const lane = await newLane('late')
    const owner = await ownerOf(lane.pipeId)
    const gate = await closeGate(t, 'ddl_command_start')
    await lane.send(owner, { gift: 1 })
    await gate.closed()
    const other = await standStill(owner, lane.pipeId)
    await lane.send(other, { gift: 2 })
    await until('the column is mapped', async () => (await lane.mapped(other)).includes('gift'))
    await gate.open()
    owner.resume()
    await until(
      'the previous owner is back',
      async () => (await owner.api('GET', '/v1/ready')).status === 200,
    )
    await lane.send(owner, { gift: 3 })
    await until('it is filled', async () => (await lane.count('gift = 3')) === 20)
    t.same(await lane.columns(), ['id', 'gift'])
    t.same(await lane.mapped(owner), ['id', 'gift'])
    t.match(await lane.changes(owner), [[/^ALTER TABLE/]])
    t.equal((await lane.changes(owner)).length, 1)
    const planned = await cluster.postgres.query(
      "SELECT is_added FROM added_columns JOIN destinations USING (destination_id) WHERE column_name = 'gift' AND table_key LIKE '%late%'",
    )
    t.same(planned, [{ is_added: 1 }], 'it counts once towards the limits')
  },
)
