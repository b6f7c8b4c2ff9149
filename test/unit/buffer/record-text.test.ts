import t from 'tap'
import {
  members,
  pickMembers,
  records,
  recordTexts,
  recordTextsIn,
  stringValue,
  toJsonArray,
  toNdjson,
} from '../../../src/log/record-text.ts'

/** Records whose text is hard to cut: none of them holds a raw newline, as ingest guarantees. */
const hostile = [
  '{}',
  ' { } ',
  '{"a":{}}',
  '{"a":"}","b":"{","c":"],[","d":","}',
  '{"a":"\\"","b":"\\\\","c":"\\\\\\"","d":"\\n"}',
  '{"a":[{"b":[{"c":"\\"}]"}]},[]],"d":1}',
  '{ "a" : 1.10 , "b":12345678901234567890 , "c":\t[ 1 , 2 ] }',
  '{"é":"😀","\\u00e9":"\\ud83d\\ude00","\\ud800":"lone"}',
  '{"__proto__":{"x":1},"constructor":null,"toString":true}',
  '{"a":1,"a":2,"\\u0061":3}',
  '{"":"","\\"":"\\u0000"}',
  '{"a":-1E-7,"b":false,"c":null}',
]

function membersOf(record: string): [key: string, value: string][] {
  return [...members(Buffer.from(record))].map(({ key, value }) => [
    stringValue(key.toString()),
    value.toString(),
  ])
}

t.test('the records of a body are its lines, as views and as strings', async (t) => {
  const body = Buffer.from(hostile.join('\n'))
  t.same(
    [...records(body)].map((record) => record.toString()),
    hostile,
  )
  t.ok([...records(body)].every((record) => record.buffer === body.buffer))
  t.same(recordTexts(body), hostile)
  for (const count of [0, 1, 3, hostile.length, 100]) {
    t.same(recordTextsIn(body, { from: 0, limit: count, maxBytes: 1e9 }), hostile.slice(0, count))
    t.same(recordTextsIn(body, { from: count, limit: 2, maxBytes: 1e9 }), hostile.slice(count, count + 2))
    t.same(recordTextsIn(body, { from: count, limit: 9, maxBytes: 0 }), hostile.slice(count, count + 1))
  }
  t.same([...records(Buffer.alloc(0))], [])
  t.same(recordTexts(Buffer.alloc(0)), [])
  t.same([...records(Buffer.from('{}'))].map(String), ['{}'])
})

t.test('bodies joined are NDJSON, or a JSON array with the same values', async (t) => {
  const bodies = [hostile.slice(0, 1), hostile.slice(1, 8), hostile.slice(8)].map((texts) =>
    Buffer.from(texts.join('\n')),
  )
  t.equal(toNdjson(bodies).toString(), hostile.join('\n'))
  t.equal(toNdjson(bodies, '<', '>\n').toString(), `<${hostile.join('\n')}>\n`)
  t.equal(toJsonArray(bodies).toString(), `[${hostile.join(',')}]`)
  t.same(
    JSON.parse(toJsonArray(bodies).toString()),
    hostile.map((text) => JSON.parse(text)),
  )
  t.equal(toJsonArray([]).toString(), '[]')
  t.equal(toNdjson([]).length, 0)
})

t.test('a JSON array owns its memory, so that it can be transferred', async (t) => {
  const json = toJsonArray([Buffer.from('{"a":1}\n{"b":2}')])
  t.equal(json.byteOffset, 0)
  t.equal(json.buffer.byteLength, json.length)
})

t.test('members of a record are those that JSON.parse sees, in their own text', async (t) => {
  for (const record of hostile) {
    const found = membersOf(record)
    const parsed: Record<string, unknown> = JSON.parse(record)
    const last = new Map(found)
    t.same([...last.keys()].sort(), Object.keys(parsed).sort(), record)
    for (const [key, value] of last) t.same(JSON.parse(value), parsed[key], `${record}: ${key}`)
  }
  t.same(membersOf('{ "a" : 1.10 , "b":12345678901234567890 , "c":\t[ 1 , 2 ] }'), [
    ['a', '1.10'],
    ['b', '12345678901234567890'],
    ['c', '[ 1 , 2 ]'],
  ])
  t.same(membersOf('{"a":1,"a":2,"\\u0061":3}'), [
    ['a', '1'],
    ['a', '2'],
    ['a', '3'],
  ])
})

t.test('the texts of the members, joined by commas, are the record again', async (t) => {
  for (const record of hostile) {
    const texts = [...members(Buffer.from(record))].map(({ text }) => text.toString())
    t.same(JSON.parse(`{${texts.join(',')}}`), JSON.parse(record), record)
  }
  t.same(
    [...members(Buffer.from('{ "a" : 1 , "b":2 }'))].map(({ text }) => text.toString()),
    [' "a" : 1 ', ' "b":2 '],
  )
})

t.test('picking members by key finds the same texts as going through all of them', async (t) => {
  for (const record of hostile) {
    const expected = new Map(membersOf(record))
    const keys = [...expected.keys(), 'not there']
    const slots = new Map(keys.map((key, slot) => [key, slot]))
    const values: (string | undefined)[] = keys.map(() => 'left from the record before')
    pickMembers(record, slots, values)
    t.same(
      values,
      keys.map((key) => expected.get(key)),
      record,
    )
  }
})

t.test('a damaged text ends the scan and never hangs it', async (t) => {
  for (const text of ['', '{', '{"a', '{"a"', '{"a":', '{"a":[', '{"a":"\\', '"a"', '{"a":1', '{,}']) {
    t.doesNotThrow(() => [...members(Buffer.from(text))].length, text)
    t.doesNotThrow(() => pickMembers(text, new Map([['b', 0]]), [undefined]), text)
  }
})
