/** The views of a real cluster of three nodes, while one is drained and one killed: API, commands, metrics. */
import t from 'tap'
import type { Static } from 'typebox'
import type { Overview } from '../../../src/contract/overview.ts'
import type { TransformTrialResult } from '../../../src/contract/transform-trial.ts'
import { cliEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startCluster, type TestNode } from '../../support/cluster.ts'
import { cleanEnv } from '../../support/daemon.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

const cluster = await startCluster({ nodes: 3 })
t.teardown(() => cluster.close())
const home = makeHome()
t.teardown(() => removeHome(home))
const sink = await startHttpSink()
t.teardown(() => sink.stop())
const [a, b, c] = cluster.nodes as [TestNode, TestNode, TestNode]
const pipeIds: string[] = []
for (let at = 0; at < 12; at += 1) {
  const pipeId = await a.createPipe({ pipe_name: `pipe-${at}` })
  await a.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: sink.url },
  })
  pipeIds.push(pipeId)
}

type Trial = Static<typeof TransformTrialResult>

/** With the settings of a node, as its operator has them. */
const operator = (...args: string[]) =>
  runCli([...args, '--data-dir', a.dataDir], {
    env: cleanEnv({
      PIPECTL_METADATA_URL: cluster.metadataUrl,
      PIPECTL_BUFFER_NATS: cluster.nats.url,
      HOME: home,
    }),
  })

async function overview(node: TestNode): Promise<Overview & { cluster: NonNullable<Overview['cluster']> }> {
  const { status, text, body } = await node.api('GET', '/v1/overview')
  if (status !== 200) throw new Error(text)
  return Object(body)
}

const owners = ({ pipes }: Overview) => new Set(pipes.map((pipe) => pipe.node_name))

t.test('every node says the same of all, and which one it is', async (t) => {
  for (const node of cluster.nodes) {
    const found = await until('every pipe has a node', async () => {
      const one = await overview(node)
      return one.cluster.unowned_pipes === 0 && one.pipes.every((pipe) => pipe.node_name !== null)
        ? one
        : null
    })
    t.match(
      found.cluster.nodes,
      ['a', 'b', 'c'].map((node_name) => ({
        node_name,
        node_state: 'live',
        is_this: node_name === node.name,
      })),
    )
    for (const { node_name, owned_pipes } of found.cluster.nodes)
      t.equal(found.pipes.filter((pipe) => pipe.node_name === node_name).length, owned_pipes)
    t.notMatch(JSON.stringify(found.cluster), /127\.0\.0\.1|version/, 'no addresses')
  }
})

t.test('status shows the nodes; a change of owner alone is a change of the pipe', async (t) => {
  const shown = await runCli(['status', '-o', 'table'], { env: cliEnv(a, home) })
  t.match(shown.stdout, /node +a \(this one\): \d+ pipes?\nnode +b: \d+ pipes?\nnode +c: \d+ pipes?\n/)
  const asJson = JSON.parse((await runCli(['status', '-o', 'json'], { env: cliEnv(b, home) })).stdout)
  t.match(asJson.cluster.nodes[1], { node_name: 'b', node_state: 'live', is_this: true })
})

t.test('another workspace sees the nodes, and only its own pipes on them', async (t) => {
  const made = await operator('workspaces', 'create', 'other', '--json')
  t.equal(made.code, 0, made.stderr)
  const { body } = await b.as(JSON.parse(made.stdout).api_key).api<Overview>('GET', '/v1/overview')
  t.same(
    body.cluster?.nodes.map((node) => [node.node_name, node.owned_pipes]),
    ['a', 'b', 'c'].map((name) => [name, 0]),
  )
  t.equal(body.cluster?.unowned_pipes, 0)
})

t.test('every node tries a transform on what all of them took in', async (t) => {
  const pipeId = pipeIds[0]!
  for (const [n, node] of cluster.nodes.entries()) await node.ingest(pipeId, { n, of: node.name })
  const on = `/v1/pipes/${pipeId}/destinations`
  const transform = { filter: 'record.n > 0', map: [{ op: 'keep', paths: ['of'] }] }
  const destination = { destination_type: 'destination_http_endpoint', destination_config: { url: sink.url } }
  const failing = { ...destination, transform: { filter: 'record.unknown == 1' } }
  for (const node of cluster.nodes) {
    const found = await until('it has read them all', async () => {
      const { body } = await node.api<Trial>('POST', `${on}/try-transform`, { transform })
      return body.records_seen === 3 ? body : null
    })
    t.match(found, {
      ...{ is_complete: true, kept: 2, filtered: 1, failed: 0 },
      records: [
        { before: { n: 2, of: 'c' }, after: { of: 'c' }, outcome: 'kept' },
        { before: { n: 1, of: 'b' }, after: { of: 'b' }, outcome: 'kept' },
        { before: { n: 0, of: 'a' }, after: null, outcome: 'filtered' },
      ],
    })
    t.strictSame(
      found.records.map(({ after }) => after && Object.keys(after)),
      [['of'], ['of'], null],
    )
    const refused = await node.api('POST', on, failing)
    t.equal(refused.status, 400)
    t.match(refused.text, /fails on all 3 newest records of the pipe/)
  }
  const saved = await b.api<{ destination_id: string }>('POST', `${on}?check_transform=false`, failing)
  t.equal(saved.status, 201, 'where somebody insists')
  t.equal((await b.api('DELETE', `${on}/${saved.body.destination_id}`)).status, 204)
})

t.test('a node that is drained hands its pipes over, and goes on taking records', async (t) => {
  const before = await overview(a)
  const drained = await operator('nodes', 'drain', 'b')
  t.equal(drained.code, 0, drained.stderr)
  t.match(drained.stderr, /b has no pipes/)
  const after = await until('the others have them all', async () => {
    const one = await overview(a)
    return one.cluster.unowned_pipes === 0 && !owners(one).has('b') ? one : null
  })
  t.match(after.cluster.nodes[1], { node_name: 'b', node_state: 'draining', owned_pipes: 0 })
  const since = (await a.api<Overview>('GET', `/v1/overview?since=${before.revision}`)).body
  const moved = before.pipes.filter((pipe) => pipe.node_name === 'b').map((pipe) => pipe.pipe_id)
  t.ok(
    moved.every((id) => since.pipes.some((pipe) => pipe.pipe_id === id)),
    'who asks for changes hears of it',
  )
  for (const [at, pipeId] of pipeIds.entries()) await b.ingest(pipeId, { at })
  await until('they are delivered', () => sink.records().length >= pipeIds.length)
  const listed = JSON.parse((await operator('nodes', '-o', 'json')).stdout)
  t.match(listed.nodes[1], { node_name: 'b', node_state: 'draining', owned_pipes: 0, address: /^127/ })
  t.equal((await operator('nodes', 'undrain', 'b')).code, 0)
  await until('it has its share again', async () => owners(await overview(a)).has('b'))
})

t.test('lag: the age of what a node has not delivered yet', async (t) => {
  const pullId = await a.createDestination(pipeIds[0]!, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  t.ok(pullId)
  await a.ingest(pipeIds[0]!, { waits: true })
  // The pipes may still move back to the node that was drained: the owner is the one of the same moment.
  await until('the owner of the pipe lags, and nobody else', async () => {
    const { nodes } = JSON.parse((await operator('nodes', '-o', 'json')).stdout)
    const lagging = nodes.filter((node: { lag_seconds: number }) => node.lag_seconds > 0)
    return lagging.length === 1 && lagging[0].node_name === (await overview(a)).pipes[0]?.node_name
  })
})

t.test('a node that is killed is shown as expired, and its pipes move', async (t) => {
  t.ok(owners(await overview(a)).has('c'), 'control: it has some')
  await c.kill()
  await until('the others have its pipes', async () => {
    const one = await overview(a)
    return one.cluster.unowned_pipes === 0 && !owners(one).has('c')
  })
  const { cluster: seen } = await until('it is given up', async () => {
    const one = await overview(a)
    return one.cluster.nodes.some((node) => node.node_state === 'expired') ? one : null
  })
  t.match(seen.nodes[2], { node_name: 'c', node_state: 'expired', owned_pipes: 0, is_this: false })
  t.match((await runCli(['status', '-o', 'table'], { env: cliEnv(a, home) })).stdout, /node +c: expired/)
  const metrics = await (await fetch(a.metricsUrl)).text()
  t.match(
    metrics,
    /^pipectl_cluster_nodes\{state="live"\} 2\npipectl_cluster_nodes\{state="draining"\} 0\npipectl_cluster_nodes\{state="expired"\} 1$/m,
  )
  t.match(metrics, /^pipectl_cluster_owned_pipes \d+$/m)
  t.match(metrics, /^pipectl_cluster_unowned_pipes 0$/m)
  t.match(metrics, /^pipectl_cluster_changes_behind 0$/m)
  const gained = Number(/^pipectl_cluster_gained_pipes_total (\d+)$/m.exec(metrics)?.[1])
  t.ok(gained > 0, `${gained} gained`)
  await c.start()
  await until('it is one of them again', async () => {
    const one = await overview(a)
    return one.cluster.nodes.length === 3 && one.cluster.nodes.every((node) => node.node_state === 'live')
  })
})
