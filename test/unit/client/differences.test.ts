import t from 'tap'
import { changedKeys, differences } from '../../../src/apps/client/differences.ts'

t.test('what is different between two states is named by its path, with both values', async (t) => {
  const before = {
    name: 'a',
    config: { url: 'http://x', headers: {} },
    columns: [{ n: 1 }],
    gone: 1,
    same: null,
  }
  const now = {
    name: 'b',
    config: { url: 'http://y', headers: {} },
    columns: [],
    same: null,
    added: { a: 1 },
  }
  t.strictSame(differences(before, now), [
    { path: 'name', before: '"a"', now: '"b"' },
    { path: 'config.url', before: '"http://x"', now: '"http://y"' },
    { path: 'columns', before: '[{"n":1}]', now: '[]' },
    { path: 'gone', before: '1', now: null },
    { path: 'added', before: null, now: '{"a":1}' },
  ])
  t.strictSame(differences(before, before), [])
})

t.test('keys are compared by their JSON', async (t) => {
  t.strictSame(changedKeys({ a: [1], b: 1 }, { a: [1], b: '1', c: undefined }), ['b'])
})
