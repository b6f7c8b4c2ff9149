/** API keys over HTTP on the real daemon: docs/dev/contract.md#ids-and-api-keys, docs/dev/contract.md#authentication. */
import assert from 'node:assert/strict'
import t from 'tap'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { checkedApi, created, errorsIn, pullDestination, unknownId } from './management-client.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)

interface NewKey {
  api_key_id: string
  api_key: string
  api_key_name: string
}
async function newKey(api_key_name: string): Promise<NewKey> {
  const answer = await api('POST', '/v1/api-keys', { api_key_name })
  assert.equal(answer.status, 201, answer.text)
  return Object(answer.body)
}
const listed = async (): Promise<Record<string, string>[]> =>
  Object((await api('GET', '/v1/api-keys')).body.api_keys)
const idOf = async (name: string) =>
  (await listed()).find((key) => key.api_key_name === name && key.api_key_status === 'active')?.api_key_id

t.test('POST /v1/api-keys: the whole key once, ppl1_ with 38 characters, and it works at once', async (t) => {
  const key = await newKey('fresh')
  t.match(key.api_key, /^ppl1_[0-9A-Za-z]{38}$/)
  t.equal(key.api_key_name, 'fresh')
  t.equal((await api('GET', '/v1/pipes', undefined, { key: key.api_key })).status, 200)
  const row = (await listed()).find((found) => found.api_key_id === key.api_key_id)
  t.match(row, {
    api_key_name: 'fresh',
    api_key_prefix: key.api_key.slice(0, 12),
    api_key_status: 'active',
    api_key_created_ts: /^\d{4}-\d\d-\d\dT.*Z$/,
  })
  t.same(Object.keys(row ?? {}).sort(), [
    'api_key_created_ts',
    'api_key_expires_ts',
    'api_key_id',
    'api_key_last_used_ts',
    'api_key_name',
    'api_key_pipe_ids',
    'api_key_prefix',
    'api_key_scopes',
    'api_key_status',
  ])
  t.notOk((await api('GET', '/v1/api-keys')).text.includes(key.api_key), 'it is never listed')
})

t.test('api_key_name: 1 to 100 characters, nothing else in the body', async (t) => {
  await newKey('n')
  await newKey('é'.repeat(100))
  for (const api_key_name of ['', 'n'.repeat(101), 5, null, {}])
    t.same(Object.keys(errorsIn(await api('POST', '/v1/api-keys', { api_key_name }))), ['api_key_name'])
  t.same(errorsIn(await api('POST', '/v1/api-keys', {})), { api_key_name: 'is required' })
  t.same(errorsIn(await api('POST', '/v1/api-keys', { api_key_name: 'x', api_key: 'mine' })), {
    api_key: 'Unknown field.',
  })
})

t.test(
  'names are unique among active keys: 409 duplicate_api_key_name, free again once revoked',
  async (t) => {
    const first = await newKey('unique')
    const answer = await api('POST', '/v1/api-keys', { api_key_name: 'unique' })
    t.equal(answer.status, 409)
    t.equal(answer.body.error, 'duplicate_api_key_name')
    await api('DELETE', `/v1/api-keys/${first.api_key_id}`)
    const second = await newKey('unique')
    const rows = (await listed()).filter((key) => key.api_key_name === 'unique')
    t.same(rows.map((key) => key.api_key_status).sort(), ['active', 'revoked'])
    t.not(second.api_key_id, first.api_key_id)
  },
)

t.test('DELETE revokes before it answers: management, ingest and pull reject the key with 401', async (t) => {
  const key = await newKey('short-lived')
  const options = { key: key.api_key }
  const pipeId = await created(api, '/v1/pipes', { pipe_name: 'revoking' }, 'pipe_id')
  const destination = await created(
    api,
    `/v1/pipes/${pipeId}/destinations`,
    pullDestination,
    'destination_id',
  )
  const calls = () =>
    Promise.all([
      daemon.api('GET', '/v1/pipes', undefined, options),
      daemon.api('POST', `/v1/ingest/${pipeId}`, { n: 1 }, options),
      daemon.api('GET', `/v1/pull/${destination}?wait_ms=0`, undefined, options),
    ])
  for (const answer of await calls()) t.ok(answer.status < 300, `before: ${answer.status}`)
  t.equal((await api('DELETE', `/v1/api-keys/${key.api_key_id}`)).status, 204)
  for (const answer of await calls()) {
    t.equal(answer.status, 401)
    t.equal(answer.body.error, 'unauthorized')
  }
  t.match(
    (await listed()).find((found) => found.api_key_id === key.api_key_id),
    { api_key_status: 'revoked' },
  )
  t.equal(
    (await api('DELETE', `/v1/api-keys/${key.api_key_id}`)).body.error,
    'api_key_not_found',
    'only once',
  )
})

t.test(
  'a key cannot revoke itself: 400 cannot_revoke_current_key; rotation is create, then revoke the old',
  async (t) => {
    const old = await newKey('old')
    const self = await api('DELETE', `/v1/api-keys/${old.api_key_id}`, undefined, { key: old.api_key })
    t.equal(self.status, 400)
    t.equal(self.body.error, 'cannot_revoke_current_key')
    const upper = await api('DELETE', `/v1/api-keys/${old.api_key_id.toUpperCase()}`, undefined, {
      key: old.api_key,
    })
    t.equal(upper.body.error, 'cannot_revoke_current_key', 'in either case of the id')
    const fresh = await newKey('new')
    const revoke = await api('DELETE', `/v1/api-keys/${old.api_key_id}`, undefined, { key: fresh.api_key })
    t.equal(revoke.status, 204)
    t.equal((await api('GET', '/v1/pipes', undefined, { key: old.api_key })).status, 401)
  },
)

t.test('unknown and malformed key ids: 404 api_key_not_found', async (t) => {
  for (const id of [unknownId, 'not-a-uuid', '%2f'])
    t.equal((await api('DELETE', `/v1/api-keys/${id}`)).body.error, 'api_key_not_found', id)
  t.ok(await idOf('fresh'), 'no key was harmed')
})
