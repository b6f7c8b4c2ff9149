/** A data directory moved into a cluster: every pending message in order, and everything else as it was. */
import path from 'node:path'
import t from 'tap'
import { everything, pullAll, startFilled, startMoved, startMoveTargets } from '../support/moving.ts'
import { until } from '../support/until.ts'

const messages = 300

t.test('what the single machine held the cluster holds', async (t) => {
  const targets = await startMoveTargets()
  const filled = await startFilled(messages)
  const { daemon, sink, pull, pipes, parking, stuck } = filled
  t.teardown(async () => {
    await daemon.close()
    await targets.stop()
    await sink.stop()
  })
  await until('a record is parked and a range is stuck', async () => {
    const lane = await daemon.lane(pipes[1]!, stuck)
    return sink.deliveries.some((one) => one.path === '/stuck') && Number(lane.attempts ?? 1) > 0
  })
  await until('the shop has all', async () => {
    return Number((await daemon.lane(pipes[0]!, parking)).delivered_records) === messages - 1
  })
  await until('usage counts them too: the 5 that were pulled, and all but the parked one', async () => {
    const { body } = await daemon.api('GET', '/v1/pipes')
    const usage = body.usage_by_pipe as Record<string, { delivered_records: number }>
    return usage[pipes[0]!]?.delivered_records === 5 + messages - 1
  })
  const limited = `/v1/pipes/${pipes[1]}`
  t.equal((await daemon.api('PATCH', limited, { pipe_retention_hours: 100 })).status, 200)
  // Only this differs in the cluster, apart from the audit log.
  const said = async (from: typeof daemon) => {
    const text = JSON.stringify(await everything(from, filled))
    return JSON.parse(text.replaceAll('"pipe_retention_hours":100', '"pipe_retention_hours":null'))
  }
  const before = await said(daemon)
  t.equal(await daemon.stop(), 0)
  const keyFile = path.join(daemon.dataDir, 'sealing.key')

  const dry = await targets.migrate(['--to-cluster', '--dry-run'], daemon.dataDir)
  t.equal(dry.code, 0, dry.stderr)
  const counts = { pipes: 2, pipes_with_retention: 1, lanes: 3, parked: 1, messages: 2 * messages }
  t.match(JSON.parse(dry.stdout), { is_dry_run: true, ...counts })

  const into = await targets.migrate(['--to-cluster'], daemon.dataDir)
  t.equal(into.code, 0, into.stderr)
  t.match(JSON.parse(into.stdout), { is_dry_run: false, messages: 2 * messages, missing_messages: 0 })
  t.notMatch(into.stdout + into.stderr, targets.postgres.password)

  await t.rejects(startMoved(daemon, daemon.dataDir), /ended with 78[\s\S]*was moved to cluster pipectl/)
  const again = await targets.migrate(['--to-cluster'], daemon.dataDir)
  t.equal(again.code, 5)
  t.match(again.stderr, /was moved to[\s\S]*restore the backup/)

  const node = await startMoved(daemon, targets.directory('node', keyFile), targets.env)
  t.teardown(() => node.close())
  t.same(await said(node), before, 'the cluster says what the single machine said')
  t.match((await node.api('GET', limited)).body, { pipe: { pipe_retention_hours: null } })
  const repeated = await node.api('POST', `/v1/ingest/${pipes[1]}`, [{ n: 0, text: '' }], {
    headers: { 'idempotency-key': 'key 0' },
  })
  t.equal(repeated.status, 202)
  t.same(await said(node), before, 'a repeat of an earlier request is no new message')
  t.same(
    (await pullAll(node, pull)).slice(0, 100),
    Array.from({ length: 100 }, (_, n) => n + 5),
    'the pull lane goes on where it was',
  )
  const sent = sink.deliveries.length
  sink.respondWith(() => ({ status: 200 }))
  await node.api('POST', `/v1/pipes/${pipes[1]}/destinations/${stuck}/retry-now`)
  const arrived = () =>
    sink.deliveries
      .slice(sent)
      .filter((one) => one.path === '/stuck')
      .flatMap((one) => JSON.parse(one.text) as { n: number }[])
  await until('everything that waited has arrived', () => arrived().at(-1)?.n === messages - 1)
  t.same(
    arrived().map(({ n }) => n),
    Array.from({ length: messages }, (_, n) => n),
    'in order, each once',
  )
})
