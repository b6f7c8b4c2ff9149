/** The settings `workspace.max_…` on the real daemon. */
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { checkedApi, created, pullDestination } from './management-client.ts'

t.test('what is one too many is 409 workspace_full, naming the setting', async (t) => {
  const env = {
    PIPECTL_WORKSPACE_MAX_PIPES: '1',
    PIPECTL_WORKSPACE_MAX_DESTINATIONS: '1',
    PIPECTL_WORKSPACE_MAX_API_KEYS: '1',
    PIPECTL_WORKSPACE_MAX_ORIGINS: '1',
  }
  const daemon = await startDaemon({ env })
  t.teardown(() => daemon.close())
  const api = checkedApi(daemon)
  const pipeId = await created(api, '/v1/pipes', { pipe_name: 'one' }, 'pipe_id')
  const [destinations, origins] = [`/v1/pipes/${pipeId}/destinations`, `/v1/pipes/${pipeId}/allowed-origins`]
  await created(api, destinations, pullDestination, 'destination_id')
  await created(api, origins, { origin_domain: 'https://a.example' }, 'pipe_allowed_origin_id')
  const tooMany: [path: string, body: object, limit: string][] = [
    ['/v1/pipes', { pipe_name: 'two' }, 'workspace.max_pipes'],
    [destinations, pullDestination, 'workspace.max_destinations'],
    [origins, { origin_domain: 'https://b.example' }, 'workspace.max_origins'],
    ['/v1/api-keys', { api_key_name: 'two' }, 'workspace.max_api_keys'],
  ]
  for (const [path, body, limit] of tooMany)
    t.match(await api('POST', path, body), {
      status: 409,
      body: { error: 'workspace_full', limit, limit_value: 1 },
    })
  // Both keys are there during the overlap.
  const [own] = Object((await api('GET', '/v1/api-keys')).body.api_keys)
  const rotated = await api('POST', `/v1/api-keys/${own.api_key_id}/rotate`, { api_key_name: 'two' })
  t.match(rotated, { status: 409, body: { error: 'workspace_full', limit: 'workspace.max_api_keys' } })
  t.match(await api('GET', '/v1/api-keys'), { body: { api_keys: [{ api_key_expires_ts: null }] } })
})
