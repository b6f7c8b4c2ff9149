import t from 'tap'
import { createStranger, createWorkspace } from '../support/daemon.ts'
import { connectRaw } from '../support/raw-http.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { until } from '../support/until.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())

interface Pulled {
  pipe_id: string
  destination_id: string
  msg_id: string
  stream_seq: number
  records: unknown[]
  error?: string
  earliest_seq?: number
}
let made = 0
async function makeLane(config: Record<string, unknown> = {}) {
  const pipeId = await daemon.createPipe({ pipe_name: `pull${made++}`, pipe_add_ingest_ts: false })
  const lane = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: config,
  })
  return { pipeId, lane }
}
const pull = (lane: string, query = 'wait_ms=0', key?: string | null) =>
  daemon.api<Pulled>('GET', `/v1/pull/${lane}?${query}`, undefined, { key })
const settle = (lane: string, verb: 'ack' | 'nack', body: unknown) =>
  daemon.api<{ error?: string }>('POST', `/v1/pull/${lane}/${verb}`, body)
/** A message just acknowledged may take a moment to reach the lane. */
const pullSoon = (lane: string) => pull(lane, 'wait_ms=10000')

t.test('auto: each message once, in order, exactly the fields of the spec, records as sent', async (t) => {
  const { pipeId, lane } = await makeLane()
  const first = await daemon.ingest(pipeId, '[{"n":1.10},{"n":12345678901234567890,"é":"😀"}]')
  const second = await daemon.ingest(pipeId, '{"n":3}')
  const one = await pullSoon(lane)
  t.equal(one.status, 200)
  const { stream_seq, records, ...rest } = one.body
  t.strictSame(rest, { pipe_id: pipeId, destination_id: lane, msg_id: first.msg_id })
  t.equal(records.length, 2)
  t.ok(Number.isSafeInteger(stream_seq) && stream_seq > 0)
  t.ok(one.text.includes('"records":[{"n":1.10},{"n":12345678901234567890,"é":"😀"}]}'), one.text)
  const two = await pullSoon(lane)
  t.equal(two.body.msg_id, second.msg_id)
  t.ok(two.body.stream_seq > stream_seq)
  const none = await pull(lane)
  t.same([none.status, none.text], [204, ''])
})

t.test('a waiting pull is answered as soon as a message comes', async (t) => {
  const { pipeId, lane } = await makeLane()
  const waiting = pull(lane, 'wait_ms=30000')
  const { msg_id } = await daemon.ingest(pipeId, '{}')
  const answer = await waiting
  t.same([answer.status, answer.body.msg_id], [200, msg_id])
  t.equal((await pull(lane, 'wait_ms=300')).status, 204, 'and 204 when the wait expires')
})

t.test(
  'after_seq: commits up to it and gives the next; the same again until it moves (at least once)',
  async (t) => {
    const { pipeId, lane } = await makeLane()
    for (const n of [1, 2, 3]) await daemon.ingest(pipeId, `{"n":${n}}`)
    const first = await pull(lane, 'wait_ms=10000&after_seq=0')
    t.equal(first.body.records.length, 1)
    t.equal((await pull(lane, 'wait_ms=0&after_seq=0')).body.msg_id, first.body.msg_id)
    const second = await pull(lane, `wait_ms=10000&after_seq=${first.body.stream_seq}`)
    t.same(second.body.records, [{ n: 2 }])
    const third = await pull(lane, `wait_ms=10000&after_seq=${second.body.stream_seq}`)
    t.same(third.body.records, [{ n: 3 }])
    const head = third.body.stream_seq
    const ahead = await pull(lane, `wait_ms=0&after_seq=${head + 1}`)
    t.match(ahead, { status: 409, body: { error: 'cursor_ahead', head_seq: head } })
    t.equal((await daemon.lane(pipeId, lane)).pending_messages, 1, 'a cursor beyond the head commits nothing')
    t.equal((await pull(lane, `wait_ms=0&after_seq=${head}`)).status, 204)
    await until('all are committed', async () => (await daemon.lane(pipeId, lane)).pending_messages === 0)
  },
)

t.test(
  'explicit: leased until ack or nack, one outstanding, 409 lease_expired without a lease',
  async (t) => {
    const { pipeId, lane } = await makeLane({ ack_mode: 'explicit', lease_seconds: 600 })
    await daemon.ingest(pipeId, '{"n":1}')
    await daemon.ingest(pipeId, '{"n":2}')
    const first = await pullSoon(lane)
    t.same(first.body.records, [{ n: 1 }])
    t.equal((await pull(lane)).status, 204, 'one message outstanding per lane')
    t.equal((await settle(lane, 'nack', { msg_id: first.body.msg_id })).status, 204)
    const again = await pullSoon(lane)
    t.equal(again.body.msg_id, first.body.msg_id)
    t.equal((await settle(lane, 'ack', { msg_id: again.body.msg_id.toUpperCase() })).status, 204)
    const expired = await settle(lane, 'ack', { msg_id: again.body.msg_id })
    t.same([expired.status, expired.body.error], [409, 'lease_expired'])
    t.same((await pullSoon(lane)).body.records, [{ n: 2 }])
    const unknown = { msg_id: again.body.msg_id, more: 1 }
    for (const body of [undefined, {}, { msg_id: 'x' }, { msg_id: 1 }, unknown, '[', '[]']) {
      for (const verb of ['ack', 'nack'] as const) {
        const answer = await settle(lane, verb, body)
        t.same([answer.status, answer.body.error], [400, 'invalid_msg_id'], JSON.stringify(body))
      }
    }
    t.equal((await settle(lane, 'nack', { msg_id: first.body.msg_id })).status, 409)
  },
)

t.test('errors: auth first, then the UUID, then the destination, then the query', async (t) => {
  const { pipeId, lane } = await makeLane()
  const unknown = '00000000-0000-4000-8000-000000000000'
  const cases: [Promise<{ status: number; body: { error?: string } }>, number, string][] = [
    [pull('nope', 'wait_ms=x', null), 401, 'unauthorized'],
    [pull('nope', 'wait_ms=x'), 400, 'invalid_destination_id'],
    [pull(unknown, 'wait_ms=x'), 404, 'destination_not_found'],
    [pull(lane, 'wait_ms=x'), 400, 'invalid_wait_ms'],
    [pull(lane, 'wait_ms=-1'), 400, 'invalid_wait_ms'],
    [pull(lane, 'wait_ms=1.5'), 400, 'invalid_wait_ms'],
    [pull(lane, 'wait_ms='), 400, 'invalid_wait_ms'],
    [pull(lane, 'after_seq=x&wait_ms=0'), 400, 'invalid_after_seq'],
    [pull(lane, 'after_seq=9007199254740993&wait_ms=0'), 400, 'invalid_after_seq'],
    [settle('nope', 'ack', {}), 400, 'invalid_destination_id'],
    [settle(unknown, 'nack', {}), 404, 'destination_not_found'],
    [settle('nope', 'nack', {}), 400, 'invalid_destination_id'],
    [settle(unknown, 'ack', {}), 404, 'destination_not_found'],
  ]
  for (const [answering, status, code] of cases) {
    const answer = await answering
    t.same([answer.status, answer.body.error], [status, code])
  }
  for (const verb of ['ack', 'nack']) {
    const answer = await daemon.api('POST', `/v1/pull/${lane}/${verb}`, {}, { key: null })
    t.same([answer.status, answer.headers['www-authenticate']], [401, 'Bearer'])
  }
  const other = await createStranger(daemon.dataDir)
  t.equal((await pull(lane, 'wait_ms=0', other.api_key)).status, 404, 'another workspace’s does not exist')
  const http = await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: 'http://127.0.0.1:9/' },
  })
  t.equal((await pull(http)).status, 404, 'not a pull destination')
  await daemon.api('PATCH', `/v1/pipes/${pipeId}/destinations/${lane}/status`, {
    destination_status: 'blocked',
  })
  t.equal((await pull(lane)).status, 404, 'not an active one')
  const head = await daemon.api('HEAD', `/v1/pull/${lane}`)
  t.same([head.status, head.headers.allow], [405, 'GET'], 'HEAD must not move the lane')
})

t.test('a client that goes away while waiting loses no message', async (t) => {
  const { pipeId, lane } = await makeLane()
  const gone = await connectRaw(daemon.url)
  gone.write(
    `GET /v1/pull/${lane}?wait_ms=30000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${daemon.apiKey}\r\n\r\n`,
  )
  t.equal((await pull(lane)).status, 204)
  gone.reset()
  const { msg_id } = await daemon.ingest(pipeId, '{"n":1}')
  t.equal((await pull(lane, 'wait_ms=30000')).body.msg_id, msg_id)
})

t.test('a client that goes away in the middle of a large response gets it again', async (t) => {
  const { pipeId, lane } = await makeLane()
  const { msg_id } = await daemon.ingest(pipeId, JSON.stringify({ pad: 'x'.repeat(9_000_000) }))
  await until('the lane sees it', async () => (await daemon.lane(pipeId, lane)).pending_messages === 1)
  const gone = await connectRaw(daemon.url)
  const stalled = gone.stall()
  gone.write(`GET /v1/pull/${lane} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${daemon.apiKey}\r\n\r\n`)
  await stalled
  t.equal(
    (await pull(lane)).status,
    204,
    'while the answer is stuck in the socket nobody else is given the message',
  )
  gone.reset()
  const again = await pull(lane, 'wait_ms=30000')
  t.same([again.status, again.body.msg_id], [200, msg_id])
  t.equal((await pull(lane)).status, 204)
})

t.test(
  'at most 32 waiting pulls per workspace: 429 with Retry-After: 1; others are not touched',
  async (t) => {
    const other = await createWorkspace(daemon.dataDir, 'crowd')
    const pipeId = (
      await daemon.api<{ pipe_id: string }>(
        'POST',
        '/v1/pipes',
        { pipe_name: 'crowd' },
        { key: other.api_key },
      )
    ).body.pipe_id
    const created = await daemon.api<{ destination_id: string }>(
      'POST',
      `/v1/pipes/${pipeId}/destinations`,
      { destination_type: 'destination_pull', destination_config: {} },
      { key: other.api_key },
    )
    const lane = created.body.destination_id
    const request = `GET /v1/pull/${lane}?wait_ms=30000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${other.api_key}\r\n\r\n`
    const waiting = await Promise.all(Array.from({ length: 40 }, () => connectRaw(daemon.url)))
    let refusedCount = 0
    for (const connection of waiting) {
      connection.write(request)
      void connection.answer().then(({ status }) => {
        if (status === 429) refusedCount++
      })
    }
    await until('8 of 40 are refused', () => refusedCount === 8)
    const refused = await pull(lane, 'wait_ms=1', other.api_key)
    t.equal(refused.status, 429)
    t.same([refused.body.error, refused.headers['retry-after']], ['pull_concurrency_exceeded', '1'])
    t.equal((await pull(lane, 'wait_ms=0', other.api_key)).status, 429, 'one that would not wait counts too')
    t.equal(
      (await pull((await makeLane()).lane, 'wait_ms=1')).status,
      204,
      'another workspace waits on its own',
    )
    for (const connection of waiting) connection.reset()
    await until('places of clients that went away are free again', async () => {
      return (await pull(lane, 'wait_ms=1', other.api_key)).status === 204
    })
  },
)

t.test(
  'a waiting pull ends at once when its key is revoked, and gets nothing that comes after',
  async (t) => {
    const { pipeId, lane } = await makeLane()
    const { body } = await daemon.api<{ api_key: string; api_key_id: string }>('POST', '/v1/api-keys', {
      api_key_name: 'leaving',
    })
    const waiting = pull(lane, 'wait_ms=30000', body.api_key)
    const staying = pull(lane, 'wait_ms=30000')
    let isAnswered = false
    void waiting.then(() => {
      isAnswered = true
    })
    // Whether it waits cannot be seen from outside: a second pull through the same daemon was let in after it.
    t.equal((await pull((await makeLane()).lane, 'wait_ms=1', body.api_key)).status, 204)
    t.notOk(isAnswered, 'it waits')
    t.equal((await daemon.api('DELETE', `/v1/api-keys/${body.api_key_id}`)).status, 204)
    await until('it is answered before a message comes', () => isAnswered)
    const answer = await waiting
    t.match(answer, {
      status: 401,
      body: { error: 'unauthorized' },
      headers: { 'www-authenticate': 'Bearer' },
    })
    const { msg_id } = await daemon.ingest(pipeId, '{}')
    t.equal((await staying).body.msg_id, msg_id, 'another key has the message')
  },
)

t.test(
  'a waiting pull ends at once when its destination or pipe is deleted, or the destination blocked',
  async (t) => {
    const ends: ((pipeId: string, lane: string) => [method: string, path: string, body?: object])[] = [
      (pipeId, lane) => ['DELETE', `/v1/pipes/${pipeId}/destinations/${lane}`],
      (pipeId) => ['DELETE', `/v1/pipes/${pipeId}`],
      (pipeId, lane) => [
        'PATCH',
        `/v1/pipes/${pipeId}/destinations/${lane}/status`,
        { destination_status: 'blocked' },
      ],
    ]
    for (const end of ends) {
      const { pipeId, lane } = await makeLane()
      const begun = performance.now()
      const waiting = pull(lane, 'wait_ms=30000')
      t.equal((await pull(lane, 'wait_ms=1')).status, 204)
      const [method, path, body] = end(pipeId, lane)
      const ended = await daemon.api(method, path, body)
      t.ok(ended.status < 300, ended.text)
      t.match(await waiting, { status: 404, body: { error: 'destination_not_found' } }, `${method} ${path}`)
      t.ok(performance.now() - begun < 30_000, 'long before its time was up')
    }
  },
)

t.test('responses that nobody reads: their memory is bounded, whatever wait_ms', async (t) => {
  const other = await createWorkspace(daemon.dataDir, 'greedy')
  const key = other.api_key
  const made = async (path: string, body: object) => (await daemon.api('POST', path, body, { key })).body
  const pipe_id = String((await made('/v1/pipes', { pipe_name: 'greedy' })).pipe_id)
  const type = { destination_type: 'destination_pull' }
  const lane = String((await made(`/v1/pipes/${pipe_id}/destinations`, type)).destination_id)
  const megabytes = (count: number) => JSON.stringify([{ filler: 'x'.repeat(count * 1024 * 1024) }])
  const stored = await daemon.api('POST', `/v1/ingest/${pipe_id}`, megabytes(9), { key })
  t.equal(stored.status, 202, stored.text)
  const request = `GET /v1/pull/${lane}?wait_ms=0&after_seq=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`
  await until('it is there', async () => (await pull(lane, 'wait_ms=1000&after_seq=0', key)).status === 200)
  const connections: Awaited<ReturnType<typeof connectRaw>>[] = []
  t.teardown(() => {
    for (const connection of connections) connection.reset()
  })
  // 3 of 9 MiB fit into 32 MiB; far fewer than the 32 pulls that a workspace may have.
  for (let count = 0; count < 20; count++) {
    const connection = await connectRaw(daemon.url)
    void connection.stall()
    connection.write(request)
    connections.push(connection)
  }
  const isRefused = async () => (await pull(lane, 'wait_ms=0&after_seq=0', key)).status === 429
  await until('one more is refused', isRefused)
  for (const connection of connections) connection.reset()
  await until('a place is free again', async () => !(await isRefused()))
})
