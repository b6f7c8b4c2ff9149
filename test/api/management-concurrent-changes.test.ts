/** ETag and If-Match (docs/dev/contract.md#concurrent-changes): a change of what has changed since it was read is rejected. */
import t from 'tap'
import { takesIfMatch } from '../../src/contract/operation.ts'
import { operationTable } from '../../src/contract/operations.ts'
import { startDaemon } from '../support/daemon.ts'
import { checkedApi, created, pullDestination, unknownId } from './management-client.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)
const limits = {
  pl_ingest_max_records_per_request: 10,
  pl_ingest_max_records_per_second: 10,
  pl_ingest_max_records_per_day: 10,
  pl_delivery_max_records_per_flush: 10,
  pl_delivery_max_bytes_per_flush: 1_000,
  pl_delivery_max_seconds_per_flush: 1,
}
const alerts = { url: 'http://127.0.0.1:9/hook' }

async function newPipe(name: string) {
  const pipe = `/v1/pipes/${await created(api, '/v1/pipes', { pipe_name: name }, 'pipe_id')}`
  const id = await created(api, `${pipe}/destinations`, pullDestination, 'destination_id')
  return { pipe, destination: `${pipe}/destinations/${id}` }
}
/** Without what the service counts. */
function settingsIn(body: unknown): unknown {
  return JSON.parse(
    JSON.stringify(body, (key, value) =>
      key === 'lane' || key === 'api_keys' || key === 'status' ? undefined : value,
    ),
  )
}

type Paths = Awaited<ReturnType<typeof newPipe>>

async function etagOf(path: string): Promise<string> {
  const { headers } = await api('GET', path)
  t.match(headers.etag, /^"[\w-]{22}"$/)
  return String(headers.etag)
}

/** Each operation that takes If-Match: what has its version, how it is called, and a change in the meantime. */
const conditional: Record<
  string,
  (paths: Paths) => { of: string; call: [method: string, path: string, body?: unknown]; other: unknown[] }
> = {
  updatePipe: ({ pipe }) => ({
    of: pipe,
    call: ['PATCH', pipe, { pipe_description: 'mine' }],
    other: ['PATCH', pipe, { pipe_description: 'theirs' }],
  }),
  putLimits: ({ pipe }) => ({
    of: pipe,
    call: ['PUT', `${pipe}/limits`, limits],
    other: ['PUT', `${pipe}/limits`, { ...limits, pl_ingest_max_records_per_day: 11 }],
  }),
  deleteLimits: ({ pipe }) => ({
    of: pipe,
    call: ['DELETE', `${pipe}/limits`],
    other: ['POST', `${pipe}/allowed-origins`, { origin_domain: 'https://example.com' }],
  }),
  updateDestination: ({ destination }) => ({
    of: destination,
    call: ['PATCH', destination, { destination_name: 'mine' }],
    other: ['PATCH', destination, { destination_name: 'theirs' }],
  }),
  setDestinationStatus: ({ destination }) => ({
    of: destination,
    call: ['PATCH', `${destination}/status`, { destination_status: 'active' }],
    other: ['PATCH', `${destination}/status`, { destination_status: 'blocked' }],
  }),
  putAlerts: () => ({
    of: '/v1/alerts',
    call: ['PUT', '/v1/alerts', alerts],
    other: ['PUT', '/v1/alerts', { ...alerts, format: 'slack' }],
  }),
  deleteAlerts: () => ({
    of: '/v1/alerts',
    call: ['DELETE', '/v1/alerts'],
    other: ['PUT', '/v1/alerts', { ...alerts, events: ['lane.stuck'] }],
  }),
  deleteDestination: ({ pipe, destination }) => ({
    of: destination,
    call: ['DELETE', destination],
    other: ['PATCH', `${pipe}${destination.slice(pipe.length)}`, { destination_max_retry_seconds: 70 }],
  }),
  deletePipe: ({ pipe }) => ({
    of: pipe,
    call: ['DELETE', pipe],
    other: ['PATCH', pipe, { pipe_status: 'paused' }],
  }),
}

t.test('every operation that takes If-Match rejects a stale one and takes the present one', async (t) => {
  const ids = operationTable.filter(takesIfMatch).map(({ operationId }) => operationId)
  t.same(new Set(Object.keys(conditional)), new Set(ids))
  for (const id of Object.keys(conditional)) {
    const { of, call, other } = conditional[id]!(await newPipe(`of-${id}`))
    const [method, path, body] = call
    const send = (tag: string) => api(method, path, body, { headers: { 'if-match': tag } })
    const stale = await etagOf(of)
    const [otherMethod, otherPath, otherBody] = other as [string, string, unknown]
    t.ok((await api(otherMethod, otherPath, otherBody)).status < 300, id)
    const before = await api('GET', of)
    const present = String(before.headers.etag)
    t.not(present, stale, id)
    const rejected = await send(stale)
    t.match(rejected, { status: 412, body: { error: 'changed_meanwhile' }, headers: { etag: present } }, id)
    t.same(settingsIn(rejected.body.present), settingsIn(before.body), `${id}: with what it is now`)
    t.equal(await etagOf(of), present, 'nothing was done')
    const done = await send(`"another", W/${present}`)
    t.ok(done.status < 300, `${id}: ${done.text}`)
    const after = await daemon.api('GET', of)
    if (after.status === 200 && done.status === 200) t.equal(done.headers.etag, after.headers.etag, id)
    if (after.status === 200) t.ok((await send('*')).status < 300, id)
  }
})

t.test('of many changes with one ETag at the same time, one is made', async (t) => {
  for (const of of Object.values(await newPipe('crowd'))) {
    const tag = await etagOf(of)
    const key = of.includes('destinations') ? 'destination_name' : 'pipe_description'
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) =>
        api('PATCH', of, { [key]: `change ${n}` }, { headers: { 'if-match': tag } }),
      ),
    )
    const made = answers.filter(({ status }) => status === 200)
    t.equal(made.length, 1)
    t.equal(answers.filter(({ status }) => status === 412).length, 7)
    t.equal(await etagOf(of), made[0]?.headers.etag)
  }
})

t.test('what is not the settings leaves the version as it is', async (t) => {
  const { pipe, destination } = await newPipe('quiet')
  const tags = [await etagOf(pipe), await etagOf(destination)]
  const [, pipeId] = /pipes\/(.+)/.exec(pipe)!
  t.equal((await api('POST', `/v1/ingest/${pipeId}`, { a: 1 })).status, 202)
  t.equal((await api('PATCH', pipe, {})).status, 200)
  t.equal((await newPipe('another')).pipe === pipe, false)
  t.same([await etagOf(pipe), await etagOf(destination)], tags)
})

t.test('a malformed If-Match is an error, and a missing resource is not found', async (t) => {
  const { pipe } = await newPipe('malformed')
  for (const tag of ['x', '"a" "b"', ',', '"a",'])
    t.match(await api('PATCH', pipe, { pipe_description: 'x' }, { headers: { 'if-match': tag } }), {
      status: 400,
      body: { errors: { 'If-Match': /ETag/ } },
    })
  const missing = await api('DELETE', `/v1/pipes/${unknownId}`, undefined, { headers: { 'if-match': '"x"' } })
  t.equal(missing.status, 404)
  t.match((await api('GET', pipe)).body, { pipe: { pipe_description: '' } })
})
