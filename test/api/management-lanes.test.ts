/**
 * Lane commands and the lane's status, over HTTP on the real daemon with a real HTTP endpoint behind it
 * (docs/dev/contract.md#lane-commands, docs/dev/contract.md#lane-status, docs/dev/contract.md#destinations).
 */
import t from 'tap'
import { type SinkDelivery, startHttpSink } from '../support/http-sink.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { until } from '../support/until.ts'
import { checkedApi, created, errorsIn, pullDestination, secretMark } from './management-client.ts'

const daemon = await sharedDaemon()
const sink = await startHttpSink()
t.teardown(async () => {
  await daemon.close()
  await sink.stop()
})
const api = checkedApi(daemon)

/** Records with `"bad":true` are rejected for good, everything else is taken. */
sink.respondWith((delivery) => ({ status: delivery.text.includes('"bad"') ? 422 : 200 }))

let pipes = 0
/** A pipe of its own with one HTTP destination; its deliveries are known by their path. */
async function hookedPipe(config: Record<string, unknown> = {}, body: Record<string, unknown> = {}) {
  const name = `pipe-${++pipes}`
  const pipeId = await created(api, '/v1/pipes', { pipe_name: name, pipe_add_ingest_ts: false }, 'pipe_id')
  const destination = {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/${name}`, ...config },
    ...body,
  }
  const id = await created(api, `/v1/pipes/${pipeId}/destinations`, destination, 'destination_id')
  const path = `/v1/pipes/${pipeId}/destinations/${id}`
  return {
    pipeId,
    path,
    send: async (record: unknown) => (await daemon.ingest(pipeId, record)).msg_id,
    taken: (): SinkDelivery[] =>
      sink.deliveries.filter((delivery) => delivery.path === `/${name}` && !delivery.text.includes('"bad"')),
    lane: () => daemon.lane(pipeId, id),
    blockedBy: (msgId: string) =>
      until(`the lane is blocked by ${msgId}`, async () => {
        const lane = await daemon.lane(pipeId, id)
        const isBetweenAttempts = lane.next_attempt_ts !== null
        return lane.blocking_msg_id === msgId && isBetweenAttempts ? lane : null
      }),
  }
}

t.test('skip and retry-now when nothing is blocking: no_blocking_message, nothing changes', async (t) => {
  const { path } = await hookedPipe()
  t.same((await api('POST', `${path}/skip`)).body, { skipped: false, status: 'no_blocking_message' })
  t.same((await api('POST', `${path}/retry-now`)).body, {
    retried: false,
    msg_id: null,
    status: 'no_blocking_message',
  })
  const answer = await api('GET', `${path}/blocking-message`)
  t.equal(answer.status, 404)
  t.equal(answer.body.error, 'no_blocking_message')
  for (const verb of ['skip', 'retry-now', 'reset-pin'])
    t.same(errorsIn(await api('POST', `${path}/${verb}`, '[')), { '': 'The body is not valid JSON.' }, verb)
})

t.test('a blocking message is shown with its records as they were sent, retried and skipped', async (t) => {
  const pipe = await hookedPipe()
  await pipe.send({ n: 1 })
  await until('the first record is delivered', () => pipe.taken().length === 1)
  const bad = await pipe.send(
    '[{"bad":true,"big":12345678901234567890,  "price":1.10,"__proto__":1},{"n":2}]',
  )
  await pipe.send({ n: 3 })
  const lane = await pipe.blockedBy(bad)
  t.match(lane, {
    lane_state: 'retrying',
    last_error: { class: 'permanent', code: 'http_422', fault: 'records', column: null, value: null },
    pending_messages: 2,
    first_failed_ts: /Z$/,
    next_attempt_ts: /Z$/,
  })
  const shown = await api('GET', `${pipe.path}/blocking-message`)
  t.match(shown.body, { msg_id: bad, records_count: 2, truncated: false })
  t.match(
    shown.text,
    '{"bad":true,"big":12345678901234567890,  "price":1.10,"__proto__":1}',
    'not re-serialized',
  )
  t.equal(Number(shown.body.stream_seq) > Number(lane.cursor_seq), true)

  const attempts = Number(lane.attempts)
  t.same((await api('POST', `${pipe.path}/retry-now`)).body, {
    retried: true,
    msg_id: bad,
    status: 'retried',
  })
  await until('it was tried again', async () => Number((await pipe.lane()).attempts) > attempts)
  await pipe.blockedBy(bad)

  t.same((await api('POST', `${pipe.path}/skip`)).body, { skipped: true, status: 'skipped' })
  await until('the record behind it is delivered', () =>
    pipe.taken().some(({ text }) => text.includes('"n":3')),
  )
  const after = await until('the lane is idle', async () => {
    const now = await pipe.lane()
    return now.lane_state === 'idle' ? now : null
  })
  t.match(after, { skipped_messages: 1, delivered_records: 2, blocking_msg_id: null, last_error: null })
  t.equal((await api('GET', `${pipe.path}/blocking-message`)).body.error, 'no_blocking_message')
  const usage = await until('the usage is rolled up', async () => {
    const found = Object((await api('GET', '/v1/pipes')).body.usage_by_pipe)[pipe.pipeId]
    return found.skipped_records === 2 && found.delivered_records === 2 ? found : null
  })
  t.ok(usage.failed_attempts >= 2)
})

t.test(
  'a blocked destination: skip and retry-now answer no_blocking_message, the backlog stays',
  async (t) => {
    const pipe = await hookedPipe()
    const bad = await pipe.send({ bad: true })
    await pipe.blockedBy(bad)
    await api('PATCH', `${pipe.path}/status`, { destination_status: 'blocked' })
    t.same((await api('POST', `${pipe.path}/skip`)).body, { skipped: false, status: 'no_blocking_message' })
    t.match((await api('POST', `${pipe.path}/retry-now`)).body, { retried: false, msg_id: null })
    t.match(await pipe.lane(), { lane_state: 'blocked', pending_messages: 1 })
    const { usage_by_pipe } = (await api('GET', '/v1/pipes')).body
    t.match(Object(usage_by_pipe)[pipe.pipeId], { blocked_lanes: 1, pending_messages: 1 })
    await api('PATCH', `${pipe.path}/status`, { destination_status: 'active' })
    await pipe.blockedBy(bad)
    t.match((await api('POST', `${pipe.path}/skip`)).body, { skipped: true })
  },
)

t.test('a blocking message of more than 20 records: the first 20, truncated', async (t) => {
  const pipe = await hookedPipe()
  const records = Array.from({ length: 25 }, (_, n) => ({ n, bad: true }))
  const bad = await pipe.send(records)
  await pipe.blockedBy(bad)
  const { body } = await api('GET', `${pipe.path}/blocking-message`)
  t.same(body.records, records.slice(0, 20))
  t.match(body, { records_count: 25, truncated: true, next: 20, failing: null, received_ts: /Z$/ })
  const rest = (await api('GET', `${pipe.path}/blocking-message?from=20`)).body
  t.same(rest.records, records.slice(20))
  t.match(rest, { records_count: 25, truncated: false, next: null })
  const some = (await api('GET', `${pipe.path}/blocking-message?from=3&limit=2`)).body
  t.same(some.records, records.slice(3, 5))
  t.equal(some.next, 5)
})

t.test('pages of a blocking message: what is wrong with `from` and `limit` is said by name', async (t) => {
  const pipe = await hookedPipe()
  const bad = await pipe.send([{ bad: true }, { n: 2 }])
  await pipe.blockedBy(bad)
  for (const from of ['-1', 'x', '1.5', '2', '99999999999999999999', ''])
    t.same(
      Object.keys(errorsIn(await api('GET', `${pipe.path}/blocking-message?from=${from}`))),
      ['from'],
      from,
    )
  for (const limit of ['0', '1001', 'all'])
    t.same(Object.keys(errorsIn(await api('GET', `${pipe.path}/blocking-message?limit=${limit}`))), ['limit'])
  t.match(errorsIn(await api('GET', `${pipe.path}/blocking-message?from=2`)), {
    from: /less than 2, the number of records/,
  })
})

t.test('a page is bounded by its bytes too: at least one record, and `next` goes on', async (t) => {
  const pipe = await hookedPipe()
  const records = Array.from({ length: 6 }, (_, n) => ({ n, bad: 'x'.repeat(1_500_000) }))
  await pipe.blockedBy(await pipe.send(records.map((record) => ({ ...record, '"bad"': 1 }))))
  const seen: number[] = []
  for (let from: number | null = 0; from !== null; ) {
    const reply = await api('GET', `${pipe.path}/blocking-message?from=${from}&limit=1000`)
    const body = reply.body as { records: { n: number }[]; next: number | null }
    t.equal(body.records.length, 2, '4 MiB')
    seen.push(...body.records.map(({ n }) => n))
    from = body.next
  }
  t.same(seen, [0, 1, 2, 3, 4, 5])
})

t.test('json_object: the refused record is marked, and is in the lane’s last error', async (t) => {
  const pipe = await hookedPipe({ body_format: 'json_object' })
  const bad = await pipe.send([{ n: 0 }, { n: 1 }, { bad: true, n: 2 }, { n: 3 }])
  const lane = await pipe.blockedBy(bad)
  t.match(lane.last_error, { fault: 'records', record_index: 2, column: null, value: null })
  const { body } = await api('GET', `${pipe.path}/blocking-message?from=2&limit=1`)
  t.match(body, { failing: { record_index: 2, column: null, value: null }, next: 3 })
  t.same(body.records, [{ bad: true, n: 2 }])
})

t.test(
  'PATCH keeps a secret sent as "" or [redacted], replaces it by another, removes it by null (rule 1)',
  async (t) => {
    const key = Buffer.alloc(32, 9).toString('base64')
    const pipe = await hookedPipe({ auth_header: `Bearer ${secretMark}-1`, signing_secret: `whsec_${key}` })
    const change = async (destination_config: Record<string, unknown>) => {
      t.equal((await api('PATCH', pipe.path, { destination_config })).status, 200)
      const before = pipe.taken().length
      await pipe.send({ before })
      return (await until('the record arrives', () => pipe.taken()[before])).headers
    }
    for (const kept of ['', '[redacted]']) {
      const headers = await change({ auth_header: kept, signing_secret: kept, method: 'POST' })
      t.equal(headers.authorization, `Bearer ${secretMark}-1`)
      t.ok(headers['webhook-signature'], 'still signed')
    }
    t.equal((await change({ auth_header: `Bearer ${secretMark}-2` })).authorization, `Bearer ${secretMark}-2`)
    const removed = await change({ auth_header: null, signing_secret: null })
    t.notOk('authorization' in removed)
    t.notOk('webhook-signature' in removed)
    const empty = await change({ auth_header: '' })
    t.notOk('authorization' in empty, 'empty keeps that there is none')
  },
)

t.test('a changed destination is what the very next delivery uses', async (_t) => {
  const pipe = await hookedPipe()
  const bad = await pipe.send({ bad: true })
  await pipe.blockedBy(bad)
  const moved = `${sink.url}/moved-${bad}`
  sink.respondWith((delivery) => ({
    status: delivery.text.includes('"bad"') && !delivery.path.startsWith('/moved') ? 422 : 200,
  }))
  await api('PATCH', pipe.path, { destination_config: { url: moved } })
  await api('POST', `${pipe.path}/retry-now`)
  await until('it is delivered to the new address', () =>
    sink.deliveries.some((delivery) => delivery.path === `/moved-${bad}`),
  )
})

t.test('start_from: now (the default) leaves out what came before, earliest delivers it', async (t) => {
  const pipe = await hookedPipe()
  await pipe.send({ early: 1 })
  await until('it is delivered', () => pipe.taken().length === 1)
  const paths = new Map<string, string>()
  for (const start_from of [undefined, 'now', 'earliest'] as const) {
    const url = `${sink.url}/start-${start_from}`
    const body = { destination_type: 'destination_http_endpoint', destination_config: { url }, start_from }
    const id = await created(api, `/v1/pipes/${pipe.pipeId}/destinations`, body, 'destination_id')
    paths.set(`/start-${start_from}`, id)
  }
  await pipe.send({ late: 1 })
  const textOf = (path: string) =>
    sink.deliveries
      .filter((delivery) => delivery.path === path)
      .map(({ text }) => text)
      .join()
  for (const path of paths.keys())
    await until(`${path} got the late record`, () => textOf(path).includes('late'))
  t.notMatch(textOf('/start-undefined'), /early/)
  t.notMatch(textOf('/start-now'), /early/)
  t.match(textOf('/start-earliest'), /early/)
  for (const start_from of ['later', '', null, 0]) {
    const answer = await api('POST', `/v1/pipes/${pipe.pipeId}/destinations`, {
      ...pullDestination,
      start_from,
    })
    t.same(Object.keys(errorsIn(answer)), ['start_from'])
  }
})

t.test('rewind to earliest, a stream_seq or a time: delivered again from there', async (t) => {
  const pipe = await hookedPipe()
  for (const n of [1, 2, 3]) {
    await pipe.send({ n })
    await until(`record ${n} is delivered`, () => pipe.taken().length === n)
  }
  const idle = await until('the lane is idle', async () => {
    const lane = await pipe.lane()
    return lane.lane_state === 'idle' ? lane : null
  })
  const times = (n: number) => pipe.taken().filter(({ text }) => text.includes(`"n":${n}`)).length
  const earliest = await api('POST', `${pipe.path}/rewind`, { to: 'earliest' })
  t.ok(Number(earliest.body.cursor_seq) < Number(idle.cursor_seq))
  await until('all are delivered again', () => times(1) === 2 && times(3) >= 2)
  const time = await api('POST', `${pipe.path}/rewind`, { to: '2020-01-01T00:00:00+02:00' })
  t.equal(time.status, 200)
  await until('and again', () => times(1) === 3)
  await until('the lane is idle', async () => (await pipe.lane()).lane_state === 'idle')
  const head = await api('POST', `${pipe.path}/rewind`, { to: Number(idle.cursor_seq) })
  t.equal(head.body.cursor_seq, idle.cursor_seq)
  const forward = await api('POST', `${pipe.path}/rewind`, { to: Number(idle.cursor_seq) + 1 })
  t.match(errorsIn(forward), { to: /only goes back/ })
  t.equal((await pipe.lane()).cursor_seq, idle.cursor_seq)
  for (const to of [
    undefined,
    null,
    -1,
    1.5,
    '',
    'latest',
    '2020-01-01',
    '2020-01-01T00:00:00',
    'x',
    [],
    2 ** 53,
  ])
    t.same(
      Object.keys(errorsIn(await api('POST', `${pipe.path}/rewind`, { to }))),
      ['to'],
      JSON.stringify(to),
    )
  const unknown = await api('POST', `${pipe.path}/rewind`, { to: 'earliest', from: 1 })
  t.same(errorsIn(unknown), { from: 'Unknown field.' })
})

t.test('a time before every message is earliest, wherever the cursor is', async (t) => {
  const other = await hookedPipe()
  await other.send({ n: 0 })
  const pipeId = await daemon.createPipe({ pipe_name: 'times' })
  const id = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    start_from: 'earliest',
  })
  for (const n of [1, 2]) await daemon.ingest(pipeId, { n })
  const path = `/v1/pipes/${pipeId}/destinations/${id}/rewind`
  const earliest = await api('POST', path, { to: 'earliest' })
  t.equal(earliest.status, 200)
  for (const to of ['2020-01-01T00:00:00Z', '1970-01-01T00:00:00Z', 'earliest']) {
    const again = await api('POST', path, { to })
    t.equal(again.status, 200, to)
    t.equal(again.body.cursor_seq, earliest.body.cursor_seq, to)
  }
})

t.test(
  'testing a destination: checks with what was found, for one that works and one that does not',
  async (t) => {
    const { pipeId } = await hookedPipe()
    const path = `/v1/pipes/${pipeId}/destinations/test`
    const test = async (url: string) =>
      (
        await api('POST', path, {
          destination_type: 'destination_http_endpoint',
          destination_config: { url, auth_header: `Bearer ${secretMark}` },
        })
      ).body
    const good = await test(`${sink.url}/try`)
    t.equal(good.ok, true)
    t.ok(Array.isArray(good.checks) && good.checks.length > 0)
    const gone = await startHttpSink()
    await gone.stop()
    const bad = await test(`${gone.url}/try`)
    t.equal(bad.ok, false)
    t.match(bad.checks, [{ ok: false, message: /./ }])
  },
)
