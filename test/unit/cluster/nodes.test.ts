/** A node in the cluster: heartbeat, changes that reach every node, duties of one. On a real PostgreSQL. */
import t, { type Test } from 'tap'
import type { ClusterNode } from '../../../src/cluster/nodes.ts'
import { openClusterNode } from '../../../src/cluster/nodes.ts'
import { mintApiKey } from '../../../src/metadata/key-tokens.ts'
import type { Metadata } from '../../../src/metadata/store.ts'
import { type LogLine, readableLog, startClusterServer } from '../../support/cluster-database.ts'
import { until } from '../../support/until.ts'
import { newPipe } from '../metadata/fixture.ts'

const server = await startClusterServer(t)

interface TestNode {
  node: ClusterNode
  metadata: Metadata
  /** The events that its listener received: pipes and keys by id. */
  told: string[]
  lines: LogLine[]
  /** The listener waits for it. */
  held: Promise<void>
  fails: boolean
  fatal: Error[]
}

async function openNode(
  t: Test,
  name: string,
  metadata: Metadata,
  { now = Date.now, joins = true } = {},
): Promise<TestNode> {
  const { log, lines } = readableLog()
  const fatal: Error[] = []
  const onFatal = (error: Error) => void fatal.push(error)
  const options = { store: metadata.cluster!, name, version: '1.0.0', address: null, log, onFatal, now }
  const node = await openClusterNode(options)
  const opened = { node, metadata, told: [], lines, held: Promise.resolve(), fails: false, fatal } as TestNode
  node.changes.subscribe(async (change) => {
    await opened.held
    if (opened.fails) throw new Error('it cannot be read')
    opened.told.push('pipeId' in change ? change.pipeId : change.apiKeyId)
  })
  if (joins) await node.join()
  t.teardown(() => node.close())
  return opened
}

const names = ({ lines }: TestNode) => lines.map(({ msg }) => msg)

t.test('publish resolves when every node has applied the change, this one at once', async (t) => {
  const database = await server.create(t)
  const a = await openNode(t, 'a', await database.open())
  const b = await openNode(t, 'b', await database.open())
  let release = () => {}
  b.held = new Promise((resolve) => {
    release = resolve
  })
  const { pipe_id: pipeId } = await newPipe(a.metadata, database.workspaceId, 'one')
  let isPublished = false
  const published = a.node.changes.publish({ pipeId }).then(() => {
    isPublished = true
  })
  await until('applied here', () => a.told.includes(pipeId))
  await until('asked there', async () => (await b.metadata.cluster!.changes.newest()) > 0)
  t.equal(isPublished, false)
  release()
  await published
  t.ok(b.told.includes(pipeId))
})

t.test(
  'negative control: for a node that has not joined nobody waits; it catches up when it joins',
  async (t) => {
    const database = await server.create(t)
    const a = await openNode(t, 'a', await database.open())
    const b = await openNode(t, 'b', await database.open(), { joins: false })
    const { pipe_id: pipeId } = await newPipe(a.metadata, database.workspaceId, 'one')
    await a.node.changes.publish({ pipeId })
    t.strictSame(b.told, [])
    t.equal(b.node.isLive, false)
    await b.node.join()
    t.strictSame(b.told, [pipeId], 'applied before it accepts anything')
    t.equal(b.node.isLive, true)
  },
)

t.test('what a local command changes reaches every node', async (t) => {
  const database = await server.create(t)
  const nodes = [await openNode(t, 'a', await database.open()), await openNode(t, 'b', await database.open())]
  const made = await database.metadata.apiKeys.create(database.workspaceId, mintApiKey('local').key)
  const second = await database.metadata.workspaces.create('second', mintApiKey('first').key)
  for (const { told } of nodes) {
    await until('told', () => told.includes(made.api_key_id) && told.includes(second.apiKeyId))
  }
})

t.test(
  'a node that is cut off is waited for until its time is over, and accepts nothing by then',
  async (t) => {
    const database = await server.create(t)
    const a = await openNode(t, 'a', await database.open())
    const { metadata, proxy } = await database.openCuttable()
    const b = await openNode(t, 'b', metadata)
    proxy.setMode({ kind: 'freeze' })
    const { pipe_id: pipeId } = await newPipe(a.metadata, database.workspaceId, 'one')
    const askedAt = performance.now()
    await a.node.changes.publish({ pipeId })
    t.equal(b.node.isLive, false)
    t.comment(`published after ${Math.round(performance.now() - askedAt)} ms`)
    t.strictSame(b.told, [])
    await until('a has removed it', async () => (await a.node.nodes()).length === 1)
    proxy.setMode({ kind: 'pass' })
    await until('it is back', () => b.node.isLive)
    t.ok(b.told.includes(pipeId), 'and has applied the change before')
    t.equal(names(b).filter((name) => name === 'cluster.joined_again').length, 1)
    t.equal(names(b).filter((name) => name === 'cluster.heartbeat_failed').length, 1, 'said once')
  },
)

t.test('a node that cannot apply changes is soon no node', async (t) => {
  const database = await server.create(t)
  const a = await openNode(t, 'a', await database.open())
  const b = await openNode(t, 'b', await database.open())
  b.fails = true
  const { pipe_id: pipeId } = await newPipe(a.metadata, database.workspaceId, 'one')
  await a.node.changes.publish({ pipeId })
  t.equal(b.node.isLive, false)
  b.fails = false
  await until('it is back', () => b.node.isLive)
  t.ok(b.told.includes(pipeId))
})

t.test('one of the nodes has a duty; when it leaves another has it', async (t) => {
  const database = await server.create(t)
  const a = await openNode(t, 'a', await database.open())
  const b = await openNode(t, 'b', await database.open())
  const [ofA, ofB] = [a.node.lease('housekeeping'), b.node.lease('housekeeping')]
  t.equal(await ofA.isMine(), true)
  t.equal(await ofB.isMine(), false)
  t.equal(await ofA.isMine(), true, 'it keeps it')
  t.equal(await b.node.lease('alerts').isMine(), true, 'each by itself')
  await a.node.close()
  t.equal(await ofA.isMine(), false)
  t.equal(await ofB.isMine(), true)
})

t.test('a node that was counted out has no duty, also before it knows', async (t) => {
  const database = await server.create(t)
  const { metadata, proxy } = await database.openCuttable()
  const a = await openNode(t, 'a', metadata)
  const b = await openNode(t, 'b', await database.open())
  t.equal(await a.node.lease('alerts').isMine(), true)
  proxy.setMode({ kind: 'freeze' })
  await until('b has it', () => b.node.lease('alerts').isMine())
  t.equal(await a.node.lease('alerts').isMine(), false)
})

t.test('a clock a minute off is said once, and changes nothing', async (t) => {
  const database = await server.create(t)
  const now = () => Date.now() + 60_000
  const a = await openNode(t, 'a', await database.open(), { now })
  const b = await openNode(t, 'b', await database.open())
  t.ok(Math.abs(a.node.clock.offsetMs + 60_000) < 2_000)
  t.ok(Math.abs(a.node.clock.now() - Date.now()) < 2_000)
  t.match(
    a.lines.filter(({ msg }) => msg === 'cluster.clock_skew'),
    [{ offset_ms: Number }],
  )
  t.strictSame(
    b.lines.filter(({ msg }) => msg === 'cluster.clock_skew'),
    [],
  )
  const { pipe_id: pipeId } = await newPipe(b.metadata, database.workspaceId, 'one')
  await b.node.changes.publish({ pipeId })
  t.ok(a.told.includes(pipeId))
})

t.test('two nodes of one name are told apart, and it is said', async (t) => {
  const database = await server.create(t)
  const a = await openNode(t, 'same', await database.open())
  const b = await openNode(t, 'same', await database.open())
  t.not(a.node.nodeId, b.node.nodeId)
  t.ok(names(b).includes('cluster.name_taken'))
  t.notOk(names(a).includes('cluster.name_taken'))
  t.equal((await a.node.nodes()).length, 2)
})

t.test('a node whose changes are no longer kept must be started again', async (t) => {
  const database = await server.create(t)
  const a = await openNode(t, 'a', await database.open())
  const b = await openNode(t, 'b', await database.open(), { joins: false })
  for (const name of ['one', 'two']) await newPipe(a.metadata, database.workspaceId, name)
  await until('a has seen them', async () => (await a.node.nodes())[0]!.seenChange >= 3)
  await a.metadata.cluster!.changes.prune(-1_000)
  await t.rejects(b.node.join(), /no longer kept/)
  t.equal(b.fatal.length, 1)
  t.equal(b.node.isLive, false)
})

t.test('while the database is away nobody accepts anything; then everybody goes on', async (t) => {
  const database = await server.create(t)
  const nodes = [await openNode(t, 'a', await database.open()), await openNode(t, 'b', await database.open())]
  await server.postgres.shutDown()
  await until('nobody accepts', () => nodes.every(({ node }) => !node.isLive))
  await server.postgres.start()
  await until('all accept', () => nodes.every(({ node }) => node.isLive))
  const { pipe_id: pipeId } = await newPipe(nodes[0]!.metadata, database.workspaceId, 'one')
  await nodes[0]!.node.changes.publish({ pipeId })
  t.ok(nodes[1]!.told.includes(pipeId))
})
