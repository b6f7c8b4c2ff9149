/** docs/dev/contract.md#looking-at-messages: the tail of a pipe as Server-Sent Events, on the real daemon. */
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { Browser, password } from '../support/browser.ts'
import { observe } from '../support/coverage.ts'
import { createStranger, startDaemon } from '../support/daemon.ts'
import { until } from '../support/until.ts'
import { checkedApi, created, errorsIn } from './management-client.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)

interface Event {
  name: string
  id: string | null
  data: Record<string, unknown>
  text: string
}

interface OpenTail {
  status: number
  headers: Headers
  events: Event[]
  named(name: string): Event[]
  body(): Promise<string>
  isOver(): boolean
  /** Over, as HTTP ends a response. */
  isWhole(): boolean
  close(): void
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

async function tail(
  t: Test,
  pipeId: string,
  query = '',
  headers: Record<string, string> = {},
  of: Pick<typeof daemon, 'url' | 'apiKey'> = daemon,
): Promise<OpenTail> {
  const abort = new AbortController()
  t.teardown(() => abort.abort())
  const response = await fetch(`${of.url}/v1/pipes/${pipeId}/tail${query}`, {
    headers: { authorization: `Bearer ${of.apiKey}`, ...headers },
    signal: abort.signal,
  })
  if (response.status === 200) observe('GET', `/v1/pipes/${pipeId}/tail`, response.status)
  const events: Event[] = []
  let isOver = false
  let isWhole = false
  if (response.status === 200)
    void read()
      .then(() => (isWhole = true))
      .catch(() => {})
      .finally(() => (isOver = true))
  async function read() {
    const decoder = new TextDecoder()
    let rest = ''
    for await (const piece of response.body!) {
      const parts = (rest + decoder.decode(piece, { stream: true })).split('\n\n')
      rest = parts.pop() ?? ''
      for (const part of parts) {
        const fields = new Map(
          part.split('\n').map((line) => line.split(/: (.*)/s).slice(0, 2) as [string, string]),
        )
        const text = fields.get('data') ?? ''
        if (fields.has('event'))
          events.push({
            name: fields.get('event')!,
            id: fields.get('id') ?? null,
            data: JSON.parse(text),
            text,
          })
      }
    }
  }
  return {
    ...{ status: response.status, headers: response.headers, events },
    named: (name) => events.filter((event) => event.name === name),
    body: () => response.text(),
    isOver: () => isOver,
    isWhole: () => isWhole,
    close: () => abort.abort(),
  }
}

t.test(
  'records come as they are stored, as they were sent, from the moment of the response on',
  async (t) => {
    const pipeId = await newPipe()
    await daemon.ingest(pipeId, { n: 'before' })
    const open = await tail(t, pipeId)
    t.equal(open.status, 200)
    t.match(open.headers.get('content-type'), /^text\/event-stream/)
    t.equal(open.headers.get('cache-control'), 'no-store')
    const text = '[{"n":12345678901234567890,"x":1.10},\r\n{"n":\r2}]'
    const sent = await daemon.api('POST', `/v1/ingest/${pipeId}`, Buffer.from(text), {
      headers: { 'content-type': 'application/json' },
    })
    await until('both came', () => open.named('record').length === 2)
    const [first, second] = open.named('record')
    t.match(first?.data, { msg_id: sent.body.msg_id, index: 0 })
    t.match(first?.text, '"record":{"n":12345678901234567890,"x":1.10}')
    t.match(second?.data, { msg_id: sent.body.msg_id, index: 1, record: { n: 2 } })
    t.equal(second?.id, `${second?.data.stream_seq}.1`)
  },
)

t.test(
  'a client that comes again goes on behind the last event, in the middle of a message too',
  async (t) => {
    const pipeId = await newPipe()
    await daemon.ingest(pipeId, [{ n: 1 }, { n: 2 }, { n: 3 }])
    await daemon.ingest(pipeId, { n: 4 })
    const first = await tail(t, pipeId, '?after_seq=0')
    await until('all came', () => first.named('record').length === 4)
    first.close()
    const again = await tail(t, pipeId, '', { 'last-event-id': first.named('record')[1]!.id! })
    await until('the rest came', () => again.named('record').length === 2)
    t.strictSame(
      again.named('record').map(({ data }) => (data.record as { n: number }).n),
      [3, 4],
    )
    const later = await tail(t, pipeId, `?after_seq=${first.named('record')[0]!.data.stream_seq}`)
    await until('the second message came', () => later.named('record').length === 1)
    t.match(later.named('record')[0]?.data, { record: { n: 4 } })
  },
)

t.test('more than the sample is left out and counted, nothing is lost silently', async (t) => {
  const pipeId = await newPipe()
  const open = await tail(t, pipeId, '?sample=5')
  await daemon.ingest(
    pipeId,
    Array.from({ length: 100 }, (_, n) => ({ n })),
  )
  const countOf = () =>
    open.named('record').length +
    open.named('dropped').reduce((sum, { data }) => sum + Number(data.records), 0)
  await until('all are accounted for', () => countOf() === 100)
  t.ok(open.named('record').length <= 10)
  t.ok(open.named('dropped').length >= 1)
})

t.test('what is not allowed', async (t) => {
  const pipeId = await newPipe()
  for (const [name, value] of [
    ['sample', '0'],
    ['sample', '1001'],
    ['after_seq', '-1'],
  ] as const) {
    const answer = await api('GET', `/v1/pipes/${pipeId}/tail?${name}=${value}`)
    t.equal(answer.status, 400)
    t.ok(errorsIn(answer)[name])
  }
  const stranger = (await createStranger(daemon.dataDir)).api_key
  t.match(await api('GET', `/v1/pipes/${pipeId}/tail`, undefined, { key: stranger }), {
    status: 404,
    body: { error: 'pipe_not_found' },
  })
  const other = await newPipe()
  const bound = await api('POST', '/v1/api-keys', { api_key_name: 'bound', api_key_pipe_ids: [other] })
  const key = String(bound.body.api_key)
  t.equal((await api('GET', `/v1/pipes/${pipeId}/tail`, undefined, { key })).status, 404)
})

t.test('a ninth tail of a workspace is too many, until one of the eight ends', async (t) => {
  const pipeId = await newPipe()
  await until('those of other tests are gone', async () => {
    const open = await Promise.all(Array.from({ length: 8 }, () => tail(t, pipeId)))
    const isFree = open.every(({ status }) => status === 200)
    if (!isFree) for (const one of open) one.close()
    return isFree
  })
  const ninth = await api('GET', `/v1/pipes/${pipeId}/tail`)
  t.match(ninth, { status: 429, body: { error: 'tail_concurrency_exceeded' } })
  t.ok(Number(ninth.headers['retry-after']) > 0)
})

t.test('it ends with its key and with its pipe, and says why', async (t) => {
  const pipeId = await newPipe()
  const without = await daemon.api('GET', `/v1/pipes/${pipeId}/tail`, undefined, { key: null })
  t.match(without, { status: 401, body: { error: 'unauthorized' } })
  const made = await api('POST', '/v1/api-keys', { api_key_name: 'watcher', api_key_scopes: ['read'] })
  await until('there is room', async () => {
    const open = await tail(t, pipeId)
    open.close()
    return open.status === 200
  })
  const ofKey = await tail(t, pipeId, '', { authorization: `Bearer ${made.body.api_key}` })
  const ofPipe = await tail(t, pipeId)
  await api('DELETE', `/v1/api-keys/${made.body.api_key_id}`)
  await until('the one of the key is over', () => ofKey.isOver())
  t.match(ofKey.named('end'), [{ data: { reason: 'access_ended' } }])
  t.notOk(ofPipe.isOver())
  await api('DELETE', `/v1/pipes/${pipeId}`)
  await until('the one of the pipe is over', () => ofPipe.isOver())
  t.match(ofPipe.named('end'), [{ data: { reason: 'pipe_deleted' } }])
  t.ok(ofKey.isWhole() && ofPipe.isWhole(), 'nothing of it is lost to who reads slowly')
})

t.test('nothing is sent to a key any more once its revocation is confirmed', async (t) => {
  const pipeId = await newPipe()
  const made = await api('POST', '/v1/api-keys', { api_key_name: 'once', api_key_scopes: ['read'] })
  const open = await tail(t, pipeId, '', { authorization: `Bearer ${made.body.api_key}` })
  const control = await tail(t, pipeId)
  await daemon.ingest(pipeId, { n: 'before' })
  await until('both follow', () => open.named('record').length + control.named('record').length === 2)
  await api('DELETE', `/v1/api-keys/${made.body.api_key_id}`)
  await daemon.ingest(pipeId, { n: 'after' })
  await until('the other one goes on', () => control.named('record').length === 2)
  await until('it is over', () => open.isOver())
  t.match(open.named('end'), [{ data: { reason: 'access_ended' } }])
  t.same(
    open.named('record').map(({ data }) => data.record),
    [{ n: 'before' }],
  )
})

t.test(
  'nothing is sent to a user any more once the role has changed, or the session has ended',
  async (t) => {
    const end: [string, (admin: Browser, userId: string) => Promise<unknown>][] = [
      ['a changed role', (_, userId) => api('PATCH', `/v1/users/${userId}`, { user_role: 'viewer' })],
      [
        'a new password',
        (_, userId) => api('PATCH', `/v1/users/${userId}`, { password: `another ${password}` }),
      ],
      ['a deleted user', (_, userId) => api('DELETE', `/v1/users/${userId}`)],
      ['signing out', (admin) => admin.api('DELETE', '/v1/session')],
    ]
    await api('POST', '/v1/users', { user_email: 'keeper@example.com', user_role: 'admin', password })
    for (const [index, [what, change]] of end.entries()) {
      const pipeId = await newPipe()
      const user_email = `tail-${index}@example.com`
      const user = await api('POST', '/v1/users', { user_email, user_role: 'admin', password })
      const browser = await new Browser(daemon.url).signIn(user_email)
      const open = await tail(
        t,
        pipeId,
        '',
        { cookie: browser.cookie ?? '' },
        {
          apiKey: daemon.apiKey,
          url: `${daemon.url}/dashboard/api`,
        },
      )
      t.equal(open.status, 200)
      const control = await tail(t, pipeId)
      await daemon.ingest(pipeId, { n: 'before' })
      await until('both follow', () => open.named('record').length + control.named('record').length === 2)
      await change(browser, String(Object(user.body.user).user_id))
      await daemon.ingest(pipeId, { n: 'after' })
      await until('the other one goes on', () => control.named('record').length === 2)
      await until('it is over', () => open.isOver())
      t.match(open.named('end'), [{ data: { reason: 'access_ended' } }], what)
      t.equal(open.named('record').length, 1, what)
      control.close()
    }
  },
)

t.test('a client that reads nothing holds nobody up and costs no memory', async (t) => {
  const pipeId = await newPipe()
  const { hostname, port } = new URL(daemon.url)
  const socket = connect(Number(port), hostname)
  socket.pause()
  t.teardown(() => socket.destroy())
  socket.write(
    `GET /v1/pipes/${pipeId}/tail?sample=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${daemon.apiKey}\r\n\r\n`,
  )
  const reader = await tail(t, pipeId, '?sample=1000')
  const text = 'x'.repeat(50_000)
  for (let n = 0; n < 60; n += 1) await daemon.ingest(pipeId, { n, text })
  const seen = () =>
    reader.named('record').length +
    reader.named('dropped').reduce((sum, { data }) => sum + Number(data.records), 0)
  await until('who reads has all of them', () => seen() === 60)
})

t.test('at shutdown every tail ends and says so', async (t) => {
  const own = await startDaemon()
  t.teardown(() => own.close())
  const pipeId = await own.createPipe({ pipe_name: 'last' })
  const open = await tail(t, pipeId, '', {}, own)
  t.equal(await own.stop(), 0)
  await until('it is over', () => open.isOver())
  t.match(open.named('end'), [{ data: { reason: 'shutdown' } }])
  t.ok(open.isWhole())
})
