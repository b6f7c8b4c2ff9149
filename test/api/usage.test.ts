/** GET /v1/usage and /v1/pipes/{pipe_id}/usage on the real daemon. */
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import type { UsageByHour, UsageHour } from '../../src/contract/usage.ts'
import { Browser, password } from '../support/browser.ts'
import { createWorkspace, startDaemon } from '../support/daemon.ts'
import { until } from '../support/until.ts'
import { checkedApi, created, errorsIn, pullDestination, unknownId } from './management-client.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)
const hourMs = 3_600_000
const pipe = await created(api, '/v1/pipes', { pipe_name: 'orders' }, 'pipe_id')
const second = await created(api, '/v1/pipes', { pipe_name: 'sensors' }, 'pipe_id')
const places = ['/v1/usage', `/v1/pipes/${pipe}/usage`]

async function hoursAt(place: string): Promise<UsageHour[]> {
  const answer = await api('GET', place)
  if (answer.status !== 200) throw new Error(answer.text)
  const { hours }: UsageByHour = Object(answer.body)
  return hours
}

/** Summed over the hours: a test may run while one begins. */
function together(hours: readonly UsageHour[]): Omit<UsageHour, 'hour_ts'> {
  const sum = (of: (hour: UsageHour) => number) => hours.reduce((total, hour) => total + of(hour), 0)
  return {
    ingest_requests: sum((hour) => hour.ingest_requests),
    ingest_records: sum((hour) => hour.ingest_records),
    ingest_bytes: sum((hour) => hour.ingest_bytes),
    rejected_requests: sum((hour) => hour.rejected_requests),
    delivered_records: sum((hour) => hour.delivered_records),
    failed_attempts: sum((hour) => hour.failed_attempts),
    skipped_records: sum((hour) => hour.skipped_records),
    filtered_records: sum((hour) => hour.filtered_records),
  }
}

t.test('one entry per hour of UTC, oldest first, the current hour last, zeros', async (t) => {
  for (const place of places) {
    for (const [query, wanted] of [
      ['', 24],
      ['?hours=1', 1],
      ['?hours=720', 720],
    ] as const) {
      const before = Math.floor(Date.now() / hourMs)
      const hours = await hoursAt(`${place}${query}`)
      const after = Math.floor(Date.now() / hourMs)
      t.equal(hours.length, wanted)
      const starts = hours.map((hour) => Date.parse(hour.hour_ts) / hourMs)
      const last = starts.at(-1) ?? 0
      t.ok(last === before || last === after, 'the last is the current hour')
      t.strictSame(
        starts,
        starts.map((_, index) => last - wanted + 1 + index),
      )
      t.ok(Object.values(together(hours)).every((count) => count === 0))
    }
  }
})

t.test('what else is asked for is rejected by its name', async (t) => {
  for (const place of places)
    for (const hours of ['0', '721', '1000', '', '-1', '1.5', '1e2', 'all', '%202'])
      t.strictSame(
        errorsIn(await api('GET', `${place}?hours=${hours}`)),
        { hours: 'must be a whole number from 1 to 720' },
        `${place} ${hours}`,
      )
})

t.test('a pipe shows its own, the workspace what all pipes have, also after a restart', async (t) => {
  const lane = await created(api, `/v1/pipes/${pipe}/destinations`, pullDestination, 'destination_id')
  await daemon.ingest(pipe, [{ n: 1 }, { n: 2 }])
  await daemon.ingest(pipe, [{ n: 3 }])
  await daemon.ingest(second, [{ n: 4 }])
  t.equal((await daemon.api('POST', `/v1/ingest/${pipe}`, 'no JSON')).status, 400)
  const message = await daemon.api('GET', `/v1/pull/${lane}?wait_ms=5000`)
  await daemon.api('GET', `/v1/pull/${lane}?wait_ms=0&after_seq=${message.body.stream_seq}`)
  const wanted = {
    ingest_requests: 2,
    ingest_records: 3,
    rejected_requests: 1,
    delivered_records: 2,
    failed_attempts: 0,
    skipped_records: 0,
    filtered_records: 0,
  }
  const look = async () => ({
    own: together(await hoursAt(`/v1/pipes/${pipe}/usage`)),
    all: together(await hoursAt('/v1/usage')),
  })
  const found = await until('all is counted', async () => {
    const { own, all } = await look()
    const isCounted = own.rejected_requests === 1 && own.delivered_records === 2
    return isCounted && own.ingest_records === 3 && all.ingest_records === 4 ? { own, all } : null
  })
  t.match(found, { own: wanted, all: { ...wanted, ingest_requests: 3, ingest_records: 4 } })
  t.ok(found.own.ingest_bytes > 0 && found.all.ingest_bytes > found.own.ingest_bytes)
  await daemon.stop()
  await daemon.start()
  t.strictSame(await look(), found)
})

t.test('an hour that is past is where it was', async (t) => {
  const pastMs = Date.now() - (Date.now() % hourMs) - 5 * hourMs
  const file = new Database(path.join(daemon.dataDir, 'metadata.db'), { timeout: 10_000 })
  file
    .prepare(
      'INSERT INTO usage_hours (pipe_id, hour_ms, ingest_requests, ingest_records, ingest_bytes, rejected_requests, delivered_records, failed_attempts, skipped_records) VALUES (?, ?, 1, 70, 1, 0, 60, 2, 3)',
    )
    .run(second, pastMs)
  file.close()
  const hour_ts = new Date(pastMs).toISOString()
  const wanted = {
    hour_ts,
    ingest_records: 70,
    delivered_records: 60,
    failed_attempts: 2,
    skipped_records: 3,
  }
  for (const place of ['/v1/usage', `/v1/pipes/${second}/usage`])
    t.match(
      (await hoursAt(place)).find((hour) => hour.hour_ts === hour_ts),
      wanted,
    )
  t.match(
    (await hoursAt(`/v1/pipes/${pipe}/usage`)).find((hour) => hour.hour_ts === hour_ts),
    { ingest_records: 0 },
  )
})

t.test('another workspace has its own; who has no key has none; a viewer may look', async (t) => {
  const { api_key: key } = await createWorkspace(daemon.dataDir, 'other')
  t.match(await api('GET', `/v1/pipes/${pipe}/usage`, undefined, { key }), {
    status: 404,
    body: { error: 'pipe_not_found' },
  })
  const { hours }: UsageByHour = Object((await api('GET', '/v1/usage', undefined, { key })).body)
  t.ok(Object.values(together(hours)).every((count) => count === 0))
  for (const id of [unknownId, 'orders'])
    t.match(await api('GET', `/v1/pipes/${id}/usage`), { status: 404, body: { error: 'pipe_not_found' } })
  for (const place of places) t.match(await api('GET', place, undefined, { key: null }), { status: 401 })
  const user = { user_email: 'vic@example.com', user_role: 'viewer', password }
  t.equal((await api('POST', '/v1/users', user)).status, 201)
  const viewer = await new Browser(daemon.url).signIn('vic@example.com')
  for (const place of places) {
    const answer = await viewer.api('GET', place)
    t.equal(answer.status, 200, place)
    t.strictSame(together(Object(answer.body).hours), together(await hoursAt(place)))
  }
})
