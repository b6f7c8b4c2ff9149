import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { testedEngine } from '../support/http-engine.ts'
import { connectRaw, sendRaw } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const pipe = await daemon.createPipe({ pipe_name: 'hostile', pipe_add_ingest_ts: false })
const lane = await daemon.createDestination(pipe, {
  destination_type: 'destination_pull',
  destination_config: {},
})

const line = `POST /v1/ingest/${pipe} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n`
const key = `Authorization: Bearer ${daemon.apiKey}\r\n`
const head = `${line}${key}`
const codeOf = (body: string): unknown => (body === '' ? '' : JSON.parse(body).error)

/** How many messages are stored for the pipe: none of the rejected requests may add one. */
async function pending(): Promise<unknown> {
  return (await daemon.lane(pipe, lane)).pending_messages
}

t.test(
  'requests that can be read two ways get 400 bad_request and lose their connection (trap: lax parser)',
  async (t) => {
    const before = await pending()
    const smuggled = [
      `${head}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
      `${head}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}`,
      `${head}Content-Length: 2\r\nContent-Length: 7\r\n\r\n{"a":1}`,
      `${head}Transfer-Encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
      `${head}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
      `${head}Content-Length: 2, 2\r\n\r\n{}`,
      `POST /v1/pipes HTTP/1.1\r\nHost: x\r\n${key}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}`,
    ]
    for (const request of smuggled) {
      const answer = await sendRaw(daemon.url, request)
      // The binding itself may drop the connection without a word or with its own 400; it never serves the request.
      t.ok(
        answer.status === 400 || answer.status === 0,
        `${answer.status} to ${request.slice(head.length, -4)}`,
      )
      if (answer.body.startsWith('{')) t.equal(codeOf(answer.body), 'bad_request')
      t.ok(answer.closed)
    }
    t.equal(await pending(), before)
    const good = await sendRaw(daemon.url, `${head}Content-Length: 2\r\n\r\n{}`)
    t.same([good.status, good.closed], [202, false], 'the same request with one length is served')
  },
)

t.test('chunked bodies are read like others, one byte at a time too', async (t) => {
  const chunked = await sendRaw(
    daemon.url,
    `${head}Transfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n`,
  )
  t.equal(chunked.status, 202)
  const slow = await connectRaw(daemon.url)
  const request = `${head}Content-Length: 7\r\n\r\n{"b":2}`
  for (const byte of request) slow.write(byte)
  t.equal((await slow.answer()).status, 202)
  slow.reset()
})

t.test(
  'requests sent without waiting for the response: uWebSockets ends the connection, node:http answers in order',
  async (t) => {
    const before = Number(await pending())
    const connection = await connectRaw(daemon.url)
    const request = `${head}Content-Length: 2\r\n\r\n{}`
    connection.write(request + request)
    if (testedEngine === 'node') {
      for (const _ of [1, 2]) t.equal((await connection.answer()).status, 202)
      t.equal(Number(await pending()), before + 2)
      connection.reset()
    } else {
      t.equal((await connection.answer()).status, 0)
      // The first of the two was taken and could not be answered: that is what at least once means.
      await until(
        'the first is stored, the second is not',
        async () => Number(await pending()) === before + 1,
      )
    }
    const oneByOne = await connectRaw(daemon.url)
    for (const body of ['{}', '[]']) {
      oneByOne.write(`${head}Content-Length: 2\r\n\r\n${body}`)
      t.equal((await oneByOne.answer()).status, body === '{}' ? 202 : 400)
    }
    oneByOne.reset()
  },
)

t.test('an upload that breaks off leaves nothing behind and the daemon goes on', async (t) => {
  const before = await pending()
  for (const part of ['{"a":1', '{"a":1}'.slice(0, 0)]) {
    const connection = await connectRaw(daemon.url)
    connection.write(`${head}Content-Length: 7\r\n\r\n${part}`)
    connection.reset()
  }
  const chunked = await connectRaw(daemon.url)
  chunked.write(`${head}Transfer-Encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n`)
  chunked.reset()
  const management = await connectRaw(daemon.url)
  management.write(
    `POST /v1/pipes HTTP/1.1\r\nHost: x\r\n${key}Content-Length: 30\r\n\r\n{"pipe_name":"broken-off"`,
  )
  management.reset()
  t.equal((await sendRaw(daemon.url, `${head}Content-Length: 2\r\n\r\n{}`)).status, 202)
  await until('only the last one is stored', async () => (await pending()) === Number(before) + 1)
})

t.test('what is rejected by its headers is answered before the body has come', async (t) => {
  const cases: [string, string][] = [
    [`${line}Content-Length: 1000000\r\n\r\n`, 'unauthorized'],
    [`${head}Content-Length: 99999999\r\n\r\n`, 'payload_too_large'],
    [`${head}Content-Length: 1000000\r\nContent-Encoding: zstd\r\n\r\n`, 'unsupported_encoding'],
    [`POST /v1/pipes HTTP/1.1\r\nHost: x\r\n${key}Content-Length: 1048577\r\n\r\n`, 'payload_too_large'],
  ]
  for (const [request, code] of cases) {
    const connection = await connectRaw(daemon.url)
    connection.write(request)
    const answer = await connection.answer()
    t.equal(codeOf(answer.body), code)
    connection.reset()
  }
})

t.test(
  'a chunked body over the limit is rejected while it comes, and the connection can go on',
  async (t) => {
    const connection = await connectRaw(daemon.url)
    connection.write(`${head}Transfer-Encoding: chunked\r\n\r\n`)
    const chunk = `100000\r\n${' '.repeat(0x100000)}\r\n`
    for (let i = 0; i < 12; i++) connection.write(chunk)
    const answer = await connection.answer()
    t.same([answer.status, codeOf(answer.body)], [413, 'payload_too_large'])
    connection.write(`0\r\n\r\n${head}Content-Length: 2\r\n\r\n{}`)
    t.equal((await connection.answer()).status, 202)
    connection.reset()
  },
)

t.test(
  'announced lengths allocate nothing (trap: 30 idle connections claiming 10 MB took 286 MB)',
  async (t) => {
    const resident = async () => {
      const text = await (await fetch(daemon.metricsUrl)).text()
      return Number(/^process_resident_memory_bytes (\S+)/m.exec(text)?.[1])
    }
    const before = await resident()
    t.ok(before > 0)
    const idle = await Promise.all(Array.from({ length: 50 }, () => connectRaw(daemon.url)))
    for (const connection of idle) connection.write(`${head}Content-Length: 10000000\r\n\r\n{`)
    t.equal((await sendRaw(daemon.url, `${head}Content-Length: 2\r\n\r\n{}`)).status, 202)
    t.ok((await resident()) - before < 100 * 1024 * 1024)
    for (const connection of idle) connection.reset()
  },
)

t.test('headers beyond the limit and garbage end the connection, not the daemon', async (t) => {
  // In two parts, with a request in between, so that the first part is surely read alone.
  const inTwoParts = async (headerBytes: number) => {
    const connection = await connectRaw(daemon.url)
    connection.write(`${head}X-Long: ${'x'.repeat(headerBytes)}`)
    t.equal((await sendRaw(daemon.url, `${head}Content-Length: 2\r\n\r\n{}`)).status, 202)
    connection.write('\r\nContent-Length: 2\r\n\r\n{}')
    const { status } = await connection.answer()
    connection.reset()
    return status
  }
  const tooLong = await inTwoParts(40_000)
  t.ok(tooLong === 431 || tooLong === 0, `${tooLong}`)
  t.equal(await inTwoParts(2000), 202, 'up to 4 KB may come in parts with either binding')
  const atOnce = (bytes: number) =>
    sendRaw(daemon.url, `${head}X-Long: ${'x'.repeat(bytes)}\r\nContent-Length: 2\r\n\r\n{}`)
  t.equal((await atOnce(7_500)).status, 202, 'more is taken when it comes at once')
  const rejected = await atOnce(8_200)
  t.same([rejected.status, codeOf(rejected.body), rejected.closed], [431, 'headers_too_large', true])
  for (const garbage of [
    '\x16\x03\x01\x02\x00\x01\x00\r\n\r\n',
    'GET\r\n\r\n',
    '\r\n\r\n\r\n\r\n',
    'A'.repeat(100_000),
  ]) {
    const connection = await connectRaw(daemon.url)
    connection.write(garbage)
    connection.reset()
  }
  t.equal((await daemon.api('GET', '/v1/health', undefined, { key: null })).status, 200)
})
