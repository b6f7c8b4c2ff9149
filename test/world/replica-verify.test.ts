/**
 * `pipectl replica verify` beside a daemon and without one. Negative controls: a replica that lacks messages, a damaged
 * object, another key.
 */
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { spawnCli } from '../support/cli.ts'
import { replicated } from '../support/replica.ts'
import { openReplicaWorld, type ReplicaWorld } from '../support/replica-world.ts'
import { until } from '../support/until.ts'

async function verify({ env, daemon }: ReplicaWorld, ...args: string[]) {
  const done = await spawnCli(['replica', 'verify', '--data-dir', daemon.dataDir, '-o', 'json', ...args], {
    env,
  })
  return { ...done, report: done.stdout === '' ? null : JSON.parse(done.stdout) }
}

function leftovers({ daemon }: ReplicaWorld): string[] {
  return readdirSync(path.dirname(daemon.dataDir)).filter((name) => name.includes('verifying'))
}

t.test('a complete replica is verified next to the running daemon, and after it', async (t) => {
  const world = await openReplicaWorld(t)
  const { daemon, send, pipeId } = world
  await send(200)
  await replicated(daemon)
  const first = await verify(world)
  t.equal(first.code, 0, first.stderr)
  t.match(first.report, { result: 'ok', is_compared: true, problems: [], messages: 200 })
  t.match(first.report.pipes, [
    { pipe_id: pipeId, pipe_name: 'events', messages: 200, missing: 0, different: 0 },
  ])
  t.ok(first.report.segments + first.report.slots > 0)
  t.same(leftovers(world), [], 'the temporary directory is removed')
  t.ok(existsSync(path.join(daemon.dataDir, 'replica-verified.json')), 'the result is stored')
  await send(50)
  await daemon.stop()
  const table = await spawnCli(['replica', 'verify', '--data-dir', daemon.dataDir], { env: world.env })
  t.match(table, { code: 0, stdout: /events +ok +250 messages, stream_seq 1 to 250/ })
  t.match(table.stdout, /metadata +ok/)
})

t.test('messages that were not replicated yet are newer, and no problem', async (t) => {
  const world = await openReplicaWorld(t)
  const { daemon, server, send } = world
  await send(20)
  await replicated(daemon)
  server.fail({ kind: 'create', below: '/log/', fault: { status: 503, code: 'SlowDown' }, times: 100_000 })
  await send(7)
  const { code, report } = await verify(world)
  t.equal(code, 0)
  t.match(report.pipes, [{ messages: 20, newer: 7, missing: 0 }])
})

t.test('a pipe that the replica should have and lacks is a problem', async (t) => {
  const world = await openReplicaWorld(t)
  const { daemon, send } = world
  await send(20)
  await replicated(daemon)
  await daemon.stop()
  // The data directory has a pipe of an hour ago that was never sent to the bucket.
  const metadata = new Database(path.join(daemon.dataDir, 'metadata.db'))
  for (const { name } of metadata
    .prepare<[], { name: string }>("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
    .all())
    metadata.exec(`DROP TRIGGER "${name}"`)
  metadata.pragma('foreign_keys = OFF')
  metadata.exec(
    "UPDATE pipes SET pipe_id = '00000000-0000-4000-8000-000000000000', pipe_created_ms = pipe_created_ms - 3600000",
  )
  metadata.close()
  const { code, report, stderr } = await verify(world)
  t.equal(code, 1)
  t.match(report, { result: 'failed', problems: [/pipes: the replica lacks 1 row/] })
  t.match(stderr, /1 problem in s3:/)
})

t.test('a damaged object and another key are reported, and the result is stored', async (t) => {
  const world = await openReplicaWorld(t)
  const { daemon, server, send } = world
  await send(20)
  await until('there is a snapshot', () =>
    [...server.objects.keys()].some((one) => one.includes('/snapshots/')),
  )
  await replicated(daemon)
  await daemon.stop()
  const newest = [...server.objects.keys()]
    .filter((one) => one.includes('/log/'))
    .sort()
    .at(-1)!
  const object = server.objects.get(newest)!
  const body = Buffer.from(object.body)
  body[body.length - 20]! ^= 1
  server.objects.set(newest, { ...object, body })
  const damaged = await verify(world)
  t.match(damaged, { code: 1, stderr: /cannot be restored: log\/\d+: damaged/ })
  t.same(leftovers(world), [])
  server.objects.set(newest, object)
  t.match(await verify(world), { code: 0 })
  const key = path.join(path.dirname(world.keyFile), 'another.key')
  writeFileSync(key, Buffer.alloc(32, 9), { mode: 0o600 })
  const other = await verify({ ...world, env: { ...world.env, PIPECTL_SECRETS_KEY_FILE: key } })
  t.match(other, { code: 78, stderr: /sealed with another key/ })
})

t.test('without a replica, or without space, it says so', async (t) => {
  const world = await openReplicaWorld(t)
  await replicated(world.daemon)
  const { PIPECTL_REPLICA_URL: _, ...none } = world.env
  t.match(await verify({ ...world, env: none }), { code: 2, stderr: /there is no replica/ })
  const full = { ...world.env, PIPECTL_BUFFER_MIN_FREE_BYTES: '900TiB' }
  t.match(await verify({ ...world, env: full }), { code: 5, stderr: /--directory/ })
  t.same(leftovers(world), [])
})
