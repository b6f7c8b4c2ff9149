/** Two workspaces never see each other (docs/dev/contract.md#what-the-service-does): another's resource looks like none at all. */
import t from 'tap'
import { operationTable } from '../../src/contract/operations.ts'
import { createStranger } from '../support/daemon.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import {
  checkedApi,
  created,
  databaseDestination,
  fullLimits,
  pullDestination,
  unknownId,
} from './management-client.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)
const stranger = { key: (await createStranger(daemon.dataDir)).api_key }

const pipeId = await created(api, '/v1/pipes', { pipe_name: 'mine' }, 'pipe_id')
const pipePath = `/v1/pipes/${pipeId}`
const destinationId = await created(api, `${pipePath}/destinations`, pullDestination, 'destination_id')
const originId = await created(
  api,
  `${pipePath}/allowed-origins`,
  { origin_domain: 'https://mine.test' },
  'pipe_allowed_origin_id',
)
const keyId = await created(api, '/v1/api-keys', { api_key_name: 'mine' }, 'api_key_id')
const user = { user_email: 'mine@example.test', user_role: 'admin', password: 'ten characters' }
const { user_id: userId } = Object((await api('POST', '/v1/users', user)).body.user)
await api('PUT', `${pipePath}/limits`, fullLimits)

const bodies: Record<string, unknown> = {
  rotateApiKey: { api_key_name: 'turned' },
  updatePipe: { pipe_status: 'paused' },
  createDestination: databaseDestination,
  testDestination: databaseDestination,
  updateDestination: { destination_max_retry_seconds: 1 },
  setDestinationStatus: { destination_status: 'blocked' },
  rewindDestination: { to: 'earliest' },
  queryDestination: { sql: 'SELECT 1' },
  planReplay: { from: 'earliest', to: 'now' },
  createReplay: { from: 'earliest', to: 'now' },
  putLimits: Object.fromEntries(Object.keys(fullLimits).map((key) => [key, 1])),
  addAllowedOrigin: { origin_domain: 'https://evil.test' },
  updateUser: { password: 'of a stranger' },
  inferTable: databaseDestination,
  checkSchema: { schema: { type: 'object' } },
  inferSchema: { records: 10 },
  tryTransform: { transform: { filter: 'true' } },
  replayManyParked: { all: true },
  discardManyParked: { all: true },
  editPipeParked: { records: [{}] },
  replayManyPipeParked: { all: true },
  discardManyPipeParked: { all: true },
}
const mine = (path: string) =>
  path
    .replace('{pipe_id}', pipeId)
    .replace('{destination_id}', destinationId)
    .replace('{origin_id}', originId)
    .replace('{api_key_id}', keyId)
    .replace('{user_id}', userId)
    .replaceAll(/\{\w+\}/g, unknownId)
const nobodys = (path: string) => path.replaceAll(/\{\w+\}/g, unknownId)

/** Everything of the workspace that GETs show, without when its own key was used: these GETs use it. */
const everything = async () =>
  JSON.stringify(
    await Promise.all(
      [pipePath, '/v1/api-keys', '/v1/users'].map(async (path) => (await api('GET', path)).body),
    ),
    (name, value) => (name === 'api_key_last_used_ts' ? undefined : value),
  )

t.test(
  "every operation on another workspace's resource answers exactly as on one that does not exist",
  async (t) => {
    const before = await everything()
    const withIds = operationTable.filter(({ area, path }) => area === 'management' && path.includes('{'))
    t.ok(withIds.length >= 16)
    for (const { operationId, method, path } of withIds) {
      const body = bodies[operationId]
      const answer = await api(method, mine(path), body, stranger)
      const unknown = await api(method, nobodys(path), body, stranger)
      t.equal(answer.status, 404, operationId)
      t.equal(answer.text, unknown.text, operationId)
    }
    t.equal(await everything(), before, 'nothing was changed')
  },
)

t.test("a stranger's own pipe does not lead to another's destination or origin", async (t) => {
  const own = await created(api, '/v1/pipes', { pipe_name: 'own' }, 'pipe_id', stranger)
  const destination = `/v1/pipes/${own}/destinations/${destinationId}`
  t.equal((await api('GET', destination, undefined, stranger)).body.error, 'destination_not_found')
  t.equal((await api('DELETE', destination, undefined, stranger)).body.error, 'destination_not_found')
  const origin = `/v1/pipes/${own}/allowed-origins/${originId}`
  t.equal((await api('DELETE', origin, undefined, stranger)).body.error, 'origin_not_found')
})

t.test('lists show the own workspace alone', async (t) => {
  const pipes = (await api('GET', '/v1/pipes', undefined, stranger)).body
  t.notMatch(JSON.stringify(pipes), pipeId)
  const keys = (await api('GET', '/v1/api-keys', undefined, stranger)).text
  t.notMatch(keys, keyId)
  const detail = await api('GET', pipePath)
  t.equal(Object(detail.body.api_keys).length, 2, 'a pipe shows the keys of its own workspace alone')
})

t.test('names are unique per workspace, not over all of them', async (t) => {
  await created(api, '/v1/pipes', { pipe_name: 'mine' }, 'pipe_id', stranger)
  await created(api, '/v1/api-keys', { api_key_name: 'mine' }, 'api_key_id', stranger)
  t.equal((await api('POST', '/v1/pipes', { pipe_name: 'mine' }, stranger)).body.error, 'duplicate_pipe_name')
})

t.test("ingest and pull do not take another workspace's key", async (t) => {
  const ingest = await daemon.api('POST', `/v1/ingest/${pipeId}`, { n: 1 }, stranger)
  t.equal(ingest.body.error, 'unauthorized')
  const pull = await daemon.api('GET', `/v1/pull/${destinationId}?wait_ms=0`, undefined, stranger)
  t.equal(pull.body.error, 'destination_not_found')
})
