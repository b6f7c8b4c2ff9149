import t from 'tap'
import { ApiFailure } from '../../../src/apps/client/failure.ts'
import { bestMatches, fuzzyScore } from '../../../src/apps/client/fuzzy.ts'
import { resultWords } from '../../../src/apps/client/lane-batch.ts'
import {
  canRetry,
  causeGroups,
  groupLine,
  stateCounts,
  withSameCause,
} from '../../../src/apps/client/lane-causes.ts'
import { forMany } from '../../../src/apps/client/many.ts'
import type { LaneStatus } from '../../../src/contract/destination.ts'
import type { Overview, OverviewLane } from '../../../src/contract/overview.ts'

type LastError = NonNullable<LaneStatus['last_error']>

function failed(code: string, error: Partial<LastError> = {}): Partial<LaneStatus> {
  return {
    ...{ lane_state: 'retrying', blocking_msg_id: 'm', attempts: 3, first_failed_ts: '2026-01-01T00:00:00Z' },
    ...{ pending_messages: 1, oldest_pending_age_seconds: 10 },
    last_error: {
      ...{ class: 'transient', code, message: `text of ${code}`, fault: null },
      ...{ record_index: null, column: null, value: null },
      ...error,
    },
  }
}

function lane(id: string, server: string, status: Partial<LaneStatus>, type?: string): OverviewLane {
  return {
    ...{ destination_id: id, destination_name: id, destination_status: 'active' },
    ...{ destination_type: type ?? 'destination_database' },
    ...{ destination_target: `${server}/db t`, destination_server: server },
    lane: {
      ...{ lane_state: 'flowing', cursor_seq: 0, head_seq: 0, pending_messages: 0, pending_bytes: 0 },
      ...{ oldest_pending_age_seconds: 0, blocking_msg_id: null, attempts: 0, first_failed_ts: null },
      ...{ next_attempt_ts: null, last_error: null, last_delivered_ts: null, delivered_records: 0 },
      ...{ skipped_messages: 0, dropped_messages: 0 },
      ...status,
    },
  } as OverviewLane
}

function workspace(...lanes: OverviewLane[]): Overview {
  const pipe = { pipe_id: 'p', pipe_name: 'orders', pipe_description: '', pipe_status: 'active', lanes }
  return { server_ts: '2026-01-01T01:00:00Z', pipes: [pipe] } as unknown as Overview
}

t.test('lanes with one cause and one server are one group, the worst first', async (t) => {
  const down = Array.from({ length: 4 }, (_, n) =>
    lane(`down-${n}`, 'db.example.com:5432', failed('ECONNREFUSED')),
  )
  const groups = causeGroups(
    workspace(
      ...down,
      lane('elsewhere', 'db2.example.com:5432', failed('ECONNREFUSED')),
      lane('blocked-a', 'a', { lane_state: 'blocked' }),
      lane('blocked-b', 'b', { lane_state: 'blocked' }),
      lane('stalled', 'c', { ...failed('http_500'), lane_state: 'stalled' }),
      lane('well', 'db.example.com:5432', {}),
    ),
  )
  t.same(groups.map(groupLine), [
    'server error (HTTP 500), c, 1 lane',
    'blocked by a user, 2 lanes',
    'connection refused, db.example.com:5432, 4 lanes',
    'connection refused, db2.example.com:5432, 1 lane',
  ])
  t.equal(withSameCause(groups, 'down-2').length, 3)
  t.equal(withSameCause(groups, 'well').length, 0)
  const all = groups.flatMap(({ lanes }) => lanes)
  t.same(stateCounts(all), [
    ['blocked', 2],
    ['retrying', 6],
  ])
  t.equal(all.filter(canRetry).length, 6, 'a blocked lane is not retried')
})

t.test('a lane that delivers too slowly is a group of its own, unless it waits on purpose', async (t) => {
  const late = { pending_messages: 5, oldest_pending_age_seconds: 301 }
  const groups = causeGroups(
    workspace(
      lane('slow', 'x', late),
      lane('young', 'x', { ...late, oldest_pending_age_seconds: 299 }),
      lane('batches', 'x', late, 'destination_object_store'),
      lane('consumer', '', late, 'destination_pull'),
    ),
  )
  t.match(groups, [{ cause: 'falling behind', server: 'x', severity: 0, lanes: { length: 1 } }])
})

t.test('each kind of error has words that say what to do', async (t) => {
  const permanent = { class: 'permanent', fault: 'destination' } as const
  const cases: [string, Partial<LastError>, string, RegExp][] = [
    ['28P01', permanent, 'sign-in rejected', /password/],
    ['42P01', permanent, 'table missing', /Create the table/],
    ['http_422', { class: 'permanent', fault: 'records' }, 'records rejected (HTTP 422)', /skip the message/],
    ['http_500', {}, 'server error (HTTP 500)', /log of the endpoint/],
    ['attempt_timeout', {}, 'no response in time', /slow/],
    ['ENOTFOUND', {}, 'host name not found', /host name/],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', {}, 'TLS certificate not accepted', /certificate/],
    ['certificate_changed', permanent, 'server key changed', /Reset server key/],
    ['53100', {}, 'disk of the server full', /Free disk space/],
    ['22P02', { class: 'permanent', fault: 'records' }, 'records rejected (22P02)', /correct its parked/],
    ['XX000', permanent, 'error XX000', /test it/],
    ['new_code', {}, 'error new_code', /attempts/],
  ]
  for (const [code, error, cause, advice] of cases) {
    const [group] = causeGroups(workspace(lane('l', 's', failed(code, error))))
    t.equal(group?.cause, cause, code)
    t.match(group?.advice, advice, code)
    t.match(group?.advice, /^[A-Z].*\.$/, `${code}: a sentence`)
  }
})

t.test('many at once: a few at a time, failures are counted, 429 is waited for', async (t) => {
  let running = 0
  let most = 0
  let rejections = 1
  const seen: number[] = []
  const result = await forMany(
    Array.from({ length: 20 }, (_, n) => n),
    async (n) => {
      most = Math.max(most, ++running)
      await new Promise(setImmediate)
      running -= 1
      if (n === 3 && rejections-- > 0) throw new ApiFailure(429, { error: 'too_many_requests' }, 1)
      if (n === 5) throw new Error('broken')
      return n !== 7
    },
    { onProgress: (done) => seen.push(done) },
  )
  t.equal(most, 4)
  t.equal(seen.at(-1), 20)
  t.equal(resultWords('retry', result), 'Retrying 18 of 20 lanes. 1 had nothing to retry, 1 failed: broken.')
  t.equal(resultWords('block', { outcomes: [{ item: 1, outcome: true }], failures: [] }), 'Blocked 1 lane.')
  const abort = new AbortController()
  const aborted = await forMany([1, 2, 3, 4, 5, 6, 7, 8, 9], async () => abort.abort(), {
    signal: abort.signal,
  })
  t.ok(aborted.outcomes.length <= 4, 'no further call begins')
})

t.test('fuzzy: whole words before scattered characters, every term must match', async (t) => {
  const names = ['orders/warehouse', 'orders', 'border-crossings', 'Old reports', 'payments/database']
  const found = (wanted: string) => bestMatches(names, wanted, (name) => name, 10)
  t.same(found('orders').slice(0, 2), ['orders', 'orders/warehouse'])
  t.equal(found('order')[0], 'orders')
  t.same(found('ware orders'), ['orders/warehouse'])
  t.equal(found('pdb')[0], 'payments/database')
  t.same(found('xyz'), [])
  t.equal(found('').length, names.length)
  t.equal(fuzzyScore('zz', 'z'), null)
  const thousands = Array.from({ length: 5_000 }, (_, n) => `pipe-${n}`)
  t.equal(bestMatches(thousands, 'pipe', (name) => name, 12).length, 12, 'bounded')
  t.equal(bestMatches(thousands, '4321', (name) => name, 12)[0], 'pipe-4321')
})
