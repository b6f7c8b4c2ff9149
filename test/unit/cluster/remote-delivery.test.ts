/** Lanes of other nodes: asked for over a real nats-server. */
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { DeliveryError } from '../../../src/destinations/driver.ts'
import { DeliveryElsewhereError } from '../../../src/platform/error-code.ts'
import { type LaneNode, LaneNodes } from '../../support/lane-nodes.ts'
import { startNats } from '../../support/nats.ts'
import { until } from '../../support/until.ts'

const nats = await startNats()
t.teardown(() => nats.stop())

async function openNodes(t: Test, count = 2): Promise<{ world: LaneNodes; nodes: LaneNode[] }> {
  const world = await LaneNodes.open(nats.url, count)
  t.teardown(() => world.close())
  return { world, nodes: world.nodes }
}

const refused = new DeliveryError('permanent', 'http_400', 'no', { fault: 'records' })

t.test('lanes, backlogs and the blocking message of another node are its own', async (t) => {
  const { world, nodes } = await openNodes(t)
  const [here, there] = nodes as [LaneNode, LaneNode]
  const mine = await world.addPipe(here)
  const theirs = await world.addPipe(there)
  const own = await world.addLane(mine)
  const other = await world.addLane(theirs)
  other.destination.react = () => refused
  world.send(mine)
  world.send(theirs)
  await until('blocked', async () => (await here.delivery.lanes([other.id]))[other.id]?.blocking_msg_id)
  const lanes = await here.delivery.lanes([own.id, other.id, randomUUID()])
  t.same(Object.keys(lanes).sort(), [own.id, other.id].sort())
  t.notOk(lanes[other.id]!.stale, 'as its owner has it')
  t.match(await here.delivery.backlogs([mine, theirs]), {
    [theirs]: { pending_messages: 1, blocked_lanes: 1 },
  })
  t.match(await here.delivery.blockingMessage(other.id), { records_count: 1, recordTexts: ['{"a":1}'] })
  t.match(
    await here.delivery.troubles({ workspaceIds: [world.workspaceId], destinationIds: [], withAges: false }),
    [{ destinationId: other.id, failure: { attempts: Number } }],
  )
})

t.test('retry, skip and rewind are done by the owner, whoever is asked', async (t) => {
  const { world, nodes } = await openNodes(t, 3)
  const pipe = await world.addPipe(nodes[2]!)
  const { id, destination } = await world.addLane(pipe)
  destination.react = () => refused
  const seq = world.send(pipe)
  await until('blocked', async () => (await nodes[2]!.delivery.lanes([id]))[id]?.blocking_msg_id)
  t.type(await nodes[0]!.delivery.retryNow(id), 'string')
  t.equal(await nodes[1]!.delivery.skip(id), true)
  t.equal(await nodes[1]!.delivery.skip(id), false)
  t.match((await nodes[0]!.delivery.lanes([id]))[id], { skipped_messages: 1 })
  t.same(await nodes[0]!.delivery.rewind(id, { to: 'earliest' }), { kind: 'rewound', cursorSeq: 0 })
  t.match(await nodes[0]!.delivery.rewind(id, { to: 'seq', seq: seq + 1_000 }), { kind: 'ahead' })
  await nodes[0]!.delivery.parkedChanged(id)
})

t.test('of a destination that does not exist nothing is known', async (t) => {
  const { nodes } = await openNodes(t)
  const { delivery } = nodes[0]!
  const id = randomUUID()
  t.equal(await delivery.skip(id), false)
  t.equal(await delivery.retryNow(id), null)
  t.equal(await delivery.acknowledge({ destinationId: id, msgId: randomUUID() }, true), false)
  t.same(await delivery.pull(id, { waitMs: 0, afterSeq: null }), { kind: 'not_found' })
  t.equal(await delivery.blockingMessage(id), null)
})

t.test('a pull at another node: the message, then the next once it was pulled', async (t) => {
  const { world, nodes } = await openNodes(t)
  const [here, there] = nodes as [LaneNode, LaneNode]
  const pipe = await world.addPipe(there)
  const id = await world.addPull(pipe)
  const first = world.send(pipe, '{"n":1}')
  const second = world.send(pipe, '{"n":2}')
  const pulled = await here.delivery.pull(id, { waitMs: 0, afterSeq: null })
  t.match(pulled, { kind: 'message', seq: first })
  if (pulled.kind !== 'message') throw new Error('no message')
  t.match(JSON.parse(Buffer.from(pulled.json).toString()), { stream_seq: first, records: [{ n: 1 }] })
  t.same(await there.delivery.pull(id, { waitMs: 0, afterSeq: null }), { kind: 'empty' }, 'it is in flight')
  await here.delivery.abandoned({ destinationId: id, pullId: pulled.pullId })
  const again = await here.delivery.pull(id, { waitMs: 5_000, afterSeq: null })
  t.match(again, { kind: 'message', seq: first }, 'redelivered')
  await here.delivery.pulled({ destinationId: id, pullId: again.kind === 'message' ? again.pullId : '' })
  t.match(await here.delivery.pull(id, { waitMs: 5_000, afterSeq: null }), { kind: 'message', seq: second })
  t.match(await here.delivery.pull(id, { waitMs: 0, afterSeq: first }), { kind: 'message', seq: second })
  t.match(await here.delivery.pull(id, { waitMs: 0, afterSeq: 1e9 }), { kind: 'cursor_ahead' })
})

t.test('explicit acknowledgement at any node', async (t) => {
  const { world, nodes } = await openNodes(t)
  const pipe = await world.addPipe(nodes[1]!)
  const id = await world.addPull(pipe, { ack_mode: 'explicit' })
  world.send(pipe)
  const pulled = await nodes[0]!.delivery.pull(id, { waitMs: 0, afterSeq: null })
  if (pulled.kind !== 'message') throw new Error('no message')
  await nodes[0]!.delivery.pulled({ destinationId: id, pullId: pulled.pullId })
  t.equal(await nodes[0]!.delivery.acknowledge({ destinationId: id, msgId: pulled.msgId }, false), true)
  const again = await nodes[0]!.delivery.pull(id, { waitMs: 5_000, afterSeq: null })
  t.match(again, { msgId: pulled.msgId })
  t.equal(await nodes[0]!.delivery.acknowledge({ destinationId: id, msgId: pulled.msgId }, true), true)
  t.equal(await nodes[0]!.delivery.acknowledge({ destinationId: id, msgId: pulled.msgId }, true), false)
})

t.test('a message of 64 MiB comes whole, and nothing of it stays', async (t) => {
  const { world, nodes } = await openNodes(t)
  const pipe = await world.addPipe(nodes[1]!)
  const id = await world.addPull(pipe)
  const text = JSON.stringify({ a: 'x'.repeat(64 * 1024 * 1024 - 100) })
  world.send(pipe, text)
  const pulled = await nodes[0]!.delivery.pull(id, { waitMs: 5_000, afterSeq: null })
  if (pulled.kind !== 'message') throw new Error(`no message: ${pulled.kind}`)
  t.ok(Buffer.from(pulled.json).includes(text))
  await nodes[0]!.delivery.pulled({ destinationId: id, pullId: pulled.pullId })
  t.same(await nodes[0]!.delivery.pull(id, { waitMs: 0, afterSeq: null }), { kind: 'empty' })
  t.equal(nodes[0]!.link.requests.underWay, 0)
  await until('nothing is served', () => nodes[1]!.link.server.underWay === 0)
})

t.test(
  '500 pulls wait at another node; each message goes to one of them, and the end frees all',
  async (t) => {
    const { world, nodes } = await openNodes(t)
    const [here, there] = nodes as [LaneNode, LaneNode]
    const pipe = await world.addPipe(there)
    const id = await world.addPull(pipe)
    const pulls = Array.from({ length: 500 }, async () => {
      const pulled = await here.delivery.pull(id, { waitMs: 30_000, afterSeq: null })
      if (pulled.kind === 'message') await here.delivery.pulled({ destinationId: id, pullId: pulled.pullId })
      return pulled
    })
    await until('they wait', () => there.link.server.underWay === 500)
    const seqs = [world.send(pipe), world.send(pipe), world.send(pipe)]
    await until(
      'they were handed out',
      async () => (await there.delivery.lanes([id]))[id]!.cursor_seq === seqs[2],
    )
    await here.delivery.endPulls()
    const ended = await Promise.all(pulls)
    const got = ended.flatMap((one) => (one.kind === 'message' ? [one.seq] : []))
    t.same(
      got.sort((a, b) => a - b),
      seqs,
    )
    t.equal(here.link.requests.underWay, 0)
    await until('nobody waits at the owner', () => there.link.server.underWay === 0)
    t.same(await here.delivery.pull(id, { waitMs: 30_000, afterSeq: null }), { kind: 'empty' })
  },
)

t.test('a pull goes on at the next owner when the first is killed', async (t) => {
  const { world, nodes } = await openNodes(t, 3)
  const [here, dying, next] = nodes as [LaneNode, LaneNode, LaneNode]
  const pipe = await world.addPipe(dying)
  const id = await world.addPull(pipe)
  const pull = here.delivery.pull(id, { waitMs: 30_000, afterSeq: null })
  await until('it waits', () => dying.link.server.underWay === 1)
  await dying.kill()
  world.give(pipe, next)
  const seq = world.send(pipe)
  t.match(await pull, { kind: 'message', seq })
})

t.test('a message that a killed node had pulled is redelivered', async (t) => {
  const { world, nodes } = await openNodes(t, 3)
  const [dying, owner, other] = nodes as [LaneNode, LaneNode, LaneNode]
  const pipe = await world.addPipe(owner)
  const id = await world.addPull(pipe)
  const seq = world.send(pipe)
  t.match(await dying.delivery.pull(id, { waitMs: 0, afterSeq: null }), { seq })
  t.same(await other.delivery.pull(id, { waitMs: 0, afterSeq: null }), { kind: 'empty' })
  await dying.kill()
  // It had 10 minutes on one machine, whose death ends the lane as well.
  t.match(await other.delivery.pull(id, { waitMs: 30_000, afterSeq: null }), { seq })
})

t.test('a message that a living node holds is not redelivered', async (t) => {
  const { world, nodes } = await openNodes(t)
  const pipe = await world.addPipe(nodes[1]!)
  const id = await world.addPull(pipe)
  world.send(pipe)
  const held = await nodes[0]!.delivery.pull(id, { waitMs: 0, afterSeq: null })
  t.same(await nodes[1]!.delivery.pull(id, { waitMs: 9_000, afterSeq: null }), { kind: 'empty' })
  await nodes[0]!.delivery.pulled({ destinationId: id, pullId: held.kind === 'message' ? held.pullId : '' })
})

t.test('no owner: commands say so, lanes are as they are stored, a pull waits', async (t) => {
  const { world, nodes } = await openNodes(t)
  const { delivery } = nodes[0]!
  const pipe = await world.addPipe(null)
  const { id } = await world.addLane(pipe)
  const pullId = await world.addPull(pipe)
  world.send(pipe)
  await t.rejects(delivery.skip(id), new DeliveryElsewhereError(true, `no node delivers destination ${id}`))
  t.match(await delivery.lanes([id]), { [id]: { stale: true, pending_messages: 1 } })
  t.match(await delivery.lanesSince([id], null), { lanes: { [id]: { stale: true } } })
  t.match(await delivery.backlogs([pipe]), { [pipe]: { pending_messages: 1 } })
  t.equal(await delivery.blockingMessage(id), null)
  t.equal(
    await delivery.troubles({ workspaceIds: [world.workspaceId], destinationIds: [id], withAges: false }),
    null,
  )
  const pull = delivery.pull(pullId, { waitMs: 30_000, afterSeq: null })
  await delivery.parkedChanged(id)
  world.give(pipe, nodes[1]!)
  t.match(await pull, { kind: 'message' })
})

t.test('a skip whose owner falls silent may have been done; it is not asked for again', async (t) => {
  const { world, nodes } = await openNodes(t)
  const [here, there] = nodes as [LaneNode, LaneNode]
  const pipe = await world.addPipe(there)
  const { id, destination } = await world.addLane(pipe)
  destination.react = () => refused
  world.send(pipe)
  await until('blocked', async () => (await there.delivery.lanes([id]))[id]?.blocking_msg_id)
  let skips = 0
  there.link.server.serve({
    'delivery.skip': async () => {
      skips += 1
      await there.local.skip(id)
      await there.kill()
      return { value: true }
    },
  })
  const failed = await here.delivery.skip(id).catch((error) => error)
  t.match(failed, { name: 'DeliveryElsewhereError', isUndone: false })
  t.equal(skips, 1)
})

t.test('a command that its asker has given up is not begun', async (t) => {
  const { world, nodes } = await openNodes(t)
  const [here, there] = nodes as [LaneNode, LaneNode]
  const pipe = await world.addPipe(there)
  const { id, destination } = await world.addLane(pipe)
  destination.react = () => refused
  world.send(pipe)
  await until('blocked', async () => (await there.delivery.lanes([id]))[id]?.blocking_msg_id)
  const asked = here.link.requests.request(there.nodeId, 'delivery.skip', [id], {
    confirm: true,
    silenceMs: 0,
  })
  // As a node that is stopped for a while: the request waits in its socket.
  const until0 = performance.now() + 400
  while (performance.now() < until0);
  t.match(await asked.catch((error) => error), { reason: 'silent' })
  await until('it is over there', () => there.link.server.underWay === 0)
  t.ok((await there.delivery.lanes([id]))[id]?.blocking_msg_id, 'still blocked')
  await here.link.requests.request(there.nodeId, 'delivery.skip', [id], { confirm: true })
  t.notOk((await there.delivery.lanes([id]))[id]?.blocking_msg_id, 'control: one that is waited for is done')
})

t.test('an owner that has given the pipe away sends the asker on', async (t) => {
  const { world, nodes } = await openNodes(t, 3)
  const [here, before, now] = nodes as [LaneNode, LaneNode, LaneNode]
  const pipe = await world.addPipe(before)
  const { id, destination } = await world.addLane(pipe)
  destination.react = () => refused
  world.send(pipe)
  world.give(pipe, now)
  // The cached owners are a moment old.
  world.owners.set(pipe, before.nodeId)
  setTimeout(() => world.owners.set(pipe, now.nodeId), 300)
  t.type(await here.delivery.skip(id), 'boolean')
  t.same(await before.local.lanes([id]), {})
  await t.rejects(before.local.skip(id), { name: 'LaneElsewhereError' })
  await t.rejects(before.local.pull(id, { waitMs: 0, afterSeq: null }), { name: 'LaneElsewhereError' })
  t.same(await before.local.backlogs([pipe]), {})
})

t.test(
  'lanes since a revision, of several owners: what changed, and all of a lane that has moved',
  async (t) => {
    const { world, nodes } = await openNodes(t, 3)
    const [here, a, b] = nodes as [LaneNode, LaneNode, LaneNode]
    const pipes = [await world.addPipe(a), await world.addPipe(b), await world.addPipe(here)]
    const ids: string[] = []
    for (const pipe of pipes) ids.push((await world.addLane(pipe)).id)
    const first = await here.delivery.lanesSince(ids, null)
    t.same(Object.keys(first.lanes).sort(), [...ids].sort())
    const second = await here.delivery.lanesSince(ids, first.revision)
    t.same(second.lanes, {})
    world.send(pipes[1]!)
    const third = await until('it was delivered', async () => {
      const changed = await here.delivery.lanesSince(ids, second.revision)
      return (changed.lanes[ids[1]!]?.delivered_records ?? 0) > 0 ? changed : null
    })
    t.same(Object.keys(third.lanes), [ids[1]])
    world.give(pipes[0]!, b)
    await until('it runs there', () => b.lanes.lane(ids[0]!))
    // Somebody else has been shown the lane by its new owner already.
    await b.local.lanesSince(ids, null)
    const moved = await here.delivery.lanesSince(ids, third.revision)
    t.same(Object.keys(moved.lanes), [ids[0]])
    t.notOk(moved.lanes[ids[0]!]!.stale)
    t.same((await here.delivery.lanesSince(ids, moved.revision)).lanes, {})
    t.same(Object.keys((await here.delivery.lanesSince(ids, 'of another time')).lanes).length, 3)
  },
)

/** Reads at these nodes are not answered before `release`. `asked`: by node, how many were for somebody; a probe names no lane. */
function holdReads(t: Test, nodes: readonly LaneNode[]): { asked(node: LaneNode): number; release(): void } {
  const asked = new Map<LaneNode, number>()
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  t.teardown(() => release())
  for (const node of nodes)
    node.link.server.serve({
      'delivery.lanes': async ([ids]) => {
        const some = ids as string[]
        if (some.length > 0) asked.set(node, (asked.get(node) ?? 0) + 1)
        await released
        return { value: await node.local.lanes(some) }
      },
    })
  return { asked: (node) => asked.get(node) ?? 0, release }
}

t.test(
  'a node that answers late is not asked again until it answers: its lanes are as they are stored',
  async (t) => {
    const { world, nodes } = await openNodes(t)
    const [here, there] = nodes as [LaneNode, LaneNode]
    const { id } = await world.addLane(await world.addPipe(there))
    const held = holdReads(t, [there])
    const read = async () => (await here.delivery.lanes([id]))[id]!
    t.equal((await read()).stale, true)
    t.equal(held.asked(there), 1)
    for (let times = 0; times < 3; times += 1) t.equal((await read()).stale, true)
    t.equal(held.asked(there), 1, 'nobody waits for it')
    held.release()
    await until('it is asked again', async () => !(await read()).stale)
    t.equal(held.asked(there), 2)
  },
)

t.test('a node that is lost is not waited for, and forgotten when another has its pipes', async (t) => {
  const { world, nodes } = await openNodes(t, 3)
  const [here, there, third] = nodes as [LaneNode, LaneNode, LaneNode]
  const pipe = await world.addPipe(there)
  const { id } = await world.addLane(pipe)
  const held = holdReads(t, [there])
  t.equal((await here.delivery.lanes([id]))[id]!.stale, true)
  t.match(await here.delivery.lanesSince([id], null), { lanes: { [id]: { stale: true } } })
  t.equal(
    await here.delivery.troubles({ workspaceIds: [world.workspaceId], destinationIds: [], withAges: false }),
    null,
    'what a lost node would say is not known',
  )
  world.give(pipe, third)
  t.notOk((await here.delivery.lanes([id]))[id]!.stale, 'its new owner is asked')
  t.equal(held.asked(there), 1)
})

t.test('all nodes are asked at the same time', async (t) => {
  const { world, nodes } = await openNodes(t, 4)
  const [here, ...others] = nodes as [LaneNode, ...LaneNode[]]
  const ids: string[] = []
  for (const node of others) ids.push((await world.addLane(await world.addPipe(node))).id)
  const held = holdReads(t, others)
  const reading = here.delivery.lanes(ids)
  await until('each of them was asked', () => others.every((node) => held.asked(node) === 1))
  held.release()
  const lanes = await reading
  t.same(Object.keys(lanes).sort(), ids.sort())
})
