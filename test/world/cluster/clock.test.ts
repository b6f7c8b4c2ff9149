/** The wall clock of a node jumps, over midnight too: limits go by PostgreSQL's day and by the monotonic clock. */
import t from 'tap'
import { fullLimits } from '../../api/management-client.ts'
import { startCluster, type TestNode } from '../../support/cluster.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { until } from '../../support/until.ts'

const clock = fakeClock(t)
const cluster = await startCluster({ env: clock.env })
t.teardown(() => cluster.close())
const [node] = cluster.nodes as [TestNode]

async function limitedPipe(limits: Partial<typeof fullLimits>): Promise<string> {
  const pipe = await node.createPipe({ pipe_name: `limited_${Object.keys(limits)[0]}` })
  const { status } = await node.api('PUT', `/v1/pipes/${pipe}/limits`, { ...fullLimits, ...limits })
  t.equal(status, 200)
  return pipe
}

async function jump(seconds: number): Promise<void> {
  clock.set(seconds)
  // The header is made from the clock itself: that of the body is corrected by the database's once a minute.
  await until('the node sees the new time', async () => {
    const { headers } = await node.api('GET', '/v1/health', undefined, { key: null })
    return Math.abs(Date.parse(String(headers.date)) - (Date.now() + seconds * 1000)) < 60_000
  })
}

/** Sends one record after the other until one is rejected. Returns how many were accepted, and the error. */
async function spend(pipe: string, most: number): Promise<{ accepted: number; error: string | null }> {
  for (let accepted = 0; accepted < most; accepted += 1) {
    const { status, body } = await node.api('POST', `/v1/ingest/${pipe}`, [{ n: accepted }])
    if (status !== 202) return { accepted, error: String(body.error) }
  }
  return { accepted: most, error: null }
}

const day = 86_400
const jumps = [day, -day, 400 * day, 0]

t.test('the quota of a day is counted on, whatever day the node believes in', async (t) => {
  const pipe = await limitedPipe({ pl_ingest_max_records_per_day: 100 })
  t.same(await spend(pipe, 60), { accepted: 60, error: null })
  await jump(day)
  t.same(await spend(pipe, 200), { accepted: 40, error: 'daily_quota_exceeded' })
  for (const seconds of jumps.slice(1)) {
    await jump(seconds)
    t.same(await spend(pipe, 5), { accepted: 0, error: 'daily_quota_exceeded' }, `at ${seconds} s`)
  }
})

t.test('a jump fills no bucket', async (t) => {
  const perSecond = 2
  const burst = 10
  const pipe = await limitedPipe({
    pl_ingest_max_records_per_second: perSecond,
    pl_ingest_max_records_per_request: burst,
  })
  let accepted = 0
  const startedMs = performance.now()
  for (const seconds of jumps) {
    const used = await spend(pipe, 1_000)
    t.equal(used.error, 'rate_limit_exceeded')
    accepted += used.accepted
    await jump(seconds)
  }
  accepted += (await spend(pipe, 1_000)).accepted
  // The share of a node that starts to ask may reach the rate a second late, never early: docs/dev/contract.md#quotas.
  const most = burst + perSecond * ((performance.now() - startedMs) / 1000 + 3)
  t.ok(accepted <= most, `${accepted} of at most ${most}`)
})
