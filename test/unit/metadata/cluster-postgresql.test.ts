/** PostgreSQL keeps what nodes share. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { openMetadata } from '../../../src/stores/open-metadata.ts'
import { startPostgres } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { testClusterStore } from './cluster-conformance.ts'
import { newPipe, newWorkspace } from './fixture.ts'

const server = await startPostgres()
t.teardown(() => server.stop())
const url = `postgres://postgres:${server.password}@127.0.0.1:${server.port}/postgres`
let schemas = 0

async function create(t: { teardown(run: () => unknown): void }, now?: () => number) {
  const schema = `cluster_${++schemas}`
  await server.query(`CREATE SCHEMA ${schema}`)
  await server.query(`ALTER ROLE postgres SET search_path = ${schema}`)
  const sealingKey = randomBytes(32)
  return {
    schema,
    async open() {
      const options = now === undefined ? {} : { now }
      const metadata = await openMetadata({ kind: 'postgresql', url }, sealingKey, options)
      t.teardown(() => metadata.close())
      return metadata
    },
    async pass(ms: number) {
      for (const table of ['cluster_nodes', 'cluster_workers'])
        await server.query(`UPDATE ${schema}.${table} SET expires_ms = expires_ms - ${ms}`)
    },
  }
}

testClusterStore(t, (t) => create(t))

t.test('time is the server’s: a node whose clock is an hour off holds as long as the others', async (t) => {
  const database = await create(t, () => Date.now() + 3_600_000)
  const { cluster } = await database.open()
  const off = (await cluster!.now()) - Date.now()
  t.ok(Math.abs(off) < 10_000)
  await cluster!.nodes.join({ nodeId: 'a', name: 'a', version: '1', address: null }, 'a', 0, false)
  const [{ leftMs } = { leftMs: 0 }] = await cluster!.nodes.list()
  t.ok(leftMs > 0 && leftMs <= 6_000, `${leftMs} ms`)
})

t.test('whoever listens is told of a change of any process, also after the server was away', async (t) => {
  const database = await create(t)
  const [metadata, other] = [await database.open(), await database.open()]
  const workspaceId = await newWorkspace(metadata, 'default')
  let told = 0
  const end = other.cluster!.changes.listen(() => {
    told += 1
  })
  await until('it listens', () => told > 0)
  const before = told
  await newPipe(metadata, workspaceId, 'one')
  await until('it was told', () => told > before)
  await server.shutDown()
  await server.start()
  const away = told
  await until('it listens again', () => told > away)
  const again = told
  await until('a change', () => newPipe(metadata, workspaceId, 'two'))
  await until('it was told again', () => told > again)
  await end()
})

t.test('a renewal and a removal at the same time: one of them happens', async (t) => {
  const database = await create(t)
  const [here, there] = [(await database.open()).cluster!, (await database.open()).cluster!]
  let renewed = 0
  for (let n = 0; n < 50; n += 1) {
    const lease = `lease ${n}`
    await here.pipes.join({ nodeId: 'a', leaseId: lease })
    // Both see it end at about the same moment.
    await server.query(
      `UPDATE ${database.schema}.cluster_workers SET expires_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 2`,
    )
    const [held] = await Promise.all([here.pipes.renew(lease), there.pipes.removeExpired()])
    const isThere = (await there.pipes.workers()).some(({ leaseId }) => leaseId === lease)
    if (held !== null) renewed += 1
    t.equal(isThere, held !== null, 'renewed or removed, never both')
  }
  t.comment(`renewed ${renewed} of 50`)
})
