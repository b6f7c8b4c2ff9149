/** Records parked at a pipe: what is stored, counted, listed, replayed once and bounded. */
import t, { type Test } from 'tap'
import type { NewPipeParked, ParkRequest } from '../../../src/metadata/pipe-parked-port.ts'
import { rowsOf } from './database.ts'
import { newPipe, newWorkspace, open, testFile } from './fixture.ts'

const MiB = 1024 ** 2
const faults = [{ path: '/n', message: 'must be a number' }]
const everything = { limit: 100, after: null, errorPath: null }
const all = { ids: null, errorPath: null }

function idOf(number: number): string {
  return `0198b2a0-0000-7000-8000-${String(number).padStart(12, '0')}`
}

function record(id: number, change: Partial<NewPipeParked> = {}): NewPipeParked {
  return { parkedId: idOf(id), recordIndex: id, text: `{"n":"${id}"}`, faults, ...change }
}

async function fixture(t: Test) {
  const clock = { now: 1_000 }
  const options = { ...testFile(t), now: () => clock.now }
  const metadata = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const pipe = { workspaceId, pipeId }
  await metadata.pipes.update(pipe, { pipe_schema: { type: 'object' } })
  await metadata.pipes.update(pipe, { pipe_schema: { required: ['n'] } })
  const { pipeParked } = metadata
  const request = (records: NewPipeParked[], change: Partial<ParkRequest> = {}): ParkRequest => ({
    ...{ ...pipe, msgId: idOf(900), receivedMs: 5, isKeyed: false, records },
    enrichment: { keys: ['ts'], text: '"ts":"2026"' },
    ...change,
  })
  const park = (...requests: ParkRequest[]) => pipeParked.park(requests, 1024 * MiB)
  const ids = async (change = {}) => {
    const { parked } = await pipeParked.list(pipe, { ...everything, ...change })
    return parked.map(({ parked_id }) => parked_id)
  }
  /** The stored sums, and the result of counting. */
  const sums = async () => {
    const [kept] = await rowsOf(options, 'SELECT "rows", record_bytes FROM pipe_parked_sums')
    const [counted] = await rowsOf(
      options,
      'SELECT count(*) "rows", coalesce(sum(octet_length(record)), 0) record_bytes FROM pipe_parked',
    )
    const asNumbers = (row: object | undefined) => Object.values(row ?? {}).map(Number)
    return { kept: asNumbers(kept), counted: asNumbers(counted) }
  }
  return { metadata, pipeParked, clock, options, pipe, request, park, ids, sums }
}

t.test('a record is listed in the order of requests, and its text is kept as sent', async (t) => {
  const { pipeParked, pipe, request, park, ids, sums } = await fixture(t)
  const text = '{"n":12345678901234567890,"\\u0000":"\\ud800","ä":1.10}'
  await park(request([record(4, { text }), record(2)]), request([record(1)], { msgId: idOf(800) }))
  t.same(await ids(), [1, 2, 4].map(idOf))
  const found = await pipeParked.get(pipe, idOf(4))
  t.equal(found?.text.text, text)
  t.same(found?.text.enrichment, { keys: ['ts'], text: '"ts":"2026"' })
  t.match(found?.record, {
    ...{ msg_id: idOf(900), record_index: 4, parked_ts: '1970-01-01T00:00:01.000Z', state: 'parked' },
    ...{ schema_version: 2, errors: faults, is_edited: false, record_bytes: Buffer.byteLength(text) },
  })
  const { kept, counted } = await sums()
  t.same(kept, counted)
})

t.test('pages follow each other, and can be filtered by the path of the first error', async (t) => {
  const { pipeParked, pipe, request, park, ids } = await fixture(t)
  const other = [{ path: '/\0\ud800', message: 'no' }]
  await park(request([1, 2, 3, 4, 5].map((id) => record(id, id === 4 ? { faults: other } : {}))))
  const first = await pipeParked.list(pipe, { ...everything, limit: 2 })
  t.same(first.next, { msgId: idOf(900), index: 2 })
  t.same(await ids({ after: first.next }), [3, 4, 5].map(idOf))
  t.same(await ids({ errorPath: '/\0\ud800' }), [idOf(4)])
  t.same(await ids({ errorPath: '/n', limit: 2 }), [1, 2].map(idOf))
  t.equal(await pipeParked.count(pipe), 5)
})

t.test('a repeat with the same key parks nothing twice, even after the records are gone', async (t) => {
  const { pipeParked, pipe, request, park, ids, sums, clock } = await fixture(t)
  const keyed = (msg: number) => request([record(1), record(2)], { isKeyed: true, msgId: idOf(msg) })
  t.same(await park(keyed(901)), [{ kind: 'parked', msgId: idOf(901) }])
  t.same(await park(keyed(902)), [{ kind: 'parked', msgId: idOf(901) }], 'the first msg_id')
  t.same(await park(keyed(903), keyed(904)), [
    { kind: 'parked', msgId: idOf(901) },
    { kind: 'parked', msgId: idOf(901) },
  ])
  t.equal(await pipeParked.discard(pipe, idOf(1)), 'discarded')
  await pipeParked.beginReplays(pipe, [(await pipeParked.get(pipe, idOf(2)))!.text])
  await pipeParked.endReplays(pipe, [idOf(2)])
  t.same(await park(keyed(905)), [{ kind: 'parked', msgId: idOf(901) }])
  t.same(await ids(), [])
  clock.now = 10_000
  await pipeParked.prune(0, 5_000)
  await park(keyed(906))
  t.same(await ids(), [1, 2].map(idOf), 'the key has expired')
  const { kept, counted } = await sums()
  t.same(kept, counted)
})

t.test('two requests with one key in one transaction park once', async (t) => {
  const { request, park, ids, sums } = await fixture(t)
  const keyed = (msg: number) => request([record(1)], { isKeyed: true, msgId: idOf(msg) })
  t.same(await park(keyed(901), keyed(902)), [
    { kind: 'parked', msgId: idOf(901) },
    { kind: 'parked', msgId: idOf(901) },
  ])
  t.same(await ids(), [idOf(1)])
  t.same((await sums()).kept, (await sums()).counted)
})

t.test('a rejected request takes back what it parked, unless its ids are those of a key', async (t) => {
  const { pipeParked, request, park, ids, sums } = await fixture(t)
  await park(request([record(1), record(2)]), request([record(3)], { isKeyed: true }))
  await pipeParked.unpark([1, 2, 3].map(idOf))
  t.same(await ids(), [idOf(3)])
  t.same((await sums()).kept, (await sums()).counted)
})

t.test('an edit and a replay exclude each other', async (t) => {
  const { pipeParked, pipe, request, park, sums } = await fixture(t)
  await park(request([record(1)]))
  const before = (await pipeParked.get(pipe, idOf(1)))!.text
  const changed = { text: '{"n":1.50}', faults: [] }
  t.equal(await pipeParked.edit(pipe, idOf(1), changed), 'edited')
  t.match(await pipeParked.get(pipe, idOf(1)), {
    record: { is_edited: true, errors: [] },
    text: { text: '{"n":1.50}' },
  })
  t.equal((await pipeParked.beginReplays(pipe, [before])).size, 0, 'the text that was read is outdated')
  const edited = (await pipeParked.get(pipe, idOf(1)))!.text
  t.same([...(await pipeParked.beginReplays(pipe, [edited]))], [idOf(1)])
  t.equal(await pipeParked.edit(pipe, idOf(1), changed), 'replaying')
  t.equal(await pipeParked.discard(pipe, idOf(1)), 'replaying')
  t.equal(await pipeParked.discardMany(pipe, all), 0)
  t.equal((await pipeParked.prune(10_000, 0)).size, 0, 'nor is it dropped for its age')
  t.same([...(await pipeParked.beginReplays(pipe, [edited]))], [idOf(1)], 'an interrupted replay continues')
  await pipeParked.releaseReplays(pipe, [idOf(1)])
  t.equal(await pipeParked.discard(pipe, idOf(1)), 'discarded')
  t.same((await sums()).kept, [0, 0])
})

t.test('texts for a replay come in steps of bounded size', async (t) => {
  const { pipeParked, pipe, request, park } = await fixture(t)
  const text = JSON.stringify({ n: 'x'.repeat(1.5 * MiB) })
  await park(request([1, 2, 3].map((id) => record(id, { text }))))
  const first = await pipeParked.texts(pipe, all, null)
  t.same(
    first.map(({ parkedId }) => parkedId),
    [1, 2].map(idOf),
  )
  const second = await pipeParked.texts(pipe, all, first.at(-1)!.position)
  t.same(
    second.map(({ parkedId }) => parkedId),
    [idOf(3)],
  )
})

t.test('many are discarded at once', async (t) => {
  const { pipeParked, pipe, request, park, ids, sums } = await fixture(t)
  const many = Array.from({ length: 450 }, (_, index) => record(index + 1))
  await park(request(many))
  t.equal(await pipeParked.discardMany(pipe, { ids: [1, 2].map(idOf), errorPath: null }), 2)
  t.equal(await pipeParked.discardMany(pipe, { ids: null, errorPath: '/none' }), 0)
  t.equal(await pipeParked.discardMany(pipe, all), 448)
  t.same(await ids(), [])
  t.same((await sums()).kept, [0, 0])
})

t.test('a request for which there is no room parks nothing', async (t) => {
  const { metadata, pipeParked, pipe, request } = await fixture(t)
  const text = JSON.stringify({ n: 'x'.repeat(MiB / 8) })
  const one = (id: number) => request([record(id, { text })])
  const park = async (id: number, change = {}) => {
    const [outcome] = await pipeParked.park([{ ...one(id), ...change }], MiB)
    return outcome?.kind
  }
  t.same(
    [await park(1), await park(2), await park(3), await park(4)],
    ['parked', 'parked', 'parked', 'full'],
    'half of parked.max_bytes is for lanes',
  )
  t.equal(await pipeParked.count(pipe), 3)
  const { bytes, ofWorkspace } = await metadata.parkedStore.taken(pipe.workspaceId)
  t.equal(bytes, ofWorkspace)
  t.equal(bytes, 3 * (Buffer.byteLength(text) + 1_024), 'what lanes park is limited by it too')
  const other = await newWorkspace(metadata, 'other')
  const { pipe_id: first } = await newPipe(metadata, other, 'first')
  await pipeParked.discardMany(pipe, all)
  t.equal(await park(5), 'parked')
  t.equal(await park(6), 'full', 'with two workspaces, one has half of it')
  t.equal(await park(7, { workspaceId: other, pipeId: first }), 'parked')
})

t.test('records of a deleted pipe are gone, and it takes no more', async (t) => {
  const { metadata, pipeParked, pipe, request, park, options } = await fixture(t)
  await park(request([record(1)], { isKeyed: true }), request([record(2)]))
  await pipeParked.discard(pipe, idOf(1))
  await metadata.pipes.delete(pipe)
  for (const table of ['pipe_parked', 'pipe_parked_sums', 'pipe_parked_done'])
    t.same(await rowsOf(options, `SELECT * FROM ${table}`), [])
  t.same(await park(request([record(3)])), [{ kind: 'gone' }])
})

t.test('old records are dropped and counted', async (t) => {
  const { pipeParked, pipe, request, park, ids, clock, options } = await fixture(t)
  await park(request(Array.from({ length: 250 }, (_, index) => record(index + 1))))
  clock.now = 2_000
  await park(request([record(300)]))
  t.same([...(await pipeParked.prune(1_500, 0))], [[pipe.pipeId, 250]])
  t.same(await ids(), [idOf(300)])
  const [sums] = await rowsOf(options, 'SELECT dropped_records FROM pipe_parked_sums')
  t.equal(Number((sums as { dropped_records: number }).dropped_records), 250)
})
