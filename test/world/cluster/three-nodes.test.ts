/** Three nodes: whichever is asked does what was asked, and another goes on when one is gone. */
import { createHash } from 'node:crypto'
import t from 'tap'
import { fullLimits } from '../../api/management-client.ts'
import { startCluster, type TestNode } from '../../support/cluster.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

const [cluster, sink] = await Promise.all([startCluster({ nodes: 3 }), startHttpSink()])
const [a, b, c] = cluster.nodes as [TestNode, TestNode, TestNode]
t.teardown(async () => {
  await cluster.close()
  await sink.stop()
})

interface Pulled {
  msg_id: string
  records: unknown[]
}
interface Overview {
  pipes: { pipe_id: string; node_name: string | null }[]
}
const pull = (node: TestNode, lane: string, waitMs = 10_000) =>
  node.api<Pulled>('GET', `/v1/pull/${lane}?wait_ms=${waitMs}`)

/** Which node delivers the pipe. */
async function ownerOf(pipeId: string, asked = a): Promise<TestNode> {
  const name = await until('the pipe has an owner', async () => {
    const { body } = await asked.api<Overview>('GET', '/v1/overview')
    return body.pipes.find((one) => one.pipe_id === pipeId)?.node_name ?? null
  })
  return cluster.nodes.find((node) => node.name === name)!
}
const others = (node: TestNode) => cluster.nodes.filter((one) => one !== node)

let made = 0
async function newPipe(node = a): Promise<string> {
  return await node.createPipe({ pipe_name: `pipe-${++made}`, pipe_add_ingest_ts: false })
}

t.test('a pipe made on one node takes records on another and is pulled from a third', async (t) => {
  // The first message of a pipe is looked for while it comes: once in fifty it was passed over.
  for (let round = 0; round < 40; round += 1) {
    const pipeId = await newPipe(a)
    const lane = await a.createDestination(pipeId, {
      destination_type: 'destination_pull',
      destination_config: {},
    })
    const { msg_id } = await b.ingest(pipeId, { n: 1 })
    t.match(await pull(c, lane), { status: 200, body: { msg_id, records: [{ n: 1 }] } })
    await c.ingest(pipeId, { n: 2 })
    t.match(await pull(a, lane), { status: 200, body: { records: [{ n: 2 }] } })
    t.equal((await b.api('GET', `/v1/messages/${msg_id}`)).status, 200)
  }
})

t.test('retry, skip and rewind may be asked of any node', async (t) => {
  sink.respondWith(({ text }) => ({ status: text.includes('"bad"') ? 500 : 200 }))
  const pipeId = await newPipe()
  const id = await a.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/any` },
  })
  const [one, two] = others(await ownerOf(pipeId)) as [TestNode, TestNode]
  const lane = `/v1/pipes/${pipeId}/destinations/${id}`
  await one.ingest(pipeId, { n: 1, bad: true })
  await until('it blocks the lane', async () => (await two.lane(pipeId, id)).lane_state === 'retrying')
  const before = sink.deliveries.length
  t.equal((await one.api('POST', `${lane}/retry-now`)).status, 200)
  await until('it is tried again', () => sink.deliveries.length > before)
  const blocking = await two.api('GET', `${lane}/blocking-message`)
  t.equal(blocking.status, 200, blocking.text)
  const skip = await two.api('POST', `${lane}/skip`)
  t.equal(skip.status, 200, skip.text)
  await two.ingest(pipeId, { n: 2 })
  await until('the next one is delivered', () => sink.records().some(({ n }) => n === 2))
  sink.respondWith(() => ({}))
  const delivered = () => sink.records().filter(({ n }) => n === 2).length
  const times = delivered()
  t.equal((await one.api('POST', `${lane}/rewind`, { to: 'earliest' })).status, 200)
  await until('it is delivered again', () => delivered() > times)
})

t.test('a key that was revoked on one node is known nowhere when the response is there', async (t) => {
  for (const _ of [1, 2, 3]) {
    const { body } = await a.api<{ api_key: string; api_key_id: string }>('POST', '/v1/api-keys', {
      api_key_name: `key-${++made}`,
    })
    const asks = (node: TestNode) => node.api('GET', '/v1/pipes', undefined, { key: body.api_key })
    for (const node of cluster.nodes) t.equal((await asks(node)).status, 200)
    t.equal((await a.api('DELETE', `/v1/api-keys/${body.api_key_id}`)).status, 204)
    const [onB, onC] = await Promise.all([asks(b), asks(c)])
    t.same([onB.status, onC.status], [401, 401])
  }
})

t.test('limits are one for all nodes', async (t) => {
  const pipeId = await newPipe()
  const limits = { ...fullLimits, pl_ingest_max_records_per_day: 9 }
  t.equal((await a.api('PUT', `/v1/pipes/${pipeId}/limits`, limits)).status, 200)
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, index) =>
      cluster.nodes[index % 3]!.api('POST', `/v1/ingest/${pipeId}`, { n: index }),
    ),
  )
  t.equal(answers.filter(({ status }) => status === 202).length, 9)
  t.equal(answers.filter(({ status }) => status === 429).length, 21)
})

t.test('the owner is killed: another node delivers what was acknowledged', async (t) => {
  const pipeId = await newPipe()
  await a.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/killed` },
  })
  const changed = await a.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/changed`, body_format: 'ndjson' },
    transform: {
      filter: 'record.n != 3',
      map: [{ op: 'mask', paths: ['mail'] }],
      mask_salt: 'salt of the cluster',
    },
    on_permanent_error: 'park',
  })
  const owner = await ownerOf(pipeId)
  const [one] = others(owner) as [TestNode]
  const got = () =>
    sink.deliveries.filter(({ path }) => path === '/killed').flatMap(({ text }) => text.match(/\d+/g) ?? [])
  const records = (n: number) => [{ n, mail: 'ada' }, { n: 3 }, { other: true }]
  await one.ingest(pipeId, records(1))
  await until('the first is delivered', () => got().includes('1'))
  await owner.kill()
  const killedAt = performance.now()
  await one.ingest(pipeId, records(2))
  await until('another node delivers', () => got().includes('2'), { timeoutMs: 10_000 })
  t.comment(`after ${Math.round(performance.now() - killedAt)} ms`)
  const counted = { delivered_records: 2, filtered_records: 2, parked_records: 2, pending_messages: 0 }
  const lane = await until('the lane with a transform has counted all of it', async () => {
    const now = await one.lane(pipeId, changed)
    return now.pending_messages === 0 ? now : null
  })
  t.match(lane, counted)
  const texts = sink.deliveries.filter(({ path }) => path === '/changed').map(({ text }) => text.trim())
  const hash = createHash('sha256').update('salt of the clusterada').digest('hex')
  t.strictSame([...new Set(texts)], [`{"n":1,"mail":"${hash}"}`, `{"n":2,"mail":"${hash}"}`])
  await until('the overview says who', async () => (await ownerOf(pipeId, one)) !== owner)
  await owner.start()
  await until('it is back', async () => (await owner.api('GET', '/v1/ready')).status === 200)
})

t.test('a node that is stopped hands its pipes over at once', async (t) => {
  const pipeId = await newPipe()
  const lane = await a.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const owner = await ownerOf(pipeId)
  const [one, two] = others(owner) as [TestNode, TestNode]
  await one.ingest(pipeId, { n: 1 })
  t.equal(await owner.stop(), 0)
  t.match(await pull(two, lane, 5_000), { status: 200, body: { records: [{ n: 1 }] } })
  // A node's view of the others is up to a second old.
  await until('it has left', async () => {
    const { body } = await one.api<{ cluster: { nodes: { node_name: string }[] } }>('GET', '/v1/overview')
    return body.cluster.nodes.every(({ node_name }) => node_name !== owner.name)
  })
  await owner.start()
})
