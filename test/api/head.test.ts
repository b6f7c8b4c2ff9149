/** HEAD (docs/dev/contract.md#request-bodies): like GET without a body, errors included, and the connection goes on. */
import t from 'tap'
import { connectRaw } from '../support/raw-http.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())
const pipe = await daemon.createPipe({ pipe_name: 'heads' })
const unknownId = '00000000-0000-4000-8000-000000000000'

const cases: [path: string, status: number][] = [
  ['/v1/health', 200],
  ['/v1/ready', 200],
  ['/v1/pipes', 200],
  [`/v1/pipes/${pipe}`, 200],
  [`/v1/pipes/${unknownId}`, 404],
  ['/openapi/management-v1.openapi.yaml', 200],
  ['/no/such/path', 404],
  [`/v1/ingest/${pipe}`, 200],
  ['/v1/ingest/not-a-uuid', 400],
  [`/v1/ingest/${unknownId}`, 404],
  [`/v1/pipes/${pipe}/limits`, 405],
  [`/v1/pull/${unknownId}`, 405],
]

t.test(
  'each route, one after the other on one connection: no body, and the next request is served',
  async (t) => {
    const connection = await connectRaw(daemon.url)
    t.teardown(() => connection.reset())
    const send = async (method: string, path: string) => {
      connection.write(
        `${method} ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${daemon.apiKey}\r\n\r\n`,
      )
      return await connection.answer()
    }
    for (const [path, status] of cases) {
      const head = await send('HEAD', path)
      t.same([head.status, head.body], [status, ''], `HEAD ${path}`)
      const get = await send('GET', path)
      t.match(get, { status: status === 405 ? Number : status }, `GET ${path} on the same connection`)
      if (status === 405) continue
      for (const name of ['content-type', 'cache-control', 'x-content-type-options', 'vary'])
        t.equal(head.headers[name], get.headers[name], `${name} of ${path}`)
      if (path !== '/v1/pipes')
        t.equal(head.headers['content-length'], String(Buffer.byteLength(get.body)), path)
    }
  },
)

t.test('an error to HEAD without a key has no body either', async (t) => {
  const connection = await connectRaw(daemon.url)
  t.teardown(() => connection.reset())
  connection.write('HEAD /v1/pipes HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n')
  const head = await connection.answer()
  t.match(head, { status: 401, body: '', headers: { 'www-authenticate': 'Bearer' } })
  t.match(await connection.answer(), { status: 200, body: /"status":"ok"/ })
})

t.test('HEAD and GET sent together are answered in their order', async (t) => {
  const connection = await connectRaw(daemon.url)
  t.teardown(() => connection.reset())
  for (const method of ['HEAD', 'GET', 'HEAD', 'GET'])
    connection.write(`${method} /v1/ingest/${pipe} HTTP/1.1\r\nHost: x\r\n\r\n`)
  for (const body of ['', /"method":"POST"/, '', /"method":"POST"/])
    t.match(await connection.answer(), { status: 200, body })
})
