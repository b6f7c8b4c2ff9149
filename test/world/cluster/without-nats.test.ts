/** A node that loses NATS alone gives its pipes up; when all nodes lose it, every pipe stays where it is. */
import pg from 'pg'
import t from 'tap'
import { startCluster, type TestNode } from '../../support/cluster.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

const cluster = await startCluster({ nodes: 2, proxies: true, env: { PIPECTL_EGRESS_PRIVATE: 'allow' } })
t.teardown(() => cluster.close())
const [a, b] = cluster.nodes as [TestNode, TestNode]
const metadata = new pg.Client({ connectionString: cluster.metadataUrl })
await metadata.connect()
const sink = await startHttpSink()
t.teardown(() => Promise.all([metadata.end(), sink.stop()]))

/** By pipe: the node's name and the epoch. */
async function owners(): Promise<Map<string, { node: string; epoch: number }>> {
  const { rows } = await metadata.query(
    `SELECT owner.pipe_id, owner.epoch, node.node_name FROM pipe_owners owner
       JOIN cluster_workers worker USING (lease_id) JOIN cluster_nodes node USING (node_id)`,
  )
  return new Map(rows.map((row) => [row.pipe_id, { node: row.node_name, epoch: Number(row.epoch) }]))
}

const countOf = async (name: string) =>
  [...(await owners()).values()].filter(({ node }) => node === name).length

async function readiness(node: TestNode): Promise<{ status: number; reasons?: string[] }> {
  const { status, body } = await node.api<{ reasons?: string[] }>('GET', '/v1/ready', undefined, {
    isBroken: true,
  })
  return { status, ...(body.reasons === undefined ? {} : { reasons: body.reasons }) }
}

const ready = async (node: TestNode) => (await readiness(node)).status === 200

const pipes: string[] = []
for (let n = 0; n < 12; n += 1) {
  const pipeId = await a.createPipe({ pipe_name: `pipe_${n}` })
  await a.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: sink.url },
  })
  pipes.push(pipeId)
}

const eachHasSome = async () =>
  (await owners()).size === pipes.length && (await countOf('a')) > 0 && (await countOf('b')) > 0

for (const mode of [{ kind: 'hold' }, { kind: 'reset' }] as const)
  t.test(`one node is cut off from NATS (${mode.kind}): the other delivers its pipes`, async (t) => {
    await until('each node has pipes', eachHasSome)
    const before = await owners()
    const cutAt = performance.now()
    a.cutNats(mode)
    await until('the other node has all pipes', async () => (await countOf('b')) === pipes.length)
    t.comment(`taken over ${Math.round(performance.now() - cutAt)} ms after the cut`)
    for (const [pipeId, { node, epoch }] of await owners())
      t.equal(epoch > before.get(pipeId)!.epoch, before.get(pipeId)!.node === 'a', `${node} has ${pipeId}`)
    const received = sink.deliveries.length
    for (const pipeId of pipes) await b.ingest(pipeId, { mode: mode.kind })
    await until('every pipe delivers', () => sink.deliveries.length >= received + pipes.length)
    t.equal(await ready(a), false)
    t.equal(await ready(b), true)
    a.mend()
    await until('it has pipes again', eachHasSome)
    await until('it is ready', () => ready(a))
  })

t.test('no node reaches NATS: the owners stay, and both nodes say that they take no records', async (t) => {
  await until('each node has pipes', eachHasSome)
  const before = await owners()
  for (const node of cluster.nodes) node.cutNats()
  for (const node of cluster.nodes) {
    const { reasons } = await until('it is not ready', async () => {
      const seen = await readiness(node)
      return seen.status === 503 ? seen : null
    })
    t.strictSame(reasons, ['buffer_unavailable'])
    const options = { headers: { 'idempotency-key': 'order-1' }, isBroken: true }
    const keyed = await node.api('POST', `/v1/ingest/${pipes[0]}`, { n: 1 }, options)
    t.match(keyed, { status: 503, body: { error: 'buffer_unavailable', msg_id: String } })
    t.equal(keyed.headers['retry-after'], '5')
  }
  await until('both have noticed', async () => {
    const { rows } = await metadata.query('SELECT is_buffer_lost FROM cluster_workers')
    return rows.length === 2 && rows.every(({ is_buffer_lost }) => Number(is_buffer_lost) === 1)
  })
  const { rows } = await metadata.query('SELECT max(expires_ms) AS ms FROM cluster_workers')
  await until('a whole lease later', async () => {
    const later = await metadata.query('SELECT min(expires_ms) AS ms FROM cluster_workers')
    return Number(later.rows[0].ms) > Number(rows[0].ms) + 6_000
  })
  t.strictSame(await owners(), before)
  for (const node of cluster.nodes) node.mend()
  await until('both are ready', async () => (await ready(a)) && (await ready(b)))
  const received = sink.deliveries.length
  for (const pipeId of pipes) await b.ingest(pipeId, { n: 3 })
  await until('every pipe delivers', () => sink.deliveries.length >= received + pipes.length)
})
