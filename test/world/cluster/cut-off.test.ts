/** A node that is cut off from its cluster accepts nothing, says so, and comes back by itself. */
import t from 'tap'
import { startCluster, type TestNode } from '../../support/cluster.ts'
import { until } from '../../support/until.ts'

const cluster = await startCluster({ nodes: 2, proxies: true })
const [a, b] = cluster.nodes as [TestNode, TestNode]
t.teardown(() => cluster.close())

const ready = (node: TestNode) =>
  node.api<{ reasons?: string[] }>('GET', '/v1/ready', undefined, { isBroken: true })

t.test('cut off: 503 for everything, then as if nothing had been', async (t) => {
  const pipeId = await a.createPipe({
    pipe_name: 'orders',

    pipe_add_ingest_ts: false,
  })
  const lane = await a.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const before = await a.ingest(pipeId, { n: 1 })
  t.equal((await ready(a)).status, 200)
  a.cut()
  const reasons = await until('it says that it is not in its cluster', async () => {
    const { status, body } = await ready(a)
    return status === 503 && body.reasons?.includes('not_in_cluster') ? body.reasons : null
  })
  t.ok(reasons)
  t.match(await a.api('POST', `/v1/ingest/${pipeId}`, { n: 2 }, { isBroken: true }), { status: 503 })
  t.match(await a.api('GET', '/v1/pipes'), {
    status: 503,
    body: { error: 'storage_unavailable', message: /disconnected from its cluster/ },
  })
  t.equal((await a.api('GET', '/v1/health')).status, 200, 'the process itself is alive')
  const pulled = await b.api<{ msg_id: string }>('GET', `/v1/pull/${lane}?wait_ms=20000`)
  t.equal(pulled.body.msg_id, before.msg_id, 'the other node delivers')
  await b.ingest(pipeId, { n: 3 })

  a.mend()
  await until('it is back', async () => (await ready(a)).status === 200)
  const after = await a.ingest(pipeId, { n: 4 })
  const next = () =>
    a.api<{ msg_id: string; records: { n: number }[] }>('GET', `/v1/pull/${lane}?wait_ms=20000`)
  const got = [await next(), await next()]
  t.same(
    got.map(({ body }) => body.records[0]?.n),
    [3, 4],
  )
  t.equal(got[1]!.body.msg_id, after.msg_id)
})
