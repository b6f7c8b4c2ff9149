/** The servers that tests rely on: real nats-servers that can be killed, paused, cut off and started again. */
import { AckPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import t from 'tap'
import { startNats } from '../../support/nats.ts'
import { until } from '../../support/until.ts'

t.test('one server keeps what it acknowledged over kill -9, and answers again after a pause', async (t) => {
  const nats = await startNats({ maxPayload: 8 << 20, auth: { user: 'me', password: 'p@ss "word"' } })
  t.teardown(() => nats.stop())
  const [server] = nats.servers
  const connection = await nats.connect()
  t.equal(connection.info?.max_payload, 8 << 20)
  t.same(connection.info?.connect_urls ?? [], [], 'a client stays where it is')
  await (await jetstreamManager(connection)).streams.add({ name: 's', subjects: ['s.>'] })
  await jetstream(connection).publish('s.a', Buffer.alloc(2 << 20))
  t.equal((await nats.leaderOf('s'))?.name, 'n1')
  await connection.close()

  await server!.kill()
  t.equal(server!.isRunning(), false)
  await server!.restart()
  const again = await nats.connect()
  t.equal((await (await jetstreamManager(again)).streams.info('s')).state.messages, 1)
  server!.pause()
  await t.rejects(again.request('s.b', '', { timeout: 300 }))
  server!.resume()
  t.ok(await until('it answers', async () => (await jetstream(again).publish('s.b', 'x')).seq))
  await again.close()
})

t.test('three servers keep a stream while one is killed, and while the leader is cut off', async (t) => {
  const nats = await startNats({ replicas: 3, proxyRoutes: true })
  t.teardown(() => nats.stop())
  const setup = await nats.connect()
  await (await jetstreamManager(setup)).streams.add({ name: 's', subjects: ['s.>'], num_replicas: 3 })
  await setup.close()
  const publish = async (subject: string) =>
    await until(`${subject} is published`, async () => {
      const connection = await connect({
        servers: nats.servers.map(({ proxyUrl }) => proxyUrl),
        reconnect: false,
        timeout: 2_000,
      })
      try {
        return (await jetstream(connection).publish(subject, 'x', { timeout: 2_000 })).seq
      } finally {
        void connection.close()
      }
    })
  await publish('s.1')
  const leader = await until('a leader', () => nats.leaderOf('s'))
  await leader.kill()
  await publish('s.2')
  t.not((await until('another leader', () => nats.leaderOf('s'))).name, leader.name)
  await leader.restart()
  await nats.ready()
  // Two servers elect a leader only if each of them has the whole stream.
  await until('all servers have the stream', async () => {
    const connection = await nats.connect()
    const { cluster } = await (await jetstreamManager(connection)).streams.info('s')
    await connection.close()
    return cluster?.replicas?.length === 2 && cluster.replicas.every(({ current }) => current)
  })

  const cutOff = await until('a leader', () => nats.leaderOf('s'))
  cutOff.isolate()
  const others = nats.servers.filter((server) => server !== cutOff)
  const connection = await connect({ servers: others.map(({ proxyUrl }) => proxyUrl) })
  t.ok(
    await until('the others keep a message', async () => {
      return (await jetstream(connection).publish('s.3', 'x', { timeout: 2_000 })).seq
    }),
  )
  cutOff.rejoin()
  await nats.ready()
  const manager = await jetstreamManager(connection)
  t.ok((await manager.streams.info('s')).state.messages >= 3)
  await manager.consumers.add('s', { durable_name: 'c', ack_policy: AckPolicy.None, num_replicas: 3 })
  await connection.close()
})

t.test('a proxy holds what passes without losing it, and cuts', async (t) => {
  const nats = await startNats({ tls: true })
  t.teardown(() => nats.stop())
  const [server] = nats.servers
  const connection = await connect({
    servers: server!.proxyUrl,
    tls: { caFile: nats.caFile! },
    reconnectTimeWait: 20,
  })
  t.teardown(() => connection.close())
  server!.proxy.setMode({ kind: 'hold' })
  let isAnswered = false
  const answer = connection.request('$JS.API.INFO', '', { timeout: 60_000 })
  answer.then(() => {
    isAnswered = true
  }, t.fail)
  const beside = await nats.connect()
  await beside.request('$JS.API.INFO', '')
  await beside.close()
  t.equal(isAnswered, false)
  server!.proxy.setMode({ kind: 'pass' })
  t.ok((await answer).data.length > 0)
  const accepted = server!.proxy.accepted()
  server!.proxy.cut()
  await until('it connects again', () => server!.proxy.accepted() > accepted)
  t.ok(await until('it answers', () => connection.request('$JS.API.INFO', '', { timeout: 2_000 })))
})
