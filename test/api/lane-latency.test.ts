/** GET …/destinations/{destination_id}/latency on the real daemon: how long the records of one lane took. */
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import type { LaneLatencyReport } from '../../src/contract/latency.ts'
import { cliEnv, runCli } from '../support/cli.ts'
import { createStranger } from '../support/daemon.ts'
import { until } from '../support/until.ts'
import { errorsIn, unknownId } from './management-client.ts'
import { startTwoLanes } from './two-lanes.ts'

const hourMs = 3_600_000
const { daemon, sink, api, pipe, at, lane, pull } = await startTwoLanes()

async function report(id: string, query = ''): Promise<LaneLatencyReport> {
  const response = await api('GET', `${at}/${id}/latency${query}`)
  if (response.status !== 200) throw new Error(response.text)
  return Object(response.body)
}

t.test('one entry per hour, the current one last, empty before anything happened', async (t) => {
  for (const [query, wanted] of [
    ['', 24],
    ['?hours=1', 1],
    ['?hours=168', 168],
    ['?hours=720', 720],
  ] as const) {
    const { hours, total } = await report(lane, query)
    t.equal(hours.length, wanted)
    t.ok(Date.now() - Date.parse(hours.at(-1)?.hour_ts ?? '') < 2 * hourMs)
    t.strictSame(total, {
      ...{ records: 0, latency_ms: null, attempts: 0 },
      ...{ failed_attempts: 0, success_rate: null, attempt_ms: null },
    })
  }
  for (const hours of ['0', '721', 'all'])
    t.strictSame(errorsIn(await api('GET', `${at}/${lane}/latency?hours=${hours}`)), {
      hours: 'must be a whole number from 1 to 720',
    })
  t.equal((await api('GET', `${at}/${lane}/latency?until=soon`)).status, 400)
})

t.test('what was delivered and what failed', async (t) => {
  sink.respondWith((_, index) => ({ status: index === 0 ? 503 : 200 }))
  await daemon.ingest(pipe, [{ n: 1 }, { n: 2 }])
  const { total } = await until('it is written', async () => {
    const found = await report(lane)
    return found.total.records === 2 && found.total.attempts === 2 ? found : null
  })
  t.match(total, { records: 2, attempts: 2, failed_attempts: 1, success_rate: 0.5 })
  const { latency_ms: latency, attempt_ms: attempt } = total
  t.ok(latency!.p50 > 1 && latency!.p50 <= latency!.p95 && latency!.p95 <= latency!.p99)
  t.ok(latency!.p50 < 600_000)
  t.ok(attempt!.p99 >= 1)
})

t.test('a pull destination is measured until the message was pulled, and has no attempts', async (t) => {
  t.equal((await daemon.api('GET', `/v1/pull/${pull}?wait_ms=0`)).status, 200)
  const { total } = await until('it is written', async () => {
    const found = await report(pull)
    return found.total.records === 2 ? found : null
  })
  t.match(total, { attempts: 0, success_rate: null, attempt_ms: null })
  t.ok(total.latency_ms!.p50 > 1)
})

t.test('earlier hours, any range of them, after a restart', async (t) => {
  const before = (await report(lane)).total
  const shown = await runCli(['lanes', 'latency', 'events/sink', '-o', 'table'], {
    env: cliEnv(daemon, daemon.dataDir),
  })
  t.match(shown.stdout, /HOUR \(UTC\) +RECORDS +LATENCY P50/)
  t.match(shown.stdout, /whole range +2 .* 50 %/)
  await daemon.stop()
  const nowMs = Math.floor(Date.now() / hourMs) * hourMs
  const db = new Database(path.join(daemon.dataDir, 'metadata.db'))
  const insert = db.prepare('INSERT INTO lane_latency VALUES (?, ?, ?)')
  // 99 records of about 110 ms and one of 10 s.
  const counts = { records: [26, 99, 51, 1], delivered: [10, 4], failed: [] }
  for (const hours of [30, 200, 700]) insert.run(lane, nowMs - hours * hourMs, JSON.stringify(counts))
  db.close()
  await daemon.start()
  t.match((await report(lane)).total, { records: before.records, attempts: before.attempts })
  for (const [hours, earlier] of [
    [24, 0],
    [168, 1],
    [720, 3],
  ] as const) {
    const { total } = await report(lane, `?hours=${hours}`)
    t.strictSame(total.records, 2 + earlier * 100)
    t.strictSame(total.attempts, 2 + earlier * 4)
  }
  const untilThen = new Date(nowMs - 30 * hourMs + 120_000).toISOString()
  const { hours, total } = await report(lane, `?hours=3&until=${untilThen}`)
  t.strictSame(
    hours.map(({ hour_ts, records }) => [(nowMs - Date.parse(hour_ts)) / hourMs, records]),
    [
      [32, 0],
      [31, 0],
      [30, 100],
    ],
  )
  t.match(total, { records: 100, success_rate: 1 })
  t.ok(Math.abs(total.latency_ms!.p50 - 104.5) < 1, String(total.latency_ms!.p50))
  t.equal(total.latency_ms!.p99, total.latency_ms!.p50)
  const later = await report(lane, '?hours=2&until=2999-01-01T00:00:00Z')
  t.ok(Date.now() - Date.parse(later.hours.at(-1)!.hour_ts) < 2 * hourMs, 'not after now')
  const options = ['--since', new Date(nowMs - 32 * hourMs).toISOString(), '--until', untilThen, '-o', 'json']
  const { stdout } = await runCli(['lanes', 'latency', 'events/sink', ...options], {
    env: cliEnv(daemon, daemon.dataDir),
  })
  t.strictSame((JSON.parse(stdout) as LaneLatencyReport).hours, hours)
  for (const [since, wanted] of [
    ['1h', 1],
    ['24h', 24],
    ['90m', 2],
    ['7d', 168],
  ] as const) {
    const shown = await runCli(['lanes', 'latency', 'events/sink', '--since', since, '-o', 'json'], {
      env: cliEnv(daemon, daemon.dataDir),
    })
    t.equal((JSON.parse(shown.stdout) as LaneLatencyReport).hours.length, wanted, since)
  }
  const usage = await api('GET', `${at}/${lane}/usage?hours=3&until=${untilThen}`)
  t.strictSame(
    (usage.body.hours as { hour_ts: string }[]).map(({ hour_ts }) => hour_ts),
    hours.map(({ hour_ts }) => hour_ts),
    'the hours of usage are the same',
  )
})

t.test('a destination that does not exist, and one of another workspace', async (t) => {
  const { api_key: key } = await createStranger(daemon.dataDir)
  for (const response of [
    await api('GET', `${at}/${unknownId}/latency`),
    await api('GET', `${at}/${lane}/latency`, undefined, { key }),
  ])
    t.match(response, { status: 404, body: { error: 'destination_not_found' } })
})
