/** Clients of the daemon's TLS listeners that do not shake hands, send too slowly or read nothing: they harm only themselves. */
import net from 'node:net'
import t from 'tap'
import { until } from '../support/until.ts'
import {
  call,
  closed,
  connectTls,
  first,
  openSockets,
  pairOf,
  pipeOf,
  portOf,
  residentBytes,
  serve,
} from './over-tls.ts'

t.test('what clients do instead of what they should', async (t) => {
  const served = await serve(t, pairOf(first))
  const { daemon, key } = served
  const pipeId = await pipeOf(served)
  const isServed = async () => (await call('GET', `${daemon.url}/v1/health`)).status === 200
  const before = openSockets(daemon.pid)
  const post = (headers: string) =>
    `POST /v1/ingest/${pipeId} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n${headers}\r\n\r\n`

  // Each takes half a minute to be cut off: the others are tried meanwhile.
  const wanted = `GET /openapi/management-v1.openapi.yaml HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`
  const memory = residentBytes(daemon.pid)
  let asked = 0
  const deaf = Array.from({ length: 10 }, () => {
    const socket = connectTls(daemon.url).on('error', () => {})
    // More than the buffers of the system hold; of it nothing is read.
    socket.once('secureConnect', () => {
      socket.pause().write(wanted.repeat(600))
      asked += 1
    })
    return socket
  })
  t.teardown(() => {
    for (const socket of deaf) socket.destroy()
  })
  await until('they wait for their responses', () => asked === deaf.length)

  t.test('instead of shaking hands: their connection ends, and nobody waits for it', async (t) => {
    const tcp = (first = '') => {
      const socket = net.connect(portOf(daemon.url), '127.0.0.1')
      socket.on('connect', () => socket.write(first)).resume()
      return socket
    }
    const hello = Buffer.from('1603010200010001fc0303', 'hex').toString('latin1')
    const silent: net.Socket[] = []
    // In waves: a connection that finds the queue of the listener full stays open at its client alone, which sends nothing
    // and so never learns of it.
    // On a busy machine the first ones are cut off before the last ones connect.
    const open = () => silent.filter((socket) => !socket.closed).length
    while (silent.length < 1_000) {
      silent.push(...Array.from({ length: 100 }, () => tcp()))
      await until('the wave is accepted', () => openSockets(daemon.pid) >= before + open())
    }
    const plain = tcp('GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n')
    const garbage = tcp('\0'.repeat(100_000))
    const half = Array.from({ length: 50 }, () => tcp(hello))
    const handshaken = Array.from({ length: 20 }, () => connectTls(daemon.url))
    const ends = [plain, garbage, ...silent, ...half, ...handshaken].map(closed)
    await Promise.all(ends.slice(0, 2))
    t.ok(await isServed(), 'others are served meanwhile')
    await Promise.all(ends)
    await until('nothing is left of them', () => openSockets(daemon.pid) <= before + deaf.length + 2)
    t.ok(await isServed())
  })

  t.test('many protocols, and names that nobody has', async (t) => {
    const ALPNProtocols = Array.from({ length: 200 }, (_, index) => String(index).padEnd(250, 'x'))
    for (const options of [{ ALPNProtocols }, { servername: `${'a'.repeat(63)}.`.repeat(3) }]) {
      const socket = connectTls(daemon.url, { rejectUnauthorized: false, ...options }).on('error', () => {})
      await new Promise((resolve) => socket.once('secureConnect', resolve).once('close', resolve))
      socket.destroy()
      t.ok(await isServed())
    }
  })

  t.test('of TLS 1.2, to have the handshake done again', async (t) => {
    const socket = connectTls(daemon.url, { maxVersion: 'TLSv1.2' })
    await new Promise((resolve) => socket.once('secureConnect', resolve))
    const outcome = await new Promise<string>((resolve) => {
      socket.once('error', (error) => resolve(error.message))
      socket.once('close', () => resolve('closed'))
      socket.renegotiate({ rejectUnauthorized: false }, (error) => resolve(error?.message ?? 'done'))
    })
    t.not(outcome, 'done')
    socket.destroy()
    t.ok(await isServed())
  })

  t.test('to send a body too slowly: cut off, as in the clear', async (t) => {
    const slow = connectTls(daemon.url)
    slow.write(`${post('Content-Length: 1000000')}[`)
    slow.resume()
    await closed(slow)
    t.pass()
  })

  t.test('to read nothing of their responses: cut off, in bounded memory', async (t) => {
    t.ok(await isServed())
    t.ok(residentBytes(daemon.pid) < memory + 256 * 1024 * 1024, 'they ask for 280 MB each')
    await until('they are cut off', () => openSockets(daemon.pid) <= before + 2)
    t.same(
      daemon.log.filter(({ level }) => level === 'error' || level === 'fatal'),
      [],
    )
  })
})
