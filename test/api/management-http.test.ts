/**
 * Rules of every management operation: keys, bodies, paths, methods (docs/dev/contract.md#authentication,
 * docs/dev/contract.md#ids-and-api-keys, docs/dev/contract.md#request-bodies).
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { openapiYaml } from '../../src/contract/openapi.ts'
import { operationTable } from '../../src/contract/operations.ts'
import { call, startDaemon, type TestDaemon } from '../support/daemon.ts'
import { checkedApi, created, errorsIn, pullDestination, unknownId } from './management-client.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)
const pipeId = await created(api, '/v1/pipes', { pipe_name: 'main' }, 'pipe_id')
const destinationId = await created(
  api,
  `/v1/pipes/${pipeId}/destinations`,
  pullDestination,
  'destination_id',
)

const managed = operationTable.filter((operation) => operation.area === 'management')
/** The operation's path with ids of things that exist, where this file has any. */
const realPath = (pattern: string) =>
  pattern
    .replace('{pipe_id}', pipeId)
    .replace('{destination_id}', destinationId)
    .replace(/\{\w+\}/, unknownId)

t.test(
  'every operation rejects a missing, malformed, unknown or misspelt key with the same 401',
  async (t) => {
    const lastTurned = daemon.apiKey.slice(0, -1) + (daemon.apiKey.endsWith('A') ? 'B' : 'A')
    const wrong: (Record<string, string> | null)[] = [
      null,
      { authorization: 'Bearer' },
      { authorization: 'Bearer ' },
      { authorization: daemon.apiKey },
      { authorization: `Basic ${Buffer.from(`x:${daemon.apiKey}`).toString('base64')}` },
      { authorization: `Bearer ${lastTurned}` },
      { authorization: `Bearer ${daemon.apiKey} x` },
      { authorization: 'Bearer ppl1_0000000000000000000000000000000000000000' },
    ]
    const bodies = new Set<string>()
    for (const { method, path } of managed)
      for (const headers of wrong) {
        // Auth comes first: neither an unknown id nor a malformed body is told apart.
        for (const target of [realPath(path), path.replaceAll(/\{\w+\}/g, 'x')]) {
          const body = method === 'GET' || method === 'DELETE' ? undefined : '{broken'
          const answer = await api(method, target, body, { key: null, headers: headers ?? {} })
          t.equal(answer.status, 401)
          t.equal(answer.headers['www-authenticate'], 'Bearer')
          bodies.add(answer.text)
        }
      }
    t.equal(bodies.size, 1, 'they all read the same')
    t.match([...bodies][0], /"error":"unauthorized"/)
  },
)

t.test('the scheme is Bearer in any case', async (t) => {
  const answer = await api('GET', '/v1/pipes', undefined, {
    headers: { authorization: `bearer ${daemon.apiKey}` },
  })
  t.equal(answer.status, 200)
})

t.test('malformed JSON or a body that is no object: validation_error on the empty path', async (t) => {
  const taking = managed.filter((operation) => operation.request)
  t.ok(taking.length >= 9)
  for (const { operationId, method, path } of taking) {
    // Its body is optional, and then the record is not found.
    const isOptional = operationId === 'replayPipeParked'
    for (const body of [
      '{',
      ...(isOptional ? [] : ['']),
      '[]',
      '[{}]',
      'null',
      '5',
      '"text"',
      'true',
      '{"a":1}x',
      '{"a":\u0001}',
    ]) {
      const errors = errorsIn(await api(method, realPath(path), body))
      t.same(Object.keys(errors), [''], `${method} ${path} ${body}`)
    }
    if (!isOptional) t.same(Object.keys(errorsIn(await api(method, realPath(path)))), [''], 'no body at all')
    const invalidUtf8 = Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])
    t.same(Object.keys(errorsIn(await api(method, realPath(path), invalidUtf8))), [''])
  }
})

t.test('a body nested deeper than 100 levels is rejected before it can hurt', async (t) => {
  const deep = `{"pipe_name":${'['.repeat(900)}${']'.repeat(900)}}`
  t.same(Object.keys(errorsIn(await api('POST', '/v1/pipes', deep))), [''])
})

t.test('a body over the limit: 413 payload_too_large', async (t) => {
  const answer = await api('POST', '/v1/pipes', JSON.stringify({ pipe_name: 'x'.repeat(11 * 1024 * 1024) }))
  t.equal(answer.body.error, 'payload_too_large')
})

t.test('a large body that no operation reads is dropped, and the daemon stands', async (t) => {
  const body = JSON.stringify({ text: 'x'.repeat(2 * 1024 * 1024) })
  const cases: [method: string, path: string, key: string | null, code: string | undefined][] = [
    ['POST', '/v1/nothing', null, 'not_found'],
    ['PUT', '/v1/pipes', null, 'method_not_allowed'],
    ['POST', '/v1/pipes', null, 'unauthorized'],
    ['POST', '/v1/pipes', daemon.apiKey, 'payload_too_large'],
    ['DELETE', `/v1/pipes/${unknownId}`, daemon.apiKey, 'pipe_not_found'],
  ]
  for (const [method, target, key, code] of cases)
    t.equal((await daemon.api(method, target, body, { key })).body.error, code, `${method} ${target}`)
  t.equal((await api('GET', '/v1/health', undefined, { key: null })).status, 200)
})

t.test('known path, wrong method: 405 method_not_allowed with Allow', async (t) => {
  const byPath = new Map<string, string[]>()
  for (const { path, method, area } of operationTable) {
    if (area !== 'management' && area !== 'health') continue
    byPath.set(path, [...(byPath.get(path) ?? []), method])
  }
  for (const [path, methods] of byPath)
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']) {
      if (methods.includes(method)) continue
      // GET, PATCH and DELETE of …/destinations/test are those of a destination named "test"; likewise the others.
      if (
        /\/destinations\/(test|infer|try-transform)$/.test(path) &&
        ['GET', 'PATCH', 'DELETE'].includes(method)
      )
        continue
      // And those of …/parked/replay and …/parked/discard are of a parked record named so.
      if (/\/parked\/(replay|discard)$/.test(path) && ['GET', 'DELETE'].includes(method)) continue
      if (/\{pipe_id\}\/parked\/(replay|discard)$/.test(path) && method === 'PATCH') continue
      // And those of …/replays/dry-run are of a replay named so.
      if (path.endsWith('/replays/dry-run') && ['GET', 'DELETE'].includes(method)) continue
      // And DELETE of /v1/api-keys/purge is that of a key named so.
      if (path === '/v1/api-keys/purge' && method === 'DELETE') continue
      const answer = await daemon.api(method, realPath(path))
      t.equal(answer.status, 405, `${method} ${path}`)
      t.equal(answer.body.error, 'method_not_allowed')
      const allowed = String(answer.headers.allow).split(', ')
      for (const known of methods) t.ok(allowed.includes(known), `${path} allows ${known}`)
    }
})

t.test('unknown path: 404 not_found', async (t) => {
  t.equal((await api('GET', '/')).body.error, 'not_found', 'for programs')
  for (const unknown of [
    '/v1',
    '/v2/pipes',
    '/v1/pipe',
    '/v1/pipes/x/y',
    `/v1/pipes/${pipeId}/limits/x`,
    '/v1/api-keys/a/b',
  ])
    for (const method of ['GET', 'POST', 'DELETE']) {
      const answer = await daemon.api(method, unknown)
      t.equal(answer.status, 404, `${method} ${unknown}`)
      t.equal(answer.body.error, 'not_found')
      t.type(answer.body.message, 'string')
    }
})

t.test('GET /v1/health: no key, ok and the time', async (t) => {
  const before = Date.now()
  const answer = await api('GET', '/v1/health', undefined, { key: null })
  t.equal(answer.body.status, 'ok')
  const at = Date.parse(String(answer.body.timestamp))
  t.ok(at >= before && at <= Date.now())
  t.match(answer.body.timestamp, /Z$/)
})

const document = async (at: TestDaemon, headers: Record<string, string> = {}) =>
  await call('GET', `${at.url}/openapi/management-v1.openapi.yaml`, headers)

t.test(
  'the OpenAPI document is served as it is committed, without a key, with the Host of the request',
  async (t) => {
    const answer = await document(daemon)
    t.equal(answer.status, 200)
    t.match(answer.headers['content-type'], /yaml/)
    t.equal(answer.text, openapiYaml({ management: daemon.url, data: daemon.url }))
    const committed = new URL('../../openapi/management-v1.openapi.yaml', import.meta.url)
    t.equal(openapiYaml(), readFileSync(committed, 'utf8'))
    for (const host of ['"x": y', 'a b', 'x/y']) {
      const { status, text } = await document(daemon, { host })
      t.same([status, text], [200, openapiYaml()], 'what is no host is not written into it')
    }
  },
)

t.test('public_url and public_data_url are the servers of the OpenAPI document', async (t) => {
  const other = await startDaemon({
    env: {
      PIPECTL_PUBLIC_URL: 'https://pipectl.example/base/',
      PIPECTL_PUBLIC_DATA_URL: 'https://in.example:8443',
    },
  })
  t.teardown(() => other.close())
  const urls = { management: 'https://pipectl.example/base', data: 'https://in.example:8443' }
  t.equal((await document(other)).text, openapiYaml(urls))
  const split = await startDaemon({ env: { PIPECTL_DATA_LISTEN: '127.0.0.1:0' } })
  t.teardown(() => split.close())
  t.equal(
    (await document(split)).text,
    openapiYaml({ management: split.url, data: split.dataUrl }),
    'a second address has its own port',
  )
})

t.test('GET /v1/ready: 503 while metadata cannot be read', async (t) => {
  const file = new Database(path.join(daemon.dataDir, 'metadata.db'))
  t.teardown(() => file.close())
  file.exec('ALTER TABLE workspaces RENAME TO renamed_by_test')
  const answer = await daemon.api('GET', '/v1/ready', undefined, { key: null })
  file.exec('ALTER TABLE renamed_by_test RENAME TO workspaces')
  t.same([answer.status, answer.body], [503, { status: 'not_ready', reasons: ['metadata_unreachable'] }])
  t.same((await daemon.api('GET', '/v1/ready')).body, { status: 'ready' })
})

t.test('…/destinations/test is a destination like another for methods other than POST', async (t) => {
  const pipe = await daemon.createPipe({ pipe_name: 'literal' })
  for (const method of ['GET', 'PATCH', 'DELETE']) {
    const answer = await api(
      method,
      `/v1/pipes/${pipe}/destinations/test`,
      method === 'PATCH' ? {} : undefined,
    )
    t.same([answer.status, answer.body.error], [404, 'destination_not_found'], method)
  }
  const put = await daemon.api('PUT', `/v1/pipes/${pipe}/destinations/test`, {})
  t.same([put.status, put.headers.allow], [405, 'POST, GET, HEAD, PATCH, DELETE'])
})

t.test('no cookies and no redirects, on any response', async (t) => {
  for (const { method, path } of managed) {
    const answer = await daemon.api(method, realPath(path), undefined, { key: null })
    t.notOk('set-cookie' in answer.headers)
    t.ok(answer.status < 300 || answer.status >= 400)
  }
})

t.test('an unexpected failure: 500 server_error that tells nothing of the inside', async (t) => {
  const file = new Database(path.join(daemon.dataDir, 'metadata.db'))
  t.teardown(() => file.close())
  file.exec('ALTER TABLE pipes RENAME TO renamed_by_test')
  const answer = await api('GET', '/v1/pipes', undefined, { isBroken: true })
  file.exec('ALTER TABLE renamed_by_test RENAME TO pipes')
  t.equal(answer.status, 500)
  t.equal(answer.body.error, 'server_error')
  t.notMatch(answer.text, /SQL|table|renamed|node_modules/i)
  t.equal((await api('GET', '/v1/pipes')).status, 200)
})
