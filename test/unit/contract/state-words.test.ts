import t from 'tap'
import type { LaneStatus } from '../../../src/contract/destination.ts'
import {
  type FailureFacts,
  failingAfterMs,
  isFailing,
  laneWord,
  messageWord,
  needsAttention,
} from '../../../src/contract/state-words.ts'

const firstMs = Date.parse('2026-01-01T00:00:00Z')
const retrying: FailureFacts = {
  lane_state: 'retrying',
  attempts: 2,
  first_failed_ts: new Date(firstMs).toISOString(),
  last_error: { class: 'transient' },
}
const rejected = { class: 'permanent' } as const
const untried = { attempts: 0, first_failed_ts: null, last_error: null }

t.test('a failure is reported a minute after it began, once a retry has failed too', async (t) => {
  const after = firstMs + failingAfterMs
  const cases: [string, boolean, Partial<FailureFacts>, number?][] = [
    ['at the minute', true, {}],
    ['just before it', false, {}, after - 1],
    ['one failed attempt, and a long wait that the destination asked for', false, { attempts: 1 }],
    ['rejected for good: the next attempt is minutes away', true, { attempts: 1, last_error: rejected }],
    ['rejected for good, just now', false, { attempts: 1, last_error: rejected }, after - 1],
    ['stalled', true, { lane_state: 'stalled', attempts: 900 }],
    ['blocked by a user: it is not tried', false, { lane_state: 'blocked', attempts: 900 }],
    ['nothing failed', false, { ...untried, lane_state: 'flowing' }],
    ['nothing waits', false, { ...untried, lane_state: 'idle' }],
  ]
  for (const [name, expected, facts, nowMs = after] of cases) {
    t.equal(isFailing({ ...retrying, ...facts }, nowMs), expected, name)
  }
})

type Facts = Pick<
  LaneStatus,
  'lane_state' | 'blocking_msg_id' | 'first_failed_ts' | 'last_error' | 'attempts'
>
const works: Facts = {
  ...{ lane_state: 'flowing', blocking_msg_id: null, first_failed_ts: null },
  ...{ last_error: null, attempts: 0 },
}
const errorOf = (errorClass: 'transient' | 'permanent') => ({
  ...{ class: errorClass, code: 'http_500', message: 'The endpoint responded 500.' },
  ...{ fault: null, record_index: null, column: null, value: null },
})
const failed: Facts = {
  ...{ lane_state: 'retrying', blocking_msg_id: 'm', first_failed_ts: new Date(firstMs).toISOString() },
  ...{ last_error: errorOf('transient'), attempts: 2 },
}
const rejecting = { ...failed, last_error: errorOf('permanent') }

t.test('one word says whether a lane works, tries by itself or waits for a person', async (t) => {
  const cases: [string, string, Facts, boolean][] = [
    ['nothing waits', 'idle', { ...works, lane_state: 'idle' }, false],
    ['it delivers', 'delivering', works, false],
    ['a 500, just now', 'retrying', { ...failed, attempts: 1 }, false],
    ['a 500 for a minute', 'retrying', failed, true],
    ['a 500 for a day', 'retrying', { ...failed, lane_state: 'stalled' }, true],
    ['a 422, just now', 'stuck', { ...rejecting, attempts: 1 }, true],
    ['a 422 for a day', 'stuck', { ...rejecting, lane_state: 'stalled' }, true],
    [
      'the rejected message is not found yet',
      'retrying',
      { ...rejecting, lane_state: 'flowing', blocking_msg_id: null, attempts: 1 },
      true,
    ],
    ['blocked by a user, whatever failed before', 'blocked', { ...rejecting, lane_state: 'blocked' }, true],
  ]
  for (const [name, word, lane, isTroubled] of cases) {
    t.equal(laneWord({ lane }), word, name)
    t.equal(needsAttention({ lane }, firstMs + failingAfterMs), isTroubled, name)
  }
})

t.test('a message that failed has the word of the lane that it blocks', async (t) => {
  t.equal(messageWord('delivered', rejecting), 'delivered')
  t.equal(messageWord('stuck', rejecting), 'stuck')
  t.equal(messageWord('stuck', failed), 'retrying', 'a 500 is not stuck')
  t.equal(messageWord('stuck', { ...rejecting, lane_state: 'blocked' }), 'blocked')
  t.equal(messageWord('stuck', undefined), 'retrying', 'of a lane that is not known')
})
