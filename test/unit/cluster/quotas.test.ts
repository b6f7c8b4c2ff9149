/** Limits that hold over all nodes, however their requests are spread and whatever becomes of the node that decides. */
import { randomUUID } from 'node:crypto'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { type NodeLink, openNodeLink } from '../../../src/cluster/node-link.ts'
import { QuotaGrants } from '../../../src/cluster/quota-grants.ts'
import { ApiError } from '../../../src/contract/errors.ts'
import type { PipeLimits } from '../../../src/contract/pipe.ts'
import { type BlockQuota, createBlockQuota } from '../../../src/ingest/block-quota.ts'
import { createQuota, type Quota } from '../../../src/ingest/quota.ts'
import type { DaySums } from '../../../src/ingest/quota-state.ts'
import { startNats } from '../../support/nats.ts'
import { until } from '../../support/until.ts'

const nats = await startNats()
t.teardown(() => nats.stop())

interface Node {
  nodeId: string
  link: NodeLink
  grants: QuotaGrants
  /** Of its two threads. */
  quotas: BlockQuota[]
  kill(): Promise<void>
}

class Cluster {
  readonly nodes: Node[] = []
  readonly owners = new Map<string, string>()
  readonly used = new Map<string, DaySums>()
  clockOffsetMs = 0
  now = () => Date.now() + this.clockOffsetMs

  static async open(t: Test, count: number): Promise<Cluster> {
    const cluster = new Cluster()
    const name = `q${randomUUID().slice(0, 8)}`
    for (let index = 0; index < count; index++) cluster.nodes.push(await cluster.#open(name))
    t.teardown(async () => {
      for (const node of cluster.nodes) await node.kill()
    })
    return cluster
  }

  own(pipeId: string, node: Node | undefined): void {
    if (node === undefined) this.owners.delete(pipeId)
    else this.owners.set(pipeId, node.nodeId)
  }

  async #open(cluster: string): Promise<Node> {
    const nodeId = randomUUID()
    const connection: NatsConnection = await connect({ servers: nats.url })
    const log = pino({ level: 'silent' })
    const link = openNodeLink({ nats: connection, cluster, nodeId, log })
    const grants = new QuotaGrants({
      ...{ link, nats: connection, cluster, log, now: this.now },
      owners: async () => this.owners,
      nodeIds: async () => this.nodes.map((node) => node.nodeId),
      usedSince: async (pipeId) => this.used.get(pipeId) ?? { records: 0, bytes: 0 },
    })
    await connection.flush()
    const quotas = [0, 1].map((thread) => createBlockQuota(grants.asker(thread), this.now))
    const kill = async () => {
      if (connection.isClosed()) return
      link.close()
      await connection.close()
      grants.close()
    }
    return { nodeId, link, grants, quotas, kill }
  }
}

function limitsOf(change: Partial<PipeLimits>): PipeLimits {
  return {
    pl_ingest_max_records_per_request: 100,
    pl_ingest_max_records_per_second: 1_000,
    pl_ingest_max_records_per_day: 1_000_000_000,
    pl_ingest_max_bytes_per_day: null,
    pl_delivery_max_records_per_flush: 1,
    pl_delivery_max_bytes_per_flush: 1,
    pl_delivery_max_seconds_per_flush: 1,
    ...change,
  }
}

interface Load {
  accepted: number
  rejected: number
  seconds: number
}

/** So many clients on each quota, without a pause, each request of 1 to 5 records. */
async function hammer(
  quotas: readonly Quota[],
  pipeId: string,
  limits: PipeLimits,
  { clients = 4, ms = 2_000, refunds = 0 } = {},
): Promise<Load> {
  const load = { accepted: 0, rejected: 0, seconds: 0 }
  const begun = performance.now()
  const client = async (quota: Quota, index: number) => {
    for (let turn = index; performance.now() - begun < ms; turn++) {
      const records = 1 + (turn % 5)
      try {
        const reserved = await quota.reserve(pipeId, limits, { records, bytes: records * 10 }, Date.now())
        if (refunds > 0 && turn % refunds === 0) quota.refund(reserved)
        else load.accepted += records
      } catch (error) {
        if (!(error instanceof ApiError)) throw error
        load.rejected += 1
        await new Promise((resolve) => setTimeout(resolve, 1))
      }
    }
  }
  await Promise.all(
    quotas.flatMap((quota) => Array.from({ length: clients }, (_, index) => client(quota, index))),
  )
  load.seconds = (performance.now() - begun) / 1000
  return load
}

const allQuotas = (cluster: Cluster) => cluster.nodes.flatMap((node) => node.quotas)

t.test('three nodes together accept no more than rate × time and one bucket, and hardly less', async (t) => {
  const cluster = await Cluster.open(t, 3)
  const pipeId = randomUUID()
  cluster.own(pipeId, cluster.nodes[0])
  const limits = limitsOf({})
  const { accepted, rejected, seconds } = await hammer(allQuotas(cluster), pipeId, limits, { refunds: 7 })
  const most = 1_000 * seconds + 1_000
  t.ok(accepted <= most, `${accepted} of ${most}`)
  t.ok(accepted > 0.5 * most, `${accepted} of ${most}`)
  t.ok(rejected > 0)
})

t.test('negative control: nodes that each count for themselves accept three times as much', async (t) => {
  const quotas = [0, 1, 2].map(() => createQuota({}, Date.now()))
  const { accepted, seconds } = await hammer(quotas, randomUUID(), limitsOf({}))
  t.ok(accepted > 2 * (1_000 * seconds + 1_000))
})

t.test('the limit holds while the owner is killed, gone, and replaced', async (t) => {
  const cluster = await Cluster.open(t, 4)
  const [dying, next, ...others] = cluster.nodes as [Node, Node, ...Node[]]
  const pipeId = randomUUID()
  cluster.own(pipeId, dying)
  const quotas = [next, ...others].flatMap((node) => node.quotas)
  const running = hammer(quotas, pipeId, limitsOf({}), { ms: 6_000 })
  const beside = hammer(dying.quotas, pipeId, limitsOf({}), { ms: 1_000 })
  const own = await beside
  await dying.kill()
  cluster.nodes.splice(cluster.nodes.indexOf(dying), 1)
  setTimeout(() => cluster.own(pipeId, next), 2_000)
  const { accepted, seconds } = await running
  const most = 1_000 * seconds + 1_000
  t.ok(accepted + own.accepted <= most, `${accepted} + ${own.accepted} of ${most}`)
  t.ok(accepted + own.accepted > 0.3 * most, `${accepted} + ${own.accepted} of ${most}`)
})

t.test('an owner that hands over takes nothing with it: the bucket is not full again', async (t) => {
  const cluster = await Cluster.open(t, 3)
  const pipeId = randomUUID()
  const limits = limitsOf({ pl_ingest_max_records_per_second: 10, pl_ingest_max_records_per_request: 500 })
  const reserve = (node: Node, records: number) =>
    node.quotas[0]!.reserve(pipeId, limits, { records, bytes: records }, Date.now())
  const [a, b, c] = cluster.nodes as [Node, Node, Node]
  cluster.own(pipeId, a)
  await reserve(a, 400)
  cluster.own(pipeId, b)
  await t.rejects(reserve(c, 200), { code: 'rate_limit_exceeded' })
  await reserve(c, 50)
  cluster.own(pipeId, c)
  await t.rejects(reserve(b, 100), { code: 'rate_limit_exceeded' })
  cluster.own(pipeId, a)
  await t.rejects(reserve(b, 100), { code: 'rate_limit_exceeded' }, 'also where it was before')
})

t.test('the quota of a day is used up to its last record by all nodes, and no further', async (t) => {
  const cluster = await Cluster.open(t, 3)
  const pipeId = randomUUID()
  cluster.own(pipeId, cluster.nodes[1])
  cluster.used.set(pipeId, { records: 500, bytes: 5_000 })
  const limits = limitsOf({
    pl_ingest_max_records_per_second: 100_000,
    pl_ingest_max_records_per_day: 5_500,
    pl_ingest_max_bytes_per_day: 55_005,
  })
  const { accepted } = await hammer(allQuotas(cluster), pipeId, limits, { ms: 1_500 })
  t.ok(accepted <= 5_000, `${accepted}`)
  // What nodes hold unused comes back after a second.
  let last = accepted
  const one = async () => {
    const reserved = cluster.nodes[0]!.quotas[0]!.reserve(
      pipeId,
      limits,
      { records: 1, bytes: 10 },
      Date.now(),
    )
    await reserved.then(() => {
      last += 1
    })
    return false
  }
  const error = await until('the day is over', () => one().catch((found: ApiError) => found))
  t.equal((error as ApiError).code, 'daily_quota_exceeded')
  await until('all came back', () => one().catch(() => last === 5_000))
  t.equal(last, 5_000)
  const refused = await cluster.nodes[2]!.quotas[0]!.reserve(
    pipeId,
    limits,
    { records: 1, bytes: 0 },
    Date.now(),
  ).catch((found: ApiError) => found)
  t.match(refused, { code: 'daily_quota_exceeded', details: { limit_value: 5_500 } })
  t.match((refused as ApiError).headers, { 'X-RateLimit-Remaining': '0' })
})

t.test('headers tell what is left over all nodes', async (t) => {
  const cluster = await Cluster.open(t, 2)
  const pipeId = randomUUID()
  cluster.own(pipeId, cluster.nodes[0])
  const limits = limitsOf({ pl_ingest_max_records_per_second: 1, pl_ingest_max_records_per_request: 100 })
  const reserve = (node: Node, records: number) =>
    node.quotas[0]!.reserve(pipeId, limits, { records, bytes: 1 }, Date.now())
  t.match((await reserve(cluster.nodes[0]!, 60)).state, { limit: 1, remaining: 40 })
  const { state } = await reserve(cluster.nodes[1]!, 30)
  t.ok(state.remaining >= 9 && state.remaining <= 40, `${state.remaining}`)
  const refused = await reserve(cluster.nodes[1]!, 50).catch((error: ApiError) => error)
  t.match(refused, { code: 'rate_limit_exceeded', details: { limit: 'pl_ingest_max_records_per_second' } })
})

t.test(
  'without an owner ever: the share of a node, never more, and nothing where nobody knows the day',
  async (t) => {
    const cluster = await Cluster.open(t, 2)
    const pipeId = randomUUID()
    const { accepted, seconds } = await hammer(cluster.nodes[0]!.quotas, pipeId, limitsOf({}), { ms: 1_500 })
    t.ok(accepted <= 500 * seconds, `${accepted}`)
    t.ok(accepted > 100, `${accepted}`)
    cluster.used.set(pipeId, { records: 10, bytes: 10 })
    const other = randomUUID()
    cluster.used.set(other, { records: 90, bytes: 0 })
    const daily = limitsOf({ pl_ingest_max_records_per_day: 100 })
    const ofDay = await hammer(cluster.nodes[0]!.quotas, other, daily, { ms: 500 })
    t.ok(ofDay.accepted <= 5, `half of the ten that are left: ${ofDay.accepted}`)
  },
)

t.test('a new day begins with all of its quota, and what is left of a block is not of it', async (t) => {
  const cluster = await Cluster.open(t, 2)
  const pipeId = randomUUID()
  cluster.own(pipeId, cluster.nodes[0])
  const limits = limitsOf({ pl_ingest_max_records_per_day: 100 })
  const reserve = (records: number) =>
    cluster.nodes[1]!.quotas[0]!.reserve(pipeId, limits, { records, bytes: 1 }, cluster.now())
  await reserve(100)
  await t.rejects(reserve(1), { code: 'daily_quota_exceeded' })
  cluster.clockOffsetMs = 86_400_000
  await reserve(100)
  await t.rejects(reserve(1), { code: 'daily_quota_exceeded' })
})

t.test(
  'strangers: what is no question of a node is refused, what is no news of an owner ignored',
  async (t) => {
    const cluster = await Cluster.open(t, 2)
    const [a, b] = cluster.nodes as [Node, Node]
    const pipeId = randomUUID()
    cluster.own(pipeId, b)
    const limits = limitsOf({})
    const none = { records: 0, bytes: 0 }
    const ask = {
      ...{ need: { records: 1, bytes: 1 }, spare: none, heldRecords: 0, debt: none },
      ...{ returned: { ...none, dayStartMs: 0 }, counted: { ...none, dayStartMs: 0 } },
    }
    const asker = `${a.nodeId}/0`
    const wrong: unknown[][] = [
      [],
      ['someone/0', pipeId, limits, ask],
      [asker, 'no-uuid', limits, ask],
      [asker, pipeId, { ...limits, pl_ingest_max_records_per_second: -1 }, ask],
      [asker, pipeId, limits, { ...ask, need: { records: -5, bytes: 0 } }],
      [asker, pipeId, limits, { ...ask, debt: { records: 1e300, bytes: 0 } }],
      [asker, pipeId, limits, null],
    ]
    for (const args of wrong) {
      const error = await a.link.requests.request(b.nodeId, 'quota.ask', args).catch((found) => found)
      t.equal(error.reason, 'bad_request')
    }
    const moved = await b.link.requests
      .request(a.nodeId, 'quota.ask', [`${b.nodeId}/0`, pipeId, limits, ask])
      .catch((found) => found)
    t.equal(moved.reason, 'not_owner')
    const { value } = await a.link.requests.request(b.nodeId, 'quota.ask', [asker, pipeId, limits, ask])
    t.match(value, { records: 1, bytes: 1 })
  },
)
