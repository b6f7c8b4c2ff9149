/** GET /v1/overview?since=…: what is different and nothing else, on the real daemon. */
import t from 'tap'
import type { Overview } from '../../src/contract/overview.ts'
import { Browser, password } from '../support/browser.ts'
import { createWorkspace, startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'
import { checkedApi, created, httpDestination, pullDestination } from './management-client.ts'

const daemon = await startDaemon()
const sink = await startHttpSink()
t.teardown(async () => {
  await daemon.close()
  await sink.stop()
})
const api = checkedApi(daemon)

async function overview(since: string | null = null, key?: string): Promise<Overview> {
  const query = since === null ? '' : `?since=${encodeURIComponent(since)}`
  const answer = await api('GET', `/v1/overview${query}`, undefined, key === undefined ? {} : { key })
  if (answer.status !== 200) throw new Error(answer.text)
  return Object(answer.body)
}

const names = ({ pipes }: Overview) => pipes.map((pipe) => pipe.pipe_name)

for (const name of ['a', 'b', 'c']) {
  const pipe = await created(api, '/v1/pipes', { pipe_name: name }, 'pipe_id')
  await created(api, `/v1/pipes/${pipe}/destinations`, pullDestination, 'destination_id')
}

/** Does something, once nothing changes by itself any more, and returns the next overview that has a difference. */
async function afterwards(change: () => Promise<unknown>): Promise<Overview> {
  const before = await until('nothing changes by itself', async () => {
    const seen = await overview((await overview()).revision)
    return seen.pipes.length === 0 ? seen : null
  })
  await change()
  return await until('the overview has a difference', async () => {
    const now = await overview(before.revision)
    return now.pipes.length + now.removed_pipe_ids.length > 0 ? now : null
  })
}

t.test('nothing has changed: no pipe, the same revision, the service all the same', async (t) => {
  const all = await overview()
  t.strictSame([all.since, names(all)], [null, ['a', 'b', 'c']])
  const same = await overview(all.revision)
  t.match(same, { since: all.revision, revision: all.revision, removed_pipe_ids: [] })
  t.strictSame(same.pipes, [])
  t.ok(Date.parse(same.server_ts) >= Date.parse(all.server_ts))
  t.same(same.service, all.service)
  t.ok(JSON.stringify(same).length < 1_500, 'its size does not go with the pipes')
})

t.test('a change shows in the next response, with all of the pipe and no other', async (t) => {
  let pipe = ''
  const made = await afterwards(async () => {
    pipe = await created(api, '/v1/pipes', { pipe_name: 'aa' }, 'pipe_id')
  })
  t.strictSame(names(made), ['aa'])
  const at = `/v1/pipes/${pipe}`
  const described = await afterwards(() => api('PATCH', at, { pipe_description: 'new words' }))
  t.match(described.pipes, [{ pipe_name: 'aa', pipe_description: 'new words' }])
  const paused = await afterwards(() => api('PATCH', at, { pipe_status: 'paused' }))
  t.match(paused.pipes, [{ pipe_status: 'paused' }])
  await api('PATCH', at, { pipe_status: 'active' })

  let lane = ''
  const attached = await afterwards(async () => {
    lane = await created(api, `${at}/destinations`, pullDestination, 'destination_id')
  })
  t.match(attached.pipes, [{ pipe_name: 'aa', lanes: [{ destination_id: lane }] }])
  const blocked = await afterwards(() =>
    api('PATCH', `${at}/destinations/${lane}/status`, { destination_status: 'blocked' }),
  )
  t.match(blocked.pipes, [{ lanes: [{ destination_status: 'blocked', lane: { lane_state: 'blocked' } }] }])
  const removed = await afterwards(() => api('DELETE', `${at}/destinations/${lane}`))
  t.match(removed.pipes, [{ pipe_name: 'aa', lanes: [] }])

  const before = await overview()
  const gone = await afterwards(() => api('DELETE', at))
  t.strictSame([gone.removed_pipe_ids, names(gone)], [[pipe], []])
  t.notOk(names(await overview()).includes('aa'))
  t.strictSame(
    (await overview(before.revision)).removed_pipe_ids,
    [pipe],
    'again, for who has not been told yet',
  )
})

t.test(
  'records show as they come in, are delivered and pulled, with what the pipe has counted',
  async (t) => {
    const pipe = await created(api, '/v1/pipes', { pipe_name: 'moving' }, 'pipe_id')
    const at = `/v1/pipes/${pipe}/destinations`
    const pull = await created(api, at, pullDestination, 'destination_id')
    await created(api, at, { ...httpDestination, destination_config: { url: sink.url } }, 'destination_id')
    let { revision } = await overview()
    await daemon.ingest(pipe, [{ n: 1 }, { n: 2 }])
    let known = (await overview()).pipes.find((one) => one.pipe_id === pipe)
    const seen = (what: string, holds: () => boolean) =>
      until(what, async () => {
        const now = await overview(revision)
        revision = now.revision
        t.ok(now.pipes.every((one) => one.pipe_id === pipe))
        known = now.pipes[0] ?? known
        return holds()
      })
    await seen('delivered to the one, waiting in the other', () => {
      const [pulled, pushed] = known?.lanes ?? []
      return pulled?.lane.pending_messages === 1 && pushed?.lane.delivered_records === 2
    })
    t.match(known, { counters: { ingest_records: 2 }, pending_messages: 1 })
    t.ok(known?.last_ingest_ts)
    t.equal((await daemon.api('GET', `/v1/pull/${pull}?wait_ms=0`)).status, 200)
    await seen('pulled', () => known?.lanes[0]?.lane.delivered_records === 2 && known.pending_messages === 0)
    await seen('the usage of the day has both lanes', () => known?.usage_today.delivered_records === 4)
    t.match(known?.usage_today, { ingest_requests: 1, ingest_records: 2 })

    t.equal((await daemon.api('POST', `/v1/ingest/${pipe}`, 'no JSON')).status, 400)
    await seen('the rejected request', () => known?.counters.rejected_requests === 1)
  },
)

t.test('a lane that gets stuck, and one that is freed', async (t) => {
  sink.respondWith(() => ({ status: 422, body: 'no' }))
  const pipe = await created(api, '/v1/pipes', { pipe_name: 'stuck' }, 'pipe_id')
  const at = `/v1/pipes/${pipe}/destinations`
  const lane = await created(
    api,
    at,
    { ...httpDestination, destination_config: { url: sink.url } },
    'destination_id',
  )
  await daemon.ingest(pipe, { n: 1 })
  await until('it is stuck', async () => (await daemon.lane(pipe, lane)).last_error !== null)
  const skipped = await afterwards(() => api('POST', `${at}/${lane}/skip`))
  t.match(skipped.pipes, [
    { pipe_name: 'stuck', lanes: [{ lane: { skipped_messages: 1, pending_messages: 0 } }] },
  ])
})

t.test('what waits does not make its pipe different, and its age is of now when it is shown', async () => {
  const pipe = await created(api, '/v1/pipes', { pipe_name: 'waits' }, 'pipe_id')
  await created(api, `/v1/pipes/${pipe}/destinations`, pullDestination, 'destination_id')
  await daemon.ingest(pipe, { n: 1 })
  const age = ({ pipes }: Overview) =>
    pipes.find((one) => one.pipe_id === pipe)?.lanes[0]?.lane.oldest_pending_age_seconds
  // New counts are stored within seconds, which may appear as a difference.
  let { revision } = await until('it is counted', async () => {
    const now = await overview()
    return now.pipes.find((one) => one.pipe_id === pipe)?.pending_messages === 1 ? now : null
  })
  await until('older, by the full overview alone', async () => {
    const now = await overview(revision)
    if (now.pipes.length > 0) revision = now.revision
    return now.pipes.length === 0 && (age(await overview()) ?? 0) >= 2
  })
})

t.test('a revision that is not known gets everything, whatever it is', async (t) => {
  const { revision } = await overview()
  const [id] = revision.split('.')
  for (const since of [
    '',
    'nonsense',
    '\u0000',
    `${id}.999999`,
    `${id}.-1`,
    `${id}.1e3`,
    'x'.repeat(3_000),
  ]) {
    const all = await overview(since)
    t.strictSame([all.since, all.pipes.length > 3], [null, true], since.slice(0, 60))
  }
})

t.test("another workspace's revision tells nothing of it", async (t) => {
  const { revision } = await overview()
  const { api_key: key } = await createWorkspace(daemon.dataDir, 'other')
  t.match(await overview(revision, key), { since: null, pipes: [], removed_pipe_ids: [] })
  const own = await overview(null, key)
  await api('DELETE', `/v1/pipes/${(await overview()).pipes.at(-1)?.pipe_id}`)
  t.match(await overview(own.revision, key), { since: own.revision, pipes: [], removed_pipe_ids: [] })
})

t.test('the dashboard has the same, and both go on from the same revision', async (t) => {
  const made = await api('POST', '/v1/users', { user_email: 'v@example.com', user_role: 'viewer', password })
  t.equal(made.status, 201)
  const browser = await new Browser(daemon.url).signIn('v@example.com')
  const { revision } = await overview()
  const answer = await browser.api<Overview>('GET', `/v1/overview?since=${revision}`)
  t.match(answer.body, { since: revision, pipes: [] })
})

t.test('after a restart everything is sent once', async (t) => {
  const before = await overview()
  await daemon.stop()
  await daemon.start()
  const all = await overview(before.revision)
  t.equal(all.since, null)
  t.strictSame(names(all), names(before))
  t.match(await overview(all.revision), { since: all.revision, pipes: [] })
})
