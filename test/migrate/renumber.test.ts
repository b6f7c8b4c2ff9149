/** `nodes renumber`: no number of a restored cluster stands for two messages, and its lanes continue where they were. */
import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { runCli } from '../support/cli.ts'
import { initDataDir, TestDaemon } from '../support/daemon.ts'
import { pullAll, startMoveTargets } from '../support/moving.ts'

t.test('a cluster gets new numbers, and goes on after its stream was lost', async (t) => {
  const targets = await startMoveTargets()
  t.teardown(() => targets.stop())
  const dataDir = t.testdir()
  const { api_key: apiKey } = await initDataDir(dataDir, targets.env)
  const startNode = async () => {
    const node = await new TestDaemon({ dataDir, env: targets.env }).start()
    node.apiKey = apiKey
    return node
  }
  const renumber = () => runCli(['nodes', 'renumber', '--yes', '--data-dir', dataDir], { env: targets.env })

  const node = await startNode()
  t.teardown(() => node.close())
  const pipe = await node.createPipe({ pipe_name: 'orders' })
  const pull = await node.createDestination(pipe, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const seqOf = async (daemon: TestDaemon, n: number) => {
    const { status } = await daemon.api('POST', `/v1/ingest/${pipe}`, [{ n }])
    t.equal(status, 202)
    const { body } = await daemon.api<{ messages: { stream_seq: number }[] }>(
      'GET',
      `/v1/pipes/${pipe}/messages?limit=1`,
    )
    return body.messages[0]!.stream_seq
  }
  let newest = 0
  for (const n of [1, 2, 3]) newest = await seqOf(node, n)
  const first = await node.api<{ stream_seq: number }>('GET', `/v1/pull/${pull}`)
  await node.api('GET', `/v1/pull/${pull}?after_seq=${first.body.stream_seq}`)

  const running = await renumber()
  t.equal(running.code, 5)
  t.match(running.stderr, /nodes of the cluster pipectl .* are running/)
  t.equal(await node.stop(), 0)
  for (const times of [1, 2]) {
    const done = await renumber()
    t.match(done, { code: 0, stderr: /ends with frame 3/ }, `run ${times}`)
  }

  const restored = await startNode()
  t.teardown(() => restored.close())
  const next = await seqOf(restored, 4)
  t.ok(next > newest + 1e9, `${next} is far above ${newest}`)
  const expired = await restored.api('GET', `/v1/pull/${pull}?after_seq=${newest}`)
  t.match(expired, { status: 410, body: { reason: 'restored' } })
  t.same(await pullAll(restored, pull), [2, 3, 4], 'the lane is where it was, in order')
  t.equal(await restored.stop(), 0)

  const connection = await targets.nats.connect()
  const manager = await jetstreamManager(connection)
  for (const name of ['pipectl-pipectl', 'pipectl-pipectl-totals']) await manager.streams.delete(name)
  await connection.close()
  await t.rejects(startNode(), /messages are lost, or this is another stream[\s\S]*pipectl nodes renumber/)
  t.match(await renumber(), { code: 0, stderr: /ends with frame 0; 1 lane, the newest frame delivered is 4/ })
  const empty = await startNode()
  t.teardown(() => empty.close())
  t.ok((await seqOf(empty, 5)) > next + 1e9)
  t.same(await pullAll(empty, pull), [5], 'messages that were accepted since are delivered')
})
