/** The quota of a day over three nodes while the owner of the pipe is killed, or stands still and wakes up. */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { fullLimits } from '../../api/management-client.ts'
import { startCluster, type TestNode } from '../../support/cluster.ts'
import { until } from '../../support/until.ts'

// Threads, so that requests take from limits in memory that they share.
const cluster = await startCluster({ nodes: 3, env: { PIPECTL_INGEST_WORKERS: '2' } })
t.teardown(() => cluster.close())

const limit = 1_200
/** A fault can cost a block of the node, and requests of unknown outcome. */
const missing = 50

interface Overview {
  pipes: { pipe_id: string; node_name: string | null; usage_today: { ingest_records: number } }[]
}

async function pipeOf(node: TestNode, pipeId: string) {
  const { body } = await node.api<Overview>('GET', '/v1/overview')
  return body.pipes.find((one) => one.pipe_id === pipeId)
}

async function limitedPipe(name: string, perDay = limit): Promise<string> {
  const node = cluster.nodes[0]!
  const pipeId = await node.createPipe({ pipe_name: name, pipe_add_ingest_ts: false })
  const limits = {
    ...fullLimits,
    pl_ingest_max_records_per_second: 100_000,
    pl_ingest_max_records_per_day: perDay,
  }
  t.equal((await node.api('PUT', `/v1/pipes/${pipeId}/limits`, limits)).status, 200)
  return pipeId
}

/** Six clients, each request at a random node, until every node says that the day is used up; `faultAt`: of the accepted. */
async function useUp(
  pipeId: string,
  fault: (owner: TestNode) => Promise<void>,
  faultAt = 400,
): Promise<number> {
  const owner = await until('the pipe has an owner', async () => {
    const name = (await pipeOf(cluster.nodes[0]!, pipeId))?.node_name
    return cluster.nodes.find((node) => node.name === name)
  })
  let accepted = 0
  let faulty: Promise<void> | null = null
  const exhausted = new Set<TestNode>()
  const sent: Promise<number | null>[] = []
  const send = (node: TestNode) => {
    const response = node.api('POST', `/v1/ingest/${pipeId}`, { n: accepted }, { isBroken: true })
    const status = response.then(
      (one) => {
        if (one.status === 202) accepted += 1
        return one.status
      },
      () => null,
    )
    sent.push(status)
    // A node that stands still responds when it wakes up.
    return Promise.race([status, wait(1_000, null)])
  }
  const client = async () => {
    while (exhausted.size < cluster.nodes.length) {
      const node = cluster.nodes[Math.floor(Math.random() * cluster.nodes.length)]!
      const status = await send(node)
      if (status === 202) exhausted.clear()
      else if (status === 429 && faulty !== null) exhausted.add(node)
      if (status !== 202) await wait(50)
      if (accepted >= faultAt) faulty ??= fault(owner)
    }
  }
  await Promise.all(Array.from({ length: 6 }, client))
  await faulty
  await Promise.all(sent)
  return accepted
}

async function check(t: Test, pipeId: string, accepted: number): Promise<void> {
  const usage = await until('usage has all of it', async () => {
    const { usage_today: { ingest_records: records } = { ingest_records: 0 } } =
      (await pipeOf(cluster.nodes[1]!, pipeId)) ?? {}
    return records >= accepted ? records : null
  })
  t.ok(usage <= limit, `${usage} were stored`)
  t.ok(usage >= limit - missing, `${usage} were stored, ${accepted} acknowledged`)
}

t.test('what NATS has not answered for stays taken: it may be stored', async (t) => {
  const [node] = cluster.nodes as [TestNode]
  const pipeId = await limitedPipe('unanswered', 3)
  const send = () => node.api('POST', `/v1/ingest/${pipeId}`, { n: 1 })
  t.equal((await send()).status, 202)
  for (const server of cluster.nats.servers) server.pause()
  const unanswered = await send()
  for (const server of cluster.nats.servers) server.resume()
  t.match(unanswered, { status: 503, body: { error: 'buffer_unavailable', message: /may be stored/ } })
  const answered: number[] = []
  const statuses = await until('the day is used up', async () => {
    const { status } = await send()
    answered.push(status)
    return status === 429 ? answered : null
  })
  t.equal(statuses.filter((status) => status === 202).length, 1)
  t.equal(
    await until('usage has it', async () => {
      const { usage_today } = (await pipeOf(node, pipeId)) ?? {}
      return usage_today?.ingest_records === 3 ? 3 : null
    }),
    3,
    'the unanswered record was stored',
  )
})

t.test('the owner is killed', async (t) => {
  const pipeId = await limitedPipe('killed')
  const accepted = await useUp(pipeId, async (owner) => {
    await owner.kill()
    await owner.start()
  })
  await check(t, pipeId, accepted)
})

t.test('the owner stands still until others have its pipes, and wakes up', async (t) => {
  const pipeId = await limitedPipe('paused')
  const accepted = await useUp(pipeId, async (owner) => {
    owner.pause()
    const other = cluster.nodes.find((node) => node !== owner)!
    await until('another node has the pipe', async () => {
      const name = (await pipeOf(other, pipeId))?.node_name
      return name !== null && name !== undefined && name !== owner.name
    })
    owner.resume()
  })
  await check(t, pipeId, accepted)
})
