/** A dry run is refused wherever the move would be, with the same message and exit code, and leaves nothing behind. */
import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { type MoveTargets, startMoveTargets } from '../support/moving.ts'
import { until } from '../support/until.ts'

async function withManager<T>(
  { nats }: MoveTargets,
  use: (manager: Awaited<ReturnType<typeof jetstreamManager>>) => Promise<T>,
): Promise<T> {
  const connection = await nats.connect()
  try {
    return await use(await jetstreamManager(connection))
  } finally {
    await connection.close()
  }
}

function streamsOf(targets: MoveTargets): Promise<string[]> {
  return withManager(targets, async (manager) => {
    const streams = await manager.streams.list().next()
    return streams.map(({ config }) => config.name).sort()
  })
}

t.test('what the move refuses the dry run refuses', async (t) => {
  const targets = await startMoveTargets()
  const daemon = await startDaemon()
  t.teardown(async () => {
    await daemon.close()
    await targets.stop()
  })
  const pipe = await daemon.createPipe({ pipe_name: 'orders' })
  for (let n = 0; n < 20; n += 1)
    await daemon.api('POST', `/v1/ingest/${pipe}`, [{ n, text: 'x'.repeat(100_000) }])
  const destination = await daemon.createDestination(pipe, {
    destination_type: 'destination_database',
    destination_name: 'warehouse',
    destination_config: {
      ...{ dialect: 'postgresql', host: '127.0.0.1', port: 1, database: 'd', table: 't' },
      ...{ username: 'u', password: 'p', exactly_once: true },
    },
  })
  await daemon.api('POST', `/v1/ingest/${pipe}`, [{ n: 20 }])
  await until('a batch has failed', async () => Number((await daemon.lane(pipe, destination)).attempts) > 0)
  t.equal(await daemon.stop(), 0)

  const refusals: { why: RegExp; code: number; args?: string[]; env?: Record<string, string> }[] = [
    { why: /exactly_once.*orders\/warehouse/, code: 5, args: [] },
    {
      why: /can store 1048576 bytes \(buffer.max_bytes\)/,
      code: 5,
      env: { PIPECTL_BUFFER_MAX_BYTES: '1MiB' },
    },
    {
      why: /JetStream has no room for the stream pipectl-pipectl with 2199023255552 bytes/,
      code: 78,
      env: { PIPECTL_BUFFER_MAX_BYTES: '2048GiB' },
    },
    { why: /is not a cluster of nats-servers/, code: 78, env: { PIPECTL_CLUSTER_REPLICAS: '3' } },
    {
      why: /max_payload of nats-server is 16777216 bytes/,
      code: 78,
      env: { PIPECTL_INGEST_MAX_BODY_BYTES: '32MiB' },
    },
  ]
  for (const { why, code, args = ['--allow-repeats'], env = {} } of refusals) {
    const dry = await targets.migrate(['--to-cluster', '--dry-run', ...args], daemon.dataDir, env)
    t.equal(dry.code, code, dry.stderr)
    t.match(dry.stderr, why)
    t.same(await streamsOf(targets), [], 'the dry run leaves no stream')
    const real = await targets.migrate(['--to-cluster', ...args], daemon.dataDir, env)
    t.same({ code: real.code, stderr: real.stderr }, { code: dry.code, stderr: dry.stderr })
    const left = await streamsOf(targets)
    await targets.migrate(['--to-cluster', '--dry-run', ...args], daemon.dataDir, env)
    t.same(await streamsOf(targets), left, 'a dry run removes nothing that a move has begun')
    await withManager(targets, async (manager) => {
      for (const name of left) await manager.streams.delete(name)
    })
  }

  await withManager(targets, async (manager) => {
    await manager.streams.add({ name: 'pipectl-pipectl', subjects: ['pipectl.pipectl.buffer.>'] })
  })
  const foreign = await targets.migrate(['--to-cluster', '--dry-run', '--allow-repeats'], daemon.dataDir)
  t.equal(foreign.code, 78, foreign.stderr)
  t.match(foreign.stderr, /was not made by pipectl/)
  t.same(await streamsOf(targets), ['pipectl-pipectl'], 'the stream of another program stays')
  await withManager(targets, (manager) => manager.streams.delete('pipectl-pipectl'))

  const good = await targets.migrate(['--to-cluster', '--dry-run', '--allow-repeats'], daemon.dataDir)
  t.equal(good.code, 0, good.stderr)
  t.same(await streamsOf(targets), [])
  const moved = await targets.migrate(['--to-cluster', '--allow-repeats'], daemon.dataDir)
  t.equal(moved.code, 0, moved.stderr)
  t.match(JSON.parse(moved.stdout), { messages: 21, missing_messages: 0 })

  const after = await targets.migrate(['--to-cluster', '--dry-run'], daemon.dataDir)
  t.equal(after.code, 5)
  t.match(after.stderr, /was moved to/)
})
