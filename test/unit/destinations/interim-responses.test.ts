/** An endpoint may send interim responses that nobody asked for: the response after them is the one that counts. */
import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, Server as TlsServer } from 'node:tls'
import t, { type Test } from 'tap'
import { buildConnector, Client } from 'undici'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { httpEndpoint } from '../../../src/destinations/http-endpoint/driver.ts'
import { withoutInterimResponses } from '../../../src/destinations/http-endpoint/request.ts'
import { anyKey, makeBatch, makeSpec, never, openSettings } from '../../support/batches.ts'
import { TestAuthority } from '../../support/certificates.ts'

const final = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const batch = makeBatch([[{ n: 1 }]])

/** Answers each request with the same pieces, each of them in a packet of its own. Returns the number of requests. */
async function listen(t: Test, server: Server, pieces: readonly string[]): Promise<() => number> {
  let requests = 0
  const answer = async (socket: Socket) => {
    requests += 1
    for (const piece of pieces) {
      await new Promise((resolve) => socket.write(piece, 'latin1', resolve))
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  server.on(server instanceof TlsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
    socket.setNoDelay(true).on('error', () => {})
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      for (let end = bodyEnd(text); end !== -1; end = bodyEnd(text)) {
        text = text.slice(end)
        void answer(socket)
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return () => requests
}
function bodyEnd(text: string): number {
  const head = text.indexOf('\r\n\r\n')
  if (head === -1) return -1
  const length = Number(/content-length: (\d+)/i.exec(text.slice(0, head))?.[1] ?? 0)
  return text.length >= head + 4 + length ? head + 4 + length : -1
}

const port = (server: Server) => (server.address() as { port: number }).port

const continues = 'HTTP/1.1 100 Continue\r\n\r\n'
const answers: Record<string, string[]> = {
  'at once': [continues + final],
  'in packets of their own': [continues, final],
  'with headers': ['HTTP/1.1 100 Continue\r\nServer: x\r\nDate: y\r\n\r\n', final],
  'byte for byte': [...(continues + final)],
  'several, and early hints': [continues, 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n', continues, final],
  'of HTTP/1.0': ['HTTP/1.0 100 Continue\r\n\r\n', final],
  'none, byte for byte': [...final],
}

t.test('unasked interim responses: the batch is sent once, and the connection goes on', async (t) => {
  for (const [name, pieces] of Object.entries(answers)) {
    const server = createServer()
    const requests = await listen(t, server, pieces)
    const spec = makeSpec('destination_http_endpoint', { url: `http://127.0.0.1:${port(server)}/` })
    const driver = httpEndpoint.open(spec, openSettings, anyKey)
    t.teardown(() => driver.close())
    for (const delivery of [1, 2, 3]) {
      await driver.deliver(batch, never)
      t.equal(requests(), delivery, name)
    }
  }
})

t.test('negative control and bounds: without an end, and what is no interim response', async (t) => {
  const failing = {
    'an interim response without an end': `HTTP/1.1 100 Continue\r\nx: ${'x'.repeat(resourceLimits.interimResponseBytes)}`,
    'more of them than are read': continues.repeat(resourceLimits.interimResponseBytes / 10) + final,
    '101 Switching Protocols': `HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n${final}`,
    garbage: 'HTTP/1.1 1xx\r\n\r\n',
  }
  for (const [name, answer] of Object.entries(failing)) {
    const server = createServer()
    const requests = await listen(t, server, [answer])
    const url = `http://127.0.0.1:${port(server)}/`
    const driver = httpEndpoint.open(
      makeSpec('destination_http_endpoint', { url, timeout_ms: 5_000 }),
      openSettings,
      anyKey,
    )
    t.teardown(() => driver.close())
    const error = await driver.deliver(batch, never).catch((reason: unknown) => reason)
    t.match(error, { class: 'transient' }, name)
    t.equal(requests(), 1, name)
  }
})

t.test('a body that looks like an interim response is a body; over TLS too', async (t) => {
  const authority = new TestAuthority()
  t.teardown(() => authority.close())
  const { key, certificate } = authority.issue()
  const server = createTlsServer({ key, cert: certificate })
  const head = `HTTP/1.1 200 OK\r\nContent-Length: ${continues.length}\r\n\r\n`
  await listen(t, server, [continues, head, continues])
  const connect = buildConnector({ ca: authority.ca })
  const withoutThem: buildConnector.connector = (options, callback) =>
    connect(options, (...[error, socket]) =>
      error === null ? callback(null, withoutInterimResponses(socket)) : callback(error, null),
    )
  const client = new Client(`https://localhost:${port(server)}`, { connect: withoutThem })
  t.teardown(() => client.destroy())
  for (let round = 0; round < 3; round += 1) {
    const { statusCode, body } = await client.request({ path: '/', method: 'POST', body: Buffer.from('x') })
    t.strictSame([statusCode, await body.text()], [200, continues])
  }
})
