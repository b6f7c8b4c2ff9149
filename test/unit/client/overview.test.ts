import t from 'tap'
import { continued, matchesPipe, ratesBetween, troubledLanes } from '../../../src/apps/client/overview.ts'
import type { LaneStatus } from '../../../src/contract/destination.ts'
import type { Overview, OverviewLane, OverviewPipe } from '../../../src/contract/overview.ts'

const usage = {
  ...{ ingest_requests: 0, ingest_records: 0, ingest_bytes: 0, rejected_requests: 0 },
  ...{ delivered_records: 0, failed_attempts: 0, skipped_records: 0, filtered_records: 0 },
}

function lane(id: string, status: Partial<LaneStatus>): OverviewLane {
  return {
    ...{ destination_id: id, destination_type: 'destination_pull', destination_name: 'pull' },
    ...{ destination_status: 'active', destination_target: 'pull', destination_server: '' },
    lane: {
      ...{ lane_state: 'flowing', cursor_seq: 0, head_seq: 0, pending_messages: 0, pending_bytes: 0 },
      ...{ oldest_pending_age_seconds: 0, blocking_msg_id: null, attempts: 0, first_failed_ts: null },
      ...{ next_attempt_ts: null, last_error: null, last_delivered_ts: null, delivered_records: 0 },
      ...{ skipped_messages: 0, dropped_messages: 0 },
      ...status,
    },
  }
}

function pipe(id: string, ingested: number, lanes: OverviewLane[] = []): OverviewPipe {
  return {
    ...{ pipe_id: id, pipe_name: `name-${id}`, pipe_description: 'greenhouse', pipe_status: 'active' },
    usage_today: usage,
    counters: { ...usage, ingest_records: ingested },
    ...{ last_ingest_ts: null, pending_messages: 0, pending_bytes: 0, node_name: null, lanes },
  }
}

function overview(second: number, pipes: OverviewPipe[], startedTs = '2026-01-01T00:00:00Z'): Overview {
  return {
    ...{ revision: `r.${second}`, since: null, removed_pipe_ids: [] },
    server_ts: new Date(Date.UTC(2026, 0, 2, 0, 0, second)).toISOString(),
    pipes,
    cluster: null,
    buffer: {
      ...{ size_bytes: 0, max_bytes: 1, free_disk_bytes: 1, min_free_disk_bytes: 0 },
      ...{ oldest_ts: null, unavailable_reason: null },
    },
    service: {
      ...{ version: '1', started_ts: startedTs, is_ready: true, reasons: [], warnings: [] },
      ...{ http_engine: 'uws', ingest_workers: 1, delivery_restarts: 0, egress_private: 'allow' },
      replica: null,
    },
  }
}

t.test('rates are differences of counters by the time of the service', async (t) => {
  const before = overview(0, [pipe('a', 100, [lane('l', { delivered_records: 10 })])])
  const now = overview(4, [pipe('a', 140, [lane('l', { delivered_records: 30 })]), pipe('b', 7)])
  const rates = ratesBetween(before, now)
  t.equal(rates?.byId.get('a'), 10)
  t.equal(rates?.byId.get('l'), 5)
  t.notOk(rates?.byId.has('b'), 'a new pipe has no earlier value')
  t.match(rates, { ingested: 10, delivered: 5, atMs: Date.UTC(2026, 0, 2, 0, 0, 4) })
})

t.test('counters of another start of the service, or of the same moment, make no rate', async (t) => {
  t.equal(ratesBetween(overview(0, []), overview(2, [], '2026-01-03T00:00:00Z')), null)
  t.equal(ratesBetween(overview(2, []), overview(2, [])), null)
})

t.test('a counter that went back is no movement', async (t) => {
  t.equal(ratesBetween(overview(0, [pipe('a', 9)]), overview(1, [pipe('a', 3)]))?.byId.get('a'), 0)
})

t.test('lanes in trouble: those that need somebody first, then who waits longest', async (t) => {
  const waiting = (lane_state: LaneStatus['lane_state'], age: number) => ({
    lane_state,
    oldest_pending_age_seconds: age,
  })
  const lanes = [
    lane('fine', {}),
    lane('retrying', waiting('retrying', 900)),
    lane('stalled-young', waiting('stalled', 10)),
    lane('stalled-old', waiting('stalled', 20)),
    lane('blocked', waiting('blocked', 1_000)),
    lane('failing', {
      ...waiting('retrying', 5),
      attempts: 2,
      first_failed_ts: '2026-01-01T23:59:00Z',
    }),
  ]
  t.same(
    troubledLanes(overview(0, [pipe('a', 0, lanes)])).map((one) => one.destination.destination_id),
    ['stalled-old', 'stalled-young', 'blocked', 'failing', 'retrying'],
  )
})

t.test('a pipe is found by its words and by those of its lanes', async (t) => {
  const one = pipe('a', 0, [lane('l', { lane_state: 'stalled' })])
  for (const wanted of ['', ' NAME-a ', 'green', 'retrying', 'stalled', 'pull'])
    t.ok(matchesPipe(one, wanted), wanted)
  t.notOk(matchesPipe(one, 'delivering'))
})

t.test('what changed is put into what was known: pipes that are other, new and gone', async (t) => {
  const [same, other, gone] = [pipe('a', 1), pipe('b', 1), pipe('c', 1)]
  const before = overview(0, [same, other, gone])
  const answer = { ...overview(2, [pipe('ab', 3), pipe('b', 2)]), since: 'r.0', removed_pipe_ids: ['c'] }
  const now = continued(before, answer)
  t.strictSame(
    now.pipes.map(({ pipe_id, counters }) => [pipe_id, counters.ingest_records]),
    [
      ['a', 1],
      ['ab', 3],
      ['b', 2],
    ],
  )
  t.equal(now.pipes[0], same, 'the same object: nothing of it is drawn again')
  t.match(now, { revision: 'r.2', since: null, removed_pipe_ids: [], server_ts: answer.server_ts })
})

t.test('what waits grows older while its pipe does not change', async (t) => {
  const waits = lane('l', { pending_messages: 1, oldest_pending_age_seconds: 10 })
  const before = overview(0, [pipe('a', 1, [waits, lane('idle', {})])])
  const now = continued(before, { ...overview(5, []), since: 'r.0' })
  t.strictSame(
    now.pipes[0]?.lanes.map((one) => one.lane.oldest_pending_age_seconds),
    [15, 0],
  )
})

t.test('everything takes the place of what was known', async (t) => {
  const everything = overview(5, [pipe('b', 1)])
  t.equal(continued(overview(0, [pipe('a', 1)]), everything), everything)
  t.equal(continued(null, everything), everything)
})
