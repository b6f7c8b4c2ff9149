import t from 'tap'
import { type FailureFacts, failingAfterMs, isFailing } from '../../../src/contract/lane-failing.ts'

const firstMs = Date.parse('2026-01-01T00:00:00Z')
const retrying: FailureFacts = {
  lane_state: 'retrying',
  attempts: 2,
  first_failed_ts: new Date(firstMs).toISOString(),
  last_error: { class: 'transient' },
}
const rejected = { class: 'permanent' } as const
const untried = { attempts: 0, first_failed_ts: null, last_error: null }

t.test('a lane is failing a minute after its first failure, once a retry has failed too', async (t) => {
  const after = firstMs + failingAfterMs
  const cases: [string, boolean, Partial<FailureFacts>, number?][] = [
    ['at the minute', true, {}],
    ['just before it', false, {}, after - 1],
    ['one failed attempt, and a long wait that the destination asked for', false, { attempts: 1 }],
    ['rejected for good: the next attempt is minutes away', true, { attempts: 1, last_error: rejected }],
    ['rejected for good, just now', false, { attempts: 1, last_error: rejected }, after - 1],
    ['stalled', true, { lane_state: 'stalled', attempts: 900 }],
    ['blocked by hand: nobody tries', false, { lane_state: 'blocked', attempts: 900 }],
    ['nothing failed', false, { ...untried, lane_state: 'flowing' }],
    ['nothing waits', false, { ...untried, lane_state: 'idle' }],
  ]
  for (const [name, expected, facts, nowMs = after] of cases) {
    t.equal(isFailing({ ...retrying, ...facts }, nowMs), expected, name)
  }
})
