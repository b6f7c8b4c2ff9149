/** The numbers in lane rows when their messages get others. */
import t from 'tap'
import type { MovedLane } from '../../../src/maintenance/migrate/metadata-store.ts'
import { copiedTables, ownTables } from '../../../src/maintenance/migrate/metadata-tables.ts'
import { shiftedSeqs } from '../../../src/maintenance/migrate/renumber.ts'
import { SeqMap } from '../../../src/maintenance/migrate/seq-map.ts'
import {
  namedSeqs,
  translatedLane,
  translatedParked,
  translatedRun,
} from '../../../src/maintenance/migrate/translate.ts'
import { type LaneState, newLaneState } from '../../../src/metadata/lane-state.ts'
import { decodeLane } from '../../../src/metadata/lane-store.ts'
import type { LaneHistoryRow, ParkedRow, Tables } from '../../../src/metadata/tables.ts'

/** The messages of the pipe, before and after. */
const pairs = [
  [10, 1024],
  [12, 1025],
  [20, 1026],
  [21, 2048],
] as const

function mapOf(named: number[], messages: readonly (readonly [number, number])[] = pairs): SeqMap {
  const map = new SeqMap(named)
  for (const [before, after] of messages) map.moved(before, after)
  return map
}

function lane(changes: Partial<LaneState>): MovedLane {
  const state: LaneState = {
    ...newLaneState('d'),
    ...{ cursorMark: '[0,0,0]', generation: 3, recordOffset: 2, sizeLimitRecords: 50, sizeSuccesses: 1 },
    ...{ attempts: 4, firstFailedMs: 5, nextAttemptMs: 6, blockingMsgId: 'm' },
    lastError: {
      ...{ class: 'transient', code: 'e', message: 'x' },
      ...{ fault: null, recordIndex: null, column: null, value: null },
    },
    ...{
      lastDeliveredMs: 7,
      deliveredRecords: 8,
      filteredRecords: 3,
      skippedMessages: 9,
      droppedMessages: 1,
    },
    ownerEpoch: 1,
    ...changes,
  }
  return { state, isIntact: true, history: [], parkedSeqs: [] }
}

function moved(one: MovedLane, gaps: { throughSeq: number; messages: number }[] = []): LaneState {
  const map = mapOf(namedSeqs(one))
  return decodeLane(translatedLane(one, map, gaps))
}

t.test('a seq becomes that of its message, or of its neighbours', async (t) => {
  const map = mapOf([5, 10, 15, 21, 30])
  t.same(map.of(5), { at: null, through: null, from: 1024 })
  t.same(map.of(10), { at: 1024, through: 1024, from: 1024 })
  t.same(map.of(15), { at: null, through: 1025, from: 1026 })
  t.same(map.of(21), { at: 2048, through: 2048, from: 2048 })
  t.same(map.of(30), { at: null, through: 2048, from: null })
  t.same(mapOf([4], []).of(4), { at: null, through: null, from: null })
})

t.test('a lane stands where it stood, with its range', async (t) => {
  const ranges = {
    batchFirstSeq: 12,
    batchLastSeq: 20,
    bisectLastSeq: 20,
    nextFirstSeq: 21,
    nextLastSeq: 21,
  }
  const row = moved(lane({ cursorSeq: 10, ...ranges }))
  t.match(row, {
    ...{
      cursorSeq: 1024,
      cursorMark: null,
      batchFirstSeq: 1025,
      batchLastSeq: 1026,
      bisectLastSeq: 1026,
    },
    ...{ nextFirstSeq: 2048, nextLastSeq: 2048, recordOffset: 2, generation: 3, attempts: 4 },
    ...{ blockingMsgId: 'm', sizeLimitRecords: 50, deliveredRecords: 8, ownerEpoch: 0 },
  })
  const later = { batchFirstSeq: 12, batchLastSeq: 12, nextFirstSeq: 20, nextLastSeq: 20 }
  t.match(moved(lane({ cursorSeq: 10, ...later, laterRanges: [[21, 21]] })), {
    ...{ batchFirstSeq: 1025, nextFirstSeq: 1026, nextLastSeq: 1026, laterRanges: [[2048, 2048]] },
  })
  const none = { batchFirstSeq: null, batchLastSeq: null, bisectLastSeq: null }
  t.match(moved(lane({ cursorSeq: 12, ...later, ...none, laterRanges: [[21, 44]] })), {
    ...{ cursorSeq: 1025, batchFirstSeq: null, nextFirstSeq: 1026, nextLastSeq: 1026, laterRanges: null },
  })
  t.equal(moved(lane({ cursorSeq: 9 })).cursorSeq, 0, 'before the first message')
  t.equal(moved(lane({ cursorSeq: 99 })).cursorSeq, 2048, 'a lane that began at the head of the whole buffer')
})

t.test('a range whose messages are not kept is cut again, with its failure forgotten', async (t) => {
  const gone = { batchFirstSeq: 3, batchLastSeq: 12, nextFirstSeq: 20, nextLastSeq: 21 }
  const row = moved(lane({ cursorSeq: 2, ...gone }), [{ throughSeq: 9, messages: 4 }])
  t.match(row, {
    ...{ cursorSeq: 0, batchFirstSeq: null, batchLastSeq: null, nextFirstSeq: null, recordOffset: 0 },
    ...{ attempts: 0, blockingMsgId: null, lastError: null, droppedMessages: 5, skippedMessages: 9 },
  })
  const half = moved(
    lane({ cursorSeq: 10, batchFirstSeq: 12, batchLastSeq: 20, nextFirstSeq: 21, nextLastSeq: 44 }),
  )
  t.match(half, { batchFirstSeq: 1025, batchLastSeq: 1026, nextFirstSeq: null, nextLastSeq: null })
  const passed = moved(lane({ cursorSeq: 12 }), [{ throughSeq: 11, messages: 7 }])
  t.equal(passed.droppedMessages, 1, 'what it had passed is not lost to it')
})

t.test('a damaged row stays damaged: its lane begins at the earliest message', async (t) => {
  const damaged = { ...lane({ cursorSeq: 20 }), isIntact: false }
  t.throws(() => moved(damaged), { name: 'LaneStateDamagedError', counters: { deliveredRecords: 8 } })
})

t.test('history and parked records go with their messages', async (t) => {
  const run = { destination_id: 'd', kind: 'delivered', at_ms: 1, batch_last_seq: 20, attempts: 1 } as const
  const history = (first_seq: number, last_seq: number): LaneHistoryRow => ({ ...run, first_seq, last_seq })
  const map = mapOf([1, 9, 11, 20, 30, 40])
  t.same(translatedRun(history(11, 20), map), { ...history(1025, 1026), batch_last_seq: null })
  t.same(translatedRun(history(1, 9), map), null)
  t.same(translatedRun(history(30, 40), map), null)
  const parked = (stream_seq: number) => ({ parked_id: 'p', stream_seq }) as ParkedRow
  t.equal(translatedParked(parked(20), map).stream_seq, 1026)
  t.equal(translatedParked(parked(9), map).stream_seq, 9, 'the buffer keeps it no longer')
})

t.test('a shift gives every seq of the stream another, and none to what the stream has lost', async (t) => {
  const seqs = shiftedSeqs({ base: 100, lastSeq: 300, by: 1_000 })
  t.same(seqs.of(101), { at: 1_101, through: 1_101, from: 1_101 })
  t.same(seqs.of(300), { at: 1_300, through: 1_300, from: 1_300 })
  t.same(seqs.of(301), { at: null, through: 1_300, from: null }, 'beyond the end: its cursor goes to the end')
  t.same(seqs.of(100), { at: null, through: null, from: 1_101 }, 'of an earlier epoch: before everything')
  const state = { ...lane({ cursorSeq: 250, batchFirstSeq: 290, batchLastSeq: 310 }).state }
  const row = decodeLane(translatedLane({ state, isIntact: true, history: [], parkedSeqs: [] }, seqs, []))
  t.match(row, { cursorSeq: 1_250, cursorMark: null, batchFirstSeq: null, attempts: 0 })
})

t.test('every table is either copied or named as one that is not', async (t) => {
  const all: Record<keyof Tables, true> = {
    ...{ workspaces: true, api_keys: true, pipes: true, destinations: true, destination_columns: true },
    ...{ pipe_limits: true, pipe_allowed_origins: true, lanes: true, usage_hours: true, lane_hours: true },
    ...{ rejected_hooks: true, schema_versions: true, schema_mismatches: true },
    ...{
      lane_history: true,
      lane_attempts: true,
      lane_latency: true,
      parked: true,
      parked_bodies: true,
      parked_sums: true,
      pipe_parked: true,
      pipe_parked_sums: true,
      pipe_parked_done: true,
      replays: true,
      privacy_jobs: true,
      destination_drift: true,
      added_columns: true,
    },
    ...{ usage_marks: true, deleted_pipes: true, users: true, sessions: true, setup_tokens: true },
    ...{ audit_log: true, alert_settings: true, alert_marks: true, alert_queue: true, cluster_nodes: true },
    ...{ cluster_workers: true, pipe_owners: true, cluster_duties: true, changes: true },
    ...{ quota_days: true, quota_rates: true },
    ...{ metadata_settings: true, metadata_migrations: true },
  }
  t.same([...copiedTables.map(({ name }) => name), ...ownTables].sort(), Object.keys(all).sort())
})
