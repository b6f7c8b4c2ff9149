/** A destination's name and delivery settings of its own over HTTP (docs/dev/contract.md#destinations). */
import t from 'tap'
import { destinationTypes } from '../../src/contract/destination.ts'
import { wordsOf } from '../../src/contract/destination-words.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import {
  checkedApi,
  created,
  databaseDestination,
  errorsIn,
  fullDestination,
  httpDestination,
  natsDestination,
  objectStoreDestination,
  pullDestination,
} from './management-client.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)
const pipeId = await created(api, '/v1/pipes', { pipe_name: 'main' }, 'pipe_id')
const base = `/v1/pipes/${pipeId}/destinations`
const attach = (body: unknown) => created(api, base, body, 'destination_id')
const shown = async (id: string) => Object((await api('GET', `${base}/${id}`)).body.destination)
const flush = { max_records: 10, max_bytes: 1_000_000, max_seconds: 0 }
const rate = { requests_per_second: 2.5 }

t.test('every type takes a name, flush and rate; without them it has its kind for a name', async (t) => {
  for (const type of destinationTypes) {
    const kind = wordsOf(type).kind
    t.match(await shown(await attach(fullDestination(type))), {
      destination_name: kind,
      flush: null,
      rate: null,
    })
    const settings = { destination_name: `the ${type}`, flush, rate }
    t.match(await shown(await attach({ ...fullDestination(type), ...settings })), settings)
  }
})

t.test('concurrency is of HTTP endpoints and NATS alone: 1 unless it is set', async (t) => {
  t.equal((await shown(await attach({ ...natsDestination, concurrency: 8 }))).concurrency, 8)
  t.equal((await shown(await attach(httpDestination))).concurrency, 1)
  const id = await attach({ ...httpDestination, concurrency: 32 })
  t.equal((await shown(id)).concurrency, 32)
  const patched = await api('PATCH', `${base}/${id}`, { concurrency: null })
  t.equal(Object(patched.body.destination).concurrency, 1)
  const others = [databaseDestination, objectStoreDestination, pullDestination]
  const expected = {
    concurrency: 'Only a destination_http_endpoint and a destination_nats have concurrency.',
  }
  for (const other of others) {
    t.notOk('concurrency' in (await shown(await attach(other))))
    t.same(errorsIn(await api('POST', base, { ...other, concurrency: 2 })), expected)
  }
  const pull = await attach(pullDestination)
  t.same(errorsIn(await api('PATCH', `${base}/${pull}`, { concurrency: 2 })), expected)
})

t.test('PATCH changes what it names; null resets it', async (t) => {
  const id = await attach({ ...httpDestination, destination_name: 'hook', flush })
  const patch = async (body: object) => Object((await api('PATCH', `${base}/${id}`, body)).body.destination)
  t.match(await patch({ rate }), { destination_name: 'hook', flush, rate })
  t.match(await patch({ flush: null }), { destination_name: 'hook', flush: null, rate })
  t.match(await patch({ destination_name: null, rate: null }), {
    destination_name: 'http-endpoint-4',
    flush: null,
    rate: null,
  })
  t.match(await patch({ destination_name: 'hook' }), { destination_name: 'hook' })
})

t.test('a name is unique in its pipe: 409 duplicate_destination_name', async (t) => {
  const first = await attach({ ...pullDestination, destination_name: 'warehouse' })
  const second = await attach(pullDestination)
  t.match(await api('POST', base, { ...pullDestination, destination_name: 'warehouse' }), {
    status: 409,
    body: { error: 'duplicate_destination_name' },
  })
  t.match(await api('PATCH', `${base}/${second}`, { destination_name: 'warehouse' }), {
    status: 409,
    body: { error: 'duplicate_destination_name' },
  })
  t.equal((await api('PATCH', `${base}/${first}`, { destination_name: 'warehouse' })).status, 200)
  const otherPipe = await created(api, '/v1/pipes', { pipe_name: 'other' }, 'pipe_id')
  const elsewhere = { ...pullDestination, destination_name: 'warehouse' }
  t.equal((await api('POST', `/v1/pipes/${otherPipe}/destinations`, elsewhere)).status, 201)
})

t.test('a create says which name it gave; another one is free for letters of all scripts', async (t) => {
  const made = await api('POST', base, { ...pullDestination, destination_name: 'Lager „Süd“ 倉庫' })
  t.match(made, { status: 201, body: { destination_name: 'Lager „Süd“ 倉庫' } })
  const pipe = await created(api, '/v1/pipes', { pipe_name: 'unnamed' }, 'pipe_id')
  const names = []
  for (const _ of [1, 2, 3])
    names.push((await api('POST', `/v1/pipes/${pipe}/destinations`, pullDestination)).body)
  t.match(names, [
    { destination_name: 'pull' },
    { destination_name: 'pull-2' },
    { destination_name: 'pull-3' },
  ])
})

t.test('a wrong setting is an error on its own path', async (t) => {
  const wrong: [object, string[]][] = [
    [{ destination_name: '' }, ['destination_name']],
    [{ destination_name: 'x'.repeat(101) }, ['destination_name']],
    [{ destination_name: 5 }, ['destination_name']],
    ...['a/b', ' a', 'a ', 'a\nb', '\u0085', ' '].map((destination_name): [object, string[]] => [
      { destination_name },
      ['destination_name'],
    ]),
    [{ flush: {} }, ['flush.max_bytes', 'flush.max_records', 'flush.max_seconds']],
    [{ flush: { ...flush, max_records: 0 } }, ['flush.max_records']],
    [{ flush: { ...flush, max_bytes: 1.5 } }, ['flush.max_bytes']],
    [{ flush: { ...flush, max_seconds: -1 } }, ['flush.max_seconds']],
    [{ flush: { ...flush, more: 1 } }, ['flush.more']],
    [{ rate: { requests_per_second: 0 } }, ['rate.requests_per_second']],
    [{ rate: 5 }, ['rate']],
    [{ concurrency: 0 }, ['concurrency']],
    [{ concurrency: 33 }, ['concurrency']],
  ]
  const id = await attach(httpDestination)
  for (const [settings, paths] of wrong) {
    const what = JSON.stringify(settings)
    const asCreate = errorsIn(await api('POST', base, { ...httpDestination, ...settings }))
    t.same(Object.keys(asCreate).sort(), paths, `create ${what}`)
    const asPatch = errorsIn(await api('PATCH', `${base}/${id}`, settings))
    t.same(Object.keys(asPatch).sort(), paths, `PATCH ${what}`)
  }
})

t.test('PATCH with an empty list of columns removes all mappings', async (t) => {
  const column = { column_name: 'id', column_type: 'string' }
  const id = await attach({ ...databaseDestination, columns: [column] })
  const patched = await api('PATCH', `${base}/${id}`, { columns: [] })
  t.same(Object(patched.body.destination).columns, [])
  t.same((await shown(id)).columns, [])
})
