/** The queue of records to park: bounded, fair between pipes, and nothing that it reports as parked is missing. */
import t, { type Test } from 'tap'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { type Parked, ParkingCalls, ParkQueue } from '../../../src/ingest/parked/queue.ts'
import type { ParkRequest } from '../../../src/metadata/pipe-parked-port.ts'
import { newPipe, newWorkspace, open } from '../metadata/fixture.ts'

const GiB = 1024 ** 3
let ids = 0
const newId = () => `0198b2a0-0000-7000-8000-${String(ids++).padStart(12, '0')}`

async function fixture(t: Test, maxBytes = GiB) {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const pipeIds = await Promise.all(
    ['one', 'two'].map(async (name) => (await newPipe(metadata, workspaceId, name)).pipe_id),
  )
  const queue = new ParkQueue(metadata.pipeParked, maxBytes)
  const request = (pipe: 0 | 1, texts: string[]): ParkRequest => ({
    ...{ workspaceId, pipeId: pipeIds[pipe]!, msgId: newId(), receivedMs: 5, isKeyed: false },
    enrichment: { keys: [], text: '' },
    records: texts.map((text, recordIndex) => ({
      ...{ parkedId: newId(), recordIndex, text, faults: [{ path: '', message: 'no' }] },
    })),
  })
  const count = (pipe: 0 | 1) => metadata.pipeParked.count({ workspaceId, pipeId: pipeIds[pipe]! })
  return { metadata, queue, request, count }
}

const kindsOf = (outcomes: readonly Parked[]) => outcomes.map(({ kind }) => kind)

t.test('requests of one turn share a transaction, and each gets its outcome', async (t) => {
  const { queue, request, count } = await fixture(t)
  const calls = new ParkingCalls(queue)
  const [first, second] = await Promise.all([
    calls.park([request(0, ['{}', '{}'])]),
    calls.park([request(1, ['{}']), { ...request(1, ['{}']), pipeId: newId() }]),
  ])
  t.same(kindsOf(first), ['parked'])
  t.same(kindsOf(second), ['parked', 'gone'])
  t.same([await count(0), await count(1)], [2, 1])
})

t.test('a large request is parked in several steps', async (t) => {
  const { queue, request, count } = await fixture(t)
  const texts = Array.from({ length: 2 * resourceLimits.parkingStepRecords + 1 }, () => '{}')
  t.same(kindsOf(await queue.park([request(0, texts)])), ['parked'])
  t.equal(await count(0), texts.length)
})

t.test('with too many waiting requests, more of that pipe are rejected, and others are parked', async (t) => {
  const { queue, request, count } = await fixture(t)
  const flood = queue.park(
    Array.from({ length: resourceLimits.parkingRequests + 5_000 }, () => request(0, ['{}'])),
  )
  const other = queue.park([request(1, ['{}'])])
  t.same(kindsOf(await other), ['parked'])
  const kinds = kindsOf(await flood)
  const parked = kinds.filter((kind) => kind === 'parked').length
  t.equal(parked, resourceLimits.parkingRequests / 2)
  t.equal(kinds.filter((kind) => kind === 'busy').length, kinds.length - parked)
  t.equal(await count(0), parked, 'what is reported as parked is there')
  t.same(kindsOf(await queue.park([request(0, ['{}'])])), ['parked'], 'and afterwards there is room again')
})

t.test('the bytes that wait are limited too', async (t) => {
  const { queue, request } = await fixture(t)
  const large = JSON.stringify({ n: 'x'.repeat(resourceLimits.parkingBytes / 8) })
  const kinds = kindsOf(await queue.park(Array.from({ length: 6 }, () => request(0, [large]))))
  t.same(kinds, ['parked', 'parked', 'parked', 'busy', 'busy', 'busy'])
})

t.test('other work of the thread has its turn between the steps', async (t) => {
  const { queue, request } = await fixture(t)
  let turns = 0
  const timer = setInterval(() => turns++, 0)
  t.teardown(() => clearInterval(timer))
  await queue.park(Array.from({ length: 4_000 }, () => request(0, ['{}'])))
  t.ok(turns >= 4_000 / resourceLimits.parkingStepRecords, `${turns} turns`)
})

t.test('a request that does not fit is full, and drain waits for all', async (t) => {
  const { queue, request, count } = await fixture(t, 16 * 1024)
  const large = JSON.stringify({ n: 'x'.repeat(8 * 1024) })
  const parking = queue.park([request(0, ['{}']), request(0, [large])])
  await queue.drain()
  t.equal(await count(0), 1)
  t.same(kindsOf(await parking), ['parked', 'full'])
})
