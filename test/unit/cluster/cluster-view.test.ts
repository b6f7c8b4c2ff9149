/** A node's view of the others, over the real store; its clocks are the test's. */
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { ClusterView } from '../../../src/cluster/cluster-view.ts'
import { openLog } from '../../../src/platform/log.ts'
import { newPipe, newWorkspace, open, testFile } from '../metadata/fixture.ts'

const log = openLog({ level: 'silent', format: 'json' }, 'test')

interface Joined {
  nodeId: string
  leaseId: string
  workerId: string
}

async function cluster(t: Test) {
  let ms = 1_000_000
  const metadata = await open(t, { ...testFile(t), now: () => ms, isShared: true })
  const store = metadata.cluster!
  const workspaceId = await newWorkspace(metadata, 'w')
  const join = async (name: string): Promise<Joined> => {
    const node = { nodeId: randomUUID(), leaseId: randomUUID(), workerId: randomUUID() }
    const seen = await store.changes.newest()
    await store.nodes.join(
      { nodeId: node.nodeId, name, version: '1', address: null },
      node.leaseId,
      seen,
      false,
    )
    await store.pipes.join({ nodeId: node.nodeId, leaseId: node.workerId })
    return node
  }
  const one = await join('one')
  const view = new ClusterView({
    node: {
      nodeId: one.nodeId,
      nodes: () => store.nodes.list(),
      lostNodes: () => store.nodes.lost(),
      owners: () => store.pipes.owners(),
      clock: { offsetMs: -1500 },
    },
    store,
    log,
    monotonicMs: () => ms,
  })
  return {
    ...{ metadata, store, view, one, join },
    pipe: async (name: string) => (await newPipe(metadata, workspaceId, name)).pipe_id,
    /** The others renew, as living nodes do. */
    async pass(seconds: number, ...living: Joined[]) {
      ms += seconds * 1000
      for (const { leaseId, workerId } of living) {
        await store.nodes.renew(leaseId, 6_000)
        await store.pipes.renew(workerId)
      }
      await store.nodes.removeExpired()
      await store.pipes.removeExpired()
    },
    states: async () => (await view.facts()).nodes.map(({ nodeName, state }) => `${nodeName} ${state}`),
  }
}

t.test('who is there, who drains, and who delivers what', async (t) => {
  const { store, view, one, join, pipe, pass, states } = await cluster(t)
  const two = await join('two')
  const [a, b] = [await pipe('a'), await pipe('b')]
  await store.pipes.claim(one.workerId, await store.pipes.free(a))
  t.strictSame(await states(), ['one live', 'two live'])
  t.match(await view.measured(), { ownedPipes: 1, unownedPipes: 1, gainedPipes: 0, clockOffsetSeconds: -1.5 })
  await store.pipes.claim(one.workerId, await store.pipes.free(b))
  await store.nodes.setDraining(two.nodeId, true)
  await pass(1, one, two)
  t.strictSame(await states(), ['one live', 'two draining'])
  t.same((await view.facts()).owners, new Map([a, b].map((id) => [id, one.nodeId])))
  t.match(await view.measured(), {
    nodes: { live: 1, draining: 1, expired: 0 },
    ...{ ownedPipes: 2, unownedPipes: 0, gainedPipes: 1, heartbeatAgeSeconds: 0, changesBehind: 2 },
  })
})

t.test('a node that leaves is forgotten; one that ends without a word stays as expired', async (t) => {
  const { store, view, one, join, pass, states } = await cluster(t)
  const [left, killed] = [await join('left'), await join('killed')]
  t.strictSame(await states(), ['killed live', 'left live', 'one live'])
  await store.nodes.leave(left.leaseId)
  await pass(2, one, killed)
  t.strictSame(await states(), ['killed live', 'one live'])
  for (let seconds = 2; seconds <= 8; seconds += 2) {
    await pass(2, one)
    await states()
  }
  t.strictSame(await states(), ['one live', 'killed expired'])
  t.match(await view.measured(), { nodes: { live: 1, draining: 0, expired: 1 } })
  await join('killed')
  await pass(2, one)
  t.strictSame(await states(), ['killed live', 'one live'], 'its successor has taken its place')
})

t.test('a node that leaves when its lease has almost ended is not taken for a lost one', async (t) => {
  const { store, one, join, pass, states } = await cluster(t)
  const left = await join('left')
  await pass(4, one)
  t.strictSame(await states(), ['left live', 'one live'], 'it is late with its heartbeat')
  await pass(1.9, one)
  await store.nodes.leave(left.leaseId)
  await pass(0.1, one)
  t.strictSame(await states(), ['one live'])
})

t.test('a killed node whose successor joins before its lease ends, and leaves later', async (t) => {
  const { store, one, join, pass, states } = await cluster(t)
  await join('killed')
  await pass(2, one)
  const successor = await join('killed')
  await pass(5, one, successor)
  t.strictSame(await states(), ['killed live', 'one live'])
  await store.nodes.leave(successor.leaseId)
  await pass(1, one)
  t.strictSame(await states(), ['one live'])
})

t.test('a node that was paused beyond its lease and joins again is live', async (t) => {
  const { store, one, join, pass, states } = await cluster(t)
  const paused = await join('paused')
  await states()
  await pass(4, one)
  await pass(3, one)
  t.strictSame(await states(), ['one live', 'paused expired'])
  const node = { nodeId: paused.nodeId, name: 'paused', version: '1', address: null }
  await store.nodes.join(node, randomUUID(), 0, false)
  await pass(1, one)
  t.strictSame(await states(), ['one live', 'paused live'])
})

t.test('after an hour it is forgotten; a loss that no screen saw is known too', async (t) => {
  const { one, join, pass, states } = await cluster(t)
  await join('killed')
  await states()
  for (let seconds = 2; seconds <= 8; seconds += 2) {
    await pass(2, one)
    await states()
  }
  t.strictSame(await states(), ['one live', 'killed expired'])
  for (let seconds = 0; seconds <= 3_600; seconds += 5) await pass(5, one)
  await states()
  t.strictSame(await states(), ['one live'])
  await join('unseen')
  await states()
  await pass(4, one)
  await pass(4, one)
  t.strictSame(await states(), ['one live', 'unseen expired'])
})

t.test('a node that cannot renew its lease says for how long', async (t) => {
  const { view, one, pass } = await cluster(t)
  await view.facts()
  await pass(2, one)
  t.match(await view.measured(), { heartbeatAgeSeconds: 0 })
  await pass(4)
  t.match(await view.measured(), { heartbeatAgeSeconds: 4 })
  await pass(4)
  t.match(await view.measured(), { heartbeatAgeSeconds: 8 }, 'others have removed it')
})

t.test('metrics do not wait for a database that does not answer', async (t) => {
  const { store, one } = await cluster(t)
  let isSilent = false
  const newest = () => (isSilent ? new Promise<never>(() => {}) : store.changes.newest())
  const view = new ClusterView({
    node: {
      nodeId: one.nodeId,
      nodes: () => store.nodes.list(),
      lostNodes: () => store.nodes.lost(),
      owners: () => store.pipes.owners(),
      clock: { offsetMs: 0 },
    },
    store: { pipes: store.pipes, changes: { ...store.changes, newest } },
    log,
  })
  const { nodes } = await view.measured()
  isSilent = true
  t.match(await view.measured(), { nodes })
  t.match(await view.measured(), { nodes }, 'nor for the statement of before')
})
