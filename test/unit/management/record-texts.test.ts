import t from 'tap'
import { recordTextsAt } from '../../../src/api/management/record-texts.ts'

const textsOf = (json: string) => recordTextsAt(Buffer.from(json), 'records')

t.test(
  'each record keeps its own text: digits, key order, spaces and keys that are there twice',
  async (t) => {
    const records = ['{"n": 12345678901234567890, "2":1,"1":1.10}', '{"a":[{"records":[]}],"a":1e400}', '{}']
    t.same(textsOf(`{"x":{"records":[{"no":1}]}, "records" : [ ${records.join(' , ')} ],"y":"]}"}`), records)
  },
)

t.test('a record over several lines is put on one', async (t) => {
  t.same(textsOf('{"records":[{\r\n  "a": "b\\n"\n}]}'), ['{    "a": "b\\n" }'])
})

t.test('of a key that is there twice the last value counts, however it is written', async (t) => {
  t.same(textsOf('{"records":[{"a":1}],"rec\\u006frds":[{"a":2}]}'), ['{"a":2}'])
})

t.test('a byte order mark changes nothing', async (t) => {
  t.same(textsOf('\ufeff{"records":[{"a":1}]}'), ['{"a":1}'])
})

t.test('what is no array of objects has no texts', async (t) => {
  for (const json of [
    '{}',
    '{"records":[]}',
    '{"records":null}',
    '{"records":{"a":1}}',
    '{"records":"[{}]"}',
  ])
    t.equal(textsOf(json), null, json)
})
