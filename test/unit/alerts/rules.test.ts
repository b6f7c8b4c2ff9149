/** When something is told, with a clock that jumps: the rules over marks as they are stored and read again. */
import t from 'tap'
import { type AlertEvent, alertEventNames } from '../../../src/contract/alert-words.ts'
import type { LaneFailure, LaneTrouble } from '../../../src/delivery/delivery.ts'
import type { AlertMark } from '../../../src/metadata/alert-store.ts'
import { markKey, marksOf } from '../../../src/observe/alerts/marks.ts'
import { type AlertCheck, type AlertFact, evaluateAlerts } from '../../../src/observe/alerts/rules.ts'

const minute = 60_000
const healthy: LaneTrouble = {
  ...{ workspaceId: 'w', pipeId: 'p', destinationId: 'd' },
  isHalted: false,
  failure: null,
  isIdle: true,
  lastDeliveredMs: null,
  droppedMessages: 0,
  parkedRecords: 0,
  oldestPendingMs: null,
}
const failure: LaneFailure = {
  ...{ msgId: 'm', attempts: 3, firstFailedMs: 0, isStuck: false, isStalled: false },
  error: { class: 'transient', code: 'ECONNREFUSED', message: 'refused', fault: null },
}
const failing = (more: Partial<LaneFailure> = {}): LaneTrouble => ({
  ...healthy,
  isIdle: false,
  failure: { ...failure, ...more },
})
const calm = { holds: false, isOver: true, reason: 'size' } as const

/** Evaluates the rules as a daemon does, check by check. `restart`: the marks are read from where they were stored. */
class World {
  marks = new Map<string, AlertMark>()
  isFirst = false
  events = new Set<AlertEvent>(alertEventNames)

  check(
    nowMs: number,
    lanes: LaneTrouble[],
    more: Partial<AlertCheck> & { room?: number } = {},
  ): AlertFact[] {
    const { room = 100, ...check } = more
    const changes = evaluateAlerts(
      {
        ...{
          nowMs,
          lanes,
          pipes: [],
          nearFull: calm,
          replicaLagMs: null,
          crash: null,
          undeliveredMs: 168 * 60 * minute,
        },
        ...{ isFirst: this.isFirst, ...check },
      },
      this.events,
      this.marks,
      room,
    )
    for (const mark of changes.gone) this.marks.delete(markKey(mark))
    for (const mark of changes.marks) this.marks.set(markKey(mark), mark)
    this.isFirst = false
    return changes.alerts
  }

  types(nowMs: number, lanes: LaneTrouble[], more: Partial<AlertCheck> & { room?: number } = {}): string[] {
    return this.check(nowMs, lanes, more).map(({ type }) => type)
  }

  restart(): void {
    this.marks = marksOf(JSON.parse(JSON.stringify([...this.marks.values()])))
  }
}

t.test('failing for a minute is told once, and its end once', async (t) => {
  const world = new World()
  t.same(world.types(minute - 1, [failing()]), [])
  t.same(world.types(minute, [failing({ attempts: 1 })]), [], 'one attempt is no pattern')
  t.same(world.types(minute, [failing()]), ['lane.failing'])
  for (let at = 2; at < 60; at++) t.same(world.types(at * minute, [failing()]), [])
  t.same(world.types(60 * minute, [healthy]), ['lane.recovered'])
  t.same(world.types(61 * minute, [healthy]), [])
  t.same(world.types(70 * minute, [healthy]), [])
  t.equal(world.marks.size, 0, 'nothing is kept of a lane that is well')
})

t.test('what is told at once needs no minute, and is not told as failing too', async (t) => {
  const world = new World()
  const stuck = failing({ isStuck: true, attempts: 1 })
  t.same(world.types(1, [stuck]), ['lane.stuck'])
  t.same(world.types(2 * minute, [failing({ isStuck: true })]), [])
  t.same(world.types(3 * minute, [failing({ isStuck: true, isStalled: true })]), ['lane.stalled'])
  t.same(world.types(4 * minute, [healthy]), ['lane.recovered'], 'one recovery of both')
})

t.test('a recovery is told of what was told alone', async (t) => {
  const world = new World()
  t.same(world.types(1, [failing()]), [])
  t.same(world.types(2, [healthy]), [])
  world.events.delete('lane.failing')
  t.same(world.types(2 * minute, [failing()]), [])
  t.same(world.types(3 * minute, [healthy]), [])
})

t.test('a skip or a rewind alone is no recovery: the next message has to be delivered', async (t) => {
  const world = new World()
  t.same(world.types(minute, [failing()]), ['lane.failing'])
  const skipped = { ...healthy, isIdle: false, lastDeliveredMs: minute - 1 }
  t.same(world.types(2 * minute, [skipped]), [])
  t.same(world.types(3 * minute, [failing({ isStuck: true })]), ['lane.stuck'])
  t.same(world.types(4 * minute, [{ ...skipped, lastDeliveredMs: 4 * minute }]), ['lane.recovered'])
})

t.test('at most one of an event in five minutes; what was held back is counted', async (t) => {
  const world = new World()
  const stuck = failing({ isStuck: true })
  t.same(world.types(0, [stuck]), ['lane.stuck'])
  t.same(world.types(minute, [healthy]), ['lane.recovered'])
  t.same(world.types(2 * minute, [stuck]), [], 'held back')
  t.same(world.types(3 * minute, [healthy]), [], 'nor is its end told')
  t.same(world.types(4 * minute, [stuck]), [], 'held back again')
  t.match(world.check(5 * minute, [stuck]), [{ type: 'lane.stuck', heldBack: 1 }])
  t.match(world.check(6 * minute, [healthy]), [{ type: 'lane.recovered', heldBack: 0 }])
  t.same(world.types(20 * minute, [stuck]), ['lane.stuck'])
})

t.test('a recovery that is held back is told once it may be, unless it is over', async (t) => {
  const world = new World()
  t.same(world.types(minute, [failing()]), ['lane.failing'])
  t.same(world.types(2 * minute, [healthy]), ['lane.recovered'])
  t.same(world.types(3 * minute, [failing({ isStuck: true })]), ['lane.stuck'], 'another event')
  t.same(world.types(4 * minute, [healthy]), [], 'held back')
  t.same(world.types(7 * minute, [healthy]), ['lane.recovered'])
})

t.test('a restart tells nothing again, and the end of what was told', async (t) => {
  const world = new World()
  t.same(world.types(0, [failing({ isStuck: true })]), ['lane.stuck'])
  world.restart()
  t.same(world.types(minute, [failing({ isStuck: true })]), [])
  world.restart()
  t.same(world.types(9 * minute, [failing({ isStuck: true })]), [], 'however long it lasts')
  t.same(world.types(10 * minute, [healthy]), ['lane.recovered'])
})

t.test('a blocked destination neither fails nor recovers', async (t) => {
  const world = new World()
  t.same(world.types(0, [failing({ isStuck: true })]), ['lane.stuck'])
  t.same(world.types(minute, [{ ...failing({ isStuck: true, isStalled: true }), isHalted: true }]), [])
  t.same(world.types(2 * minute, [healthy]), ['lane.recovered'])
  t.same(new World().types(2 * minute, [{ ...failing(), isHalted: true }]), [])
})

t.test('a lane that is gone is forgotten without a word', async (t) => {
  const world = new World()
  t.same(world.types(0, [failing({ isStuck: true })]), ['lane.stuck'])
  t.same(world.types(minute, []), [])
  t.equal(world.marks.size, 0)
})

t.test('dropped messages: those since the last one, and none from before', async (t) => {
  const world = new World()
  const dropped = (count: number) => [{ ...healthy, droppedMessages: count }]
  world.isFirst = true
  t.same(world.check(0, dropped(7)), [])
  t.same(world.check(1, dropped(7)), [])
  t.match(world.check(2, dropped(9)), [{ type: 'messages.dropped', count: 2 }])
  t.same(world.check(minute, dropped(12)), [])
  world.restart()
  t.match(world.check(6 * minute, dropped(20)), [{ type: 'messages.dropped', count: 11 }])
  t.same(world.check(20 * minute, dropped(20)), [])
  t.same(world.check(21 * minute, dropped(0)), [], 'a lane whose state was lost counts from nothing')
  t.match(world.check(30 * minute, dropped(1)), [{ count: 1 }])
})

t.test('parked: those of a minute together, and what a replay took away is no news', async (t) => {
  const world = new World()
  const parked = (count: number) => [{ ...healthy, parkedRecords: count }]
  t.same(world.check(0, parked(1)), [])
  t.same(world.check(minute - 1, parked(3)), [])
  world.restart()
  t.match(world.check(minute, parked(4)), [{ type: 'message.parked', count: 4 }])
  t.same(world.check(2 * minute, parked(6)), [])
  t.match(world.check(6 * minute, parked(6)), [{ count: 2 }], 'five minutes later')
  t.same(world.check(7 * minute, parked(0)), [], 'replayed')
  t.same(world.check(20 * minute, parked(1)), [])
  t.match(world.check(21 * minute, parked(1)), [{ count: 1 }])
})

t.test('records parked at a pipe are reported as those of a lane are', async (t) => {
  const world = new World()
  const check = (nowMs: number, records: number) =>
    world.check(nowMs, [], { pipes: [{ workspaceId: 'w', pipeId: 'p', records }] })
  t.same(check(0, 2), [])
  world.restart()
  t.match(check(minute, 3), [{ type: 'pipe.parked', count: 3, pipe: { pipeId: 'p' } }])
  t.same(check(2 * minute, 0), [], 'replayed')
  t.same(check(3 * minute, 1), [])
  t.same(check(5 * minute, 2), [], 'less than five minutes later')
  t.match(check(6 * minute, 2), [{ count: 2 }])
  check(7 * minute, 0)
  check(20 * minute, 0)
  t.equal(world.marks.size, 0, 'nothing is kept of a pipe without parked records')
  world.events.delete('pipe.parked')
  t.same(check(30 * minute, 5), [])
  t.same(check(40 * minute, 5), [])
  world.check(50 * minute, [])
  t.equal(world.marks.size, 0, 'nor of a deleted pipe')
})

t.test('retention: at more than 80 % of the time, once', async (t) => {
  const world = new World()
  const hours = 60 * minute
  const waiting = [{ ...healthy, isIdle: false, oldestPendingMs: 0 }]
  t.same(world.types(134.4 * hours, waiting), [])
  t.same(world.types(134.5 * hours, waiting), ['retention.near'])
  t.same(world.types(140 * hours, waiting), [])
  t.same(world.types(141 * hours, [healthy]), [])
  const limited = [{ ...waiting[0]!, destinationId: 'limited', retentionHours: 10 }]
  t.same(world.types(150 * hours, [{ ...limited[0]!, oldestPendingMs: 143 * hours }]), [], '7 of 10 hours')
  const near = { type: 'retention.near', lane: { retentionHours: 10 } }
  t.match(world.check(151.5 * hours, [{ ...limited[0]!, oldestPendingMs: 143 * hours }]), [near])
  const halted = [{ ...healthy, isIdle: false, isHalted: true, oldestPendingMs: 0 }]
  t.same(world.types(160 * hours, halted), ['retention.near'], 'also of a blocked destination')
})

t.test('a replica that is behind is reported once, and again after it had caught up', async (t) => {
  const world = new World()
  const lag = (nowMs: number, replicaLagMs: number | null) => world.check(nowMs, [], { replicaLagMs })
  t.same(lag(0, null), [], 'there is no replica')
  t.same(lag(minute, 5 * minute), [])
  t.match(lag(2 * minute, 6 * minute), [{ type: 'replica.lagging', lagMs: 6 * minute, heldBack: 0 }])
  t.same(lag(3 * minute, 7 * minute), [], 'it is still behind')
  t.same(lag(20 * minute, 4 * minute), [], 'near the bound')
  t.same(lag(21 * minute, 6 * minute), [])
  t.same(lag(30 * minute, 1_000), [], 'it has caught up')
  t.match(lag(40 * minute, 6 * minute), [{ type: 'replica.lagging' }])
  const without = new World()
  without.events = new Set(['lane.stuck'])
  t.same(without.check(0, [], { replicaLagMs: 60 * minute }), [], 'another event is wanted')
})

t.test('the buffer and a crash are told once for the workspace', async (t) => {
  const world = new World()
  const full = { holds: true, isOver: false, reason: 'disk' } as const
  t.match(world.check(0, [], { nearFull: full }), [{ type: 'buffer.near_full', reason: 'disk' }])
  t.same(world.types(10 * minute, [], { nearFull: full }), [])
  t.same(world.types(11 * minute, [], { nearFull: { ...full, holds: false } }), [], 'not clearly over')
  t.same(world.types(12 * minute, [], { nearFull: full }), [])
  t.same(world.types(13 * minute, []), [])
  t.same(world.types(14 * minute, [], { nearFull: full }), ['buffer.near_full'])
  const crash = { startedMs: 5 }
  t.match(world.check(20 * minute, [], { crash }), [{ type: 'daemon.restarted_after_crash', startedMs: 5 }])
  t.same(world.types(21 * minute, [], { crash }), [], 'a crash loop')
  t.same(world.types(22 * minute, [], { crash }), [])
  t.match(world.check(25 * minute, []), [{ type: 'daemon.restarted_after_crash', heldBack: 1 }])
  t.same(world.types(40 * minute, []), [])
})

t.test('what there is no room for is told when there is', async (t) => {
  const world = new World()
  const lanes = ['a', 'b', 'c'].map((destinationId) => ({ ...failing({ isStuck: true }), destinationId }))
  t.equal(world.check(0, lanes, { room: 2 }).length, 2)
  t.equal(world.check(1, lanes, { room: 0 }).length, 0)
  const [late] = world.check(2, lanes, { room: 5 })
  t.match(late, { type: 'lane.stuck', lane: { destinationId: 'c' }, heldBack: 0 })
})

t.test('a clock that is set back holds nothing back for long', async (t) => {
  const world = new World()
  const stuck = failing({ isStuck: true })
  t.same(world.types(100 * minute, [stuck]), ['lane.stuck'])
  t.same(world.types(50 * minute, [{ ...healthy, lastDeliveredMs: 50 * minute }]), ['lane.recovered'])
  t.same(world.types(51 * minute, [stuck]), ['lane.stuck'])
})

t.test('keys without a column: one alert until the columns are changed or the keys stop', async (t) => {
  const world = new World()
  const drifting = { ...healthy, unmapped: { keys: 2, names: ['gift', 'note'] } }
  const unknown = { ...healthy, unmapped: null }
  const mapped = { ...healthy, unmapped: { keys: 0, names: [] } }
  t.same(world.check(1, [drifting]), [
    { type: 'lane.drift', lane: drifting, unmapped: drifting.unmapped, heldBack: 0 },
  ])
  t.same(world.types(minute, [drifting]), [])
  world.restart()
  t.same(world.types(10 * minute, [unknown]), [], 'nothing is known after a restart: it stays raised')
  t.same(world.types(11 * minute, [drifting]), [])
  t.same(world.types(12 * minute, [mapped]), [])
  t.same(world.types(13 * minute, [drifting]), ['lane.drift'], 'again after its end')
})
