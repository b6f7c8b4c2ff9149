import t from 'tap'
import { firstEpochs } from '../../../src/contract/epochs.ts'
import type { PullResult } from '../../../src/delivery/delivery.ts'
import { LaneWorld } from '../../support/lane-world.ts'
import { until } from '../../support/until.ts'

const auto = { destination_type: 'destination_pull' as const, destination_config: {} }
const explicit = {
  destination_type: 'destination_pull' as const,
  destination_config: { ack_mode: 'explicit', lease_seconds: 30 },
}

type Given = Extract<PullResult, { kind: 'message' }>
async function given(answer: PullResult | Promise<PullResult>): Promise<Given> {
  const settled = await answer
  if (settled.kind !== 'message') throw new Error(`no message but ${settled.kind}`)
  return settled
}
const now = { waitMs: 0, afterSeq: null }
const waiting = { waitMs: 30_000, afterSeq: null }
const after = (afterSeq: number, waitMs = 0) => ({ waitMs, afterSeq })

t.test('a pull gives the next message and moves on once the response is handed over', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  world.send(2, { records: 3, recordText: '{"n":1.10}' })
  const first = await given(world.service.pull(id, now))
  t.equal(first.seq, 1)
  t.equal(
    Buffer.from(first.json).toString(),
    `{"pipe_id":"${world.pipeId}","destination_id":"${id}","msg_id":"${first.msgId}","stream_seq":1,` +
      '"records":[{"n":1.10},{"n":1.10},{"n":1.10}]}',
    "the records' own text",
  )
  t.equal((await world.saved(id)).cursorSeq, 0)
  await world.service.pulled({ destinationId: id, pullId: first.pullId })
  t.match(await world.saved(id), { cursorSeq: 1, deliveredRecords: 3 }, 'durable when it resolves')
  t.equal((await given(world.service.pull(id, now))).seq, 2)
  await world.close()
})

t.test('a response that could not be sent gives the message again', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  world.send(1)
  const first = await given(world.service.pull(id, now))
  await world.service.abandoned({ destinationId: id, pullId: first.pullId })
  const again = await given(world.service.pull(id, now))
  t.equal(again.msgId, first.msgId)
  await world.service.pulled({ destinationId: id, pullId: first.pullId })
  t.equal((await world.saved(id)).cursorSeq, 0, 'an abandoned pull moves nothing any more')
  await world.service.pulled({ destinationId: id, pullId: again.pullId })
  t.equal((await world.saved(id)).cursorSeq, 1)
  await world.close()
})

t.test('waits up to wait_ms for a message', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  t.strictSame(await world.service.pull(id, now), { kind: 'empty' }, 'wait_ms 0 returns at once')
  let answered = false
  const empty = world.service.pull(id, { waitMs: 5_000, afterSeq: null }).finally(() => {
    answered = true
  })
  await world.clock.advance(4_000)
  t.notOk(answered)
  await world.clock.advance(1_000)
  t.strictSame(await empty, { kind: 'empty' })
  const full = world.service.pull(id, waiting)
  await until('it waits', () => world.clock.nextInMs < Number.POSITIVE_INFINITY)
  world.send(1)
  t.equal((await given(full)).seq, 1)
  await world.close()
})

t.test('one message is out at a time: a second consumer waits for what becomes of it', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  world.send(3)
  const first = await given(world.service.pull(id, now))
  t.strictSame(await world.service.pull(id, now), { kind: 'empty' })
  const second = world.service.pull(id, waiting)
  const third = world.service.pull(id, waiting)
  await world.service.pulled({ destinationId: id, pullId: first.pullId })
  const next = await given(second)
  t.equal(next.seq, 2)
  await world.service.abandoned({ destinationId: id, pullId: next.pullId })
  t.equal((await given(third)).seq, 2, 'redelivered, to the next in line')
  await world.close()
})

t.test('a message whose outcome is never reported is redelivered', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  world.send(1)
  const first = await given(world.service.pull(id, now))
  await world.clock.advance(601_000)
  t.equal((await given(world.service.pull(id, now))).msgId, first.msgId)
  await world.close()
})

t.test('after_seq commits everything up to N and gives the first message after it', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  world.send(4, { records: 2 })
  t.equal((await given(world.service.pull(id, after(0)))).seq, 1)
  t.equal((await given(world.service.pull(id, after(0)))).seq, 1, 'at least once: given until committed')
  t.equal((await world.saved(id)).cursorSeq, 0)
  const third = await given(world.service.pull(id, after(2)))
  t.equal(third.seq, 3)
  t.match(await world.saved(id), { cursorSeq: 2, deliveredRecords: 4 }, 'committed before the answer')
  await world.service.pulled({ destinationId: id, pullId: third.pullId })
  t.equal((await world.saved(id)).cursorSeq, 2, 'handing it over commits nothing')
  t.equal((await given(world.service.pull(id, after(1)))).seq, 2, 'a consumer may go back to what is kept')
  t.equal((await world.saved(id)).cursorSeq, 2, 'the cursor does not')
  t.strictSame(await world.service.pull(id, after(99)), { kind: 'cursor_ahead', headSeq: 4 })
  t.equal((await world.saved(id)).cursorSeq, 2, 'which commits nothing')
  t.strictSame(await world.service.pull(id, after(4)), { kind: 'empty' })
  world.send(1)
  t.equal((await given(world.service.pull(id, after(4)))).seq, 5)
  await world.close()
})

t.test('after_seq older than what is kept is cursor_expired with the earliest seq', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  world.send(5)
  t.equal((await given(world.service.pull(id, after(2)))).seq, 3)
  world.drop(4)
  t.strictSame(await world.service.pull(id, after(2)), {
    kind: 'cursor_expired',
    earliestSeq: 5,
    reason: 'retention',
  })
  t.strictSame(await world.service.pull(id, after(3)), {
    kind: 'cursor_expired',
    earliestSeq: 5,
    reason: 'retention',
  })
  t.equal(
    (await given(world.service.pull(id, after(4)))).seq,
    5,
    'negative control: nothing is missing after 4',
  )
  t.equal((await world.lane(id)).dropped_messages, 2)
  world.drop(5)
  t.strictSame(await world.service.pull(id, after(4)), {
    kind: 'cursor_expired',
    earliestSeq: 6,
    reason: 'retention',
  })
  await world.close()
})

for (const [what, afterSeq] of [
  ['at the cursor', 2],
  ['before the cursor', 1],
] as const) {
  t.test(`retention that overtakes a pull ${what} is cursor_expired, not a gap`, async (t) => {
    const world = await LaneWorld.open()
    const { id } = await world.addLane(auto)
    world.send(5)
    t.equal((await given(world.service.pull(id, after(2)))).seq, 3)
    world.buffer.beforeRead = () => {
      world.buffer.beforeRead = () => {}
      world.drop(4)
    }
    const expired = { kind: 'cursor_expired', earliestSeq: 5, reason: 'retention' } as const
    t.strictSame(await world.service.pull(id, after(afterSeq)), expired)
    t.equal((await given(world.service.pull(id, after(4)))).seq, 5, 'where it said to go on')
    t.equal((await world.lane(id)).dropped_messages, 2, 'what was dropped is counted')
    await world.close()
  })
}

t.test('an explicit message is leased, and done when it is acknowledged', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(explicit)
  world.send(2)
  const first = await given(world.service.pull(id, now))
  t.match(await world.saved(id), { leaseMsgId: first.msgId }, 'the lease is durable before the answer')
  await world.service.pulled({ destinationId: id, pullId: first.pullId })
  t.equal((await world.saved(id)).cursorSeq, 0, 'sent is not done')
  t.strictSame(await world.service.pull(id, now), { kind: 'empty' }, 'one message outstanding per lane')
  t.equal(
    await world.service.acknowledge(
      { destinationId: id, msgId: '00000000-0000-4000-8000-000000000000' },
      true,
    ),
    false,
  )
  const second = world.service.pull(id, waiting)
  t.equal(await world.service.acknowledge({ destinationId: id, msgId: first.msgId }, true), true)
  t.match(await world.saved(id), { cursorSeq: 1, deliveredRecords: 1 })
  t.equal(
    await world.service.acknowledge({ destinationId: id, msgId: first.msgId }, true),
    false,
    'acknowledged once',
  )
  t.equal((await given(second)).seq, 2)
  await world.close()
})

t.test('a nack gives the message again at once, and it blocks the lane until it is done', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(explicit)
  world.send(2)
  const first = await given(world.service.pull(id, now))
  await world.service.pulled({ destinationId: id, pullId: first.pullId })
  t.equal(await world.service.acknowledge({ destinationId: id, msgId: first.msgId }, false), true)
  t.match(await world.lane(id), { lane_state: 'retrying', attempts: 1, last_error: { code: 'nack' } })
  const again = await given(world.service.pull(id, now))
  t.equal(again.msgId, first.msgId)
  t.equal(await world.service.retryNow(id), first.msgId, 'retry-now takes it from who has it')
  t.equal(await world.service.acknowledge({ destinationId: id, msgId: first.msgId }, true), false)
  t.equal((await given(world.service.pull(id, now))).msgId, first.msgId)
  t.equal(await world.service.skip(id), true)
  t.equal((await given(world.service.pull(id, now))).seq, 2)
  t.match(await world.lane(id), { skipped_messages: 1, attempts: 0, last_error: null })
  await world.close()
})

t.test('a lease that is over gives the message again; its ack comes too late', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(explicit)
  world.send(1)
  const first = await given(world.service.pull(id, now))
  await world.service.pulled({ destinationId: id, pullId: first.pullId })
  const second = world.service.pull(id, { waitMs: 60_000, afterSeq: null })
  await world.clock.advance(29_000)
  t.equal((await world.lane(id)).attempts, 0)
  await world.clock.advance(1_000)
  t.equal((await given(second)).msgId, first.msgId)
  t.match(await world.lane(id), { attempts: 1, last_error: { code: 'lease_expired' } })
  await world.clock.advance(30_000)
  t.equal(
    await world.service.acknowledge({ destinationId: id, msgId: first.msgId }, true),
    false,
    'lease_expired',
  )
  await world.close()
})

t.test(
  'a lease survives a restart, also when the wall clock jumped meanwhile, but no longer than a whole one',
  async (t) => {
    for (const jumpMs of [0, -365 * 86_400_000]) {
      const world = await LaneWorld.open()
      const { id } = await world.addLane(explicit)
      world.send(1)
      const first = await given(world.service.pull(id, now))
      world.clock.jumpWall(jumpMs)
      await world.restart()
      t.strictSame(await world.service.pull(id, now), { kind: 'empty' })
      await world.clock.advance(30_000)
      t.equal((await given(world.service.pull(id, now))).msgId, first.msgId)
      t.equal(await world.service.acknowledge({ destinationId: id, msgId: first.msgId }, true), true)
      await world.close()
    }
  },
)

t.test('a response with a leased message that could not be sent frees it', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(explicit)
  world.send(1)
  const first = await given(world.service.pull(id, now))
  await world.service.abandoned({ destinationId: id, pullId: first.pullId })
  t.equal((await given(world.service.pull(id, now))).msgId, first.msgId)
  t.equal((await world.lane(id)).attempts, 0)
  await world.close()
})

t.test('what is not an active pull destination is not found', async (t) => {
  const world = await LaneWorld.open()
  const other = await world.addLane()
  const { id } = await world.addLane(auto)
  world.send(1)
  t.strictSame(await world.service.pull(other.id, now), { kind: 'not_found' })
  t.strictSame(await world.service.pull('00000000-0000-4000-8000-000000000000', now), { kind: 'not_found' })
  await world.change(id, { destination_status: 'blocked' })
  t.strictSame(await world.service.pull(id, now), { kind: 'not_found' })
  t.strictSame(await world.service.pull(id, after(0)), { kind: 'not_found' })
  t.match(await world.lane(id), { lane_state: 'blocked', pending_messages: 1 })
  await world.change(id, { destination_status: 'active' })
  t.equal((await given(world.service.pull(id, now))).seq, 1)
  await world.close()
})

t.test('who waits when the destination is blocked or deleted is told so', async (t) => {
  const world = await LaneWorld.open()
  const blocked = await world.addLane(auto)
  const deleted = await world.addLane(auto)
  const pulls = [world.service.pull(blocked.id, waiting), world.service.pull(deleted.id, waiting)]
  await until('both wait', () => world.clock.nextInMs < Number.POSITIVE_INFINITY)
  await world.change(blocked.id, { destination_status: 'blocked' })
  await world.metadata.destinations.delete({
    workspaceId: world.workspaceId,
    pipeId: world.pipeId,
    destinationId: deleted.id,
  })
  await world.lanes.refresh(world.pipeId)
  t.strictSame(await Promise.all(pulls), [{ kind: 'not_found' }, { kind: 'not_found' }])
  await world.close()
})

t.test('on shutdown every waiter gets an empty response, and later pulls at once', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  const pulls = [1, 2, 3].map(() => world.service.pull(id, waiting))
  await world.service.endPulls()
  t.strictSame(await Promise.all(pulls), [{ kind: 'empty' }, { kind: 'empty' }, { kind: 'empty' }])
  world.send(1)
  t.strictSame(await world.service.pull(id, waiting), { kind: 'empty' })
  await world.close()
})

t.test('what was out when the process died is redelivered', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  world.send(2)
  const first = await given(world.service.pull(id, now))
  await world.service.pulled({ destinationId: id, pullId: first.pullId })
  const second = await given(world.service.pull(id, now))
  await world.restart()
  t.equal((await given(world.service.pull(id, now))).msgId, second.msgId)
  await world.close()
})

t.test('a damaged message is passed over and counted, in every mode', async (t) => {
  const world = await LaneWorld.open()
  world.send(5)
  for (const seq of [1, 2, 4]) world.buffer.damage(seq)
  const { id } = await world.addLane(auto)
  t.equal((await given(world.service.pull(id, after(0)))).seq, 3)
  const third = await given(world.service.pull(id, now))
  t.equal(third.seq, 3)
  await world.service.pulled({ destinationId: id, pullId: third.pullId })
  t.equal((await given(world.service.pull(id, now))).seq, 5)
  t.equal((await world.lane(id)).dropped_messages, 3)
  await world.close()
})

t.test('rewind redelivers what was pulled', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  world.send(2)
  for (const seq of [1, 2]) {
    const answer = await given(world.service.pull(id, now))
    t.equal(answer.seq, seq)
    await world.service.pulled({ destinationId: id, pullId: answer.pullId })
  }
  t.strictSame(await world.service.rewind(id, { to: 'earliest' }), { kind: 'rewound', cursorSeq: 0 })
  t.equal((await given(world.service.pull(id, now))).seq, 1)
  await world.close()
})

t.test('after_seq may be the cursor of a lane that starts after the pipe’s newest message', async (t) => {
  const world = await LaneWorld.open()
  const elsewhere = await world.addPipe()
  world.send(5, { pipeId: elsewhere })
  const { id } = await world.addLane({ ...auto, startAfterSeq: 5 })
  t.strictSame(await world.service.pull(id, after(5)), { kind: 'empty' })
  t.match(await world.service.pull(id, after(6)), { kind: 'cursor_ahead' })
  world.send(1)
  t.equal((await given(world.service.pull(id, after(5)))).seq, 6)
  await world.close()
})

t.test('skip and rewind of a pull lane leave a line in the log', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(explicit)
  world.send(2)
  const first = await given(world.service.pull(id, now))
  await world.service.acknowledge({ destinationId: id, msgId: first.msgId }, false)
  t.equal(await world.service.skip(id), true)
  await world.service.rewind(id, { to: 'earliest' })
  t.match(world.events('lane.skipped'), [{ destination_id: id, msg_id: first.msgId, stream_seq: 1 }])
  t.match(world.events('lane.rewound'), [{ destination_id: id, cursor_seq: 0 }])
  await world.close()
})

t.test(
  'a pull lane is stalled by the monotonic clock: a wall clock that jumps changes nothing',
  async (t) => {
    const world = await LaneWorld.open()
    const { id } = await world.addLane({ ...explicit, destination_max_retry_seconds: 3_600 })
    world.send(1)
    const first = await given(world.service.pull(id, now))
    await world.service.acknowledge({ destinationId: id, msgId: first.msgId }, false)
    world.clock.jumpWall(7 * 86_400_000)
    t.equal((await world.lane(id)).lane_state, 'retrying', 'forward')
    world.clock.jumpWall(-14 * 86_400_000)
    await world.clock.advance(3_600_000)
    t.equal((await world.lane(id)).lane_state, 'stalled', 'back')
    await world.close()
  },
)

t.test('a save that fails ends delivery for a pull lane too', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  world.send(1)
  const first = await given(world.service.pull(id, now))
  world.atSave = () => {
    throw Object.assign(new Error('constraint failed'), { code: 'SQLITE_CONSTRAINT' })
  }
  await t.rejects(world.service.pulled({ destinationId: id, pullId: first.pullId }), {
    code: 'SQLITE_CONSTRAINT',
  })
  await until('it is fatal', () => world.fatal.length > 0)
  t.match(world.fatal[0], { code: 'SQLITE_CONSTRAINT' })
  await t.rejects(
    world.service.pull(id, now),
    { code: 'SQLITE_CONSTRAINT' },
    'and the lane gives nothing more',
  )
  world.atSave = () => {}
  world.fatal.length = 0
  await t.rejects(world.close(), { code: 'SQLITE_CONSTRAINT' })
})

t.test('messages that the disk lost are counted by a pull lane, in every mode, and it goes on', async (t) => {
  const world = await LaneWorld.open()
  const lanes = [await world.addLane(auto), await world.addLane(auto), await world.addLane(explicit)]
  const [autoId, afterSeqId, explicitId] = lanes.map(({ id }) => id)
  world.send(5)
  world.buffer.lose(2, 4)
  const first = await given(world.service.pull(autoId!, now))
  await world.service.pulled({ destinationId: autoId!, pullId: first.pullId })
  t.equal((await given(world.service.pull(autoId!, now))).seq, 5)
  const { msgId } = await given(world.service.pull(explicitId!, now))
  await world.service.acknowledge({ destinationId: explicitId!, msgId }, true)
  t.equal((await given(world.service.pull(explicitId!, now))).seq, 5)
  t.equal((await given(world.service.pull(afterSeqId!, after(1)))).seq, 5)
  t.equal((await given(world.service.pull(afterSeqId!, after(1)))).seq, 5, 'the same again')
  for (const { id } of lanes) t.match(await world.lane(id), { dropped_messages: 3, cursor_seq: 4 })
  t.match(world.events('lane.messages_lost'), [
    { first_seq: 2, last_seq: 4, messages: 3 },
    { first_seq: 2, last_seq: 4, messages: 3 },
    { first_seq: 2, last_seq: 4, messages: 3 },
  ])
  await world.close()
})

t.test(
  'pulls that come at once read one after the other, and everyone else gets a turn between',
  async (t) => {
    const world = await LaneWorld.open()
    const lanes = await Promise.all(Array.from({ length: 8 }, () => world.addLane(auto)))
    world.send(1)
    let turn = 0
    let isOver = false
    const count = () => {
      turn += 1
      if (!isOver) setImmediate(count)
    }
    setImmediate(count)
    const pulls = lanes.flatMap(({ id }) => [world.service.pull(id, now), world.service.pull(id, after(0))])
    const turns = await Promise.all(pulls.map((pull) => given(pull).then(() => turn)))
    isOver = true
    t.equal(new Set(turns).size, pulls.length, `${turns}`)
    await world.close()
  },
)

t.test('after a restore, after_seq of the lost timeline is told where to go on', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane(auto)
  world.send(3)
  world.epochs = [...firstEpochs, { epoch: 2, first_seq: 1_000, after_seq: 3 }]
  await world.restart()
  const expired = { kind: 'cursor_expired', earliestSeq: 1_000, reason: 'restored' } as const
  for (const seq of [4, 50, 998]) t.strictSame(await world.service.pull(id, after(seq)), expired)
  t.equal((await world.lane(id)).cursor_seq, 0, 'nothing is committed by it')
  t.equal((await given(world.service.pull(id, after(2)))).seq, 3, 'what the backup holds goes on as before')
  t.strictSame(await world.service.pull(id, after(999)), { kind: 'empty' })
  t.match(await world.service.pull(id, after(1_000)), { kind: 'cursor_ahead' })
  world.buffer.nextSeq(1_000)
  world.send(1)
  t.equal((await given(world.service.pull(id, after(999)))).seq, 1_000)
  await world.close()
})
