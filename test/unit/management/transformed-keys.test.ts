import t from 'tap'
import { transformedKeys } from '../../../src/api/management/table-inference.ts'
import type { TransformStep } from '../../../src/contract/transform.ts'

const enriched = [
  { key: 'ingest_ts', kind: 'time' },
  { key: 'geo.country', kind: 'string' },
  { key: 'radius', kind: 'integer' },
] as const
const after = (...map: TransformStep[]) =>
  transformedKeys(enriched, map).map(({ key, kind }) => `${key} ${kind}`)
const all = ['ingest_ts time', 'geo.country string', 'radius integer']

t.test('keys that the pipe adds, as a map leaves them', async (t) => {
  t.same(after(), all)
  t.same(after({ op: 'rename', from: 'ingest_ts', to: 'at' }), ['at time', ...all.slice(1)])
  t.same(after({ op: 'rename', from: 'ingest_ts', to: 'ingest_ts' }), all)
  t.same(after({ op: 'rename', from: 'n', to: 'radius' }), all.slice(0, 2), 'a key of the record itself')
  t.same(after({ op: 'rename', from: 'ingest_ts', to: 'radius' }), ['radius time', 'geo.country string'])
  t.same(after({ op: 'move', from: 'radius', to: 'r' }), [...all.slice(0, 2), 'r integer'])
  t.same(after({ op: 'move', from: 'user.radius', to: 'radius' }), all.slice(0, 2))
  t.same(
    after({ op: 'drop', paths: ['geo.country', 'radius'] }),
    all.slice(0, 2),
    'a dot leads into an object',
  )
  t.same(after({ op: 'drop', paths: ['geo\\.country'] }), [all[0], all[2]])
  t.same(after({ op: 'keep', paths: ['radius', 'n'] }), [all[2]])
  t.same(after({ op: 'mask', paths: ['radius'] }), [...all.slice(0, 2), 'radius string'])
  t.same(after({ op: 'constant', key: 'radius', value: 1 }), all.slice(0, 2))
  t.same(
    after({ op: 'rename', from: 'ingest_ts', to: 'at' }, { op: 'keep', paths: ['at'] }),
    ['at time'],
    'in order',
  )
})
