/** What the service says about its replica: `replica status`, `status`, the overview and the metrics. */
import t from 'tap'
import type { PrivacyJob } from '../../src/contract/privacy.ts'
import type { ReplicaFacts } from '../../src/contract/replica-facts.ts'
import { spawnCli } from '../support/cli.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { replicated } from '../support/replica.ts'
import { openReplicaWorld } from '../support/replica-world.ts'
import { until } from '../support/until.ts'

async function replicaOf(daemon: TestDaemon) {
  const { body } = await daemon.api('GET', '/v1/overview')
  return (body as { service: { replica: ReplicaFacts } }).service.replica
}

t.test('the state of a replica, before and after a verification, and while the bucket is away', async (t) => {
  const world = await openReplicaWorld(t, { PIPECTL_REPLICA_HEARTBEAT: '2s' })
  const { daemon, server, env, send } = world
  const cli = (...args: string[]) =>
    spawnCli(args, { env: { ...env, PIPECTL_URL: daemon.url, PIPECTL_API_KEY: daemon.apiKey } })
  const replica = () => replicaOf(daemon)
  await send(20)
  await replicated(daemon)
  await until('the objects are counted', async () => (await replica()).stored_objects !== null)
  const found = await replica()
  t.match(found, {
    ...{ replica_state: 'ok', replica_mode: 'async', generation: 1, error_code: null, verified: null },
    snapshot_ts: /^\d{4}-/,
  })
  t.ok(found.slot > 0 && (found.stored_bytes ?? 0) > 0 && found.sent_bytes > 0)
  t.ok(found.requests.put > 1 && found.requests_per_day.put > found.requests.put)
  t.notMatch(JSON.stringify(found), /s3:|127\.0\.0\.1/, 'it does not name the bucket')
  t.match(await cli('replica', 'status', '--check'), {
    code: 0,
    stdout:
      /state +ok, \d+s behind[\s\S]+last verified restore +never verified[\s\S]+stored +.+ in \d+ objects/,
  })
  t.match(await cli('status'), { stdout: /replica +ok, \d+s behind, snapshot .+ ago, never verified/ })
  t.match(await cli('replica', 'verify', '--data-dir', daemon.dataDir), { code: 0 })
  t.match((await replica()).verified, { result: 'ok', messages: 20, problems: 0 })
  t.match(await cli('replica', 'status'), { stdout: /last verified restore +verified \d+s ago/ })
  const metrics = await (await fetch(daemon.metricsUrl)).text()
  t.match(metrics, /^pipectl_replica_verified_timestamp_seconds 1\d{9}/m)
  t.match(metrics, /^pipectl_replica_stored_objects [1-9]/m)
  const keys = [{ path: 'n', value: '1' }]
  const job = await daemon.api<{ job_id: string }>('POST', '/v1/privacy/jobs', { kind: 'find', keys })
  const remaining = await until('the search has ended', async () => {
    const { body } = await daemon.api<PrivacyJob>('GET', `/v1/privacy/jobs/${job.body.job_id}`)
    return body.state === 'done' ? body.remaining : null
  })
  t.match(
    remaining.map(({ kind }) => kind),
    ['destination', 'backup', 'replica', 'log'],
    'a search for personal data names the replica',
  )
  server.fail({ fault: { status: 503, code: 'SlowDown' }, times: 100_000 })
  await send(1)
  await until('it is failing', async () => (await replica()).replica_state === 'failing')
  t.match(await replica(), { error_code: 'SlowDown', failing_since_ts: /^\d{4}-/ })
  t.match(await cli('replica', 'status'), { code: 0, stdout: /state +failing \(SlowDown\)/ })
})

t.test('a service without a replica says so', async (t) => {
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  t.equal(await replicaOf(daemon), null)
  const env = { PIPECTL_URL: daemon.url, PIPECTL_API_KEY: daemon.apiKey }
  t.match(await spawnCli(['replica', 'status'], { env }), { code: 3, stderr: /has no replica/ })
  t.notMatch(await spawnCli(['status'], { env }), { stdout: /replica/ })
})
