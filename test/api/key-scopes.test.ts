/**
 * Keys with scopes (docs/dev/contract.md#key-scopes) on the real daemon: each kind of key × each operation × a pipe of its own and
 * another one. The table says what was decided for every operation; a new one that is not in it fails.
 */
import assert from 'node:assert/strict'
import t, { type Test } from 'tap'
import { type ApiKeyScope, apiKeyScopes } from '../../src/contract/api-key.ts'
import { errorCatalogue } from '../../src/contract/errors.ts'
import { type Operation, scopeOf } from '../../src/contract/operation.ts'
import { type OperationId, operationTable } from '../../src/contract/operations.ts'
import type { Answer } from '../support/api-client.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { until } from '../support/until.ts'
import { checkedApi, created, errorsIn, pullDestination, unknownId } from './management-client.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)

/** The scope that an operation takes, and what a key for some pipes gets of it. */
const decisions: Record<OperationId, readonly [scope: ApiKeyScope | null, bound: Operation['boundKeys']]> = {
  getOverview: ['read', 'its_part'],
  getUsage: ['read', 'its_part'],
  listPipes: ['read', 'its_part'],
  createPipe: ['manage', 'nothing'],
  getPipe: ['read', 'its_pipe'],
  getPipeUsage: ['read', 'its_pipe'],
  getSchemaTypes: ['read', 'its_pipe'],
  listSchemaVersions: ['read', 'its_pipe'],
  updatePipe: ['manage', 'its_pipe'],
  deletePipe: ['manage', 'its_pipe'],
  createDestination: ['manage', 'its_pipe'],
  testDestination: ['manage', 'its_pipe'],
  inferTable: ['manage', 'its_pipe'],
  checkSchema: ['read', 'its_pipe'],
  inferSchema: ['read', 'its_pipe'],
  tryTransform: ['manage', 'its_pipe'],
  getDrift: ['read', 'its_pipe'],
  listAttempts: ['read', 'its_pipe'],
  getDestination: ['read', 'its_pipe'],
  getDestinationUsage: ['read', 'its_pipe'],
  getDestinationLatency: ['read', 'its_pipe'],
  updateDestination: ['manage', 'its_pipe'],
  deleteDestination: ['manage', 'its_pipe'],
  setDestinationStatus: ['manage', 'its_pipe'],
  skipBlockingMessage: ['manage', 'its_pipe'],
  retryNow: ['manage', 'its_pipe'],
  getBlockingMessage: ['read', 'its_pipe'],
  rewindDestination: ['manage', 'its_pipe'],
  resetTlsPin: ['manage', 'its_pipe'],
  listParked: ['read', 'its_pipe'],
  getParked: ['read', 'its_pipe'],
  replayParked: ['manage', 'its_pipe'],
  replayManyParked: ['manage', 'its_pipe'],
  discardManyParked: ['manage', 'its_pipe'],
  deleteParked: ['manage', 'its_pipe'],
  listPipeParked: ['read', 'its_pipe'],
  getPipeParked: ['read', 'its_pipe'],
  editPipeParked: ['manage', 'its_pipe'],
  replayPipeParked: ['manage', 'its_pipe'],
  replayManyPipeParked: ['manage', 'its_pipe'],
  deletePipeParked: ['manage', 'its_pipe'],
  discardManyPipeParked: ['manage', 'its_pipe'],
  listReplays: ['read', 'its_pipe'],
  planReplay: ['manage', 'its_pipe'],
  createReplay: ['manage', 'its_pipe'],
  getReplay: ['read', 'its_pipe'],
  cancelReplay: ['manage', 'its_pipe'],
  queryDestination: ['read', 'nothing'],
  listTables: ['read', 'nothing'],
  putLimits: ['manage', 'its_pipe'],
  deleteLimits: ['manage', 'its_pipe'],
  addAllowedOrigin: ['manage', 'its_pipe'],
  removeAllowedOrigin: ['manage', 'its_pipe'],
  getMessage: ['read', 'its_part'],
  listMessages: ['read', 'its_pipe'],
  tailPipe: ['read', 'its_pipe'],
  listApiKeys: ['read', 'its_part'],
  createApiKey: ['manage', 'its_part'],
  rotateApiKey: ['manage', 'its_part'],
  revokeApiKey: ['manage', 'its_part'],
  purgeApiKeys: ['manage', 'its_part'],
  getAlerts: ['read', 'nothing'],
  putAlerts: ['manage', 'nothing'],
  deleteAlerts: ['manage', 'nothing'],
  testAlerts: ['manage', 'nothing'],
  listUsers: ['read', 'nothing'],
  createUser: ['manage', 'nothing'],
  updateUser: ['manage', 'nothing'],
  deleteUser: ['manage', 'nothing'],
  createSetupLink: ['manage', 'nothing'],
  listPrivacyJobs: ['read', 'nothing'],
  createPrivacyJob: ['manage', 'nothing'],
  getPrivacyJob: ['read', 'nothing'],
  cancelPrivacyJob: ['manage', 'nothing'],
  listAudit: ['read', 'its_part'],
  getHealth: [null, 'open'],
  getReady: [null, 'open'],
  receiveHook: [null, 'open'],
  answerHookChallenge: [null, 'open'],
  receiveHookAtSecretUrl: [null, 'open'],
  answerHookChallengeAtSecretUrl: [null, 'open'],
  ingestRecords: ['ingest', 'its_pipe'],
  ingestHint: [null, 'open'],
  ingestPreflight: [null, 'open'],
  pullMessage: ['pull', 'its_pipe'],
  ackMessage: ['pull', 'its_pipe'],
  nackMessage: ['pull', 'its_pipe'],
}

t.test('every operation has a decision, and it is the one that the route table has', async (t) => {
  t.strictSame(
    Object.fromEntries(operationTable.map((one) => [one.operationId, [scopeOf(one), one.boundKeys]])),
    decisions,
  )
})

interface Place {
  name: string
  pipe: string
  destination: string
  origin: string
  /** A key that is limited to this pipe. */
  apiKey: string
}

async function place(name: string): Promise<Place> {
  const pipe = await created(api, '/v1/pipes', { pipe_name: name }, 'pipe_id')
  const on = `/v1/pipes/${pipe}`
  return {
    name,
    pipe,
    destination: await created(api, `${on}/destinations`, pullDestination, 'destination_id'),
    origin: await created(
      api,
      `${on}/allowed-origins`,
      { origin_domain: `https://${name}.example` },
      'pipe_allowed_origin_id',
    ),
    apiKey: (await newKey({ api_key_name: `of-${name}`, api_key_pipe_ids: [pipe] })).id,
  }
}

async function newKey(body: Record<string, unknown>, key?: string): Promise<{ id: string; key: string }> {
  const answer = await api('POST', '/v1/api-keys', body, key === undefined ? {} : { key })
  assert.equal(answer.status, 201, answer.text)
  return { id: String(answer.body.api_key_id), key: String(answer.body.api_key) }
}

/** Bodies that get as far as the thing itself; the others are sent an empty object, and 400 says they got past the key. */
const bodies: Partial<Record<OperationId, unknown>> = {
  ingestRecords: { n: 1 },
  rotateApiKey: { api_key_name: 'turned' },
}

async function call(operation: Operation, where: Place, key: string): Promise<Answer> {
  const path = operation.path
    .replace('{pipe_id}', where.pipe)
    .replace('{destination_id}', where.destination)
    .replace('{origin_id}', where.origin)
    .replace('{api_key_id}', where.apiKey)
    .replace('{parked_id}', unknownId)
    .replace('{replay_id}', unknownId)
    .replace('{user_id}', unknownId)
    .replace('{msg_id}', unknownId)
  const queries: Partial<Record<string, string>> = { pullMessage: '?wait_ms=0', tailPipe: '?sample=0' }
  const query = queries[operation.operationId] ?? ''
  const takesBody = operation.request !== undefined
  const body = takesBody ? (bodies[operation.operationId as OperationId] ?? {}) : undefined
  return await daemon.api(operation.method, `${path}${query}`, body, { key })
}

/** Those that remove something come last, so that the others find it. */
const inOrder = [...operationTable].sort((a, b) => rank(a) - rank(b))
function rank({ method, operationId }: Operation): number {
  return operationId === 'deletePipe' ? 2 : method === 'DELETE' ? 1 : 0
}

function has(scope: ApiKeyScope, needed: ApiKeyScope): boolean {
  return scope === needed || scope === 'manage'
}

function isAdmitted({ status }: Answer): boolean {
  return status !== 401 && status !== 403
}

for (const scope of apiKeyScopes) {
  t.test(`a key with the scope ${scope}, for all pipes`, async (t) => {
    const own = await place(`all-${scope}`)
    const { key } = await newKey({ api_key_name: `all ${scope}`, api_key_scopes: [scope] })
    for (const operation of inOrder) {
      const needed = scopeOf(operation)
      if (needed === null) continue
      const answer = await call(operation, own, key)
      if (has(scope, needed)) admitted(t, operation, answer)
      else lacks(t, operation, answer, needed)
    }
  })

  t.test(`a key with the scope ${scope}, for one pipe`, async (t) => {
    const [own, other] = [await place(`own-${scope}`), await place(`other-${scope}`)]
    const { key } = await newKey({
      api_key_name: `bound ${scope}`,
      api_key_scopes: [scope],
      api_key_pipe_ids: [own.pipe.toUpperCase()],
    })
    for (const operation of inOrder) {
      const needed = scopeOf(operation)
      if (needed === null) continue
      const elsewhere = await call(operation, other, key)
      noLeak(t, operation, elsewhere, own, other)
      if (!has(scope, needed)) lacks(t, operation, elsewhere, needed)
      else if (operation.boundKeys === 'nothing') t.equal(elsewhere.status, 403, operation.operationId)
      else if (operation.boundKeys === 'its_pipe') refused(t, operation, elsewhere)
      else if (operation.path.includes('{api_key_id}'))
        t.equal(elsewhere.body.error, 'api_key_not_found', operation.operationId)
      const here = await call(operation, own, key)
      if (!has(scope, needed)) lacks(t, operation, here, needed)
      else if (operation.boundKeys === 'nothing') t.equal(here.status, 403, operation.operationId)
      else admitted(t, operation, here)
    }
    const rest = await api('GET', `/v1/pipes/${other.pipe}`)
    t.equal(rest.status, 200, 'the other pipe is as it was')
    t.match(rest.body, { limits: null, allowed_origins: [{ pipe_allowed_origin_id: other.origin }] })
    t.match(rest.body, { destinations: [{ destination_id: other.destination }] })
  })
}

function admitted(t: Test, { operationId }: Operation, answer: Answer): void {
  t.ok(isAdmitted(answer), `${operationId} lets it in: ${answer.status} ${answer.text.slice(0, 200)}`)
  if (answer.status === 404) t.ok(notThere.has(operationId), `${operationId} finds it: ${answer.text}`)
}
/** The operations whose resource does not exist for any key in this test. */
const notThere = new Set([
  ...['getBlockingMessage', 'getMessage', 'getParked', 'replayParked', 'deleteParked'],
  ...['getPipeParked', 'editPipeParked', 'replayPipeParked', 'deletePipeParked'],
  ...['updateUser', 'deleteUser', 'testAlerts'],
  ...['getReplay', 'cancelReplay', 'getPrivacyJob', 'cancelPrivacyJob'],
])

function lacks(t: Test, { operationId }: Operation, answer: Answer, scope: ApiKeyScope): void {
  t.equal(answer.status, 403, `${operationId}: ${answer.text.slice(0, 200)}`)
  t.equal(answer.body.error, 'forbidden')
  t.match(answer.body.message, new RegExp(`lacks the scope ${scope}\\.`), operationId)
}

function refused(t: Test, { operationId, area }: Operation, answer: Answer): void {
  if (area === 'management' || area === 'tail') {
    t.equal(answer.status, errorCatalogue.pipe_not_found.status, `${operationId}: ${answer.text}`)
    t.match(answer.body.error, /^(pipe|destination|origin)_not_found$/, operationId)
  } else {
    t.equal(answer.status, 403, `${operationId}: ${answer.text}`)
    t.equal(answer.body.error, 'forbidden', operationId)
  }
}

/** Nothing that a bound key is answered names anything of a pipe that it is not for. */
function noLeak(t: Test, { operationId }: Operation, answer: Answer, own: Place, other: Place): void {
  const named = Object.values(other).filter((text) => answer.text.includes(text))
  t.strictSame(named, [], operationId)
  const foreign = [...answer.text.matchAll(/"pipe_id":"([^"]+)"/g)].filter(([, id]) => id !== own.pipe)
  t.strictSame(foreign, [], operationId)
}

t.test('what a bound key sees of usage and overview is of its own pipes', async (t) => {
  const [own, other] = [await place('counted'), await place('uncounted')]
  const { key } = await newKey({ api_key_name: 'counting', api_key_pipe_ids: [own.pipe] })
  const options = { key }
  const sum = async (as: object) => {
    const { body } = await api('GET', '/v1/usage?hours=1', undefined, as)
    return Object(body.hours)[0].ingest_records
  }
  const [before, allBefore] = [await sum(options), await sum({})]
  await daemon.ingest(own.pipe, [{ n: 1 }, { n: 2 }])
  await daemon.ingest(other.pipe, [{ n: 1 }, { n: 2 }, { n: 3 }])
  t.equal((await sum(options)) - before, 2)
  t.equal((await sum({})) - allBefore, 5, 'control')
  const listed = await api('GET', '/v1/pipes', undefined, options)
  t.strictSame(Object.keys(Object(listed.body.usage_by_pipe)), [own.pipe])
  const overview = await api('GET', '/v1/overview', undefined, options)
  t.match(overview.body.pipes, [{ pipe_id: own.pipe }])
  t.equal(Object(overview.body.pipes).length, 1)
})

t.test(
  'a key makes none that may more than itself: another pipe, all pipes, for longer, or a person',
  async (t) => {
    const [own, other] = [await place('within'), await place('without')]
    const ends = new Date(Date.now() + 3_600_000).toISOString()
    const { id, key } = await newKey({
      api_key_name: 'limited',
      api_key_pipe_ids: [own.pipe],
      api_key_expires_ts: ends,
    })
    const forbidden = async (body: object) => {
      const answer = await api('POST', '/v1/api-keys', { api_key_name: 'more', ...body }, { key })
      t.equal(answer.body.error, 'forbidden', JSON.stringify(body))
    }
    const within = { api_key_pipe_ids: [own.pipe], api_key_expires_ts: ends }
    await forbidden({ ...within, api_key_pipe_ids: [own.pipe, other.pipe] })
    await forbidden({ ...within, api_key_pipe_ids: null })
    await forbidden({ api_key_expires_ts: ends })
    await forbidden({ ...within, api_key_expires_ts: null })
    await forbidden({ ...within, api_key_expires_ts: new Date(Date.parse(ends) + 1).toISOString() })
    const made = await newKey({ api_key_name: 'no more', ...within, api_key_scopes: ['ingest'] }, key)
    const later = { api_key_name: 'turned', api_key_expires_ts: null }
    const rotate = `/v1/api-keys/${made.id}/rotate`
    t.equal((await api('POST', rotate, later, { key })).body.error, 'forbidden')
    t.equal((await api('POST', `/v1/api-keys/${id}/rotate`, later, { key })).body.error, 'forbidden')
    const zero = { api_key_name: 'turned', overlap_seconds: 0 }
    const self = await api('POST', `/v1/api-keys/${id}/rotate`, zero, { key })
    t.equal(self.body.error, 'cannot_revoke_current_key')
    const expiring = await newKey({ api_key_name: 'expiring', api_key_expires_ts: ends })
    const person = { user_email: 'a@example.com', user_role: 'admin', password: 'long enough for all' }
    for (const [path, body] of [
      ['/v1/users', person],
      ['/v1/setup-links', { user_role: 'admin' }],
    ] as const)
      t.equal((await api('POST', path, body, { key: expiring.key })).body.error, 'forbidden', path)
  },
)

t.test('a key expires at its time: on management, ingest and pull, and its name is free', async (t) => {
  const own = await place('ending')
  const ends = new Date(Date.now() + 4_000).toISOString()
  const { key } = await newKey({ api_key_name: 'ending', api_key_expires_ts: ends })
  const calls = () =>
    Promise.all([
      daemon.api('GET', '/v1/pipes', undefined, { key }),
      daemon.api('POST', `/v1/ingest/${own.pipe}`, { n: 1 }, { key }),
      daemon.api('GET', `/v1/pull/${own.destination}?wait_ms=0`, undefined, { key }),
    ])
  for (const answer of await calls()) t.ok(answer.status < 300, `control: ${answer.status}`)
  // Nothing is left for the pull below.
  await until('the pull destination is empty', async () => {
    const { status } = await daemon.api('GET', `/v1/pull/${own.destination}?wait_ms=0`)
    return status === 204
  })
  const waiting = await daemon.api('GET', `/v1/pull/${own.destination}?wait_ms=20000`, undefined, { key })
  t.equal(waiting.status, 401, 'a pull that waits ends with its key')
  await until('the key has expired', async () => (await calls()).every(({ status }) => status === 401))
  t.ok(Date.now() >= Date.parse(ends), 'not before')
  const list = await api('GET', '/v1/api-keys')
  const row = Object(list.body.api_keys).find(
    (one: { api_key_name: string }) => one.api_key_name === 'ending',
  )
  t.match(row, { api_key_status: 'expired', api_key_expires_ts: ends })
  t.equal((await api('DELETE', `/v1/api-keys/${row.api_key_id}`)).body.error, 'api_key_not_found')
  await newKey({ api_key_name: 'ending' })
})

t.test('rotate: the same rights under a new name, and the old key ends after the overlap', async (t) => {
  const own = await place('turning')
  const old = await newKey({
    api_key_name: 'app',
    api_key_scopes: ['ingest', 'pull'],
    api_key_pipe_ids: [own.pipe],
  })
  const rotated = await api('POST', `/v1/api-keys/${old.id}/rotate`, {
    api_key_name: 'app-2',
    overlap_seconds: 2,
  })
  t.equal(rotated.status, 201)
  const list = async () =>
    Object((await api('GET', '/v1/api-keys')).body.api_keys) as Record<string, unknown>[]
  const fresh = (await list()).find((one) => one.api_key_id === rotated.body.api_key_id)
  t.match(fresh, {
    api_key_name: 'app-2',
    api_key_scopes: ['ingest', 'pull'],
    api_key_pipe_ids: [own.pipe],
    api_key_expires_ts: null,
  })
  const sends = async (key: string) =>
    (await daemon.api('POST', `/v1/ingest/${own.pipe}`, { n: 1 }, { key })).status
  t.equal(await sends(String(rotated.body.api_key)), 202)
  t.equal(await sends(old.key), 202, 'both, for the overlap')
  await until('the old key has ended', async () => (await sends(old.key)) === 401)
  t.equal(await sends(String(rotated.body.api_key)), 202)
  const taken = await api('POST', `/v1/api-keys/${fresh?.api_key_id}/rotate`, { api_key_name: 'app-2' })
  t.equal(taken.body.error, 'duplicate_api_key_name')
  const bodies = [{}, { api_key_name: 'x', overlap_seconds: -1 }, { api_key_name: 'x', overlap_seconds: 1e9 }]
  for (const body of bodies)
    t.ok(Object.keys(errorsIn(await api('POST', `/v1/api-keys/${fresh?.api_key_id}/rotate`, body))).length)
  t.equal(
    (await api('POST', `/v1/api-keys/${unknownId}/rotate`, { api_key_name: 'x' })).body.error,
    'api_key_not_found',
  )
  const now = { api_key_name: 'app-3', overlap_seconds: 0 }
  const second = await api('POST', `/v1/api-keys/${fresh?.api_key_id}/rotate`, now)
  t.equal(second.status, 201)
  t.equal(await sends(String(rotated.body.api_key)), 401, 'revoked at once')
})

t.test('purge forgets the revoked and expired keys, and no other', async (t) => {
  const gone = await newKey({ api_key_name: 'gone' })
  await newKey({ api_key_name: 'stays' })
  await api('DELETE', `/v1/api-keys/${gone.id}`)
  const names = async () => {
    const { body } = await api('GET', '/v1/api-keys')
    return Object(body.api_keys).map((one: { api_key_name: string }) => one.api_key_name) as string[]
  }
  t.ok((await names()).includes('gone'), 'control')
  const purged = await api('POST', '/v1/api-keys/purge')
  t.ok(Number(purged.body.purged) >= 1)
  t.notOk((await names()).includes('gone'))
  t.ok((await names()).includes('stays'))
  t.strictSame((await api('POST', '/v1/api-keys/purge')).body, { purged: 0 })
})

t.test('what a key may be made for is checked', async (t) => {
  const wrong: [object, string][] = [
    [{ api_key_scopes: [] }, 'api_key_scopes'],
    [{ api_key_scopes: ['write'] }, 'api_key_scopes.0'],
    [{ api_key_scopes: ['read', 'read'] }, 'api_key_scopes'],
    [{ api_key_pipe_ids: [] }, 'api_key_pipe_ids'],
    [{ api_key_pipe_ids: ['x'] }, 'api_key_pipe_ids.0'],
    [{ api_key_pipe_ids: [unknownId] }, 'api_key_pipe_ids.0'],
    [{ api_key_expires_ts: 'tomorrow' }, 'api_key_expires_ts'],
    [{ api_key_expires_ts: '2020-01-01T00:00:00Z' }, 'api_key_expires_ts'],
  ]
  for (const [body, field] of wrong)
    t.strictSame(
      Object.keys(errorsIn(await api('POST', '/v1/api-keys', { api_key_name: 'wrong', ...body }))),
      [field],
    )
})

t.test('a pipe that is deleted stays in the list of a key, which opens nothing then', async (t) => {
  const own = await place('short')
  const { id, key } = await newKey({ api_key_name: 'of a short one', api_key_pipe_ids: [own.pipe] })
  await api('DELETE', `/v1/pipes/${own.pipe}`)
  const listed = await api('GET', '/v1/pipes', undefined, { key })
  t.strictSame(listed.body.pipes, [])
  const keys = await api('GET', '/v1/api-keys')
  t.match(
    Object(keys.body.api_keys).find((one: { api_key_id: string }) => one.api_key_id === id),
    { api_key_pipe_ids: [own.pipe] },
  )
  t.equal((await api('POST', '/v1/pipes', { pipe_name: 'mine' }, { key })).body.error, 'forbidden')
})

t.test('when a key was last used is listed, to the minute', async (t) => {
  const { id, key } = await newKey({ api_key_name: 'seldom' })
  const lastUsed = async () => {
    const { body } = await api('GET', '/v1/api-keys')
    return Object(body.api_keys).find((one: { api_key_id: string }) => one.api_key_id === id)
      .api_key_last_used_ts
  }
  t.equal(await lastUsed(), null)
  await daemon.api('GET', '/v1/pipes', undefined, { key })
  await until('its use is stored', async () => (await lastUsed()) !== null)
  t.match(await lastUsed(), /:00\.000Z$/)
})
