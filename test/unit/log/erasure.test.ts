/** Which records a deletion is about. */
import t from 'tap'
import { type ErasureCondition, matches } from '../../../src/log/erasure.ts'

function on(...given: [path: string, value: string][]): ErasureCondition[] {
  return given.map(([path, value]) => ({ path: path.split('/'), value }))
}

const user = on(['user_id', '42'])

t.test('a value is compared as its JSON text, and a string also without quotes', async (t) => {
  const of42 = [
    '{"user_id":42}',
    '{"user_id":"42"}',
    ' { "a" : [ { } ] , "user_id" : 42 } ',
    '{"user_id":"\\u00342"}',
    '{"\\u0075ser_id":42}',
    '{"user_id":1,"user_id":42}',
    '{"user_id":42,"user_id":1}',
    '{"user_id":[41, 42 ]}',
    '{"user_id":[[], [["a",{"b":1}],["42"]]]}',
  ]
  for (const record of of42) t.ok(matches(record, user), record)
  const ofOthers = [
    '{}',
    '{"user_id":420}',
    '{"user_id":42.0}',
    '{"user_id":null}',
    '{"other":42,"text":"\\"user_id\\":42"}',
    '{"user_id":{"user_id":42}}',
    '{"a":{"user_id":42}}',
    '{"user_id":["420",[421],"4","2"]}',
    '{"user_id":[{"42":42}]}',
    '{"user_id":"[42]"}',
  ]
  for (const record of ofOthers) t.notOk(matches(record, user), record)
})

t.test(
  'numbers keep every digit; true, false and texts with quotes are compared too, null is no value',
  async (t) => {
    t.ok(matches('{"n":12345678901234567890}', on(['n', '12345678901234567890'])))
    t.notOk(matches('{"n":12345678901234567890}', on(['n', '12345678901234567891'])))
    t.ok(matches('{"n":1.10}', on(['n', '1.10'])))
    t.ok(matches('{"b":true}', on(['b', 'true'])))
    t.notOk(matches('{"b":null}', on(['b', 'null'])))
    t.ok(matches('{"b":"null"}', on(['b', 'null'])))
    t.ok(matches('{"b":"x"}', on(['b', '"x"'])))
    t.ok(matches('{"b":"a\\"b"}', on(['b', 'a"b'])))
    t.ok(matches('{"b":"J\\u00fcrgen"}', on(['b', 'Jürgen'])))
    t.ok(matches('{"b":"Jürgen"}', on(['b', 'Jürgen'])))
    t.ok(matches('{"b":""}', on(['b', ''])))
  },
)

t.test('a path leads through objects and through any element of an array', async (t) => {
  const inner = on(['order/customer/id', 'c1'])
  t.ok(matches('{"order":{"customer":{"id":"c1"}}}', inner))
  t.ok(matches('{"order":[{"customer":{"id":"c0"}},{"customer":[{"id":["c1"]}]}]}', inner))
  t.notOk(matches('{"order":{"customer":"c1"}}', inner))
  t.notOk(matches('{"order":{"customer":{"id":{"id":"c1"}}}}', inner))
  t.ok(matches('{"a.b":1}', [{ path: ['a.b'], value: '1' }]), 'a dot within a key')
  t.ok(matches(`{"a":${'['.repeat(5000)}1${']'.repeat(5000)}}`, [{ path: ['a'], value: '1' }]))
})

t.test('several conditions are all required', async (t) => {
  const both = on(['user_id', '42'], ['kind', 'visit'])
  t.ok(matches('{"user_id":42,"kind":"visit"}', both))
  t.notOk(matches('{"user_id":42,"kind":"order"}', both))
  t.notOk(matches('{"user_id":41,"kind":"visit"}', both))
})
