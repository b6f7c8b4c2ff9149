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

interface Listed {
  msg_id: string
  stream_seq: number
  excerpt: { record_index: number; text: string; truncated: boolean } | null
  lanes: Lane[]
}

interface List {
  messages: Listed[]
  next: number | null
  searched: { messages: number; bytes: number; oldest_ts: string | null }
}

async function listOf(pipeId: string, query: Record<string, string>): Promise<List> {
  const { body } = await api('GET', `/v1/pipes/${pipeId}/messages?${new URLSearchParams(query)}`)
  return body as unknown as List
}

const idsOf = ({ messages }: List) => messages.map(({ msg_id }) => msg_id)

t.test('key=value finds a record by the text of a value, at any depth', async (t) => {
  const pipeId = await newPipe()
  const send = async (...texts: string[]) => {
    const { body } = await daemon.api('POST', `/v1/ingest/${pipeId}`, Buffer.from(`[${texts.join(',')}]`), {
      headers: { 'content-type': 'application/json' },
    })
    return String(body.msg_id)
  }
  const paid = await send('{"status":"open"}', '{"status":"paid","price":1.10,"n":12345678901234567890}')
  const nested = await send('{"customer":{"country":"AT","city":{"name":"Wien"}},"price":1.1}')
  const escaped = await send('{"name":"Z\\u00fcrich","note":"a\\nb","ke\\u0079":"paid"}')
  const dotted = await send('{"customer.country":"AT","flag":true,"none":null,"list":[1,2]}')
  const cases: [where: string, found: string[]][] = [
    ['status=paid', [paid]],
    ['status="paid"', [paid]],
    ['status=pai', []],
    ['price=1.10', [paid]],
    ['price=1.1', [nested]],
    ['n=12345678901234567890', [paid]],
    ['n=12345678901234567891', []],
    ['customer.country=AT', [dotted, nested]],
    ['customer.city.name=Wien', [nested]],
    ['customer.city={"name":"Wien"}', [nested]],
    ['name=Zürich', [escaped]],
    ['note=a\nb', [escaped]],
    ['key=paid', [escaped]],
    ['flag=true', [dotted]],
    ['none=null', [dotted]],
    ['list=[1,2]', [dotted]],
    ['country=AT', []],
    ['a=b=c', []],
  ]
  for (const [where, found] of cases) {
    const list = await listOf(pipeId, { where })
    t.strictSame(idsOf(list), found, where)
    t.equal(list.next, null)
    t.equal(list.searched.messages, 4, 'it looked at all of them')
    t.ok(list.searched.bytes > 100)
  }
  const [one] = (await listOf(pipeId, { where: 'status=paid' })).messages
  t.match(one?.excerpt, { record_index: 1, text: /^{"status":"paid","price":1\.10/, truncated: false })
  const { messages } = await listOf(pipeId, {})
  t.match(messages.at(-1)?.excerpt, { record_index: 0, text: '{"status":"open"}', truncated: false })
})

t.test('an excerpt is cut between characters; a large message has one only if it was searched', async (t) => {
  const pipeId = await newPipe()
  const { msg_id: long } = await daemon.ingest(pipeId, { text: '😀'.repeat(1_000), last: 1 })
  const { msg_id: large } = await daemon.ingest(
    pipeId,
    Array.from({ length: 300 }, (_, n) => ({ n, text: 'x'.repeat(1_000) })),
  )
  const { messages } = await listOf(pipeId, {})
  t.strictSame(
    messages.map(({ msg_id }) => msg_id),
    [large, long],
  )
  t.equal(messages[0]?.excerpt, null)
  t.match(messages[1]?.excerpt, { text: /^\{"text":"(😀)+$/u, truncated: true })
  const [found] = (await listOf(pipeId, { where: 'n=299' })).messages
  t.match(found, { msg_id: large, excerpt: { record_index: 299, truncated: true } })
  t.match((await listOf(pipeId, { where: 'last=1' })).messages, [{ msg_id: long }])
})

t.test('messages are filtered by lane, by state, and by both', async (t) => {
  const pipeId = await newPipe()
  const early = await daemon.ingest(pipeId, { n: 0 })
  const shop = await newHook(pipeId, { on_permanent_error: 'park' })
  const pull = await created(api, `/v1/pipes/${pipeId}/destinations`, pullDestination, 'destination_id')
  const good = await daemon.ingest(pipeId, { n: 1 })
  const bad = await daemon.ingest(pipeId, { bad: 1, n: 2 })
  const path = `/v1/pipes/${pipeId}/destinations/${shop}`
  await untilState(good.msg_id, 'delivered')
  await untilState(bad.msg_id, 'parked')
  const of = async (query: Record<string, string>) => idsOf(await listOf(pipeId, query))
  t.strictSame(await of({ state: 'parked' }), [bad.msg_id])
  t.strictSame(await of({ state: 'delivered' }), [good.msg_id])
  t.strictSame(await of({ state: 'pending' }), [bad.msg_id, good.msg_id], 'in the lane that is pulled')
  t.strictSame(await of({ state: 'pending', destination_id: shop }), [])
  t.strictSame(await of({ destination_id: shop }), [bad.msg_id, good.msg_id], 'the first one came before')
  t.strictSame(await of({ destination_id: pull.toUpperCase(), state: 'pending', limit: '1' }), [bad.msg_id])
  t.strictSame(await of({ state: 'parked', where: 'n=2' }), [bad.msg_id])
  t.strictSame(await of({ state: 'parked', where: 'n=1' }), [])
  t.strictSame(await of({ state: 'delivered', since: new Date(Date.now() + 60_000).toISOString() }), [])
  for (const state of ['skipped', 'dropped', 'stuck']) t.strictSame(await of({ state }), [], state)

  const { parked } = (await api('GET', `${path}/parked`)).body as { parked: { parked_id: string }[] }
  t.equal((await api('DELETE', `${path}/parked/${parked[0]?.parked_id}`)).status, 204)
  t.strictSame(await of({ state: 'skipped' }), [bad.msg_id])
  t.strictSame(await of({ state: 'parked' }), [])

  t.equal((await api('PATCH', path, { on_permanent_error: 'block' })).status, 200)
  const stuck = await daemon.ingest(pipeId, { bad: 2 })
  const behind = await daemon.ingest(pipeId, { n: 4 })
  await untilState(stuck.msg_id, 'stuck')
  t.strictSame(await of({ state: 'stuck' }), [stuck.msg_id])
  t.strictSame(await of({ state: 'pending', destination_id: shop }), [behind.msg_id])
  t.strictSame(
    await of({}),
    [behind, stuck, bad, good, early].map(({ msg_id }) => msg_id),
  )

  const missing = await api('GET', `/v1/pipes/${pipeId}/messages?destination_id=${unknownId}`)
  t.equal(missing.status, 400)
  t.match(errorsIn(missing).destination_id, 'no destination')
})

t.test('a message is found by its id in its own pipe only', async (t) => {
  const [pipeId, other] = [await newPipe(), await newPipe()]
  const { msg_id } = await daemon.ingest(pipeId, { n: 1 })
  await daemon.ingest(pipeId, { n: 2 })
  t.strictSame(idsOf(await listOf(pipeId, { msg_id: msg_id.toUpperCase() })), [msg_id])
  t.strictSame(idsOf(await listOf(pipeId, { msg_id, where: 'n=1' })), [msg_id])
  t.strictSame(idsOf(await listOf(pipeId, { msg_id, where: 'n=2' })), [])
  t.match(await listOf(other, { msg_id }), { messages: [], next: null })
  t.match(await listOf(pipeId, { msg_id: unknownId }), { messages: [], next: null })
})

t.test('pages of a search are stable while messages arrive', async (t) => {
  const pipeId = await newPipe()
  const wanted: string[] = []
  for (let n = 0; n < 12; n += 1) {
    const { msg_id } = await daemon.ingest(pipeId, { n, kind: n % 2 ? 'odd' : 'even' })
    if (n % 2) wanted.unshift(msg_id)
  }
  const found: string[] = []
  let after: number | null = null
  do {
    const page: List = await listOf(pipeId, {
      ...{ where: 'kind=odd', limit: '2' },
      ...(after === null ? {} : { after: String(after) }),
    })
    found.push(...idsOf(page))
    after = page.next
    await daemon.ingest(pipeId, { kind: 'odd' })
  } while (after !== null)
  t.strictSame(found, wanted)
})

t.test('a search looks at a limited number of bytes, says how far it came, and continues', async (t) => {
  const pipeId = await newPipe()
  const { msg_id: oldest } = await daemon.ingest(pipeId, { kind: 'needle' })
  // 75 messages of 1 MB: more than one request reads.
  const chaff = JSON.stringify(Array.from({ length: 1_000 }, (_, n) => ({ n, text: 'x'.repeat(970) })))
  for (let n = 0; n < 75; n += 1) await daemon.ingest(pipeId, chaff)
  const found: string[] = []
  const pages: List[] = []
  let after: number | null = null
  do {
    const page: List = await listOf(pipeId, {
      where: 'kind=needle',
      ...(after === null ? {} : { after: String(after) }),
    })
    pages.push(page)
    found.push(...idsOf(page))
    t.ok(page.searched.bytes <= 66 * 1024 * 1024, `${page.searched.bytes} bytes`)
    after = page.next
  } while (after !== null)
  t.strictSame(found, [oldest])
  t.ok(pages.length > 1, `${pages.length} requests`)
  t.equal(pages[0]?.messages.length, 0)
  t.ok(Date.parse(pages[0]?.searched.oldest_ts ?? '') <= Date.now())
  t.equal(
    pages.reduce((sum, page) => sum + page.searched.messages, 0),
    76,
    'every message was looked at once',
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
    ['state', 'lost'],
    ['where', 'status'],
    ['where', '=paid'],
    ['destination_id', 'shop'],
    ['msg_id', '1'],
  ] as const) {
    const answer = await api('GET', `${path}?${name}=${value}`)
    t.equal(answer.status, 400)
    t.ok(errorsIn(answer)[name], `${name}=${value}`)
  }
})
