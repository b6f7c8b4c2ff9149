/** docs/dev/contract.md#looking-at-messages: a message by its id, and the messages of a pipe, over HTTP. */
import t from 'tap'
import { batchIdentity } from '../../src/delivery/batch.ts'
import { createStranger } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { until } from '../support/until.ts'
import { checkedApi, created, errorsIn, pullDestination, unknownId } from './management-client.ts'

const daemon = await sharedDaemon()
const sink = await startHttpSink()
t.teardown(async () => {
  await daemon.close()
  await sink.stop()
})
const api = checkedApi(daemon)
sink.respondWith((delivery) => ({ status: delivery.text.includes('"bad"') ? 422 : 200 }))

interface Lane {
  destination_id: string
  state: string
  delivered_ts: string | null
  batch_id: string | null
  attempts: number
  last_error: { code: string } | null
}

let pipes = 0
async function newPipe(): Promise<string> {
  return await created(
    api,
    '/v1/pipes',
    { pipe_name: `pipe-${++pipes}`, pipe_add_ingest_ts: false },
    'pipe_id',
  )
}

async function newHook(pipeId: string, more: Record<string, unknown> = {}): Promise<string> {
  const destination = {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/hook` },
    ...more,
  }
  return await created(api, `/v1/pipes/${pipeId}/destinations`, destination, 'destination_id')
}

async function lanesOf(msgId: string): Promise<Lane[]> {
  return (await api('GET', `/v1/messages/${msgId}`)).body.lanes as Lane[]
}

function untilState(msgId: string, state: string, nth = 0): Promise<Lane> {
  return until(`${msgId} is ${state}`, async () => {
    const lane = (await lanesOf(msgId))[nth]
    return lane?.state === state ? lane : null
  })
}

t.test(
  'a message is shown as it was sent, digit by digit, with what became of it in each lane',
  async (t) => {
    const pipeId = await newPipe()
    const hook = await newHook(pipeId)
    const pull = await created(api, `/v1/pipes/${pipeId}/destinations`, pullDestination, 'destination_id')
    const text = '[{"n":12345678901234567890,"x":1.10},{"n":2}]'
    const sent = await daemon.api('POST', `/v1/ingest/${pipeId}`, Buffer.from(text), {
      headers: { 'content-type': 'application/json' },
    })
    const msgId = String(sent.body.msg_id)
    const lane = await untilState(msgId, 'delivered')
    const answer = await api('GET', `/v1/messages/${msgId.toUpperCase()}`)
    t.match(answer.body, { msg_id: msgId, pipe_id: pipeId, records_count: 2, truncated: false })
    t.match(answer.text, `"records":${text}`)
    const seq = Number(answer.body.stream_seq)
    t.match(lane, {
      destination_id: hook,
      attempts: 1,
      batch_id: batchIdentity(hook, seq, seq),
      last_error: null,
    })
    t.ok(Date.parse(lane.delivered_ts ?? '') >= Date.parse(String(answer.body.received_ts)) - 1_000)
    t.equal(sink.deliveries.at(-1)?.headers['webhook-id'], lane.batch_id, 'the identity that was sent')
    t.match((await lanesOf(msgId))[1], {
      destination_id: pull,
      state: 'pending',
      attempts: 0,
      delivered_ts: null,
    })
  },
)

t.test('of many records the first 20 are shown', async (t) => {
  const pipeId = await newPipe()
  const { msg_id } = await daemon.ingest(
    pipeId,
    Array.from({ length: 25 }, (_, n) => ({ n })),
  )
  const { body } = await api('GET', `/v1/messages/${msg_id}`)
  t.match(body, { records_count: 25, truncated: true, lanes: [] })
  t.strictSame(
    (body.records as { n: number }[]).map(({ n }) => n),
    Array.from({ length: 20 }, (_, n) => n),
  )
})

t.test(
  'stuck, then skipped; what follows is pending, then delivered; a rewind makes both pending',
  async (t) => {
    const pipeId = await newPipe()
    const hook = await newHook(pipeId)
    const path = `/v1/pipes/${pipeId}/destinations/${hook}`
    const { msg_id: bad } = await daemon.ingest(pipeId, { bad: true })
    const stuck = await until('stuck', async () => {
      const lane = (await lanesOf(bad))[0]
      return lane?.state === 'stuck' && lane.last_error !== null ? lane : null
    })
    t.ok(stuck.attempts >= 1)
    const { msg_id: next } = await daemon.ingest(pipeId, { n: 1 })
    t.match(await lanesOf(next), [{ state: 'pending', attempts: 0, last_error: null }])
    t.match((await api('POST', `${path}/skip`)).body, { skipped: true })
    t.match(await untilState(bad, 'parked'), { delivered_ts: null, batch_id: null }, 'it is put aside')
    const { parked } = (await api('GET', `${path}/parked`)).body as { parked: { parked_id: string }[] }
    t.equal((await api('DELETE', `${path}/parked/${parked[0]?.parked_id}`)).status, 204)
    t.match(await lanesOf(bad), [{ state: 'skipped', delivered_ts: null, batch_id: null }], 'discarded')
    await untilState(next, 'delivered')
    const listed = (await api('GET', `/v1/pipes/${pipeId}/messages`)).body.messages as {
      msg_id: string
      lanes: Lane[]
    }[]
    t.match(listed, [
      { msg_id: next, records_count: 1, bytes: 7, lanes: [{ destination_id: hook, state: 'delivered' }] },
      { msg_id: bad, lanes: [{ destination_id: hook, state: 'skipped' }] },
    ])
    await api('PATCH', `${path}/status`, { destination_status: 'blocked' })
    t.equal((await api('POST', `${path}/rewind`, { to: 'earliest' })).status, 200)
    t.match(await lanesOf(bad), [{ state: 'pending', delivered_ts: null }])
    t.match(await lanesOf(next), [{ state: 'pending', delivered_ts: null }])
  },
)

t.test('a destination that was made after the message has nothing to do with it', async (t) => {
  const pipeId = await newPipe()
  const { msg_id } = await daemon.ingest(pipeId, { n: 1 })
  const early = await newHook(pipeId, { start_from: 'earliest' })
  await newHook(pipeId)
  const lane = await untilState(msg_id, 'delivered')
  t.equal(lane.destination_id, early)
  t.equal((await lanesOf(msg_id)).length, 1)
})

t.test('unknown, malformed, of another workspace, of a deleted pipe: message_not_found', async (t) => {
  const pipeId = await newPipe()
  const { msg_id: msgId } = await daemon.ingest(pipeId, { n: 1 })
  t.equal((await api('GET', `/v1/messages/${msgId}`)).status, 200, 'control')
  const stranger = (await createStranger(daemon.dataDir)).api_key
  for (const [id, key] of [
    [unknownId, undefined],
    ['nothing', undefined],
    [msgId, stranger],
  ] as const) {
    const answer = await api('GET', `/v1/messages/${id}`, undefined, key === undefined ? {} : { key })
    t.match(answer, { status: 404, body: { error: 'message_not_found' } }, id)
  }
  t.match(await api('GET', `/v1/pipes/${pipeId}/messages`, undefined, { key: stranger }), {
    status: 404,
    body: { error: 'pipe_not_found' },
  })
  await api('DELETE', `/v1/pipes/${pipeId}`)
  t.match(await api('GET', `/v1/messages/${msgId}`), { status: 404, body: { error: 'message_not_found' } })
})

t.test('a key for some pipes sees their messages alone', async (t) => {
  const [own, other] = [await newPipe(), await newPipe()]
  const made = await api('POST', '/v1/api-keys', {
    ...{ api_key_name: 'bound', api_key_scopes: ['read'] },
    api_key_pipe_ids: [own],
  })
  const key = String(made.body.api_key)
  const { msg_id: mine } = await daemon.ingest(own, { n: 1 })
  const { msg_id: foreign } = await daemon.ingest(other, { n: 1 })
  t.equal((await api('GET', `/v1/messages/${mine}`, undefined, { key })).status, 200)
  t.match(await api('GET', `/v1/messages/${foreign}`, undefined, { key }), {
    status: 404,
    body: { error: 'message_not_found' },
  })
  t.equal((await api('GET', `/v1/pipes/${own}/messages`, undefined, { key })).status, 200)
  t.equal((await api('GET', `/v1/pipes/${other}/messages`, undefined, { key })).status, 404)
})

t.test('a list goes on page by page and keeps to its times', async (t) => {
  const pipeId = await newPipe()
  const ids: string[] = []
  for (let n = 0; n < 7; n += 1) ids.unshift((await daemon.ingest(pipeId, { n })).msg_id)
  const path = `/v1/pipes/${pipeId}/messages`
  const listed: string[] = []
  for (let after: unknown = null; ; ) {
    const { body } = await api('GET', `${path}?limit=3${after === null ? '' : `&after=${after}`}`)
    const page = body.messages as { msg_id: string }[]
    t.ok(page.length <= 3)
    listed.push(...page.map(({ msg_id }) => msg_id))
    after = body.next
    if (after === null) break
  }
  t.strictSame(listed, ids)
  const { received_ts: since } = (await api('GET', `/v1/messages/${ids[0]}`)).body
  const of = async (query: string) =>
    ((await api('GET', `${path}?${query}`)).body.messages as unknown[]).length
  t.ok((await of(`since=${since}`)) >= 1)
  t.equal(await of(`since=${new Date(Date.now() + 3_600_000).toISOString()}`), 0)
  t.equal(await of(`until=${new Date(Date.now() + 3_600_000).toISOString()}`), 7)
  t.equal(await of(`until=${new Date(Date.now() - 3_600_000).toISOString()}`), 0)
  t.equal(
    await of(`since=${new Date(Date.now() - 3_600_000).toISOString()}&until=${since}`),
    7 - (await of(`since=${since}`)),
  )
})

t.test('parameters that are not allowed are named', async (t) => {
  const path = `/v1/pipes/${await newPipe()}/messages`
  for (const [name, value] of [
    ['limit', '0'],
    ['limit', '201'],
    ['after', 'x'],
    ['since', 'yesterday'],
    ['until', '12:00'],
  ] as const) {
    const answer = await api('GET', `${path}?${name}=${value}`)
    t.equal(answer.status, 400)
    t.ok(errorsIn(answer)[name], `${name}=${value}`)
  }
})
