/** The replica in words, and how many requests a day it makes. */
import t from 'tap'
import { isReplicaBehind, replicaInWords, replicaRows } from '../../../src/apps/client/replica.ts'
import type { ReplicaFacts } from '../../../src/contract/replica-facts.ts'
import { RequestRate } from '../../../src/replica/request-rate.ts'

const requests = { put: 5, get: 1, list: 2, remove: 0 }
const nowMs = Date.parse('2026-11-28T12:00:00Z')
const sound: ReplicaFacts = {
  ...{ replica_state: 'ok', replica_mode: 'async', lag_seconds: 1, slot: 1234, generation: 1 },
  ...{ snapshot_ts: '2026-11-28T11:50:00Z', error_code: null, failing_since_ts: null, requests },
  ...{ requests_per_day: requests, sent_bytes: 10, stored_objects: null, stored_bytes: null, verified: null },
}
const verified = {
  ...{ verified_ts: '2026-11-25T12:00:00Z', result: 'ok' as const, slot: 3, through_ts: null },
  ...{ messages: 1, problems: 0 },
}

t.test('one line says whether it can be relied on', async (t) => {
  t.equal(replicaInWords(sound, nowMs), 'ok, 1s behind, snapshot 10m ago, never verified')
  t.equal(isReplicaBehind(sound), false)
  t.match(replicaInWords({ ...sound, verified }, nowMs), /, verified 3d ago$/)
  const failed = { ...verified, result: 'failed' as const, problems: 2 }
  t.match(
    replicaInWords({ ...sound, verified: failed }, nowMs),
    /, verification failed 3d ago \(2 problems\)$/,
  )
  const failing = { ...sound, replica_state: 'failing' as const, error_code: 'SlowDown', lag_seconds: 700 }
  t.match(replicaInWords(failing, nowMs), /^failing \(SlowDown\), 11m 40s behind/)
  t.equal(isReplicaBehind(failing), true)
  const empty = { ...sound, replica_state: 'joining' as const, snapshot_ts: null }
  t.match(
    replicaInWords(empty, nowMs),
    /^joining the bucket, 1s behind, no snapshot, so nothing can be restored/,
  )
  t.equal(isReplicaBehind(empty), true)
})

t.test('the rows of the page', async (t) => {
  const rows = new Map(replicaRows({ ...sound, stored_objects: 3, stored_bytes: 2048 }, nowMs))
  t.equal(rows.get('Newest object'), '1,234, generation 1')
  t.match(rows.get('Stored'), /in 3 objects, at the newest snapshot/)
  t.equal(rows.get('Requests a day'), '5 PUT, 2 LIST, 1 GET, 0 DELETE')
})

t.test('requests a day are those of the last hour, or since the start', async (t) => {
  const of = (put: number) => ({ put, get: 0, list: 0, remove: 0 })
  const [minute, hour, day] = [60_000, 3_600_000, 86_400_000]
  const rate = new RequestRate(0)
  t.equal(rate.within(day, 1_000, of(10)).put, 14_400, 'the first second counts as a minute')
  t.equal(rate.within(day, 10 * minute, of(10)).put, 1_440)
  for (let at = minute; at <= 3 * hour; at += minute) rate.sample(at, of(at / minute))
  t.equal(rate.within(day, 3 * hour, of(180)).put, 1_440)
  t.equal(rate.within(day, 3 * hour, of(240)).put, 2_880, 'of the last hour only')
})
