/** Schemas of pipes on two nodes: whichever node a request reaches, the records that do not match are treated alike. */
import t from 'tap'
import type { PipeParkedList } from '../../../src/contract/pipe-parked.ts'
import { startCluster, type TestNode } from '../../support/cluster.ts'
import { until } from '../../support/until.ts'

const cluster = await startCluster({ nodes: 2 })
const [a, b] = cluster.nodes as [TestNode, TestNode]
t.teardown(() => cluster.close())

const pipe_schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }

async function newPipe(name: string, settings: object = {}) {
  const pipeId = await a.createPipe({ pipe_name: name, pipe_add_ingest_ts: false, pipe_schema, ...settings })
  const lane = await a.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const path = `/v1/pipes/${pipeId}`
  return {
    pipeId,
    path,
    send: (node: TestNode, records: unknown, headers: Record<string, string> = {}) =>
      node.api<{ msg_id: string }>('POST', `/v1/ingest/${pipeId}`, JSON.stringify(records), { headers }),
    /** The next message. Null: there is none. */
    async pulled(waitMs = 10_000) {
      const { status, body } = await b.api<{ records: unknown[] }>(
        'GET',
        `/v1/pull/${lane}?wait_ms=${waitMs}`,
      )
      return status === 204 ? null : body.records
    },
    parked: async (node: TestNode) => (await node.api<PipeParkedList>('GET', `${path}/parked`)).body,
    async setTo(node: TestNode, change: object) {
      const reply = await node.api('PATCH', path, change)
      t.equal(reply.status, 200, reply.text)
    },
  }
}

const park = { pipe_schema_on_mismatch: 'park' }

t.test('a setting that is changed on one node holds on the other', async (t) => {
  const pipe = await newPipe('settings')
  for (const node of [a, b])
    t.match(await pipe.send(node, [{ n: 1 }, { n: 'x' }]), {
      status: 400,
      body: { error: 'schema_mismatch', errors: [{ record: 1, path: '/n' }] },
    })
  await pipe.setTo(b, { pipe_schema_on_mismatch: 'tag' })
  t.equal((await pipe.send(a, { n: 'tagged' })).status, 202)
  t.match(await pipe.pulled(), [{ n: 'tagged', schema_errors: [/^\/n: /] }])
  await pipe.setTo(a, park)
  t.match(await pipe.send(b, [{ n: 1 }, { n: 'y' }]), {
    status: 202,
    body: { records_count: 1, parked_records: 1 },
  })
  t.same(await pipe.pulled(), [{ n: 1 }])
  await pipe.setTo(b, { pipe_schema: null })
  t.equal((await pipe.send(a, { n: 'free' })).status, 202)
  t.same(await pipe.pulled(), [{ n: 'free' }])
  const counted = await until('all mismatches are counted', async () => {
    const usage = await b.api<{ schema_mismatches: Record<string, number> }>('GET', `${pipe.path}/usage`)
    const { schema_mismatches: found } = usage.body
    return Object.values(found).reduce((sum, one) => sum + one, 0) >= 4 ? found : null
  })
  t.match(counted, { rejected: 2, tagged: 1, parked: 1 })
})

t.test('parked records are listed, edited, replayed and discarded by the other node', async (t) => {
  const pipe = await newPipe('elsewhere', park)
  await pipe.send(a, [{ n: 'edit' }, { n: 'force' }, { n: 'discard' }, { n: 'again' }])
  const { parked, count } = await pipe.parked(b)
  t.equal(count, 4)
  const [edit, force, discard, again] = parked.map(({ parked_id }) => `${pipe.path}/parked/${parked_id}`)
  t.match(await b.api('POST', `${edit}/replay`), { status: 409, body: { error: 'parked_mismatch' } })
  t.match(await b.api('PATCH', edit!, { records: [{ n: 2 }] }), { status: 200, body: { is_edited: true } })
  t.match(await a.api('GET', edit!), { body: { records: [{ n: 2 }], errors: [] } })
  t.match(await a.api('POST', `${edit}/replay`), { status: 200 })
  t.same(await pipe.pulled(), [{ n: 2 }])
  t.match(await b.api('POST', `${force}/replay`, { force: true }), { status: 200 })
  t.same(await pipe.pulled(), [{ n: 'force' }])
  t.equal((await b.api('DELETE', discard!)).status, 204)
  t.match(await a.api('POST', `${discard}/replay`, { force: true }), { body: { error: 'parked_not_found' } })
  await pipe.setTo(b, { pipe_schema: null })
  t.match(await a.api('POST', `${pipe.path}/parked/replay`, { all: true }), { body: { replayed: 1 } })
  t.same(await pipe.pulled(), [{ n: 'again' }])
  t.equal((await b.api('GET', again!)).status, 404)
  t.match(await pipe.parked(a), { count: 0, parked: [] })
})

t.test(
  'both nodes replay, edit and discard the same records: each is stored once, or not at all',
  async (t) => {
    const pipe = await newPipe('contended', park)
    const numbers = Array.from({ length: 30 }, (_, n) => n)
    await pipe.send(
      a,
      numbers.map((n) => ({ n: `x${n}` })),
    )
    const { parked } = await pipe.parked(a)
    const ends = await Promise.all(
      parked.flatMap(({ parked_id }, n) => {
        const one = `${pipe.path}/parked/${parked_id}`
        const other =
          n % 3 === 0
            ? b.api('POST', `${one}/replay`, { force: true })
            : n % 3 === 1
              ? b.api('DELETE', one)
              : b.api('PATCH', one, { records: [{ n }] })
        return [a.api('POST', `${one}/replay`, { force: true }), other]
      }),
    )
    for (const { status, text } of ends) t.ok([200, 204, 404, 409].includes(status), text)
    const left = await pipe.parked(b)
    t.equal(left.count, left.parked.length, 'the sums are those of the rows')
    await a.api('POST', `${pipe.path}/parked/replay`, { all: true, force: true })
    const discarded = numbers.filter((n) => n % 3 === 1 && ends[2 * n + 1]!.status === 204)
    const stored: string[] = []
    while (stored.length < numbers.length - discarded.length)
      stored.push(...((await pipe.pulled()) ?? []).map((record) => JSON.stringify(record)))
    t.equal(await pipe.pulled(0), null)
    t.equal(new Set(stored).size, stored.length, 'none is stored twice')
    for (const n of numbers) {
      const found = stored.filter((text) => text === `{"n":"x${n}"}` || text === `{"n":${n}}`)
      t.equal(found.length, discarded.includes(n) ? 0 : 1, `record ${n}`)
      if (n % 3 === 2 && ends[2 * n + 1]!.status === 200) t.same(found, [`{"n":${n}}`], 'as it was edited')
    }
    t.match(await pipe.parked(b), { count: 0, parked: [] })
  },
)

t.test('a repeat of an Idempotency-Key on the other node parks nothing twice', async (t) => {
  const pipe = await newPipe('keyed', park)
  const headers = { 'idempotency-key': 'order 4711' }
  const replies = await Promise.all(
    [a, b, a, b, a, b].map((node) => pipe.send(node, [{ n: 1 }, { n: 'x' }], headers)),
  )
  for (const { status, text } of replies) t.equal(status, 202, text)
  t.equal(new Set(replies.map(({ body }) => body.msg_id)).size, 1)
  t.equal((await pipe.parked(b)).count, 1)
  t.same(await pipe.pulled(), [{ n: 1 }])
  t.equal(await pipe.pulled(0), null)
})

t.test(
  'a node that is killed leaves its parked records, and an interrupted replay, to the other',
  async (t) => {
    const pipe = await newPipe('killed', park)
    await pipe.send(b, [{ n: 'x' }, { n: 'y' }])
    const [first, second] = (await pipe.parked(a)).parked.map(({ parked_id }) => parked_id)
    await b.kill()
    // The node has marked the record, and ended before it removed it.
    await cluster.postgres.query('UPDATE pipe_parked SET is_replaying = 1 WHERE parked_id = $1', [first])
    const one = `${pipe.path}/parked/${first}`
    t.match(await a.api('PATCH', one, { records: [{ n: 1 }] }), { body: { error: 'parked_replaying' } })
    t.match(await a.api('DELETE', one), { body: { error: 'parked_replaying' } })
    t.equal((await a.api('POST', `${one}/replay`)).status, 200)
    t.equal((await a.api('DELETE', `${pipe.path}/parked/${second}`)).status, 204)
    await b.start()
    t.same(await pipe.pulled(), [{ n: 'x' }])
    t.equal(await pipe.pulled(0), null)
  },
)

t.test('a schema is inferred, checked and versioned on any node', async (t) => {
  const pipe = await newPipe('proposed', { pipe_schema: null })
  for (let n = 0; n < 6; n += 1) await pipe.send(n % 2 === 0 ? a : b, { n, name: `name ${n}` })
  for (const node of [a, b]) {
    const { body } = await node.api('POST', `${pipe.path}/schema/infer`, {})
    t.match(body, {
      records_seen: 6,
      schema: { properties: { n: { type: 'integer' }, name: { type: 'string' } }, required: ['n', 'name'] },
    })
    const schema = { properties: { n: { maximum: 3 } } }
    t.match((await node.api('POST', `${pipe.path}/schema/check`, { schema })).body, {
      records_seen: 6,
      mismatching: 2,
    })
  }
  for (const [node, maximum] of [
    [a, 10],
    [b, 20],
    [a, 30],
  ] as const)
    await pipe.setTo(node, { pipe_schema: { properties: { n: { type: 'integer', maximum } } } })
  for (const node of [a, b]) {
    const { body } = await node.api<{ versions: { version: number }[] }>(
      'GET',
      `${pipe.path}/schema/versions`,
    )
    t.same(
      body.versions.map(({ version }) => version),
      [3, 2, 1],
    )
    t.match((await node.api('GET', `${pipe.path}/schema/types.ts`)).text, /n\?: number/)
  }
  await Promise.all(
    Array.from({ length: 8 }, (_, n) =>
      (n % 2 === 0 ? a : b).api('PATCH', pipe.path, {
        pipe_schema: { properties: { n: { maximum: 40 + n } } },
      }),
    ),
  )
  const { body } = await b.api<{ versions: { version: number }[] }>('GET', `${pipe.path}/schema/versions`)
  t.same(
    body.versions.map(({ version }) => version),
    Array.from({ length: 10 }, (_, n) => 11 - n),
    'concurrent changes get one version each',
  )
  await pipe.send(b, { n: 50 })
  const refused = await pipe.send(a, { n: 51 })
  t.equal(refused.status, 400, 'both nodes have the same schema')
})
