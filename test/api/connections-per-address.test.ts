/** `http.max_connections_per_address`: one address takes no more of the daemon's connections than it may have. */
import { once } from 'node:events'
import net from 'node:net'
import t from 'tap'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { until } from '../support/until.ts'

const crowdSize = 12
const health = 'GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n'

/** All of 127.0.0.0/8 is this machine: a client may be any of it. */
async function connectFrom(daemon: TestDaemon, localAddress: string): Promise<net.Socket> {
  const { hostname, port } = new URL(daemon.url)
  const socket = net.connect({ host: hostname, port: Number(port), localAddress })
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

/** False: it was closed instead. */
function isServed(socket: net.Socket): Promise<boolean> {
  return new Promise((resolve) => {
    if (socket.destroyed) resolve(false)
    socket.once('close', () => resolve(false))
    socket.once('data', (data) => resolve(data.includes('200 OK')))
    socket.write(health)
  })
}

/** As many as one address has at a time, of a crowd. */
async function served(daemon: TestDaemon, localAddress: string): Promise<net.Socket[]> {
  const sockets: net.Socket[] = []
  for (let i = 0; i < crowdSize; i++) sockets.push(await connectFrom(daemon, localAddress))
  const found = await Promise.all(sockets.map(isServed))
  return sockets.filter((_, index) => found[index])
}

const node = { PIPECTL_HTTP_ENGINE: 'node', PIPECTL_INGEST_WORKERS: '1' }

t.test('an address has as many connections as it may; others, and trusted proxies, go on', async (t) => {
  const daemon = await startDaemon({
    env: {
      ...node,
      PIPECTL_HTTP_MAX_CONNECTIONS_PER_ADDRESS: '5',
      PIPECTL_TRUSTED_PROXIES: '127.0.0.3',
    },
  })
  t.teardown(() => daemon.close())
  const crowd = await served(daemon, '127.0.0.2')
  t.equal(crowd.length, 5)
  t.match(
    daemon.log.find(({ msg }) => msg === 'http.address_full'),
    { address: '127.0.0.2', max_connections: 5 },
  )
  t.equal((await daemon.api('GET', '/v1/pipes')).status, 200, 'another address')
  t.equal((await served(daemon, '127.0.0.3')).length, crowdSize, 'a trusted proxy')
  crowd[0]?.destroy()
  await until('a place is free again', async () => isServed(await connectFrom(daemon, '127.0.0.2')))
})

t.test('without the setting an address has as many as it likes', async (t) => {
  const daemon = await startDaemon({ env: node })
  t.teardown(() => daemon.close())
  t.equal((await served(daemon, '127.0.0.2')).length, crowdSize)
})

t.test('an engine that does not see connections open says so', async (t) => {
  await t.rejects(
    startDaemon({ env: { PIPECTL_HTTP_ENGINE: 'auto', PIPECTL_HTTP_MAX_CONNECTIONS_PER_ADDRESS: '5' } }),
    /ended with 78.*http\.max_connections_per_address: needs http\.engine node, not auto/s,
  )
})
