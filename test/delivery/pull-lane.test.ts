import t from 'tap'
import type { PullAnswer } from '../../src/delivery/delivery.ts'
import { LaneWorld } from '../support/lane-world.ts'
import { until } from '../support/until.ts'

const auto = { destination_type: 'destination_pull' as const, destination_config: {} }
const explicit = {
  destination_type: 'destination_pull' as const,
  destination_config: { ack_mode: 'explicit', lease_seconds: 30 },
}

type Given = Extract<PullAnswer, { kind: 'message' }>
async function given(answer: PullAnswer | Promise<PullAnswer>): Promise<Given> {
  const settled = await answer
  if (settled.kind !== 'message') throw new Error(`no message but ${settled.kind}`)
  return settled
}
const now = { waitMs: 0, afterSeq: null }
const waiting = { waitMs: 30_000, afterSeq: null }
const after = (afterSeq: number, waitMs = 0) => ({ waitMs, afterSeq })

t.test(
  'contract Pull: a pull gives the next message and moves on once the response is handed over',
  async (t) => {
    const world = await LaneWorld.open()
    const { id } = await world.addLane(auto)
    world.send(2, { records: 3, recordText: '{"n":1.10}' })
    const first = await given(world.desk.pull(id, now))
    t.match(first, { pipeId: world.pipeId, seq: 1 })
    t.equal(
      Buffer.from(first.recordsJson).toString(),
      '[{"n":1.10},{"n":1.10},{"n":1.10}]',
      "the records' own text",
    )
    t.equal((await world.saved(id)).cursorSeq, 0)
    await world.desk.pulled(id, first.pullId)
    t.match(await world.saved(id), { cursorSeq: 1, deliveredRecords: 3 }, 'durable when it resolves')
    t.equal((await given(world.desk.pull(id, now))).seq, 2)
    await world.close()
  },
)

t.test('contract Pull: a response that could not be sent gives the message again', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  world.send(1)
  const first = await given(world.desk.pull(id, now))
  await world.desk.abandoned(id, first.pullId)
  const again = await given(world.desk.pull(id, now))
  t.equal(again.msgId, first.msgId)
  await world.desk.pulled(id, first.pullId)
  t.equal((await world.saved(id)).cursorSeq, 0, 'an abandoned pull moves nothing any more')
  await world.desk.pulled(id, again.pullId)
  t.equal((await world.saved(id)).cursorSeq, 1)
  await world.close()
})

t.test('contract Pull: waits up to wait_ms for a message', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  t.strictSame(await world.desk.pull(id, now), { kind: 'empty' }, 'wait_ms 0 returns at once')
  let answered = false
  const empty = world.desk.pull(id, { waitMs: 5_000, afterSeq: null }).finally(() => {
    answered = true
  })
  await world.clock.advance(4_000)
  t.notOk(answered)
  await world.clock.advance(1_000)
  t.strictSame(await empty, { kind: 'empty' })
  const full = world.desk.pull(id, waiting)
  await until('it waits', () => world.clock.nextInMs < Number.POSITIVE_INFINITY)
  world.send(1)
  t.equal((await given(full)).seq, 1)
  await world.close()
})

t.test('one message is out at a time: a second consumer waits for what becomes of it', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  world.send(3)
  const first = await given(world.desk.pull(id, now))
  t.strictSame(await world.desk.pull(id, now), { kind: 'empty' })
  const second = world.desk.pull(id, waiting)
  const third = world.desk.pull(id, waiting)
  await world.desk.pulled(id, first.pullId)
  const next = await given(second)
  t.equal(next.seq, 2)
  await world.desk.abandoned(id, next.pullId)
  t.equal((await given(third)).seq, 2, 'given again, to the next in line')
  await world.close()
})

t.test('a message whose fate is never told is given again', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  world.send(1)
  const first = await given(world.desk.pull(id, now))
  await world.clock.advance(601_000)
  t.equal((await given(world.desk.pull(id, now))).msgId, first.msgId)
  await world.close()
})

t.test(
  'contract Pull: after_seq commits everything up to N and gives the first message after it',
  async (t) => {
    const world = await LaneWorld.open()
    const { id } = await world.addLane(auto)
    world.send(4, { records: 2 })
    t.equal((await given(world.desk.pull(id, after(0)))).seq, 1)
    t.equal((await given(world.desk.pull(id, after(0)))).seq, 1, 'at least once: given until committed')
    t.equal((await world.saved(id)).cursorSeq, 0)
    const third = await given(world.desk.pull(id, after(2)))
    t.equal(third.seq, 3)
    t.match(await world.saved(id), { cursorSeq: 2, deliveredRecords: 4 }, 'committed before the answer')
    await world.desk.pulled(id, third.pullId)
    t.equal((await world.saved(id)).cursorSeq, 2, 'handing it over commits nothing')
    t.equal((await given(world.desk.pull(id, after(1)))).seq, 2, 'a consumer may go back to what is kept')
    t.equal((await world.saved(id)).cursorSeq, 2, 'the cursor does not')
    t.strictSame(await world.desk.pull(id, after(99)), { kind: 'empty' })
    world.send(1)
    t.equal((await given(world.desk.pull(id, after(4)))).seq, 5)
    await world.close()
  },
)

t.test(
  'contract Pull: after_seq older than what is kept is cursor_expired with the earliest seq',
  async (t) => {
    const world = await LaneWorld.open()
    const { id } = await world.addLane(auto)
    world.send(5)
    t.equal((await given(world.desk.pull(id, after(2)))).seq, 3)
    world.drop(4)
    t.strictSame(await world.desk.pull(id, after(2)), { kind: 'cursor_expired', earliestSeq: 5 })
    t.strictSame(await world.desk.pull(id, after(3)), { kind: 'cursor_expired', earliestSeq: 5 })
    t.equal(
      (await given(world.desk.pull(id, after(4)))).seq,
      5,
      'negative control: nothing is missing after 4',
    )
    t.equal((await world.lane(id)).dropped_messages, 2)
    world.drop(5)
    t.strictSame(await world.desk.pull(id, after(4)), { kind: 'cursor_expired', earliestSeq: 6 })
    await world.close()
  },
)

t.test('contract Pull: an explicit message is leased, and done when it is acknowledged', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(explicit)
  world.send(2)
  const first = await given(world.desk.pull(id, now))
  t.match(await world.saved(id), { leaseMsgId: first.msgId }, 'the lease is durable before the answer')
  await world.desk.pulled(id, first.pullId)
  t.equal((await world.saved(id)).cursorSeq, 0, 'sent is not done')
  t.strictSame(await world.desk.pull(id, now), { kind: 'empty' }, 'one message outstanding per lane')
  t.equal(await world.desk.acknowledge(id, '00000000-0000-4000-8000-000000000000', true), false)
  const second = world.desk.pull(id, waiting)
  t.equal(await world.desk.acknowledge(id, first.msgId, true), true)
  t.match(await world.saved(id), { cursorSeq: 1, deliveredRecords: 1 })
  t.equal(await world.desk.acknowledge(id, first.msgId, true), false, 'acknowledged once')
  t.equal((await given(second)).seq, 2)
  await world.close()
})

t.test(
  'contract Pull: a nack gives the message again at once, and it blocks the lane until it is done',
  async (t) => {
    const world = await LaneWorld.open()
    const { id } = await world.addLane(explicit)
    world.send(2)
    const first = await given(world.desk.pull(id, now))
    await world.desk.pulled(id, first.pullId)
    t.equal(await world.desk.acknowledge(id, first.msgId, false), true)
    t.match(await world.lane(id), { lane_state: 'retrying', attempts: 1, last_error: { code: 'nack' } })
    const again = await given(world.desk.pull(id, now))
    t.equal(again.msgId, first.msgId)
    t.equal(await world.desk.retryNow(id), first.msgId, 'retry-now takes it from who has it')
    t.equal(await world.desk.acknowledge(id, first.msgId, true), false)
    t.equal((await given(world.desk.pull(id, now))).msgId, first.msgId)
    t.equal(await world.desk.skip(id), true)
    t.equal((await given(world.desk.pull(id, now))).seq, 2)
    t.match(await world.lane(id), { skipped_messages: 1, attempts: 0, last_error: null })
    await world.close()
  },
)

t.test('contract Pull: a lease that is over gives the message again; its ack comes too late', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(explicit)
  world.send(1)
  const first = await given(world.desk.pull(id, now))
  await world.desk.pulled(id, first.pullId)
  const second = world.desk.pull(id, { waitMs: 60_000, afterSeq: null })
  await world.clock.advance(29_000)
  t.equal((await world.lane(id)).attempts, 0)
  await world.clock.advance(1_000)
  t.equal((await given(second)).msgId, first.msgId)
  t.match(await world.lane(id), { attempts: 1, last_error: { code: 'lease_expired' } })
  await world.clock.advance(30_000)
  t.equal(await world.desk.acknowledge(id, first.msgId, true), false, 'lease_expired')
  await world.close()
})

t.test(
  'a lease survives a restart, also when the wall clock jumped meanwhile, but no longer than a whole one',
  async (t) => {
    for (const jumpMs of [0, -365 * 86_400_000]) {
      const world = await LaneWorld.open()
      const { id } = await world.addLane(explicit)
      world.send(1)
      const first = await given(world.desk.pull(id, now))
      world.clock.jumpWall(jumpMs)
      await world.restart()
      t.strictSame(await world.desk.pull(id, now), { kind: 'empty' })
      await world.clock.advance(30_000)
      t.equal((await given(world.desk.pull(id, now))).msgId, first.msgId)
      t.equal(await world.desk.acknowledge(id, first.msgId, true), true)
      await world.close()
    }
  },
)

t.test('a response with a leased message that could not be sent frees it', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(explicit)
  world.send(1)
  const first = await given(world.desk.pull(id, now))
  await world.desk.abandoned(id, first.pullId)
  t.equal((await given(world.desk.pull(id, now))).msgId, first.msgId)
  t.equal((await world.lane(id)).attempts, 0)
  await world.close()
})

t.test('spec Pull: what is not an active pull destination is not found', async (t) => {
  const world = await LaneWorld.open()
  const other = await world.addLane()
  const { id } = await world.addLane(auto)
  world.send(1)
  t.strictSame(await world.desk.pull(other.id, now), { kind: 'not_found' })
  t.strictSame(await world.desk.pull('00000000-0000-4000-8000-000000000000', now), { kind: 'not_found' })
  await world.change(id, { destination_status: 'blocked' })
  t.strictSame(await world.desk.pull(id, now), { kind: 'not_found' })
  t.strictSame(await world.desk.pull(id, after(0)), { kind: 'not_found' })
  t.match(await world.lane(id), { lane_state: 'blocked', pending_messages: 1 })
  await world.change(id, { destination_status: 'active' })
  t.equal((await given(world.desk.pull(id, now))).seq, 1)
  await world.close()
})

t.test('who waits when the destination is blocked or deleted is told so', async (t) => {
  const world = await LaneWorld.open()
  const blocked = await world.addLane(auto)
  const deleted = await world.addLane(auto)
  const pulls = [world.desk.pull(blocked.id, waiting), world.desk.pull(deleted.id, waiting)]
  await until('both wait', () => world.clock.nextInMs < Number.POSITIVE_INFINITY)
  await world.change(blocked.id, { destination_status: 'blocked' })
  await world.metadata.destinations.delete(world.workspaceId, world.pipeId, deleted.id)
  await world.lanes.refresh(world.pipeId)
  t.strictSame(await Promise.all(pulls), [{ kind: 'not_found' }, { kind: 'not_found' }])
  await world.close()
})

t.test('contract Pull: on shutdown every waiter gets an empty answer, and later pulls at once', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  const pulls = [1, 2, 3].map(() => world.desk.pull(id, waiting))
  await world.desk.endPulls()
  t.strictSame(await Promise.all(pulls), [{ kind: 'empty' }, { kind: 'empty' }, { kind: 'empty' }])
  world.send(1)
  t.strictSame(await world.desk.pull(id, waiting), { kind: 'empty' })
  await world.close()
})

t.test('what was out when the process died is given again', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  world.send(2)
  const first = await given(world.desk.pull(id, now))
  await world.desk.pulled(id, first.pullId)
  const second = await given(world.desk.pull(id, now))
  await world.restart()
  t.equal((await given(world.desk.pull(id, now))).msgId, second.msgId)
  await world.close()
})

t.test('a damaged message is passed over and counted, in every mode', async (t) => {
  const world = await LaneWorld.open()
  world.send(5)
  for (const seq of [1, 2, 4]) world.buffer.damage(seq)
  const { id } = await world.addLane(auto)
  t.equal((await given(world.desk.pull(id, after(0)))).seq, 3)
  const third = await given(world.desk.pull(id, now))
  t.equal(third.seq, 3)
  await world.desk.pulled(id, third.pullId)
  t.equal((await given(world.desk.pull(id, now))).seq, 5)
  t.equal((await world.lane(id)).dropped_messages, 3)
  await world.close()
})

t.test('rewind gives again what was pulled', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  world.send(2)
  for (const seq of [1, 2]) {
    const answer = await given(world.desk.pull(id, now))
    t.equal(answer.seq, seq)
    await world.desk.pulled(id, answer.pullId)
  }
  t.equal(await world.desk.rewind(id, { to: 'earliest' }), 0)
  t.equal((await given(world.desk.pull(id, now))).seq, 1)
  await world.close()
})
