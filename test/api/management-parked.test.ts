/**
 * Parked records over HTTP on the real daemon, with an endpoint that permanently rejects some:
 * docs/dev/contract.md#parked-records. The tests of lanes check which records are parked, and which survive a crash.
 */
import t from 'tap'
import type { ParkedDetail, ParkedRecord } from '../../src/contract/parked.ts'
import { startParkingLane } from '../support/parking.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { until } from '../support/until.ts'
import { checkedApi, errorsIn, unknownId } from './management-client.ts'

const daemon = await sharedDaemon()
const lane = await startParkingLane(daemon, 'orders')
t.teardown(async () => {
  await daemon.close()
  await lane.sink.stop()
})
const api = checkedApi(daemon)
const bad = (n: number) => `{"n":${n},"bad":true,"big":12345678901234567890,"price":1.10}`
const list = async (query = '') => {
  const { body } = await api('GET', `${lane.path}${query}`)
  return body as unknown as { parked: ParkedRecord[]; next: string | null }
}
const first = async () => (await lane.parked())[0]?.parked_id ?? unknownId
const isGone = (id: string) =>
  until('it is stored', async () => (await daemon.api('GET', `${lane.path}/${id}`)).status === 404)
const isParkedAgain = (id: string, replays: number) =>
  until('it is parked again', async () => {
    const { body } = await daemon.api<ParkedDetail>('GET', `${lane.path}/${id}`)
    return body.state === 'parked' && body.replays === replays ? body : null
  })
/** While its destination is blocked a replay waits. */
const setStatus = (destination_status: string) =>
  api('PATCH', lane.path.replace('/parked', '/status'), { destination_status })

t.test('nothing is parked; then it is listed in the order of the messages, a page at a time', async (t) => {
  t.same(await list(), { parked: [], next: null })
  await lane.send(bad(1), '{"n":2}', bad(3))
  await lane.send(bad(4))
  const all = await list()
  t.match(all, {
    parked: [
      { record_index: 0, reason: 'permanent_error', state: 'parked', replays: 0, records_count: 1 },
      { record_index: 2, error: { code: 'http_422' } },
      { record_index: 0 },
    ],
    next: null,
  })
  const page = await list('?limit=2')
  t.same(page.parked, all.parked.slice(0, 2))
  t.same(await list(`?limit=2&after=${encodeURIComponent(page.next ?? '')}`), {
    parked: all.parked.slice(2),
    next: null,
  })
  t.equal((await list('?error_code=http_422&reason=permanent_error')).parked.length, 3)
  t.equal((await list('?error_code=none')).parked.length, 0)
  t.equal((await list('?reason=skipped')).parked.length, 0)
  const { body } = await api('GET', lane.path.replace('/parked', ''))
  t.match(body, { destination: { lane: { parked_records: 3 } } })
  const overview = await api('GET', '/v1/overview')
  t.match(overview.body, { pipes: [{ lanes: [{ lane: { parked_records: 3 } }] }] })
})

t.test('what a list may not be asked for is named', async (t) => {
  for (const [query, field] of [
    ['limit=0', 'limit'],
    ['limit=501', 'limit'],
    ['limit=x', 'limit'],
    ['after=nonsense', 'after'],
    ['reason=other', 'reason'],
    [`error_code=${'x'.repeat(65)}`, 'error_code'],
  ] as const)
    t.same(Object.keys(errorsIn(await api('GET', `${lane.path}?${query}`))), [field], query)
})

t.test('one with its records, as they were sent', async (t) => {
  const { text, body } = await api('GET', `${lane.path}/${await first()}`)
  t.ok(text.endsWith(`"records":[${bad(1)}]}`), text)
  t.match(body, { record_index: 0, error: { code: 'http_422' }, history: [] })
})

t.test('replayed as it is, it fails again; edited, it is stored with every digit', async (t) => {
  const id = await first()
  t.match((await api('POST', `${lane.path}/${id}/replay`)).body, { parked_id: id, replays: 1 })
  const again = await isParkedAgain(id, 1)
  t.match(again, { history: [{ error: { code: 'http_422' } }], attempts: again.attempts })
  const edited = bad(1).replace('"bad"', '"good"')
  const spaced = `\n{"records": [ ${edited.replace(',', ',\r\n')} ]}`
  const reply = await api('POST', `${lane.path}/${id}/replay`, spaced)
  t.match(reply.body, { replays: 2 })
  await isGone(id)
  t.ok(
    lane.taken().some((text) => text.replace(/,\s+/, ',') === edited),
    lane.taken().join('\n'),
  )
})

t.test('what is no replay is named, and nothing is replayed', async (t) => {
  const path = `${lane.path}/${await first()}/replay`
  for (const [body, field] of [
    ['{"records":[]}', 'records'],
    ['{"records":[1]}', 'records.0'],
    ['{"records":[{},{}]}', 'records'],
    ['{"record":{}}', 'record'],
    ['[]', ''],
  ] as const)
    t.same(Object.keys(errorsIn(await api('POST', path, body))), [field], body)
  t.match((await lane.parked())[0], { state: 'parked', replays: 0 })
})

t.test('while one is being replayed it is neither replayed again nor discarded', async (t) => {
  await setStatus('blocked')
  const id = await first()
  await api('POST', `${lane.path}/${id}/replay`)
  t.match((await lane.parked())[0], { state: 'replaying' })
  t.match((await api('POST', `${lane.path}/${id}/replay`)).body, { error: 'parked_replaying' })
  t.match((await api('DELETE', `${lane.path}/${id}`)).body, { error: 'parked_replaying' })
  t.same((await api('POST', `${lane.path}/replay`, { ids: [id, unknownId] })).body, { replayed: 0 })
  await setStatus('active')
  await isParkedAgain(id, 1)
})

t.test('several: by ids, by error, all', async (t) => {
  const [one, two] = await lane.parked()
  t.equal((await lane.parked()).length, 2)
  t.same((await api('POST', `${lane.path}/replay`, { ids: [one?.parked_id] })).body, { replayed: 1 })
  await isParkedAgain(one?.parked_id ?? '', 2)
  t.same((await api('POST', `${lane.path}/replay`, { all: true, error_code: 'none' })).body, { replayed: 0 })
  t.same((await api('POST', `${lane.path}/replay`, { all: true, reason: 'skipped' })).body, { replayed: 0 })
  errorsIn(await api('POST', `${lane.path}/replay`, { all: true, reason: 'other' }))
  for (const body of [{}, { all: true, ids: [one?.parked_id] }, { ids: ['x'] }, { ids: [] }, { all: false }])
    errorsIn(await api('POST', `${lane.path}/replay`, body))
  lane.sink.respondWith(() => ({ status: 200 }))
  const rejected = { all: true, reason: 'permanent_error' }
  t.same((await api('POST', `${lane.path}/replay`, rejected)).body, { replayed: 2 })
  await isGone(two?.parked_id ?? '')
  t.equal((await lane.parked()).length, 0)
  lane.sink.respondWith(({ text }) => ({ status: text.includes('"bad"') ? 422 : 200 }))
})

t.test('discarded, it is gone', async (t) => {
  await lane.send(bad(9))
  const id = await first()
  t.equal((await api('DELETE', `${lane.path}/${id}`)).status, 204)
  t.match((await api('DELETE', `${lane.path}/${id}`)).body, { error: 'parked_not_found' })
})

t.test('several are discarded: by ids, by error, all, and never one that is being replayed', async (t) => {
  const discard = (body: object) => api('POST', `${lane.path}/discard`, body)
  for (const n of [21, 22, 23]) await lane.send(bad(n))
  const [one, two] = await lane.parked()
  for (const body of [{}, { all: true, ids: [one?.parked_id] }, { ids: ['x'] }, { ids: [] }, { all: false }])
    errorsIn(await discard(body))
  t.same((await discard({ all: true, error_code: 'none' })).body, { discarded: 0 })
  t.same((await discard({ all: true, reason: 'skipped' })).body, { discarded: 0 })
  t.same((await discard({ ids: [one?.parked_id, unknownId] })).body, { discarded: 1 })
  await setStatus('blocked')
  await api('POST', `${lane.path}/${two?.parked_id}/replay`)
  t.same((await discard({ all: true })).body, { discarded: 1 })
  t.same(
    (await lane.parked()).map((left) => left.parked_id),
    [two?.parked_id],
  )
  await setStatus('active')
  await isParkedAgain(two?.parked_id ?? '', 1)
  t.same((await discard({ all: true })).body, { discarded: 1 })
})

t.test('what is not there: the destination, the record, another pipe, another workspace', async (t) => {
  await lane.send(bad(10))
  const id = await first()
  const elsewhere = lane.path.replace(lane.destinationId, unknownId)
  const calls = (path: string, parkedId: string) => [
    api('GET', `${path}/${parkedId}`),
    api('POST', `${path}/${parkedId}/replay`),
    api('DELETE', `${path}/${parkedId}`),
  ]
  for (const unknown of [unknownId, 'no-uuid'])
    for (const answer of await Promise.all(calls(lane.path, unknown)))
      t.match(answer.body, { error: 'parked_not_found' })
  const others = [
    api('GET', elsewhere),
    ...['replay', 'discard'].map((verb) => api('POST', `${elsewhere}/${verb}`, { all: true })),
  ]
  for (const answer of await Promise.all([...others, ...calls(elsewhere, id)]))
    t.match(answer.body, { error: 'destination_not_found' })
  t.equal((await lane.parked()).length, 1)
})

t.test('each change is in the audit log', async (t) => {
  const { body } = await api('GET', '/v1/audit?limit=200')
  const seen = new Set((body.audit as { operation: string }[]).map((one) => one.operation))
  for (const operation of ['replayParked', 'replayManyParked', 'deleteParked', 'discardManyParked'])
    t.ok(seen.has(operation), operation)
})
