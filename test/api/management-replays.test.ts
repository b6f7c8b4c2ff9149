/** Replays of ranges over HTTP on the real daemon, with an HTTP endpoint: docs/dev/contract.md#replays. */
import t from 'tap'
import type { Replay, ReplayPlan } from '../../src/contract/replays.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { until } from '../support/until.ts'
import { checkedApi, errorsIn, unknownId } from './management-client.ts'

const daemon = await sharedDaemon()
const sink = await startHttpSink()
t.teardown(async () => {
  await daemon.close()
  await sink.stop()
})
const api = checkedApi(daemon)
const pipeId = await daemon.createPipe({ pipe_name: 'orders', pipe_add_ingest_ts: false })
const destinationId = await daemon.createDestination(pipeId, {
  destination_type: 'destination_http_endpoint',
  destination_name: 'shop',
  destination_config: { url: `${sink.url}/x` },
})
const lane = `/v1/pipes/${pipeId}/destinations/${destinationId}`
const path = `${lane}/replays`
const plan = async (range: object) => {
  const { status, body } = await api('POST', `${path}/dry-run`, range)
  t.equal(status, 200, JSON.stringify(body))
  return body as unknown as ReplayPlan
}
const create = async (range: object) => {
  const { status, body } = await api('POST', path, range)
  t.equal(status, 202, JSON.stringify(body))
  return body as unknown as Replay
}
const show = async (id: string) => (await api('GET', `${path}/${id}`)).body as unknown as Replay
const ends = (id: string) =>
  until('the replay has ended', async () => {
    const replay = await show(id)
    return replay.finished_ts === null ? null : replay
  })
/** The metric of the lane. */
const isReplaying = async (value: 0 | 1) => {
  const text = await (await fetch(daemon.metricsUrl)).text()
  const series = text
    .split('\n')
    .find((one) => /^pipectl_lane_replaying\{/.test(one) && one.includes(destinationId))
  return series?.endsWith(` ${value}`) === true
}
const seqs: number[] = []
const whole = { from: 'earliest', to: 'now' }

t.test('nothing to replay yet', async (t) => {
  t.match(await plan(whole), { messages: 0, first_seq: null, first_ts: null, is_complete: true })
  t.same(Object.keys(errorsIn(await api('POST', path, whole))), [''])
  t.same((await api('GET', path)).body, { replays: [] })
})

t.test('a dry run counts, by time and by stream_seq, and changes nothing', async (t) => {
  for (const n of [1, 2, 3]) await daemon.ingest(pipeId, `[{"n":${n}},{"n":${n}}]`)
  await until('all are delivered', async () => {
    const { body } = await daemon.api<{ destination: { lane: { cursor_seq: number; head_seq: number } } }>(
      'GET',
      lane,
    )
    const { cursor_seq, head_seq } = body.destination.lane
    return head_seq > 0 && cursor_seq === head_seq
  })
  const { body } = await api('GET', `/v1/pipes/${pipeId}/messages`)
  const messages = body.messages as { stream_seq: number; received_ts: string }[]
  seqs.push(...messages.map(({ stream_seq }) => stream_seq).reverse())
  const counted = await plan(whole)
  t.match(counted, {
    ...whole,
    messages: 3,
    records: 6,
    bytes: 45,
    is_complete: true,
    pending_messages: 0,
  })
  t.match(counted, { first_seq: seqs[0], last_seq: seqs[2], first_ts: messages[2]!.received_ts })
  t.match(await plan({ from: seqs[1], to: seqs[2] }), { messages: 1, first_seq: seqs[1], last_seq: seqs[1] })
  t.match(await plan({ from: messages[2]!.received_ts, to: '2100-01-01T00:00:00Z' }), { messages: 3 })
  t.match(await plan({ from: '2000-01-01T00:00:00Z', to: messages[2]!.received_ts }), { messages: 0 })
  t.same((await api('GET', path)).body, { replays: [] })
})

t.test('what is no range is named', async (t) => {
  for (const [range, field] of [
    [{ from: 'x', to: 'now' }, 'from'],
    [{ from: 'now', to: 'now' }, 'from'],
    [{ from: 'earliest', to: '2026-01-31' }, 'to'],
    [{ from: 'earliest' }, 'to'],
    [{ ...whole, dry_run: true }, 'dry_run'],
    [{ from: -1, to: 'now' }, 'from'],
  ] as const)
    for (const operation of [path, `${path}/dry-run`])
      t.same(Object.keys(errorsIn(await api('POST', operation, range))), [field], JSON.stringify(range))
})

t.test('a replay delivers the range again, and the audit log names who asked for it', async (t) => {
  const before = sink.deliveries.length
  const created = await create({ from: seqs[0], to: seqs[2] })
  t.match(created, { state: 'waiting', messages: 2, records: 4, done_messages: 0, done_seq: null })
  t.match(created.created_by, { kind: 'key' })
  t.match(await ends(created.replay_id), {
    ...{ state: 'done', done_messages: 2, done_seq: seqs[1], replayed_records: 4, error: null },
    ...{ parked_records: 0, filtered_records: 0, expired_messages: 0, expired_records: 0 },
  })
  const again = sink.deliveries.slice(before).map(({ text }) => text)
  t.same(
    again.flatMap((text) => JSON.parse(text) as object[]),
    [{ n: 1 }, { n: 1 }, { n: 2 }, { n: 2 }],
  )
  t.match((await api('GET', path)).body, { replays: [{ replay_id: created.replay_id }] })
  await until('the metric has returned to 0', () => isReplaying(0))
  const { body } = await api('GET', `/v1/audit?operation=createReplay`)
  t.match(body, {
    audit: [{ resource_id: destinationId, after: { replay_id: created.replay_id, messages: 2 } }],
  })
  const attempts = await api('GET', `${lane}/attempts?limit=1`)
  t.match(attempts.body, { attempts: [{ is_replay: true, records: 4 }] })
})

t.test('ten can wait; a cancelled one remains listed and a finished one cannot be cancelled', async (t) => {
  await api('PATCH', `${lane}/status`, { destination_status: 'blocked' })
  const made: Replay[] = []
  for (let count = 0; count < 10; count += 1) made.push(await create(whole))
  t.match((await api('POST', path, whole)).body, { error: 'too_many_replays' })
  t.ok(await isReplaying(1), 'the metric counts replays that wait for a blocked destination')
  const [first] = made
  t.equal((await api('DELETE', `${path}/${first!.replay_id}`)).status, 204)
  t.match(await show(first!.replay_id), { state: 'cancelled', finished_ts: String })
  t.match((await api('DELETE', `${path}/${first!.replay_id}`)).body, { error: 'replay_finished' })
  for (const method of ['GET', 'DELETE'] as const)
    t.match((await api(method, `${path}/${unknownId}`)).body, { error: 'replay_not_found' })
  await api('PATCH', `${lane}/status`, { destination_status: 'active' })
  for (const { replay_id } of made.slice(1)) t.match(await ends(replay_id), { state: 'done' })
  await until('the metric has returned to 0', () => isReplaying(0))
  const { body } = await api('GET', `/v1/audit?operation=cancelReplay`)
  t.match(body, { audit: [{ after: { state: 'cancelled' } }] })
})

t.test('a pull destination is named, with what to do instead', async (t) => {
  const id = await daemon.createDestination(pipeId, { destination_type: 'destination_pull' })
  const errors = errorsIn(await api('POST', `/v1/pipes/${pipeId}/destinations/${id}/replays`, whole))
  t.match(errors[''], /rewind/)
})
