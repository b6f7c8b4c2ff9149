/**
 * A standby that follows the replica and takes over: by hand, and by itself after the primary was paused. The old primary
 * stops when it finds the slot of the other. Negative control: a store that ignores the condition of a creation lets both go on.
 */
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { type BucketServer, startBucketServer } from '../support/bucket-server.ts'
import { spawnCli } from '../support/cli.ts'
import { makeDataDir, startDaemon, TestDaemon } from '../support/daemon.ts'
import { readAll } from '../support/ledger.ts'
import { replicaEnv } from '../support/replica.ts'
import { until } from '../support/until.ts'

type Tap = { teardown(fn: () => unknown): void }

async function openPair(t: Tap, extra: Record<string, string>) {
  const server = await startBucketServer()
  t.teardown(() => server.stop())
  const env = replicaEnv(server, { PIPECTL_REPLICA_MODE: 'sync', ...extra })
  const primary = await startDaemon({ env })
  t.teardown(() => primary.close())
  const keys = mkdtempSync(path.join(tmpdir(), 'pipectl-key-'))
  t.teardown(() => rmSync(keys, { recursive: true }))
  const keyFile = path.join(keys, 'sealing.key')
  copyFileSync(path.join(primary.dataDir, 'sealing.key'), keyFile)
  const pipeId = await primary.createPipe({ pipe_name: 'events' })
  const pullId = await primary.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
    start_from: 'earliest',
  })
  const dataDir = makeDataDir()
  const standby = new TestDaemon({
    dataDir,
    env,
    args: ['--standby', env.PIPECTL_REPLICA_URL!, '--key-file', keyFile],
  })
  t.teardown(async () => {
    await standby.close()
    rmSync(path.dirname(dataDir), { recursive: true, force: true })
  })
  standby.apiKey = primary.apiKey
  const started = standby.start()
  started.catch(() => {})
  await until('it follows', () => standby.log.some(({ msg }) => msg === 'standby.following'), {
    timeoutMs: 60_000,
  })
  return { server, env, primary, standby, started, pipeId, pullId, dataDir }
}

function slots(server: BucketServer): number {
  return [...server.objects.keys()].filter((name) => name.includes('/log/')).length
}

t.test('a standby takes over when it is promoted, and the primary stops', async (t) => {
  const { env, primary, standby, started, pipeId, pullId, dataDir } = await openPair(t, {})
  for (let n = 0; n < 20; n += 1) await primary.ingest(pipeId, [{ n }])
  const promoted = await spawnCli(['promote', '--data-dir', dataDir], { env })
  t.equal(promoted.code, 0, promoted.stderr)
  await started
  t.equal(await primary.exit, 78, 'the primary ends at its next slot')
  t.ok(primary.log.some(({ msg }) => msg === 'replica.replaced'))
  await t.rejects(primary.start(), 'it does not start again')
  const { numbers } = await readAll(standby, pullId)
  t.same(
    numbers,
    Array.from({ length: 20 }, (_, n) => n),
    'everything that was acknowledged is there, in order',
  )
  await standby.ingest(pipeId, [{ n: 20 }])
  t.same((await readAll(standby, pullId)).numbers.at(-1), 20)
})

t.test('a paused primary is taken over, and acknowledges nothing when it wakes up', async (t) => {
  const auto = {
    PIPECTL_REPLICA_AUTO_PROMOTE: 'true',
    PIPECTL_REPLICA_HEARTBEAT: '1s',
    PIPECTL_REPLICA_MODE: 'async',
  }
  const { server, primary, standby, started, pipeId, pullId } = await openPair(t, auto)
  const before = slots(server)
  await primary.ingest(pipeId, [{ n: 1 }])
  await until('it is in a slot, and a heartbeat follows', () => slots(server) > before + 1)
  primary.signal('SIGSTOP')
  await started
  const waiting = primary.ingest(pipeId, [{ n: 2 }])
  const failure = t.rejects(waiting, 'a request that arrives in the pause is not acknowledged')
  primary.signal('SIGCONT')
  await failure
  t.equal(await primary.exit, 78)
  await standby.ingest(pipeId, [{ n: 3 }])
  t.same((await readAll(standby, pullId)).numbers, [1, 3])
})

t.test('negative control: a store without conditions does not stop the primary', async (t) => {
  const { server, env, primary, started, pipeId, dataDir } = await openPair(t, {})
  await primary.ingest(pipeId, [{ n: 1 }])
  // The probe of the start has passed.
  server.behaviour.conditions = 'ignored'
  const promoted = await spawnCli(['promote', '--data-dir', dataDir], { env })
  t.equal(promoted.code, 0, promoted.stderr)
  started.catch(() => {})
  for (let n = 2; n < 6; n += 1) await primary.ingest(pipeId, [{ n }])
  t.equal(await Promise.race([primary.exit, 'runs']), 'runs', 'it goes on acknowledging')
})

t.test('a store that ignores the condition of a creation is rejected at the start', async (t) => {
  const server = await startBucketServer()
  t.teardown(() => server.stop())
  server.behaviour.conditions = 'ignored'
  await t.rejects(startDaemon({ env: replicaEnv(server) }), /replica.store_unfit/)
  const doctor = async () => {
    const { stdout } = await spawnCli(['doctor', '-o', 'json'], { env: replicaEnv(server) })
    return JSON.parse(stdout).checks.find(({ name }: { name: string }) => name === 'replica')
  }
  t.match(await doctor(), { result: 'fail', next: /another object store/ })
  server.behaviour.conditions = 'supported'
  t.match(await doctor(), { result: 'ok', detail: /^s3:\/\/replica\/pipectl\// })
})
