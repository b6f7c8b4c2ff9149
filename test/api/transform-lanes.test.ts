/** A lane while its transform is changed, fails, or filters out everything: the arrived records, and the counters. */
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'
import { checkedApi, created } from './management-client.ts'

const [daemon, sink] = await Promise.all([startDaemon(), startHttpSink()])
t.teardown(async () => {
  await daemon.close()
  await sink.stop()
})
const api = checkedApi(daemon)

/** A pipe with one endpoint, `/NAME` of the sink. */
async function openLane(name: string, transform: object, more: Record<string, unknown> = {}) {
  const pipe = { pipe_name: name, pipe_add_ingest_ts: false }
  const pipeId = await created(api, '/v1/pipes', pipe, 'pipe_id')
  const { config, ...settings } = { config: {}, ...more }
  const body = {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/${name}`, body_format: 'ndjson', ...config },
    transform,
    ...settings,
  }
  const id = await created(api, `/v1/pipes/${pipeId}/destinations`, body, 'destination_id')
  const path = `/v1/pipes/${pipeId}/destinations/${id}`
  const lane = () => daemon.lane(pipeId, id)
  return {
    path,
    lane,
    ingest: (records: unknown) => daemon.ingest(pipeId, records),
    arrived: () => sink.deliveries.filter((one) => one.path === `/${name}`).map(({ text }) => text.trim()),
    change: async (changed: object) => {
      const { status, text } = await api('PATCH', path, { transform: changed })
      if (status !== 200) throw new Error(text)
    },
    isThrough: () =>
      until('the lane has nothing left', async () => {
        const now = await lane()
        return now.cursor_seq === now.head_seq && now.lane_state === 'idle' ? now : null
      }),
    fails: () => until('it is tried again and again', async () => ((await lane()).attempts as number) >= 2),
    replayAll: async () => {
      await api('POST', `${path}/parked/replay`, { all: true })
      return await until('it is replayed', async () => {
        const now = await lane()
        return now.parked_records === 0 ? now : null
      })
    },
  }
}

t.test('a lane whose filter leaves everything out asks for nothing, and keeps up', async (t) => {
  const one = await openLane(
    'nothing',
    { filter: 'record.n == 20' },
    // A request in 100 s: what is left out takes no turn.
    {
      rate: { requests_per_second: 0.01 },
      flush: { max_records: 1, max_bytes: 1_000_000, max_seconds: 1 },
    },
  )
  for (let n = 0; n < 20; n += 1) await one.ingest([{ n }])
  const before = await one.isThrough()
  t.match(before, { delivered_records: 0, filtered_records: 20, pending_messages: 0, last_error: null })
  t.strictSame(one.arrived(), [])
  await daemon.kill()
  await daemon.start()
  const { cursor_seq, filtered_records } = before
  t.match(await one.lane(), { cursor_seq, filtered_records, pending_messages: 0 }, 'all of it was saved')
  await one.ingest([{ n: 20 }])
  t.match(await one.isThrough(), { delivered_records: 1, filtered_records: 20 })
  t.strictSame(one.arrived(), ['{"n":20}'])
})

t.test('changed while its batch fails: the rest goes through the new one, each counted once', async (t) => {
  sink.respondWith(() => ({ status: 503 }))
  const one = await openLane('failing', { filter: 'record.n != 2' }, { on_permanent_error: 'park' })
  await one.ingest([{ n: 1 }, { m: 1 }, { n: 2 }, { n: 3 }])
  await one.fails()
  t.match(await one.lane(), { parked_records: 1, delivered_records: 0, filtered_records: 0 })
  await one.change({ filter: 'has(record.n) && record.n != 3' })
  sink.respondWith(() => ({}))
  const lane = await one.isThrough()
  t.match(lane, { delivered_records: 2, filtered_records: 2 })
  t.equal(lane.parked_records, 1, 'what was parked before stays')
  t.equal(one.arrived().at(-1), '{"n":1}\n{"n":2}')
  t.match(await one.replayAll(), { delivered_records: 2, filtered_records: 3 }, 'and is left out by now')
})

t.test('changed half-way through a message: what is stored is not sent again', async (t) => {
  sink.respondWith(({ text }) => ({ status: text.includes('"n":3') ? 503 : 200 }))
  const config = { body_format: 'json_object' }
  const one = await openLane('half', { filter: 'record.n != 2' }, { config, on_permanent_error: 'park' })
  await one.ingest([{ m: 1 }, { n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }])
  await one.fails()
  await one.change({
    filter: 'has(record.n) && record.n != 4',
    map: [{ op: 'constant', key: 'v', value: 2 }],
  })
  sink.respondWith(() => ({}))
  t.match(await one.isThrough(), { parked_records: 1 })
  const arrived = one.arrived().filter((text) => !text.endsWith('"n":3}'))
  // The changed one may have been rejected once more before the endpoint took it.
  t.strictSame([...new Set(arrived)], ['{"n":1}', '{"n":3,"v":2}'])
  t.equal(arrived.filter((text) => text === '{"n":1}').length, 1)
})

t.test('skipped: a message that the filter fails for goes on through the next one', async (t) => {
  const one = await openLane('skipped', { filter: 'record.n > 0' })
  await one.ingest([{ n: 1 }, { m: 1 }, { n: 0 }])
  await one.ingest([{ n: 2 }])
  await until('the lane stands', async () => (await one.lane()).blocking_msg_id !== null)
  const { status, text } = await api('POST', `${one.path}/skip`)
  t.equal(status, 200, text)
  t.match(await one.isThrough(), { delivered_records: 1, filtered_records: 0, skipped_messages: 1 })
  const { body } = await api('GET', `${one.path}/parked`)
  t.match(body, { parked: [{ reason: 'skipped', records_count: 3, error: { code: 'filter_error' } }] })
  await one.change({ filter: 'has(record.n) && record.n > 0' })
  t.match(await one.replayAll(), { delivered_records: 2, filtered_records: 2 })
  t.strictSame(one.arrived(), ['{"n":2}', '{"n":1}'])
})

t.test('rewound: everything again, through the transform as it is now', async (t) => {
  const one = await openLane('rewound', { filter: 'record.n == 1' }, { on_permanent_error: 'park' })
  await one.ingest([{ n: 1 }, { n: 2 }, { m: 3 }])
  t.match(await one.isThrough(), { delivered_records: 1, filtered_records: 1, parked_records: 1 })
  await api('PATCH', `${one.path}/status`, { destination_status: 'blocked' })
  await one.ingest([{ n: 1 }])
  await one.change({ filter: 'has(record.n)', map: [{ op: 'rename', from: 'n', to: 'number' }] })
  await api('POST', `${one.path}/rewind`, { to: 'earliest' })
  await api('PATCH', `${one.path}/status`, { destination_status: 'active' })
  t.match(await one.isThrough(), { delivered_records: 4, filtered_records: 2 })
  await until('what was parked is gone', async () => (await one.lane()).parked_records === 0)
  t.strictSame(one.arrived().join('\n').split('\n'), [
    '{"n":1}',
    '{"number":1}',
    '{"number":2}',
    '{"number":1}',
  ])
})
