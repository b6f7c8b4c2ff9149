/** Limits and allowed origins over HTTP on the real daemon: docs/dev/contract.md#pipe-limits, docs/dev/contract.md#allowed-origins. */
import t from 'tap'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { checkedApi, created, errorsIn, fullLimits, unknownId } from './management-client.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)
const pipeId = await created(api, '/v1/pipes', { pipe_name: 'main' }, 'pipe_id')
const pipePath = `/v1/pipes/${pipeId}`
const limitsPath = `${pipePath}/limits`
const originsPath = `${pipePath}/allowed-origins`
const detail = async () => (await api('GET', pipePath)).body

t.test('PUT limits: an upsert, shown by GET pipe; null until then', async (t) => {
  t.equal((await detail()).limits, null)
  t.same((await api('PUT', limitsPath, fullLimits)).body, { limits: fullLimits })
  t.same((await detail()).limits, fullLimits)
  const ones = Object.fromEntries(Object.keys(fullLimits).map((key) => [key, 1]))
  t.same((await api('PUT', limitsPath, ones)).body, { limits: ones })
  t.same((await detail()).limits, ones)
})

t.test('PUT limits: no per-day byte cap when omitted or null, also where there was one', async (t) => {
  const { pl_ingest_max_bytes_per_day, ...withoutBytes } = fullLimits
  t.type(pl_ingest_max_bytes_per_day, 'number')
  const expected = { limits: { ...withoutBytes, pl_ingest_max_bytes_per_day: null } }
  for (const body of [withoutBytes, expected.limits]) {
    await api('PUT', limitsPath, fullLimits)
    t.same((await api('PUT', limitsPath, body)).body, expected)
  }
})

t.test('PUT limits: each field is a whole number of at least 1; all but one are required', async (t) => {
  await api('PUT', limitsPath, fullLimits)
  for (const key of Object.keys(fullLimits)) {
    const isOptional = key === 'pl_ingest_max_bytes_per_day'
    for (const value of [0, -1, 1.5, '5', true, [], 2 ** 53, ...(isOptional ? [] : [null])])
      t.same(Object.keys(errorsIn(await api('PUT', limitsPath, { ...fullLimits, [key]: value }))), [key])
    const rest = Object.fromEntries(Object.entries(fullLimits).filter(([name]) => name !== key))
    const answer = await api('PUT', limitsPath, rest)
    if (isOptional) t.equal(answer.status, 200)
    else t.same(errorsIn(answer), { [key]: 'is required' })
  }
  t.same(errorsIn(await api('PUT', limitsPath, { ...fullLimits, other: 1 })), { other: 'Unknown field.' })
  await api('PUT', limitsPath, fullLimits)
  t.equal((await api('PUT', limitsPath, {})).status, 400)
  t.same((await detail()).limits, fullLimits, 'a refused body changes nothing')
})

t.test('DELETE limits: 204, also when there are none, and they no longer hold', async (t) => {
  await api('PUT', limitsPath, { ...fullLimits, pl_ingest_max_records_per_request: 1 })
  for (let i = 0; i < 2; i++) t.equal((await api('DELETE', limitsPath)).status, 204)
  t.equal((await detail()).limits, null)
  await daemon.ingest(pipeId, [{ n: 1 }, { n: 2 }])
})

t.test('limits hold from the response on: the next batch over them gets 413', async (t) => {
  await api('PUT', limitsPath, { ...fullLimits, pl_ingest_max_records_per_request: 2 })
  await daemon.ingest(pipeId, [{ n: 1 }, { n: 2 }])
  const answer = await daemon.api('POST', `/v1/ingest/${pipeId}`, [{}, {}, {}])
  t.equal(answer.body.error, 'batch_too_large')
})

t.test('POST allowed-origins: scheme and host, optional port, no path; stored in lower case', async (t) => {
  const stored = async () =>
    Object((await detail()).allowed_origins).map((row: { origin_domain: string }) => row.origin_domain)
  for (const origin_domain of [
    'http://localhost',
    'https://app.example.test',
    'https://app.example.test:8443',
    'http://127.0.0.1:65535',
    'HTTPS://Upper.Example.Test',
  ]) {
    await created(api, originsPath, { origin_domain }, 'pipe_allowed_origin_id')
    t.ok((await stored()).includes(origin_domain.toLowerCase()), origin_domain)
  }
  for (const origin_domain of [
    '',
    'example.test',
    'ftp://example.test',
    'https://',
    'https://a.test/',
    'https://a.test/path',
    'https://a.test?x',
    'https://u@a.test',
    'https://a_b.test',
    'https://*.test',
    'https://a.test:',
    'https://a.test:0',
    'https://a.test:65536',
    'https://a.test:http',
    ' https://a.test',
    'https://a.test\n',
    '*',
    'null',
    5,
    null,
    ['https://a.test'],
  ])
    t.same(
      Object.keys(errorsIn(await api('POST', originsPath, { origin_domain }))),
      ['origin_domain'],
      JSON.stringify(origin_domain),
    )
  await created(api, originsPath, { origin_domain: 'HTTPS://port.test:443' }, 'pipe_allowed_origin_id')
  t.ok((await stored()).includes('https://port.test'), 'the default port is dropped')
  t.same(errorsIn(await api('POST', originsPath, {})), { origin_domain: 'is required' })
  t.same(errorsIn(await api('POST', originsPath, { origin_domain: 'https://z.test', x: 1 })), {
    x: 'Unknown field.',
  })
})

t.test(
  'an origin twice on one pipe: 409 duplicate_origin, whatever its case; another pipe may have it',
  async (t) => {
    await created(api, originsPath, { origin_domain: 'https://twice.test' }, 'pipe_allowed_origin_id')
    for (const origin_domain of ['https://twice.test', 'https://TWICE.test']) {
      const answer = await api('POST', originsPath, { origin_domain })
      t.equal(answer.status, 409)
      t.equal(answer.body.error, 'duplicate_origin')
    }
    const other = await created(api, '/v1/pipes', { pipe_name: 'other' }, 'pipe_id')
    const path = `/v1/pipes/${other}/allowed-origins`
    await created(api, path, { origin_domain: 'https://twice.test' }, 'pipe_allowed_origin_id')
  },
)

t.test(
  'DELETE allowed-origins: 204, then 404 origin_not_found; unknown, malformed, other pipe: the same',
  async (t) => {
    const id = await created(
      api,
      originsPath,
      { origin_domain: 'https://gone.test' },
      'pipe_allowed_origin_id',
    )
    const other = await created(api, '/v1/pipes', { pipe_name: 'third' }, 'pipe_id')
    for (const path of [
      `${originsPath}/${unknownId}`,
      `${originsPath}/not-a-uuid`,
      `/v1/pipes/${other}/allowed-origins/${id}`,
      `/v1/pipes/${unknownId}/allowed-origins/${id}`,
      `/v1/pipes/not-a-uuid/allowed-origins/${id}`,
    ])
      t.equal((await api('DELETE', path)).body.error, 'origin_not_found', path)
    t.equal((await api('DELETE', `${originsPath}/${id.toUpperCase()}`)).status, 204)
    t.equal((await api('DELETE', `${originsPath}/${id}`)).body.error, 'origin_not_found')
    const again = await api('POST', originsPath, { origin_domain: 'https://gone.test' })
    t.equal(again.status, 201, 'it may be allowed again')
  },
)

t.test(
  'origins hold from the response on: ingest with that Origin is taken, and rejected once it is removed',
  async (t) => {
    const id = await created(api, '/v1/pipes', { pipe_name: 'browsers' }, 'pipe_id')
    const path = `/v1/pipes/${id}/allowed-origins`
    const send = (origin: string) => daemon.api('POST', `/v1/ingest/${id}`, { n: 1 }, { headers: { origin } })
    const origin = await created(api, path, { origin_domain: 'https://Shop.test' }, 'pipe_allowed_origin_id')
    await created(api, path, { origin_domain: 'https://stays.test' }, 'pipe_allowed_origin_id')
    t.equal((await send('https://shop.test')).status, 202)
    await api('DELETE', `${path}/${origin}`)
    t.equal((await send('https://shop.test')).body.error, 'forbidden')
  },
)
