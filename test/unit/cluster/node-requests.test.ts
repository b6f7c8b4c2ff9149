/** Requests between nodes, and requests from unknown clients. */
import { randomBytes, randomUUID } from 'node:crypto'
import { connect } from '@nats-io/transport-node'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { type NodeLink, openNodeLink } from '../../../src/cluster/node-link.ts'
import type { NodeRequestError } from '../../../src/cluster/node-requests.ts'
import { RefusedRequestError } from '../../../src/cluster/node-server.ts'
import {
  decode,
  encode,
  limits,
  nodeSubject,
  replySubject,
  responseOf,
} from '../../../src/cluster/protocol.ts'
import { StorageUnavailableError } from '../../../src/platform/error-code.ts'
import { LaneNodes } from '../../support/lane-nodes.ts'
import { startNats } from '../../support/nats.ts'
import { until } from '../../support/until.ts'

const nats = await startNats()
t.teardown(() => nats.stop())

async function openLink(t: Test, url = nats.url): Promise<NodeLink & { logged: string[] }> {
  const connection = await connect({ servers: url })
  const logged: string[] = []
  const log = pino({ base: null }, { write: (line: string) => void logged.push(line) })
  const link = openNodeLink({ nats: connection, cluster: 'test', nodeId: randomUUID(), log })
  // Its subscriptions are with the server: a request that comes before finds nobody.
  await connection.flush()
  t.teardown(async () => {
    link.close()
    await connection.close()
  })
  return { ...link, logged }
}

const reasonOf = (asked: Promise<unknown>) =>
  asked.then(
    () => 'answered',
    (error: NodeRequestError) => error.reason,
  )

t.test('an answer comes back whole, of any size, its bytes untouched', async (t) => {
  const asker = await openLink(t)
  const server = await openLink(t)
  server.server.serve({
    echo: async ([value, size]) => ({ value, bytes: new Uint8Array(randomBytes(Number(size))) }),
    nothing: async () => ({}),
  })
  const to = server.requests.nodeId
  for (const size of [0, 1, limits.partBytes - 1, limits.partBytes, 5_000_000]) {
    const { value, bytes } = await asker.requests.request(to, 'echo', [{ ä: 'ö' }, size])
    t.same(value, { ä: 'ö' })
    t.equal(bytes?.byteLength, size)
  }
  t.same(await asker.requests.request(to, 'nothing', []), { value: null, bytes: null })
})

t.test('what cannot be done is told apart', async (t) => {
  const asker = await openLink(t)
  const server = await openLink(t)
  const to = server.requests.nodeId
  server.server.serve({
    refuse: async () => {
      throw new RefusedRequestError('not_owner', 'not mine')
    },
    fail: async () => {
      throw new Error('broken')
    },
    wait: async () => {
      throw new StorageUnavailableError('full')
    },
    hang: () => new Promise(() => {}),
    huge: async () => ({ bytes: new Uint8Array(limits.answerBytes + 1) }),
  })
  const ask = (method: string, options = {}) => reasonOf(asker.requests.request(to, method, [], options))
  t.equal(await ask('refuse'), 'not_owner')
  t.equal(await ask('fail'), 'failed')
  t.equal(await ask('wait'), 'unavailable')
  t.equal(await ask('huge'), 'busy')
  t.equal(await ask('of_a_newer_version'), 'unknown_method')
  t.equal(await reasonOf(asker.requests.request(randomUUID(), 'refuse', [])), 'unreachable')
  t.equal(await reasonOf(asker.requests.request(to, 'refuse', ['x'.repeat(1e6)])), 'bad_request')
  const abort = new AbortController()
  const aborted = ask('hang', { signal: abort.signal })
  abort.abort()
  t.equal(await aborted, 'silent')
  t.equal(server.logged.filter((line) => line.includes('cluster.request_failed')).length, 1)
})

t.test('a method may take its time while its node lives; a node that falls silent is given up', async (t) => {
  const asker = await openLink(t)
  const server = await openLink(t)
  let begun = 0
  server.server.serve({
    slow: async () => {
      begun += 1
      await new Promise((resolve) => setTimeout(resolve, 2_500))
      return { value: 'done' }
    },
  })
  const { value } = await asker.requests.request(server.requests.nodeId, 'slow', [], { silenceMs: 1_500 })
  t.equal(value, 'done')
  const asked = asker.requests.request(server.requests.nodeId, 'slow', [], { silenceMs: 1_500 })
  await until('it has begun', () => begun === 2)
  server.close()
  t.equal(await reasonOf(asked), 'silent')
})

t.test('while NATS is gone nothing is sent, and nothing later', async (t) => {
  const own = await startNats()
  t.teardown(() => own.stop())
  const asker = await openLink(t, own.url)
  const server = await openLink(t, own.url)
  let served = 0
  server.server.serve({
    count: async () => {
      served += 1
      return {}
    },
  })
  const to = server.requests.nodeId
  await asker.requests.request(to, 'count', [])
  await own.servers[0]!.kill()
  const ask = () => reasonOf(asker.requests.request(to, 'count', [], { silenceMs: 100 }))
  await until('it is noticed', async () => (await ask()) === 'unreachable')
  t.equal(served, 1)
  await own.servers[0]!.restart()
  await until('it is there again', async () => (await ask()) === 'answered')
  t.equal(served, 2, 'none of the others was kept')
})

t.test('strangers on the subject of a node: refused or ignored, and it goes on', async (t) => {
  const world = await LaneNodes.open(nats.url, 2)
  t.teardown(() => world.close())
  const [here, there] = world.nodes as [(typeof world.nodes)[0], (typeof world.nodes)[0]]
  const pipe = await world.addPipe(there)
  const { id } = await world.addLane(pipe)
  const stranger = await nats.connect()
  t.teardown(() => stranger.close())
  const subject = nodeSubject({ cluster: 'test', nodeId: there.nodeId })
  const request = { kind: 'request', id: 1, from: 'x', method: 'delivery.skip', waitMs: 0, confirm: false }
  const args = (value: unknown) => Buffer.from(JSON.stringify(value))
  const broken: Uint8Array[] = [
    new Uint8Array(0),
    new Uint8Array([0xff, 0xff, 0xff, 0xff]),
    new Uint8Array(randomBytes(500_000)),
    encode({ kind: 'nothing' }),
    encode({ ...request, from: 'a.b.*' }),
    encode({ ...request, id: -1 }),
    encode({ ...request, waitMs: 1e300 }, args([id])),
    encode({ ...request, method: '__proto__' }, args([])),
    encode({ ...request, method: 'constructor' }, args([])),
    encode({ ...request, id: 2 }, Buffer.from('{"a":')),
    encode({ ...request, id: 3 }, Buffer.from('['.repeat(200_000))),
    encode({ ...request, id: 4, confirm: true }, args([id])),
    encode({ kind: 'ack', id: 4, from: 'x', part: 1e15 }),
    encode({ kind: 'go', id: 77, from: 'x' }),
    encode({ ...request, v: 99, id: 5 }, args([id])),
  ]
  for (const bytes of broken) stranger.publish(subject, bytes)
  for (const head of [{ kind: 'part', part: 0, parts: 1, bytes: 1e12, wantsAck: true }, { kind: 'ready' }])
    stranger.publish(
      replySubject({ cluster: 'test', nodeId: here.nodeId }, 1),
      encode(head, new Uint8Array(10)),
    )
  await stranger.flush()
  const to = there.nodeId
  const bad: [string, unknown[]][] = [
    ['lanes', [null]],
    ['lanes', [['no-uuid']]],
    ['lanes', [Array.from({ length: limits.ids + 1 }, () => id)]],
    ['lanesSince', [[id], 'x'.repeat(201)]],
    ['blockingMessage', [id, { from: -1, limit: 1 }]],
    ['rewind', [id, { to: 'seq', seq: '1' }]],
    ['rewind', [id, { to: 'moon' }]],
    ['rewind', [id, null]],
    ['pull', [id, { waitMs: 0, afterSeq: {} }]],
    ['pulled', [id, 'x']],
    ['acknowledge', [id, 'x', true]],
    ['troubles', [{ workspaceIds: {}, destinationIds: [], withAges: true }]],
    ['holding', [[1]]],
    ['skip', []],
  ]
  for (const [method, wrong] of bad)
    t.equal(
      await reasonOf(here.link.requests.request(to, `delivery.${method}`, wrong)),
      'bad_request',
      method,
    )
  t.match(await here.delivery.lanes([id]), { [id]: { lane_state: 'idle' } }, 'it goes on')
  t.ok(world.logged.filter(({ msg }) => msg === 'cluster.bad_message').length <= 2, 'told once a minute')
  await until('none of them stays', () => there.link.server.underWay === 0)
})

t.test('messages are read as they were written, and nothing else is read', (t) => {
  const bytes = encode({ kind: 'go', id: 7, from: 'a' }, Buffer.from('body'))
  const decoded = decode(bytes)
  t.match(decoded?.head, { v: 1, kind: 'go', id: 7 })
  t.equal(Buffer.from(decoded?.body ?? []).toString(), 'body')
  t.equal(decode(bytes.subarray(0, 10)), null)
  t.equal(decode(encode({ long: 'x'.repeat(limits.headBytes) })), null)
  t.equal(responseOf(new Uint8Array(3)), null)
  t.equal(responseOf(new Uint8Array([0, 0, 0, 9, 1])), null)
  t.equal(responseOf(new Uint8Array([0, 0, 0, 1, 0x31])), null)
  t.end()
})
