/**
 * The old machine after a takeover: what it accepted and never replicated is listed, exported and sent, each message once; and
 * its directory is moved aside. The tables of crashes are in src/maintenance/replica-orphans.ts.
 */
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { spawnCli, startCli } from '../support/cli.ts'
import { makeDataDir, TestDaemon } from '../support/daemon.ts'
import { startGateway } from '../support/gateway.ts'
import { readAll } from '../support/ledger.ts'
import { openReplicaWorld } from '../support/replica-world.ts'
import { until } from '../support/until.ts'

type Tap = Parameters<typeof openReplicaWorld>[0]

const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)

/** 20 messages are replicated, 7 are only on the old machine, and another machine has taken over. */
async function openTakeover(t: Tap) {
  const world = await openReplicaWorld(t)
  const { daemon, env, keyFile, send, server } = world
  await send(20)
  await daemon.stop()
  const old = new TestDaemon({ dataDir: daemon.dataDir, env: { ...env, PIPECTL_REPLICA_INTERVAL: '60s' } })
  old.apiKey = daemon.apiKey
  t.teardown(() => old.close())
  await old.start()
  await until('its snapshot is stored', () => old.log.some(({ msg }) => msg === 'replica.snapshot_stored'))
  for (let n = 20; n < 27; n += 1) await old.ingest(world.pipeId, [{ n, text: 'x' }])
  await old.kill()
  const dataDir = makeDataDir()
  t.teardown(() => rmSync(path.dirname(dataDir), { recursive: true, force: true }))
  const from = ['restore', '--from', env.PIPECTL_REPLICA_URL!, '--key-file', keyFile, '--data-dir', dataDir]
  const restored = await spawnCli(from, { env })
  if (restored.code !== 0) throw new Error(restored.stderr)
  const primary = new TestDaemon({ dataDir, env })
  primary.apiKey = daemon.apiKey
  t.teardown(() => primary.close())
  await primary.start()
  const cli = (command: string, ...args: string[]) =>
    spawnCli(['replica', command, '--data-dir', old.dataDir, ...args], {
      env: { ...env, PIPECTL_URL: primary.url, PIPECTL_API_KEY: daemon.apiKey },
    })
  const list = async () => JSON.parse((await cli('orphans', '-o', 'json')).stdout)
  return { ...world, old, primary, cli, list, server }
}

t.test('orphans are listed, exported, and sent once; then the directory is moved aside', async (t) => {
  const { old, primary, cli, list, pipeId, pullId, env, keyFile } = await openTakeover(t)
  await t.rejects(old.start(), 'the old machine does not start')
  const report = await list()
  t.match(report, { generation: 2, damaged_messages: 0 })
  t.match(report.pipes, [
    { pipe_id: pipeId, pipe_name: 'events', messages: 7, records: 7, delivered_messages: 0, settled: null },
  ])
  const [{ first_stream_seq, last_stream_seq }] = report.pipes
  t.equal(last_stream_seq - first_stream_seq, 6)
  t.equal(first_stream_seq, report.replicated_through_seq + 1)
  t.match(await cli('rejoin', '--yes'), {
    code: 1,
    stderr: /7 messages of this directory were never replicated/,
  })
  const file = path.join(path.dirname(keyFile), 'orphans.ndjson')
  t.match(await cli('orphans', '--export', file), { code: 0, stdout: /events +default +7 .+ exported/ })
  const lines = readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.same(
    lines.map(({ records }) => records[0].n),
    upTo(27).slice(20),
  )
  t.match(lines[0], { pipe_id: pipeId, pipe_name: 'events', stream_seq: first_stream_seq })
  t.match(await cli('orphans', '--send'), { code: 0, stdout: /events .+ sent/ })
  t.match(await cli('orphans', '--send'), { code: 0 }, 'a repeat stores nothing twice')
  t.same((await readAll(primary, pullId)).numbers, upTo(27))
  const moved = await cli('rejoin', '--yes')
  t.match(moved, { code: 0, stderr: /Next: pipectl serve --standby s3:/ })
  t.notOk(existsSync(old.dataDir))
  const [aside = ''] = readdirSync(path.dirname(old.dataDir)).filter((name) => name.includes('.replaced-'))
  t.ok(existsSync(path.join(path.dirname(old.dataDir), aside, 'metadata.db')), 'nothing is deleted')
  const standby = new TestDaemon({
    dataDir: old.dataDir,
    env,
    args: ['--standby', env.PIPECTL_REPLICA_URL!, '--key-file', keyFile],
  })
  t.teardown(() => standby.close())
  standby.start().catch(() => {})
  await until('it follows', () => standby.log.some(({ msg }) => msg === 'standby.following'), {
    timeoutMs: 60_000,
  })
})

t.test(
  'killed after a part of its requests, or all, it stores the rest once when it is run again',
  async (t) => {
    const { old, primary, cli, list, pullId, env } = await openTakeover(t)
    const gateway = await startGateway(primary.url)
    t.teardown(() => gateway.stop())
    for (const most of [1, 4, 7]) {
      const child = startCli(['replica', 'orphans', '--send', '--data-dir', old.dataDir], {
        env: { ...env, PIPECTL_URL: gateway.url, PIPECTL_API_KEY: old.apiKey },
      })
      let accepted = 0
      gateway.onResponse = (path) => {
        if (path.startsWith('/v1/ingest/')) accepted += 1
        if (accepted === most) child.kill('SIGKILL')
      }
      const [, signal] = await once(child, 'exit')
      t.equal(signal, 'SIGKILL')
      t.equal(accepted, most)
      t.equal((await list()).pipes[0].settled, null)
    }
    t.match(await cli('orphans', '--send'), { code: 0, stdout: /events .+ sent/ })
    t.same((await readAll(primary, pullId)).numbers, upTo(27))
  },
)

t.test('when the slots of the old machine are gone, the snapshot says where it was replaced', async (t) => {
  const { primary, list, server } = await openTakeover(t)
  const before = await list()
  const slots = () => [...server.objects.keys()].filter((name) => name.includes('/log/')).sort()
  const own = slots()[0]!
  for (let start = 1; start <= 3; start += 1) {
    await primary.stop()
    await primary.start()
    const stored = () => primary.log.filter(({ msg }) => msg === 'replica.snapshot_stored').length
    await until(`snapshot of start ${start}`, () => stored() > start)
  }
  await until('they are gone', () => !slots().includes(own))
  const after = await list()
  t.equal(after.replicated_through_seq, before.replicated_through_seq)
  t.same(after.pipes, before.pipes)
})

t.test('a directory that was not replaced, or is in use, is left alone', async (t) => {
  const { daemon, env, keyFile } = await openReplicaWorld(t)
  const cli = (command: string) =>
    spawnCli(['replica', command, '--data-dir', daemon.dataDir], {
      env: { ...env, PIPECTL_SECRETS_KEY_FILE: keyFile },
    })
  t.match(await cli('orphans'), { code: 75, stderr: /in use/ })
  await daemon.stop()
  t.match(await cli('orphans'), { code: 2, stderr: /nothing has replaced it/ })
  t.match(await cli('rejoin'), { code: 2, stderr: /nothing has replaced it/ })
  t.ok(existsSync(daemon.dataDir))
})

t.test('--discard-orphans moves the directory without them', async (t) => {
  const { old, cli } = await openTakeover(t)
  t.match(await cli('rejoin', '--yes', '--discard-orphans'), { code: 0 })
  t.notOk(existsSync(old.dataDir))
})
