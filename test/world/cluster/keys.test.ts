/** Idempotency keys over the nodes of a cluster: repeats elsewhere, a node that is killed or stands still, and room for new records. */
import { createHmac } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import t, { type Test } from 'tap'
import { startCluster, type TestNode } from '../../support/cluster.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

const mib = 1024 * 1024
const cluster = await startCluster({
  nodes: 2,
  env: {
    PIPECTL_EGRESS_PRIVATE: 'allow',
    PIPECTL_BUFFER_MAX_BYTES: String(48 * mib),
    PIPECTL_BUFFER_DELIVERED_MAX_BYTES: String(8 * mib),
  },
})
t.teardown(() => cluster.close())
const [a, b] = cluster.nodes as [TestNode, TestNode]
const metadata = new pg.Client({ connectionString: cluster.metadataUrl })
await metadata.connect()
t.teardown(() => metadata.end())

interface Accepted {
  msg_id: string
}

/** Null: no response, or none that says what became of the record. */
async function send(node: TestNode, pipeId: string, key: string, record: object) {
  try {
    const { status, body, headers } = await node.api<Accepted>('POST', `/v1/ingest/${pipeId}`, record, {
      headers: { 'Idempotency-Key': key },
      isBroken: true,
    })
    return { status, msgId: body?.msg_id, retryAfter: headers['retry-after'] }
  } catch {
    return null
  }
}

/** As a client does it. */
async function sendUntilAccepted(node: TestNode, pipeId: string, key: string, record: object) {
  return await until(`${key} is accepted`, async () => {
    const response = await send(node, pipeId, key, record)
    if (response !== null && response.status !== 202) t.equal(response.status, 503)
    return response?.status === 202 ? response.msgId : null
  })
}

/** Page by page. */
async function stored(pipeId: string): Promise<string[]> {
  const ids: string[] = []
  for (let after = ''; ; ) {
    const { body } = await b.api<{ messages: { msg_id: string; stream_seq: number }[] }>(
      'GET',
      `/v1/pipes/${pipeId}/messages?limit=100${after}`,
    )
    const last = body.messages.at(-1)
    if (last === undefined) return ids
    ids.push(...body.messages.map(({ msg_id: id }) => id))
    after = `&after=${last.stream_seq}`
  }
}

const pending = async () => Number((await metadata.query('SELECT count(*) FROM key_claims')).rows[0].count)

async function pipeWithSink(t: Test, name: string) {
  const pipeId = await b.createPipe({ pipe_name: name })
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  await b.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: sink.url },
  })
  return { pipeId, sink }
}

t.test('two requests at once with one key at two nodes are one message', async (t) => {
  const pipeId = await b.createPipe({ pipe_name: 'at_once' })
  for (let n = 0; n < 20; n += 1) {
    const responses = await Promise.all([a, b].map((node) => send(node, pipeId, `key ${n}`, { n })))
    for (const response of responses) t.equal(response?.status, 202)
    t.equal(responses[0]?.msgId, responses[1]?.msgId)
  }
  t.equal((await stored(pipeId)).length, 20)
})

t.test(
  'a webhook that the provider sends again, to another node, is one message; a wrong signature is none',
  async (t) => {
    const secrets = ['It is a secret of GitHub']
    const pipe_source = { type: 'github', secrets }
    const created = await a.api<{ pipe_id: string }>('POST', '/v1/pipes', { pipe_name: 'hooks', pipe_source })
    t.equal(created.status, 201, created.text)
    const pipeId = created.body.pipe_id
    const body = '{"action":"opened"}'
    const signed = createHmac('sha256', secrets[0]!).update(body).digest('hex')
    const post = (node: TestNode, signature: string) =>
      node.api<Accepted>('POST', `/v1/hooks/${pipeId}`, body, {
        key: null,
        headers: {
          'content-type': 'application/json',
          'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
          'x-hub-signature-256': `sha256=${signature}`,
        },
      })
    const first = await until('the other node knows the pipe', async () => {
      const response = await post(b, signed)
      return response.status === 404 ? null : response
    })
    t.equal(first.status, 202, first.text)
    const again = await post(a, signed)
    t.equal(again.status, 202, again.text)
    t.equal(again.body.msg_id, first.body.msg_id)
    for (const node of [a, b]) t.equal((await post(node, '0'.repeat(64))).status, 401)
    t.strictSame(await stored(pipeId), [first.body.msg_id])
  },
)

t.test('delivered records with keys make room for new ones', async (t) => {
  const { pipeId } = await pipeWithSink(t, 'much')
  const text = 'x'.repeat(500_000)
  for (let n = 0; n < 130; n += 1)
    await sendUntilAccepted(n % 2 === 0 ? a : b, pipeId, `much ${n}`, { n, text })
  const first = await send(a, pipeId, 'much 129', { n: 129, text })
  t.equal(first?.status, 202, 'the newest is still known')
  const again = await send(b, pipeId, 'much 0', { n: 0, text })
  t.equal(again?.status, 202)
  const other = await send(b, pipeId, 'much 0', { n: 1 })
  t.equal(other?.status, 422, 'and the oldest, which is purged')
})

t.test('a node is killed while its keyed requests are under way: repeats elsewhere', async (t) => {
  const pipeId = await b.createPipe({ pipe_name: 'killed' })
  const answered = new Map<number, string>()
  const sent = Array.from({ length: 300 }, async (_, n) => {
    await wait(n * 3)
    const response = await send(a, pipeId, `killed ${n}`, { n })
    if (response?.status === 202 && response.msgId !== undefined) answered.set(n, response.msgId)
  })
  await until('some are answered', () => answered.size > 50)
  await a.kill()
  await Promise.all(sent)
  t.comment(`${answered.size} answered, ${await pending()} claims were left`)
  const ids = await Promise.all(sent.map((_, n) => sendUntilAccepted(b, pipeId, `killed ${n}`, { n })))
  for (const [n, id] of answered) t.equal(ids[n], id, `record ${n}`)
  t.equal(new Set(ids).size, 300)
  t.same((await stored(pipeId)).sort(), [...ids].sort(), 'each is stored once')
  await a.start()
})

t.test('a node stands still while its keyed requests are under way, and goes on', async (t) => {
  const pipeId = await b.createPipe({ pipe_name: 'paused' })
  const answered = new Map<number, string>()
  const sent = Array.from({ length: 300 }, async (_, n) => {
    await wait(n * 3)
    const response = await send(a, pipeId, `paused ${n}`, { n })
    if (response?.status === 202 && response.msgId !== undefined) answered.set(n, response.msgId)
  })
  await until('some are answered', () => answered.size > 50)
  a.pause()
  const ids = await Promise.all(sent.map((_, n) => sendUntilAccepted(b, pipeId, `paused ${n}`, { n })))
  a.resume()
  await Promise.all(sent)
  for (const [n, id] of answered) t.equal(ids[n], id, `record ${n}`)
  await until('no claim is pending', async () => (await pending()) === 0)
  t.same((await stored(pipeId)).sort(), [...ids].sort(), 'each is stored once')
})

t.test('without PostgreSQL a request with a key gets 503 with Retry-After', async (t) => {
  const pipeId = await b.createPipe({ pipe_name: 'no_database' })
  cluster.postgres.pause()
  const response = await send(b, pipeId, 'k', { n: 1 })
  cluster.postgres.resume()
  t.equal(response?.status, 503)
  t.ok(Number(response?.retryAfter) > 0)
})
