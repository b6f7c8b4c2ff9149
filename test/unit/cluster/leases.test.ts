/** Which node delivers which pipe: spread, taken over, handed over, given up in time. On a real PostgreSQL. */
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import t, { type Test } from 'tap'
import { openPipeLeases, type PipeLeases } from '../../../src/cluster/leases.ts'
import { openClusterNode } from '../../../src/cluster/nodes.ts'
import type { Metadata } from '../../../src/metadata/store.ts'
import { type ClusterDatabase, readableLog, startClusterServer } from '../../support/cluster-database.ts'
import { until } from '../../support/until.ts'
import { newPipe } from '../metadata/fixture.ts'

const server = await startClusterServer(t)

interface TestNode {
  nodeId: string
  leases: PipeLeases
  metadata: Metadata
  gained: string[]
  lost: string[]
  lines: { msg: string; [field: string]: unknown }[]
}

async function openNode(t: Test, metadata: Metadata, nodeId: string = randomUUID()): Promise<TestNode> {
  const { log, lines } = readableLog()
  const leases = await openPipeLeases({ store: metadata.cluster!, nodeId, log })
  const node: TestNode = { nodeId, leases, metadata, gained: [], lost: [], lines }
  leases.onGained((pipeId) => node.gained.push(pipeId))
  leases.onLost((pipeId) => node.lost.push(pipeId))
  t.teardown(() => leases.close())
  return node
}

const ownedBy = (nodes: TestNode[], pipeId: string) =>
  nodes.filter(({ leases }) => leases.owned(pipeId) !== null)

async function untilEachHasSome(nodes: TestNode[]): Promise<void> {
  await until('each has some', () => nodes.every(({ leases }) => leases.ownedPipes.size > 0))
}

/** Every pipe has one owner, which metadata also names. */
async function untilSpread(database: ClusterDatabase, nodes: TestNode[], pipes: string[]): Promise<void> {
  await until('every pipe has one owner', async () => {
    const owners = await database.metadata.cluster!.pipes.owners()
    return pipes.every((pipeId) => {
      const [owner, ...more] = ownedBy(nodes, pipeId)
      return owner !== undefined && more.length === 0 && owners.get(pipeId) === owner.nodeId
    })
  })
}

t.test('pipes are spread over the nodes; one that comes or goes moves its share alone', async (t) => {
  const database = await server.create(t)
  const pipes = await database.pipes(40)
  const first = await openNode(t, await database.open())
  t.equal(first.leases.ownedPipes.size, 40, 'alone it has everything once it is open')
  const nodes = [first, await openNode(t, await database.open())]
  await untilEachHasSome(nodes)
  await untilSpread(database, nodes, pipes)
  const before = new Map(pipes.map((id) => [id, ownedBy(nodes, id)[0]!]))
  const epochs = new Map(pipes.map((id) => [id, before.get(id)!.leases.owned(id)]))
  const third = await openNode(t, await database.open())
  nodes.push(third)
  await until('the third has its share', () => third.leases.ownedPipes.size > 3)
  await untilSpread(database, nodes, pipes)
  for (const id of pipes) {
    const [owner] = ownedBy(nodes, id)
    if (owner === third) t.ok(owner!.leases.owned(id)! > epochs.get(id)!, 'a greater epoch')
    else t.equal(owner, before.get(id), 'what it does not get stays where it was')
  }
  t.strictSame(first.lost, [], 'handed over, not lost')
  const itsPipes = [...third.leases.ownedPipes.keys()]
  const leftAt = performance.now()
  await third.leases.close()
  nodes.pop()
  await untilSpread(database, nodes, pipes)
  t.comment(`after a node left its pipes had owners in ${Math.round(performance.now() - leftAt)} ms`)
  for (const id of itsPipes) t.equal(ownedBy(nodes, id)[0], before.get(id), 'it returns where it was')
})

t.test('a pipe that was made gets its owner when that is told; a deleted one is lost', async (t) => {
  const database = await server.create(t)
  const node = await openNode(t, await database.open())
  const { pipe_id: pipeId } = await newPipe(database.metadata, database.workspaceId, 'new')
  t.equal(node.leases.owned(pipeId), null)
  await node.leases.changed(pipeId)
  t.equal(node.leases.owned(pipeId), 1)
  t.strictSame(node.gained, [pipeId])
  await database.metadata.pipes.delete({ workspaceId: database.workspaceId, pipeId })
  await until('it is lost', () => node.lost.includes(pipeId))
  t.equal(node.leases.owned(pipeId), null)
})

t.test('a pipe goes to another node when its lanes have saved, and not before', async (t) => {
  const database = await server.create(t)
  const pipes = await database.pipes(20)
  const first = await openNode(t, await database.open())
  // What it does not have yet, the second takes without asking.
  await until('the first has all', () => first.leases.ownedPipes.size === 20)
  const closed: (() => void)[] = []
  first.leases.onReleased(async (pipeId, graceMs) => {
    t.ok(graceMs > 0 && graceMs < 6_000)
    t.equal(first.leases.owned(pipeId), null)
    await new Promise<void>((resolve) => closed.push(resolve))
  })
  const second = await openNode(t, await database.open())
  await until('the first is asked', () => closed.length > 3)
  // Two renewals later nothing has changed hands.
  const told = pipes.filter((id) => first.leases.owned(id) === null)
  const { cluster } = database.metadata
  const expires = () => server.postgres.query('SELECT 1').then(() => performance.now())
  const from = await expires()
  await until('some ticks', async () => (await expires()) - from > 2_500)
  t.equal(second.leases.ownedPipes.size, 0)
  t.ok(
    told.every((id) => first.leases.holds(id, 1)),
    'its lanes may go on',
  )
  t.equal((await cluster!.pipes.owners()).size, 20)
  first.leases.onReleased(async () => {})
  const letGo = setInterval(() => {
    for (const close of closed.splice(0)) close()
  }, 20)
  t.teardown(() => clearInterval(letGo))
  await untilSpread(database, [first, second], pipes)
  t.strictSame(first.lost, [])
})

t.test('a node that drains gives everything up, and takes it back when nobody is left', async (t) => {
  const database = await server.create(t)
  const pipes = await database.pipes(12)
  const nodes: TestNode[] = []
  for (const name of ['a', 'b']) {
    const metadata = await database.open()
    const { log } = readableLog()
    const options = { store: metadata.cluster!, name, version: '1', address: null, log, onFatal() {} }
    const node = await openClusterNode(options)
    await node.join()
    t.teardown(() => node.close())
    nodes.push(await openNode(t, metadata, node.nodeId))
  }
  await untilEachHasSome(nodes)
  await untilSpread(database, nodes, pipes)
  const [a, b] = nodes as [TestNode, TestNode]
  await database.metadata.cluster!.nodes.setDraining(a.nodeId, true)
  await until('b has all', () => b.leases.ownedPipes.size === 12)
  t.equal(a.leases.ownedPipes.size, 0)
  t.match(await database.metadata.cluster!.nodes.list(), [
    { name: 'a', isDraining: true, ownedPipes: 0, isDelivering: true },
    { name: 'b', isDraining: false, ownedPipes: 12 },
  ])
  await b.leases.close()
  await until('a has all again', () => a.leases.ownedPipes.size === 12)
})

t.test('the same node, started again, has a greater epoch; the thread before it has nothing', async (t) => {
  const database = await server.create(t)
  const [pipeId] = (await database.pipes(1)) as [string]
  const before = await openNode(t, await database.open())
  t.equal(before.leases.owned(pipeId), 1)
  const again = await openNode(t, await database.open(), before.nodeId)
  t.equal(again.leases.owned(pipeId), 2, 'at once: its own node says that the first one has ended')
})

t.test('cut off from the database, a node gives up before another one takes over', async (t) => {
  const database = await server.create(t)
  const pipes = await database.pipes(10)
  const { metadata, proxy } = await database.openCuttable()
  const cut = await openNode(t, metadata)
  const other = await openNode(t, await database.open())
  const nodes = [cut, other]
  await untilEachHasSome(nodes)
  await untilSpread(database, nodes, pipes)
  const had = new Map(cut.leases.ownedPipes)
  t.ok(had.size > 0)
  let both = 0
  const watch = setInterval(() => {
    if (pipes.some((id) => ownedBy(nodes, id).length > 1)) both += 1
  }, 5)
  t.teardown(() => clearInterval(watch))
  const cutAt = performance.now()
  proxy.setMode({ kind: 'freeze' })
  await until('it gave up', () => cut.leases.ownedPipes.size === 0)
  const gaveUpAt = performance.now()
  await until('the other has everything', () => other.leases.ownedPipes.size === 10)
  t.comment(
    `gave up after ${Math.round(gaveUpAt - cutAt)} ms, taken over after ${Math.round(performance.now() - cutAt)} ms`,
  )
  t.strictSame(cut.lost.sort(), [...had.keys()].sort())
  t.match(
    cut.lines.filter(({ msg }) => msg === 'cluster.pipes_lost'),
    [{ pipes: had.size }],
    'said once',
  )
  proxy.setMode({ kind: 'reset' })
  proxy.setMode({ kind: 'pass' })
  await until('it is back', () => cut.leases.ownedPipes.size > 0)
  await untilSpread(database, nodes, pipes)
  for (const [id, epoch] of cut.leases.ownedPipes) t.ok(epoch > (had.get(id) ?? 0))
  t.equal(both, 0, 'at no moment two owners')
})

t.test(
  'a database that is away for a moment costs nothing; for longer, everybody starts again',
  async (t) => {
    const database = await server.create(t)
    const pipes = await database.pipes(10)
    const nodes = [await openNode(t, await database.open()), await openNode(t, await database.open())]
    await untilEachHasSome(nodes)
    await untilSpread(database, nodes, pipes)
    const epochs = pipes.map((id) => ownedBy(nodes, id)[0]!.leases.owned(id))
    await server.postgres.shutDown()
    await server.postgres.start()
    const startedAt = performance.now()
    await until('renewals later', () => performance.now() - startedAt > 3_000)
    t.strictSame(
      pipes.map((id) => ownedBy(nodes, id)[0]?.leases.owned(id)),
      epochs,
    )
    await server.postgres.shutDown()
    await until('nobody owns anything', () => nodes.every(({ leases }) => leases.ownedPipes.size === 0))
    await server.postgres.start()
    const backAt = performance.now()
    await untilSpread(database, nodes, pipes)
    t.comment(`owners again ${Math.round(performance.now() - backAt)} ms after the database was back`)
    for (const [n, id] of pipes.entries()) t.ok(ownedBy(nodes, id)[0]!.leases.owned(id)! > epochs[n]!)
  },
)

t.test('ten thousand pipes: held by one lease, given up and taken over in a few statements', async (t) => {
  const database = await server.create(t)
  const [pattern] = (await database.pipes(1)) as [string]
  const own = new pg.Client({ connectionString: database.url })
  await own.connect()
  t.teardown(() => own.end())
  const { rows } = await own.query('SELECT * FROM pipes WHERE pipe_id = $1', [pattern])
  const columns = Object.keys(rows[0]).filter((name) => !['pipe_id', 'pipe_name'].includes(name))
  await own.query(
    `INSERT INTO pipes (pipe_id, pipe_name, ${columns.join()})
     SELECT gen_random_uuid()::text, 'p' || n, ${columns.join()} FROM pipes, generate_series(1, 9999) n`,
  )
  const openedAt = performance.now()
  const first = await openNode(t, await database.open())
  t.comment(`claimed in ${Math.round(performance.now() - openedAt)} ms`)
  t.equal(first.leases.ownedPipes.size, 10_000)
  const { cluster } = first.metadata
  const [{ leaseId } = { leaseId: '' }] = await cluster!.pipes.workers()
  const times: Record<string, number> = {}
  for (const [what, work] of Object.entries({
    renew: () => cluster!.pipes.renew(leaseId),
    free: () => cluster!.pipes.free(),
    owners: () => cluster!.pipes.owners(),
  })) {
    const at = performance.now()
    for (let n = 0; n < 5; n += 1) await work()
    times[what] = Math.round((performance.now() - at) / 5)
  }
  t.comment('ms each', times)
  const second = await openNode(t, await database.open())
  await until('each has its share', () => second.leases.ownedPipes.size > 4_500)
  t.comment(`half handed over in ${Math.round(performance.now() - openedAt)} ms since the first opened`)
  t.strictSame(first.lost, [])
  const leftAt = performance.now()
  await first.leases.close()
  await until('the other has all', () => second.leases.ownedPipes.size === 10_000)
  t.comment(`taken over in ${Math.round(performance.now() - leftAt)} ms`)
})
