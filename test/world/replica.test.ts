/**
 * The replica under faults of the store: lost responses, throttling, cut uploads, an outage; what is removed from the bucket; and
 * restores of an earlier moment, with another key, and that are interrupted.
 */
import { copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
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

async function openWorld(t: Tap, extra: Record<string, string> = {}) {
  const server = await startBucketServer()
  t.teardown(() => server.stop())
  const env: Record<string, string> = {
    ...replicaEnv(server, extra),
    PIPECTL_BUFFER_SEGMENT_MAX_BYTES: '64KiB',
  }
  const daemon = await startDaemon({ env })
  t.teardown(() => daemon.close())
  const keys = mkdtempSync(path.join(tmpdir(), 'pipectl-key-'))
  t.teardown(() => rmSync(keys, { recursive: true }))
  const keyFile = path.join(keys, 'sealing.key')
  copyFileSync(path.join(daemon.dataDir, 'sealing.key'), keyFile)
  const pipeId = await daemon.createPipe({ pipe_name: 'events' })
  const pullId = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
    start_from: 'earliest',
  })
  let sent = 0
  const send = async (count: number) => {
    for (const end = sent + count; sent < end; )
      await daemon.ingest(pipeId, [{ n: sent++, text: 'x'.repeat(500) }])
  }
  return { server, env, daemon, keyFile, pipeId, pullId, send }
}

type World = Awaited<ReturnType<typeof openWorld>>

async function restore({ env, keyFile }: World, dataDir: string, ...args: string[]) {
  const from = ['restore', '--from', env.PIPECTL_REPLICA_URL!, '--key-file', keyFile, '--data-dir', dataDir]
  return await spawnCli([...from, ...args], { env })
}

/** The numbers in a restored copy, whose daemon has no replica. */
async function numbersIn(t: Tap, world: World, ...args: string[]): Promise<number[]> {
  const dataDir = makeDataDir()
  t.teardown(() => rmSync(path.dirname(dataDir), { recursive: true, force: true }))
  const { code, stderr } = await restore(world, dataDir, ...args)
  if (code !== 0) throw new Error(stderr)
  const copy = new TestDaemon({ dataDir })
  copy.apiKey = world.daemon.apiKey
  await copy.start()
  t.teardown(() => copy.close())
  return (await readAll(copy, world.pullId)).numbers
}

const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)

function names({ objects }: BucketServer, part: string): string[] {
  return [...objects.keys()].filter((name) => name.includes(`/${part}/`)).sort()
}

t.test('a store that fails in every way loses and repeats nothing', async (t) => {
  const world = await openWorld(t, { PIPECTL_REPLICA_MODE: 'sync', PIPECTL_REPLICA_TIMEOUT: '30s' })
  const { server, send } = world
  await send(5)
  server.fail(
    { kind: 'create', fault: 'lost_response', times: 3 },
    { kind: 'create', fault: 'cut_upload', after: 4, times: 2 },
    {
      kind: 'create',
      fault: { status: 503, code: 'SlowDown', headers: { 'retry-after': '0' } },
      after: 8,
      times: 3,
    },
    { kind: 'create', fault: { status: 500, code: 'InternalError' }, after: 12, times: 2 },
    { kind: 'create', fault: { status: 409, code: 'ConditionalRequestConflict' }, after: 15, times: 2 },
    { kind: 'put', fault: 'lost_response' },
  )
  await send(150)
  t.same(await numbersIn(t, world), upTo(155))
})

t.test('an outage: async ingest goes on, and the replica catches up', async (t) => {
  const world = await openWorld(t)
  const { server, daemon, send } = world
  await send(10)
  server.fail({ fault: { status: 503, code: 'SlowDown' }, times: 100_000 })
  await send(300)
  await until('it says so', () => daemon.log.some(({ msg }) => msg === 'replica.failing'))
  const metrics = await (await fetch(daemon.metricsUrl)).text()
  t.match(metrics, /^pipectl_replica_failing 1$/m)
  server.recover()
  await until('it has recovered', () => daemon.log.some(({ msg }) => msg === 'replica.recovered'), {
    timeoutMs: 60_000,
  })
  await daemon.stop()
  t.same(await numbersIn(t, world), upTo(310))
})

t.test('an outage: sync requests are rejected with their reason, until the bucket is back', async (t) => {
  const world = await openWorld(t, { PIPECTL_REPLICA_MODE: 'sync', PIPECTL_REPLICA_TIMEOUT: '1s' })
  const { server, daemon, pipeId, send } = world
  await send(3)
  const strict = await daemon.createPipe({
    pipe_name: 'strict',
    pipe_schema: { type: 'object', properties: { n: { type: 'number' } } },
    pipe_schema_on_mismatch: 'park',
  })
  server.fail({ fault: { status: 503, code: 'SlowDown' }, times: 100_000 })
  const post = () => daemon.api('POST', `/v1/ingest/${pipeId}`, [{ n: -1 }])
  const first = await post()
  t.match(first, {
    status: 503,
    body: { error: 'buffer_unavailable', details: { reason: 'not_replicated' } },
  })
  t.match(await post(), { status: 503 }, 'the next one does not wait')
  const mismatch = await daemon.api('POST', `/v1/ingest/${strict}`, [{ n: 'text' }])
  t.match(
    mismatch,
    { status: 503, body: { details: { reason: 'not_replicated' } } },
    'neither is it parked only here',
  )
  const change = await daemon.api('PATCH', `/v1/pipes/${pipeId}`, { pipe_description: 'changed' })
  t.match(change, { status: 503, body: { error: 'storage_unavailable', message: /not in the replica/ } })
  server.recover()
  await until('it accepts again', async () => (await post()).status === 202, { timeoutMs: 60_000 })
  const numbers = await numbersIn(t, world)
  t.same(
    numbers.filter((n) => n >= 0),
    upTo(3),
  )
  t.ok(numbers.includes(-1))
})

t.test('what no snapshot needs is removed, and each start stores a snapshot', async (t) => {
  const world = await openWorld(t)
  const { server, daemon, send } = world
  for (let start = 1; start <= 4; start += 1) {
    await send(200)
    await daemon.stop()
    await daemon.start()
    const stored = () => daemon.log.filter(({ msg }) => msg === 'replica.snapshot_stored').length
    await until(`snapshot of start ${start}`, () => stored() > start)
  }
  await until('two snapshots are left', () => names(server, 'snapshots').length === 2)
  t.ok(names(server, 'segments').length > 2, 'sealed segments are objects')
  const slots = names(server, 'log')
  t.not(slots[0]?.endsWith('00001'), true, 'the first slots are gone')
  await daemon.stop()
  t.same(await numbersIn(t, world), upTo(800))
})

t.test('a restore of an earlier moment, with another key, into a directory in use', async (t) => {
  const world = await openWorld(t)
  const { server, daemon, send, env } = world
  await until('there is a snapshot', () => names(server, 'snapshots').length > 0)
  await send(20)
  await daemon.stop()
  const atMs = Date.now()
  await daemon.start()
  await send(20)
  await daemon.stop()
  t.same(await numbersIn(t, world, '--at', new Date(atMs).toISOString()), upTo(20))
  t.same(await numbersIn(t, world), upTo(40))
  const dataDir = makeDataDir()
  t.teardown(() => rmSync(path.dirname(dataDir), { recursive: true, force: true }))
  const other = path.join(path.dirname(dataDir), 'other.key')
  writeFileSync(other, Buffer.alloc(32, 7), { mode: 0o600 })
  const wrong = await restore({ ...world, keyFile: other }, dataDir)
  t.match(wrong, { code: 78, stderr: /sealed with another key/ })
  t.notOk(existsSync(dataDir), 'nothing was made')
  t.match(await restore(world, daemon.dataDir), { code: 5, stderr: /is not empty; nothing was changed/ })
  const past = await restore(world, dataDir, '--at', '2020-01-01T00:00:00Z')
  t.match(past, { code: 1, stderr: /the oldest snapshot is of/ })
  const nowhere = await spawnCli(
    [
      'restore',
      '--from',
      `s3://${server.account.bucket}/nothing`,
      '--key-file',
      world.keyFile,
      '--data-dir',
      dataDir,
    ],
    { env },
  )
  t.match(nowhere, { code: 1, stderr: /there is no snapshot/ })
})

t.test('a restore that fails continues where it was', async (t) => {
  const world = await openWorld(t)
  const { server, daemon, send } = world
  await send(400)
  await until('segments are stored', () => names(server, 'segments').length > 2)
  await daemon.stop()
  await daemon.start()
  await until('a snapshot names them', () => names(server, 'snapshots').length > 1)
  await daemon.stop()
  const dataDir = makeDataDir()
  t.teardown(() => rmSync(path.dirname(dataDir), { recursive: true, force: true }))
  const last = names(server, 'segments').at(-1)!
  server.fail({ kind: 'get', below: last, fault: { status: 403, code: 'AccessDenied' } })
  const failed = await restore(world, dataDir)
  t.match(failed, { code: 1, stderr: /run the same command again: it continues/ })
  const before = server.counts.get
  t.match(await restore(world, dataDir), { code: 0 })
  t.ok(server.counts.get > before)
  t.ok(existsSync(path.join(dataDir, 'metadata.db')))
})
