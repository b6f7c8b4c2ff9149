/** Parked records as stored: one row a record, sums that are what counting gives, replays in order, age. */
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { newLaneState } from '../../../src/metadata/lane-state.ts'
import type { NewParked } from '../../../src/metadata/parked-store-port.ts'
import { rowsOf } from './database.ts'
import { databaseDestination, newPipe, newWorkspace, open, openFile, ownerOf, testFile } from './fixture.ts'

const cause = {
  reason: 'permanent_error',
  code: '22003',
  message: 'too large',
  column: 'n',
  value: '1e99',
} as const

function refused(seq: number, recordIndex: number | null, change: Partial<NewParked> = {}): NewParked {
  const body = Buffer.from(change.recordCount === 2 ? '{"n":1}\n{"n":2}' : `{"n":${seq}.10}`)
  const msgId = `0198b2a0-0000-7000-8000-${String(seq).padStart(12, '0')}`
  return {
    ...cause,
    ...{ msgId, seq, receivedMs: 5, recordIndex, firstIndex: recordIndex ?? 0, recordCount: 1, body },
    ...{ attempts: 1, generation: 0, ...change },
  }
}

async function fixture(t: Test) {
  const clock = { now: 1_000 }
  const options = { ...testFile(t), now: () => clock.now }
  const metadata = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const { destination_id: id } = await metadata.destinations.create(
    { workspaceId, pipeId },
    databaseDestination(),
  )
  /** The stored sums, and the result of counting. */
  const sums = async () => {
    const [kept] = await rowsOf(options, 'SELECT "rows", records, body_bytes FROM parked_sums')
    const [counted] = await rowsOf(
      options,
      'SELECT count(*) "rows", sum(records_count) records, sum(body_bytes) body_bytes FROM parked',
    )
    const [bodies] = await rowsOf(
      options,
      'SELECT sum(octet_length(body)) bytes, count(*) "rows" FROM parked_bodies',
    )
    return { kept, counted, bodies } as Record<string, Record<string, number>>
  }
  const list = async (change = {}) =>
    await metadata.parked.list(
      { workspaceId, destinationId: id },
      {
        limit: 100,
        after: null,
        errorCode: null,
        reason: null,
        ...change,
      },
    )
  return { metadata, workspaceId, pipeId, id, clock, options, sums, list }
}

t.test(
  'a record that is parked again keeps its row: more attempts, the new error, the history',
  async (t) => {
    const { metadata, workspaceId, id, clock, sums, list } = await fixture(t)
    await metadata.parkedStore.park(ownerOf(id), [refused(7, 3), refused(7, 5)])
    const before = await list()
    clock.now = 2_000
    await metadata.parkedStore.park(ownerOf(id), [refused(7, 3, { code: '22007', generation: 4 })])
    const { parked, next } = await list()
    t.equal(next, null)
    t.equal(parked.length, 2)
    t.match(parked[0], {
      parked_id: before.parked[0]?.parked_id,
      record_index: 3,
      stream_seq: 7,
      state: 'parked',
      attempts: 2,
      error: { code: '22007', column: 'n' },
    })
    const detail = await metadata.parked.get({ workspaceId, destinationId: id }, parked[0]?.parked_id ?? '')
    t.strictSame(detail?.recordTexts, ['{"n":7.10}'], 'as it was written')
    t.strictSame(
      detail?.history.map((entry) => [entry.failed_ts, entry.error.code]),
      [
        ['1970-01-01T00:00:02.000Z', '22007'],
        ['1970-01-01T00:00:01.000Z', '22003'],
      ],
    )
    const { kept, counted, bodies } = await sums()
    t.match(counted, kept as object)
    t.equal(bodies?.bytes, kept?.body_bytes)
    t.strictSame(await metadata.parkedStore.counts(id), {
      rows: 2,
      isReplaying: false,
      droppedRecords: 0,
      hasRanges: false,
    })
  },
)

t.test('the history is bounded', async (t) => {
  const { metadata, workspaceId, id, clock, list } = await fixture(t)
  for (let at = 0; at < 25; at += 1) {
    clock.now += 1
    await metadata.parkedStore.park(ownerOf(id), [refused(7, 3)])
  }
  const { parked } = await list()
  const detail = await metadata.parked.get({ workspaceId, destinationId: id }, parked[0]?.parked_id ?? '')
  t.equal(detail?.history.length, 20)
  t.equal(parked[0]?.attempts, 25)
})

t.test('a page follows the order of messages, and filters hold over pages', async (t) => {
  const { metadata, id, list } = await fixture(t)
  const many = Array.from({ length: 60 }, (_, at) => refused(100 - at, at % 2, { code: at % 3 ? 'a' : 'b' }))
  await metadata.parkedStore.park(ownerOf(id), many)
  await metadata.parkedStore.park(ownerOf(id), [refused(50, null, { reason: 'skipped' })])
  const seen: [number, number | null][] = []
  let after = null
  do {
    const page: Awaited<ReturnType<typeof list>> = await list({ limit: 7, after })
    seen.push(...page.parked.map((row): [number, number | null] => [row.stream_seq, row.record_index]))
    after = page.next
  } while (after !== null)
  t.equal(seen.length, 61)
  t.strictSame(
    seen.map(([seq]) => seq),
    seen.map(([seq]) => seq).sort((a, b) => a - b),
  )
  t.equal((await list({ errorCode: 'b' })).parked.length, 20)
  t.equal((await list({ reason: 'skipped' })).parked.length, 1)
})

t.test(
  'what is passed over is saved with the row that passes it, and takes up what was parked of it',
  async (t) => {
    const { metadata, id, sums, list } = await fixture(t)
    await metadata.parkedStore.park(ownerOf(id), [refused(7, 0), refused(7, 1), refused(8, 0)])
    const whole = refused(7, null, { recordCount: 2, reason: 'skipped' })
    const passed = new Map([[id, [{ kind: 'message', parked: whole } as const]]])
    const row = { ...newLaneState(id, 7), ownerEpoch: 5 }
    await metadata.laneStore.save([row], [], passed)
    t.match((await list()).parked, [
      { stream_seq: 7, record_index: null, records_count: 2, reason: 'skipped' },
      { stream_seq: 8, record_index: 0 },
    ])
    t.match((await sums()).counted, (await sums()).kept as object)

    const other = new Map([[id, [{ kind: 'message', parked: refused(9, null) } as const]]])
    await t.rejects(metadata.laneStore.save([{ ...row, ownerEpoch: 4 }], [], other))
    t.equal((await list()).parked.length, 2, 'a row of an earlier owner parks nothing')
  },
)

t.test('what is delivered after a rewind is no longer parked, unless somebody has edited it', async (t) => {
  const { metadata, workspaceId, id, list } = await fixture(t)
  await metadata.parkedStore.park(ownerOf(id), [refused(7, 0), refused(8, 0), refused(9, 0), refused(10, 0)])
  const edited = (await list()).parked[1]?.parked_id ?? ''
  await metadata.parked.replay({ workspaceId, destinationId: id }, edited, ['{"n":1}'])
  await metadata.parkedStore.park(ownerOf(id), [refused(9, 0, { generation: 6 })])
  const change = { kind: 'delivered_again', afterSeq: 6, throughSeq: 9, generation: 6 } as const
  await metadata.laneStore.save([newLaneState(id, 9)], [], new Map([[id, [change]]]))
  t.strictSame(
    (await list()).parked.map((row) => row.stream_seq),
    [8, 9, 10],
    'the edited one, the one that was refused again, the one that was not delivered',
  )
})

t.test('several are discarded in small steps, and the sums follow', async (t) => {
  const { metadata, workspaceId, id, list, sums } = await fixture(t)
  const rows = Array.from({ length: 450 }, (_, n) => refused(n + 1, 0, n % 2 === 0 ? { code: 'x' } : {}))
  await metadata.parkedStore.park(ownerOf(id), rows)
  const [first] = (await list()).parked
  await metadata.parked.replay({ workspaceId, destinationId: id }, first?.parked_id ?? '', null)
  t.equal(
    await metadata.parked.discardMany(
      { workspaceId, destinationId: id },
      { ids: null, errorCode: 'x', reason: null },
    ),
    224,
  )
  t.equal(
    await metadata.parked.discardMany(
      { workspaceId, destinationId: id },
      { ids: null, errorCode: null, reason: null },
    ),
    225,
  )
  t.same(
    (await list()).parked.map((row) => row.parked_id),
    [first?.parked_id],
    'the one that is being replayed stays',
  )
  const { kept, counted } = await sums()
  t.match(kept, counted)
})

t.test('replays: in order, one that was begun first, numbered upwards', async (t) => {
  const { metadata, workspaceId, id, clock, sums } = await fixture(t)
  await metadata.parkedStore.park(ownerOf(id), [refused(7, 0), refused(8, 0), refused(9, 0, { code: 'x' })])
  const { parkedStore } = metadata
  t.equal(await parkedStore.nextReplay(id, 100), null)
  t.equal(
    await metadata.parked.replayMany(
      { workspaceId, destinationId: id },
      { ids: null, errorCode: '22003', reason: null },
    ),
    2,
  )
  t.equal(
    await metadata.parked.replayMany(
      { workspaceId, destinationId: id },
      { ids: null, errorCode: null, reason: null },
    ),
    1,
  )
  t.equal(
    await metadata.parked.replayMany(
      { workspaceId, destinationId: id },
      { ids: [randomUUID()], errorCode: null, reason: null },
    ),
    0,
  )
  t.strictSame(await parkedStore.counts(id), {
    rows: 3,
    isReplaying: true,
    droppedRecords: 0,
    hasRanges: false,
  })
  t.equal(await parkedStore.nextReplay(id, 6), null, 'the lane has not come so far')
  const first = await parkedStore.nextReplay(id, 8)
  t.match(first, { replays: 1, replayNo: null, firstIndex: 0, message: { seq: 7, recordCount: 1 } })
  t.equal(first?.message.body.toString(), '{"n":7.10}')
  const no = await parkedStore.beginReplay(ownerOf(id), first?.parkedId ?? '')
  t.equal((await parkedStore.nextReplay(id, 8))?.replayNo, no)

  await parkedStore.replayFailed(
    ownerOf(id),
    first?.parkedId ?? '',
    { ...cause, code: 'again' },
    { attempts: 2, firstIndex: 0 },
  )
  const found = await metadata.parked.get({ workspaceId, destinationId: id }, first?.parkedId ?? '')
  t.match(found?.record, { state: 'parked', attempts: 3, error: { code: 'again' }, replays: 1 })
  const second = await parkedStore.nextReplay(id, 8)
  t.equal(second?.message.seq, 8)
  clock.now = 0
  t.ok(
    (await parkedStore.beginReplay(ownerOf(id), second?.parkedId ?? '')) > no,
    'also when the clock went back',
  )
  const done = new Map([[id, [{ kind: 'replayed', parkedId: second?.parkedId ?? '' } as const]]])
  await metadata.laneStore.save([newLaneState(id, 9)], [], done)
  t.equal((await parkedStore.nextReplay(id, 100))?.message.seq, 9)
  t.match((await sums()).counted, (await sums()).kept as object)
})

t.test('a replay that was stored in part goes on behind it', async (t) => {
  const { metadata, workspaceId, id, sums, list } = await fixture(t)
  await metadata.parkedStore.park(ownerOf(id), [refused(7, null, { recordCount: 2 })])
  const parkedId = (await list()).parked[0]?.parked_id ?? ''
  await metadata.parkedStore.replayHalfStored(ownerOf(id), parkedId, 1)
  const found = await metadata.parked.get({ workspaceId, destinationId: id }, parkedId)
  t.strictSame(found?.recordTexts, ['{"n":2}'])
  await metadata.parkedStore.replayHalfStored(ownerOf(id), parkedId, 1)
  t.strictSame(
    (await metadata.parked.get({ workspaceId, destinationId: id }, parkedId))?.recordTexts,
    ['{"n":2}'],
    'the same cut again removes nothing',
  )
  await metadata.parked.replay({ workspaceId, destinationId: id }, parkedId, null)
  t.match(await metadata.parkedStore.nextReplay(id, 7), { firstIndex: 1, message: { recordCount: 1 } })
  t.match((await sums()).counted, (await sums()).kept as object)
})

t.test('edited records take the place of the stored ones; not more of them', async (t) => {
  const { metadata, workspaceId, id, list, sums } = await fixture(t)
  await metadata.parkedStore.park(ownerOf(id), [refused(7, null, { recordCount: 2 }), refused(8, 0)])
  const [whole, single] = (await list()).parked.map((row) => row.parked_id)
  const { parked } = metadata
  t.strictSame(await parked.replay({ workspaceId, destinationId: id }, single ?? '', ['{}', '{}']), {
    kind: 'too_many',
    most: 1,
  })
  t.strictSame(
    await parked.replay({ workspaceId, destinationId: id }, whole ?? '', ['{"a":12345678901234567890}']),
    {
      kind: 'requested',
      replays: 1,
    },
  )
  t.strictSame(await parked.replay({ workspaceId, destinationId: id }, whole ?? '', null), {
    kind: 'replaying',
  })
  t.equal(await parked.discard({ workspaceId, destinationId: id }, whole ?? ''), 'replaying')
  const found = await parked.get({ workspaceId, destinationId: id }, whole ?? '')
  t.strictSame(found?.recordTexts, ['{"a":12345678901234567890}'])
  t.equal(await parked.discard({ workspaceId, destinationId: id }, single ?? ''), 'discarded')
  t.equal(await parked.discard({ workspaceId, destinationId: id }, single ?? ''), 'not_found')
  t.match((await sums()).counted, (await sums()).kept as object)
  const { entries } = await metadata.audit.list(workspaceId, {
    ...{ limit: 10, after: null, operation: null, resourceId: null, sinceMs: null, pipeIds: null },
  })
  const text = JSON.stringify(entries)
  t.match(text, /deleteParked.*replayParked/)
  t.notMatch(text, /1234567890123456|"n":/, 'no record is in the audit log')
})

t.test('what is too old goes, is counted, and what waits for its replay stays', async (t) => {
  const { metadata, workspaceId, id, clock, list, sums } = await fixture(t)
  await metadata.parkedStore.park(ownerOf(id), [
    refused(7, 0),
    refused(8, null, { recordCount: 2 }),
    refused(9, 0),
  ])
  clock.now = 5_000
  await metadata.parkedStore.park(ownerOf(id), [refused(10, 0)])
  const waiting = (await list()).parked[2]?.parked_id ?? ''
  await metadata.parked.replay({ workspaceId, destinationId: id }, waiting, null)
  t.strictSame([...(await metadata.parked.prune(4_000))], [[id, 3]])
  t.strictSame([...(await metadata.parked.prune(4_000))], [])
  t.equal((await metadata.parkedStore.counts(id)).droppedRecords, 3)
  t.strictSame(
    (await list()).parked.map((row) => row.stream_seq),
    [9, 10],
  )
  t.match((await sums()).counted, (await sums()).kept as object)
})

t.test('all of it goes with the destination, and a lane that is late parks nothing', async (t) => {
  const { metadata, workspaceId, pipeId, id, options } = await fixture(t)
  await metadata.parkedStore.park(ownerOf(id), [refused(7, 0), refused(8, 0)])
  t.match(await metadata.parkedStore.taken(workspaceId), { bytes: 2 * (1_024 + 10), workspaces: 1 })
  await metadata.destinations.delete({ workspaceId, pipeId, destinationId: id })
  await metadata.parkedStore.park(ownerOf(id), [refused(9, 0)])
  const late = new Map([[id, [{ kind: 'message', parked: refused(9, null) } as const]]])
  await metadata.laneStore.save([newLaneState(id, 9)], [], late)
  t.match(await metadata.parkedStore.taken(workspaceId), { bytes: 0, ofWorkspace: 0 })
  for (const table of ['parked', 'parked_bodies', 'parked_sums'])
    t.strictSame(await rowsOf(options, `SELECT count(*) n FROM ${table}`), [{ n: 0 }], table)
})

t.test('what each workspace takes is known without counting rows', async (t) => {
  const { metadata, workspaceId, id } = await fixture(t)
  const other = await newWorkspace(metadata, 'other')
  const pipe = await newPipe(metadata, other, 'events')
  const made = await metadata.destinations.create(
    { workspaceId: other, pipeId: pipe.pipe_id },
    databaseDestination(),
  )
  await metadata.parkedStore.park(ownerOf(id), [refused(7, 0), refused(8, 0)])
  await metadata.parkedStore.park(ownerOf(made.destination_id), [refused(9, 0)])
  const one = 1_024 + 10
  t.strictSame(await metadata.parkedStore.taken(workspaceId), {
    bytes: 3 * one,
    ofWorkspace: 2 * one,
    workspaces: 2,
  })
  t.strictSame(await metadata.parkedStore.taken(other), { bytes: 3 * one, ofWorkspace: one, workspaces: 2 })
})

t.test('it is there after a restart, and so is whether a destination parks', async (t) => {
  const { metadata, workspaceId, pipeId, options } = await fixture(t)
  const made = await metadata.destinations.create(
    { workspaceId, pipeId },
    databaseDestination({ on_permanent_error: 'park' }),
  )
  await metadata.parkedStore.park(ownerOf(made.destination_id), [refused(7, 0)])
  await metadata.close()
  const again = await openFile(options)
  t.teardown(() => again.close())
  const { lanes } = (await again.laneSource.pipe(pipeId)) ?? { lanes: [] }
  t.strictSame(
    lanes.map((lane) => lane.onPermanentError),
    ['block', 'park'],
  )
  t.equal((await again.parkedStore.counts(made.destination_id)).rows, 1)
})
