/** Keys that no column takes, counted in memory: what is counted, what bounds it, and what goes on after a restart. */
import t from 'tap'
import { driftLimits } from '../../../src/contract/drift.ts'
import { DriftCounts } from '../../../src/delivery/drift-counts.ts'
import { makeBatch, makeSpec } from '../../support/batches.ts'

const config = { host: 'h', database: 'd', username: 'u', password: 'p', table: 't' }
const spec = makeSpec('destination_database', config, [
  { column_name: 'id' },
  { column_name: 'total', source_field: 'sum' },
  { column_name: 'arrived', semantic_role: 'received_at' },
])
const begun = (saved: Parameters<DriftCounts['begin']>[0] = null) => {
  const counts = new DriftCounts(spec, 0)
  counts.begin(saved)
  return counts
}
const look = (records: readonly (object | string)[], at = 1000, counts = begun()) => {
  counts.look(makeBatch([records]), at)
  return counts
}

t.test('keys without a column, with their type and an example; columns without a value', async (t) => {
  const counts = look([
    { id: 1, total: 5, note: null },
    { id: null, total: 6, note: 'a "word"', sum: null },
    '{"total":1.10,"total":[1.10, 2]}',
  ])
  t.match(counts.taken().state, {
    records: 3,
    keys: [
      { key: 'total', records: 3, type: 'number', example: '5', first_ms: 1000, last_ms: 1000 },
      { key: 'note', records: 2, type: 'string', example: '"a \\"word\\""' },
    ],
    unfilled: ['total'],
  })
  t.equal(counts.isChanged, false)
  look([{ sum: 1, note: 2 }], 5000, counts)
  const { state } = counts.taken()
  t.match(state.keys[1], { records: 3, first_ms: 1000, last_ms: 5000 })
  t.same(state.unfilled, [])
})

t.test('hostile keys and values cost no more than others', async (t) => {
  const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`k${n}`, n]))
  const counts = look([
    '{"__proto__":1,"constructor":{"a":1}}',
    { ['x'.repeat(200)]: 1, ['y'.repeat(201)]: 1, ['z'.repeat(100_000)]: 1 },
    { long: '😀'.repeat(50_000), nul: '\0\u001b[31m' },
    many,
    { huge: 'x'.repeat(300_000) },
  ])
  const { state } = counts.taken()
  t.equal(state.records, 4, 'a huge record is not looked at')
  t.equal(state.keys.length, driftLimits.keys)
  t.match(state.keys.slice(0, 3), [
    { key: '__proto__' },
    { key: 'constructor', type: 'object' },
    { key: /^x{200}$/ },
  ])
  t.equal(state.other_keys, 2 + 10_000 - (driftLimits.keys - 5))
  t.ok(state.keys.every(({ example }) => [...example].length <= driftLimits.exampleCharacters))
  t.ok(Buffer.byteLength(JSON.stringify(state)) < 64 * 1024)
})

t.test('so many records of a batch, and so many a second; the newest messages first', async (t) => {
  const counts = begun()
  const messages = Array.from({ length: 30 }, (_, n) => [{ [`key${n}`]: 1 }])
  counts.look(makeBatch(messages), 1000)
  const { state } = counts.taken()
  t.equal(state.records, 20)
  t.equal(state.keys[0]?.key, 'key29')
  for (let batch = 0; batch < 10; batch++) counts.look(makeBatch(messages), 1500)
  t.equal(counts.taken().state.records, 100)
  counts.look(makeBatch(messages), 2000)
  t.equal(counts.taken().state.records, 120)
})

t.test('it goes on from what was saved, of the same columns alone', async (t) => {
  const saved = look([{ a: 1, sum: 1 }]).taken()
  const again = look([{ a: 2, b: 1 }], 9000, begun(saved)).taken()
  t.match(again.state, {
    records: 2,
    since_ms: 0,
    keys: [{ key: 'a', records: 2, first_ms: 1000 }, { key: 'b' }],
  })
  t.same(again.state.unfilled, ['id'])
  const late = look([{ a: 2 }], 9000, new DriftCounts(spec, 0))
  late.begin(saved)
  t.match(
    late.taken().state,
    { records: 2, keys: [{ key: 'a', records: 2 }] },
    'counted before it was loaded',
  )
  const other = new DriftCounts({ ...spec, columns: spec.columns.slice(1) }, 500)
  other.begin(saved)
  t.match(other.taken().state, { records: 0, since_ms: 500, keys: [] })
})
