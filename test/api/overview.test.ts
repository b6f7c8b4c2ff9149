/** GET /v1/overview on the real daemon: everything at one moment, in one response. */
import t from 'tap'
import type { Overview } from '../../src/contract/overview.ts'
import { createWorkspace, startDaemon } from '../support/daemon.ts'
import { until } from '../support/until.ts'
import { checkedApi, created, httpDestination, pullDestination, secretMark } from './management-client.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)

async function overview(): Promise<Overview> {
  const answer = await api('GET', '/v1/overview')
  if (answer.status !== 200) throw new Error(answer.text)
  return Object(answer.body)
}

t.test('nothing yet: no pipe, and what is said of buffer and service', async (t) => {
  const found = await overview()
  t.strictSame(found.pipes, [])
  t.match(found.buffer, { max_bytes: 20 * 1024 ** 3, min_free_disk_bytes: 0, unavailable_reason: null })
  t.ok(found.buffer.free_disk_bytes > 0)
  t.match(found.service, {
    is_ready: true,
    reasons: [],
    delivery_restarts: 0,
    egress_private: 'allow',
    replica: null,
  })
  t.ok(Date.parse(found.service.started_ts) <= Date.parse(found.server_ts))
})

t.test(
  'pipes by name with their lanes, in the order they were made, and where those put records',
  async (t) => {
    const second = await created(api, '/v1/pipes', { pipe_name: 'b' }, 'pipe_id')
    await created(api, '/v1/pipes', { pipe_name: 'a', pipe_description: 'without lanes' }, 'pipe_id')
    const at = `/v1/pipes/${second}/destinations`
    const url = `http://me:${secretMark}@127.0.0.1:9/hook?token=${secretMark}`
    await created(api, at, pullDestination, 'destination_id')
    await created(
      api,
      at,
      { ...httpDestination, destination_config: { url }, destination_name: 'hook' },
      'destination_id',
    )
    const checked = { pipe_schema: { type: 'object' }, pipe_schema_on_mismatch: 'tag' }
    await api('PATCH', `/v1/pipes/${second}`, { pipe_status: 'paused', ...checked })
    const { pipes } = await overview()
    t.match(pipes, [
      { pipe_name: 'a', pipe_description: 'without lanes', pipe_status: 'active', lanes: [] },
      {
        pipe_name: 'b',
        pipe_status: 'paused',
        schema_on_mismatch: 'tag',
        lanes: [
          { destination_type: 'destination_pull', destination_name: 'pull', destination_target: 'pull' },
          { destination_name: 'hook', destination_status: 'active', lane: { lane_state: 'idle' } },
        ],
      },
    ])
    t.notOk('schema_on_mismatch' in Object(pipes[0]), 'the other pipe has no schema')
    t.match(pipes[1]?.lanes[1]?.destination_target, /^http:\/\/\[redacted\]@127\.0\.0\.1:9\/hook\?/)
  },
)

t.test('what was taken in counts at once; what waits in a pipe is what its slowest lane has', async (t) => {
  const pipe = await created(api, '/v1/pipes', { pipe_name: 'counted' }, 'pipe_id')
  const at = `/v1/pipes/${pipe}/destinations`
  const slow = await created(api, at, pullDestination, 'destination_id')
  const fast = await created(api, at, pullDestination, 'destination_id')
  await daemon.ingest(pipe, [{ n: 1 }, { n: 2 }])
  await daemon.ingest(pipe, [{ n: 3 }])
  t.equal((await daemon.api('POST', `/v1/ingest/${pipe}`, 'no JSON')).status, 400)
  t.equal((await daemon.api('GET', `/v1/pull/${fast}?wait_ms=0`)).status, 200)
  const found = await until('the fast lane has moved on and all is counted', async () => {
    const one = (await overview()).pipes.find(({ pipe_id }) => pipe_id === pipe)
    const isCounted = one?.counters.ingest_records === 3 && one.counters.rejected_requests === 1
    return isCounted && one.lanes[1]?.lane.pending_messages === 1 ? one : null
  })
  const counts = { ingest_requests: 2, ingest_records: 3, rejected_requests: 1 }
  t.match(found, { counters: counts, usage_today: counts, pending_messages: 2 })
  t.match(found.lanes[0], { destination_id: slow, lane: { pending_messages: 2, lane_state: 'flowing' } })
  t.ok(Date.parse(found.last_ingest_ts ?? '') <= Date.now())
})

t.test('after a restart counters begin again, and the usage of the day goes on', async (t) => {
  const before = await overview()
  await daemon.stop()
  await daemon.start()
  const after = await overview()
  t.not(after.service.started_ts, before.service.started_ts)
  const pipe = after.pipes.find(({ pipe_name }) => pipe_name === 'counted')
  t.equal(pipe?.counters.ingest_records, 0)
  t.equal(pipe?.usage_today.ingest_records, 3)
  t.ok(pipe?.last_ingest_ts)
})

t.test('a pipe without lanes has waiting what is kept of it', async (t) => {
  const pipe = await created(api, '/v1/pipes', { pipe_name: 'kept' }, 'pipe_id')
  await daemon.ingest(pipe, [{ n: 1 }])
  const found = (await overview()).pipes.find(({ pipe_id }) => pipe_id === pipe)
  t.match(found, { pending_messages: 1, lanes: [] })
})

t.test('another workspace sees its own pipes alone, and who has no key nothing', async (t) => {
  const { api_key: key } = await createWorkspace(daemon.dataDir, 'other')
  t.strictSame((await api('GET', '/v1/overview', undefined, { key })).body.pipes, [])
  t.match(await api('GET', '/v1/overview', undefined, { key: null }), { status: 401 })
})
