/** A crowd of connections takes no file descriptor that anything else needs (H1). */
import { once } from 'node:events'
import net from 'node:net'
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { connectRaw } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

/** A port that was any free one cannot be listened on again while it has connections. */
async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

const daemon = await startDaemon({
  under: ['prlimit', '--nofile=512'],
  args: ['--listen', `127.0.0.1:${await freePort()}`, '--data-listen', `127.0.0.1:${await freePort()}`],
})
t.teardown(() => daemon.close())
const pipe = await daemon.createPipe({ pipe_name: 'crowded' })
await daemon.createDestination(pipe, { destination_type: 'destination_pull', destination_config: {} })

/** Connections that never say a word, as many as get in. */
function crowd(url: string, count: number): net.Socket[] {
  const { hostname, port } = new URL(url)
  return Array.from({ length: count }, () => {
    const socket = net.connect(Number(port), hostname)
    socket.on('error', () => {})
    return socket
  })
}
const times = (event: string) => daemon.log.filter(({ msg }) => msg === event).length

const record = JSON.stringify({ a: 1 })
const ingest =
  `POST /v1/ingest/${pipe} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${daemon.apiKey}\r\n` +
  `Content-Type: application/json\r\nContent-Length: ${record.length}\r\n\r\n${record}`
const health = 'GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n'

for (const round of [1, 2]) {
  t.test(
    `a thousand idle connections at 512 descriptors: who is connected goes on, others return (${round})`,
    async (t) => {
      const sender = await connectRaw(daemon.dataUrl)
      const operator = await connectRaw(daemon.url)
      const before = times('http.connections_full')
      const sockets = crowd(round === 1 ? daemon.dataUrl : daemon.url, 1_000)
      await until('it stops listening', async () => times('http.connections_full') > before)
      for (let i = 0; i < 20; i++) {
        sender.write(ingest)
        t.equal((await sender.answer()).status, 202)
        operator.write(health)
        t.equal((await operator.answer()).status, 200)
      }
      for (const socket of sockets) socket.resetAndDestroy()
      await until(
        'it listens again',
        async () => times('http.accepting_again') === times('http.connections_full'),
      )
      for (const url of [daemon.url, daemon.dataUrl]) {
        const newcomer = await connectRaw(url)
        newcomer.write(health)
        t.equal((await newcomer.answer()).status, 200)
        newcomer.write('GET /nope HTTP/1.1\r\nHost: x\r\n\r\n')
        t.equal((await newcomer.answer()).status, 404)
        newcomer.reset()
      }
      t.equal((await daemon.api('GET', '/v1/pipes')).status, 200)
      sender.reset()
      operator.reset()
    },
  )
}

t.test('told to stop while it is full, it stops', async (t) => {
  const before = times('http.connections_full')
  const sockets = crowd(daemon.url, 1_000)
  await until('it stops listening', async () => times('http.connections_full') > before)
  t.equal(await daemon.stop(), 0)
  for (const socket of sockets) socket.destroy()
})
