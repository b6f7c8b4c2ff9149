/** `pipectl nodes …` on the databases of a cluster, with the store that nodes themselves use. */
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import type { Metadata } from '../../../src/metadata/store.ts'
import { openMetadata } from '../../../src/stores/open-metadata.ts'
import { homeEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startPostgres } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { newPipe } from '../metadata/fixture.ts'

const home = makeHome()
t.teardown(() => removeHome(home))
const postgres = await startPostgres()
t.teardown(() => postgres.stop())
const url = `postgres://postgres:${postgres.password}@127.0.0.1:${postgres.port}/postgres`
const dataDir = path.join(home, 'node')
const env = {
  ...homeEnv(home),
  PIPECTL_METADATA_URL: url,
  // Nobody listens there: nodes are listed without their lag.
  PIPECTL_BUFFER_NATS: 'nats://127.0.0.1:1',
}
/** By a flag, which `nodes` and its commands have alike. */
const cli = (...args: string[]) => runCli([...args, '--data-dir', dataDir], { env })

interface Joined {
  nodeId: string
  leaseId: string
  workerId: string
}

async function join({ cluster }: Metadata, name: string): Promise<Joined> {
  const node = { nodeId: randomUUID(), leaseId: randomUUID(), workerId: randomUUID() }
  const address = 'http://10.0.0.1:8080'
  await cluster!.nodes.join({ nodeId: node.nodeId, name, version: '1.2.3', address }, node.leaseId, 0, false)
  await cluster!.pipes.join({ nodeId: node.nodeId, leaseId: node.workerId })
  return node
}

/** Renews both leases until the test ends. */
function keepAlive(t: Pick<Test, 'teardown'>, { cluster }: Metadata, node: Joined): void {
  let isOver = false
  const renewing = (async () => {
    while (!isOver) {
      await cluster!.nodes.renew(node.leaseId, 6_000)
      await cluster!.pipes.renew(node.workerId)
      await new Promise((resolve) => setTimeout(resolve, 1_000))
    }
  })()
  // Before the connection is closed under it.
  t.teardown(() => {
    isOver = true
    return renewing
  })
}

t.test('a single machine has none, and hears how to get there', async (t) => {
  const alone = await runCli(['nodes', '--data-dir', dataDir], { env: homeEnv(home) })
  t.match(alone, { code: 2, stderr: /there is no cluster.*\n +next: .*docs\/cluster\.md/ })
})

t.test('nodes with what they deliver; drain hands over, undrain ends it', async (t) => {
  const made = await cli('init', '--json')
  t.equal(made.code, 0, made.stderr)
  const workspaceId = JSON.parse(made.stdout).workspace_id
  t.match(await cli('nodes', '-o', 'json'), { code: 0, stdout: /"nodes":\[\],"unowned_pipes":0/ })
  t.match(await cli('nodes'), { stdout: 'no node runs\n' })
  const sealingKey = Buffer.from(readFileSync(path.join(dataDir, 'sealing.key'), 'utf8'), 'base64')
  const metadata = await openMetadata({ kind: 'postgresql', url }, sealingKey)
  t.teardown(() => metadata.close())
  const { pipes } = metadata.cluster!
  for (const name of ['orders', 'sensors']) await newPipe(metadata, workspaceId, name)
  const one = await join(metadata, 'one')
  keepAlive(t, metadata, one)
  const free = await pipes.free()
  await pipes.claim(one.workerId, free.slice(0, 1))

  const listed = await cli('nodes', '-o', 'json')
  t.match(listed.stderr, /No lag: the buffer cannot be read: /)
  t.match(JSON.parse(listed.stdout), {
    cluster_name: 'pipectl',
    nodes: [
      {
        ...{ node_name: 'one', node_id: one.nodeId, node_state: 'live', is_delivering: true },
        ...{ version: '1.2.3', address: 'http://10.0.0.1:8080', owned_pipes: 1, lag_seconds: null },
      },
    ],
    unowned_pipes: 1,
  })
  const [{ started_ts, last_heartbeat_ts }] = JSON.parse(listed.stdout).nodes
  t.ok(Date.parse(started_ts) <= Date.parse(last_heartbeat_ts))
  const table = (await cli('nodes', '-o', 'table')).stdout
  t.match(table, /NODE +ID +STATE +VERSION +ADDRESS +STARTED +HEARTBEAT +PIPES +LAG/)
  t.match(table, /one .* live +1\.2\.3 .* 1 +\?\n\(no node\) .* 1 +\?/)
  t.equal((await cli('nodes', '-o', 'name')).stdout, 'one\n')
  t.notMatch(listed.stdout + listed.stderr + table, postgres.password)

  const alone = await cli('nodes', 'drain', 'one')
  t.match(alone, { code: 5, stderr: /no other node that could take the pipes of one; nothing was changed/ })
  t.equal((await metadata.cluster!.nodes.list())[0]?.isDraining, false)

  const two = await join(metadata, 'two')
  keepAlive(t, metadata, two)
  const late = await cli('nodes', 'drain', 'one', '--wait', '0')
  t.match(late, { code: 1, stderr: /one: 1 pipe left\n.*one still has 1 pipe/ })
  t.match(JSON.parse((await cli('nodes', '-o', 'json')).stdout).nodes[0], {
    node_state: 'draining',
    owned_pipes: 1,
  })
  const draining = cli('nodes', 'drain', one.nodeId.slice(0, 8))
  for (const pipe of await pipes.held(one.workerId)) await pipes.release(one.workerId, pipe)
  t.match(await draining, { code: 0, stderr: /one has no pipes\. It still accepts records/ })

  t.match(await cli('nodes', 'undrain', 'one'), { code: 0, stderr: /one gets pipes again/ })
  t.match(await cli('nodes', 'undrain', 'one'), { code: 6, stderr: /one is not draining/ })
  t.match(await cli('nodes', 'drain', 'three'), { code: 3, stderr: /no node three\n.*use one of: one, two/ })
  t.match(await cli('nodes', 'drain', 'one', '--wait', '-1'), { code: 2, stderr: /--wait/ })
  t.match(await cli('nodes', 'drain'), { code: 2 })
})

t.test('two of one name are told apart by their ids; one that expired does not count', async (t) => {
  const sealingKey = Buffer.from(readFileSync(path.join(dataDir, 'sealing.key'), 'utf8'), 'base64')
  const metadata = await openMetadata({ kind: 'postgresql', url }, sealingKey)
  t.teardown(() => metadata.close())
  const [first, second, other] = [
    await join(metadata, 'twin'),
    await join(metadata, 'twin'),
    await join(metadata, 'other'),
  ]
  for (const node of [second, other]) keepAlive(t, metadata, node)
  t.match(await cli('nodes', 'drain', 'twin'), {
    code: 5,
    stderr: new RegExp(`name one by its id: .*${first.nodeId}`),
  })
  await until('the first has expired', async () => {
    const all = await metadata.cluster!.nodes.list()
    return all.every((one) => one.nodeId !== first.nodeId || one.leftMs === 0)
  })
  t.match(await cli('nodes', 'drain', 'twin'), { code: 0, stderr: /twin has no pipes/ })
})
