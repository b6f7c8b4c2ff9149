/**
 * A primary that is paused in the middle of a removal wakes up after a takeover (the table of src/replica/keeper.ts): within its
 * listing, which then has the objects of its successor, and between two removals. Its successor misses nothing.
 */
import { rmSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import type { FaultRule } from '../support/bucket-server.ts'
import { spawnCli } from '../support/cli.ts'
import { makeDataDir, TestDaemon } from '../support/daemon.ts'
import { readAll } from '../support/ledger.ts'
import { replicated } from '../support/replica.ts'
import { openReplicaWorld, type ReplicaWorld } from '../support/replica-world.ts'
import { until } from '../support/until.ts'

type Tap = Parameters<typeof openReplicaWorld>[0]

const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)

/** The numbers in a restored copy, whose daemon has no replica. */
async function numbersIn(
  t: Tap,
  { env, daemon, pullId }: ReplicaWorld,
  from: { url: string; keyFile: string },
): Promise<number[]> {
  const dataDir = makeDataDir()
  t.teardown(() => rmSync(path.dirname(dataDir), { recursive: true, force: true }))
  const args = ['restore', '--from', from.url, '--key-file', from.keyFile, '--data-dir', dataDir]
  const { code, stderr } = await spawnCli(args, { env })
  if (code !== 0) throw new Error(stderr)
  const copy = new TestDaemon({ dataDir })
  copy.apiKey = daemon.apiKey
  await copy.start()
  t.teardown(() => copy.close())
  return (await readAll(copy, pullId)).numbers
}

const snapshots = (of: TestDaemon) => of.log.filter(({ msg }) => msg === 'replica.snapshot_stored').length

/** A primary that has stored four snapshots and removed nothing yet, stopped. */
async function openUnremoved(t: Tap) {
  const world = await openReplicaWorld(t)
  const { daemon, server, env, send } = world
  const refused: FaultRule = {
    kind: 'delete',
    below: '/snapshots/',
    fault: { status: 503, code: 'SlowDown' },
  }
  server.fail({ ...refused, times: 100_000 })
  await until('a snapshot is stored', () => snapshots(daemon) > 0)
  for (let start = 1; start <= 3; start += 1) {
    await send(100)
    await daemon.stop()
    await daemon.start()
    await until(`snapshot of start ${start}`, () => snapshots(daemon) > start)
  }
  await daemon.stop()
  server.recover()
  // It creates no slot by itself after the one that proves that it has the log.
  const old = new TestDaemon({ dataDir: daemon.dataDir, env: { ...env, PIPECTL_REPLICA_INTERVAL: '60s' } })
  old.apiKey = daemon.apiKey
  t.teardown(() => old.close())
  return { ...world, old }
}

/** Starts the successor of a paused primary, which stores ten messages and a snapshot. */
async function takeOver(t: Tap, { env, daemon, keyFile, pipeId, server }: ReplicaWorld): Promise<TestDaemon> {
  const dataDir = makeDataDir()
  const args = ['--standby', env.PIPECTL_REPLICA_URL!, '--key-file', keyFile]
  const standby = new TestDaemon({ dataDir, env, args })
  t.teardown(async () => {
    await standby.close()
    rmSync(path.dirname(dataDir), { recursive: true, force: true })
  })
  standby.apiKey = daemon.apiKey
  const started = standby.start()
  started.catch(() => {})
  await until('it follows', () => standby.log.some(({ msg }) => msg === 'standby.following'), {
    timeoutMs: 60_000,
  })
  const promoted = await spawnCli(['promote', '--data-dir', dataDir], { env })
  if (promoted.code !== 0) throw new Error(promoted.stderr)
  await started
  for (let n = 300; n < 310; n += 1) await standby.ingest(pipeId, [{ n, text: 'x' }])
  await until('it has stored a snapshot', () => snapshots(standby) > 0)
  await replicated(standby)
  await until(
    'it has removed what it does not need',
    () => [...server.objects.keys()].filter((name) => name.includes('/snapshots/')).length === 2,
  )
  return standby
}

async function isComplete(t: Tap, world: ReplicaWorld, successor: TestDaemon): Promise<boolean> {
  await replicated(successor)
  await successor.stop()
  const numbers = await numbersIn(t, world, { url: world.env.PIPECTL_REPLICA_URL!, keyFile: world.keyFile })
  return numbers.join() === upTo(310).join()
}

t.test('paused within its listing, it removes nothing of its successor', async (t) => {
  const world = await openUnremoved(t)
  const { server, old } = world
  // The first listing of segments is for the upload.
  server.fail({ kind: 'list', below: '/segments/', after: 1, fault: 'hold' })
  await old.start()
  await until('it lists what it can remove', () => server.held() > 0, { timeoutMs: 60_000 })
  t.equal(snapshots(old), 1, 'its snapshot is stored')
  old.signal('SIGSTOP')
  const successor = await takeOver(t, world)
  const removed = server.counts.delete
  const created = server.counts.create
  server.recover()
  old.signal('SIGCONT')
  await until('it tries to prove that it has the log', () => server.counts.create > created)
  t.ok(await isComplete(t, world, successor))
  t.equal(server.counts.delete, removed, 'it has removed nothing')
})

t.test('paused between two removals, it removes only what its successor does not need', async (t) => {
  const world = await openUnremoved(t)
  const { server, old } = world
  server.fail({ kind: 'delete', below: '/snapshots/', fault: 'hold' })
  await old.start()
  await until('it removes', () => server.held() > 0, { timeoutMs: 60_000 })
  old.signal('SIGSTOP')
  const successor = await takeOver(t, world)
  const removed = server.counts.delete
  server.recover()
  old.signal('SIGCONT')
  await until('it continues', () => server.counts.delete > removed)
  t.ok(await isComplete(t, world, successor))
})
