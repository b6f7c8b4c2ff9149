/** `pipectl doctor` on a node of a cluster: what its servers are, what prevents a start, and what a 202 means. */
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import type { Check } from '../../../src/maintenance/check.ts'
import { setUpDataDir } from '../../../src/maintenance/data-dir.ts'
import { diagnose } from '../../../src/maintenance/doctor.ts'
import { loadSettings } from '../../../src/settings/config.ts'
import { announcing } from '../../support/announced-version.ts'
import { startNats } from '../../support/nats.ts'
import { startPostgres } from '../../support/postgres.ts'

const [postgres, nats, small] = await Promise.all([
  startPostgres(),
  startNats({ maxPayload: 16 * 1024 * 1024, auth: { user: 'me', password: 's3cret-word' } }),
  startNats(),
])
t.teardown(() => Promise.all([postgres.stop(), nats.stop(), small.stop()]))
const url = (database: string) =>
  `postgres://postgres:${postgres.password}@127.0.0.1:${postgres.port}/${database}`

function settingsOf(dataDir: string, env: Record<string, string> = {}) {
  const variables = {
    PIPECTL_METADATA_URL: url('postgres'),
    PIPECTL_BUFFER_NATS: nats.url,
    PIPECTL_NODE_NAME: 'a',
  }
  return loadSettings({ env: { ...variables, PIPECTL_DATA_DIR: dataDir, ...env } }).settings
}

async function checksOf(
  settings: ReturnType<typeof settingsOf>,
): Promise<(name: string) => Check | undefined> {
  const checks = await diagnose(settings, {})
  const shown = JSON.stringify(checks)
  if (shown.includes(postgres.password) || shown.includes('s3cret-word')) throw new Error(shown)
  return (name) => checks.find((one) => one.name === name)
}

t.test('before and after the set-up', async (t) => {
  const settings = settingsOf(`${t.testdir()}/a`)
  const before = await checksOf(settings)
  t.match(before('PostgreSQL'), {
    result: 'warn',
    detail: /it contains no pipectl data/,
    next: /pipectl init/,
  })
  t.match(before('data directory'), { result: 'ok', detail: /the daemon creates/ })
  t.match(before('sealing key'), { result: 'ok' })
  t.equal(before('disk space'), undefined, 'nothing is stored on this host')

  await setUpDataDir(settings, {})
  const after = await checksOf(settings)
  t.match(after('PostgreSQL'), {
    result: 'ok',
    detail: /^PostgreSQL database postgres at .*, version 1\d.*, 1 workspace$/,
  })
  t.match(after('synchronous_commit'), { result: 'ok', detail: 'is on' })
  t.match(after('clock'), { result: 'ok' })
  t.match(after('sealing key'), { result: 'ok', detail: /belongs to the cluster/ })
  t.match(after('nodes'), { result: 'ok', detail: 'none is running; this one is a of cluster pipectl' })
  t.match(after('NATS'), { result: 'ok', detail: /^nats-server \d+\.\d+\.\d+ at nats:/ })
  t.match(after('max_payload'), { result: 'ok' })
  t.match(after('JetStream'), { result: 'ok', detail: /creates the stream pipectl-pipectl/ })
  t.match(after('what 202 means'), {
    result: 'warn',
    detail: /power cut .* sync_interval/,
    next: /replicas = 3/,
  })
})

t.test('what prevents a start is a failed check', async (t) => {
  await postgres.query('CREATE DATABASE wrong')
  await setUpDataDir(settingsOf(`${t.testdir()}/first`, { PIPECTL_METADATA_URL: url('wrong') }), {})
  await postgres.query('ALTER DATABASE wrong SET synchronous_commit = off')
  const other = `${t.testdirName}/other`
  mkdirSync(other, { mode: 0o700 })
  const env = { PIPECTL_METADATA_URL: url('wrong'), PIPECTL_BUFFER_NATS: small.url }
  const missing = await checksOf(settingsOf(other, env))
  t.match(missing('synchronous_commit'), { result: 'fail' })
  t.match(missing('sealing key'), { result: 'fail', detail: /copy sealing\.key of the first node/ })
  t.match(missing('max_payload'), { result: 'fail', next: /max_payload: \d+/ })
  writeFileSync(path.join(other, 'sealing.key'), Buffer.alloc(32, 1), { mode: 0o600 })
  t.match((await checksOf(settingsOf(other, env)))('sealing key'), {
    result: 'fail',
    detail: /does not belong to the cluster/,
  })
  const away = await checksOf(
    settingsOf(other, {
      PIPECTL_METADATA_URL: 'postgres://me:s3cret-word@127.0.0.1:1/x',
      PIPECTL_BUFFER_NATS: 'nats://127.0.0.1:1',
    }),
  )
  t.match(away('PostgreSQL'), { result: 'fail', detail: /ECONNREFUSED/ })
  t.match(away('NATS'), { result: 'fail', detail: /no server responds at nats:\/\/127\.0\.0\.1:1/ })
})

t.test('three replicas and the versions of their servers', async (t) => {
  const three = await startNats({ replicas: 3, maxPayload: 16 * 1024 * 1024 })
  t.teardown(() => three.stop())
  const [first, second, third] = three.servers
  const old = await announcing(t, second!.port, '2.9.10')
  const withServers = (servers: string[]) =>
    settingsOf(`${t.testdir()}/a`, {
      PIPECTL_BUFFER_NATS: servers.join(','),
      PIPECTL_CLUSTER_REPLICAS: '3',
      PIPECTL_CLUSTER_NAME: 'versions',
    })
  const all = await checksOf(withServers(three.url.split(',')))
  t.match(all('NATS versions'), { result: 'ok', detail: /^\d+\.\d+\.\d+$/ })
  t.match(all('what 202 means'), { result: 'ok', detail: /two of three .* sync_interval: always/ })
  const before = await checksOf(withServers([first!.url, old, third!.url]))
  t.match(before('NATS versions'), {
    result: 'fail',
    detail: /is nats-server 2\.9\.10: three replicas need .* does not start/,
    next: /cluster\.replicas = 1/,
  })
  const connection = await three.connect()
  await (await jetstreamManager(connection)).streams.add({
    name: 'pipectl-versions',
    subjects: ['pipectl.versions.buffer.>'],
    num_replicas: 3,
  })
  await connection.close()
  const after = await checksOf(withServers([first!.url, old, 'nats://127.0.0.1:1']))
  t.match(after('NATS versions'), {
    result: 'warn',
    detail: /three replicas need/,
    next: /one after the other/,
  })
  const silent = await checksOf(withServers([first!.url, 'nats://127.0.0.1:1']))
  t.match(silent('NATS versions'), { result: 'warn', detail: /; unknown for nats:\/\/127\.0\.0\.1:1$/ })
})

t.test("two hosts with one node's name", async (t) => {
  await postgres.query('CREATE DATABASE names')
  const settings = settingsOf(`${t.testdir()}/a`, { PIPECTL_METADATA_URL: url('names') })
  await setUpDataDir(settings, {})
  const { default: pg } = await import('pg')
  const client = new pg.Client({ connectionString: url('names') })
  await client.connect()
  const add = (id: string) =>
    client.query(
      `INSERT INTO cluster_nodes (lease_id, node_id, node_name, node_version, started_ms, expires_ms, seen_change, is_draining)
       VALUES ($1, $1, 'a', '1', 0, extract(epoch FROM now()) * 1000 + 60000, 0, 0)`,
      [id],
    )
  await add('1')
  t.match((await checksOf(settings))('nodes'), {
    result: 'warn',
    detail: /another node already has the name a/,
  })
  await add('2')
  t.match((await checksOf(settings))('nodes'), { result: 'warn', detail: /^2 nodes have the name a$/ })
  await client.end()
})
