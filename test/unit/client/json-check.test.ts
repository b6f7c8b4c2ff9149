import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { checkRecords } from '../../../src/apps/client/json-check.ts'
import { damaged, randomBody } from '../../support/random-json.ts'

t.test('one object or an array of objects: each record keeps its own text', async (t) => {
  const one = '{"n": 12345678901234567890, "p":1.10}'
  t.same(checkRecords(` ${one}\n`).records, [one])
  t.same(checkRecords(`[ ${one} ,\n{}, {"a":[{"b":[]},[]]}]`).records, [one, '{}', '{"a":[{"b":[]},[]]}'])
})

t.test('what is wrong is named with its line and column', async (t) => {
  const cases: [text: string, place: string, message: RegExp][] = [
    ['{"a":1,}', '1:8', /a comma is before this }/],
    ['{\n  "a" 1\n}', '2:7', /expected : after the key, found 1/],
    ['{\n  "a": 1\n  "b": 2\n}', '3:3', /expected , or }, found "/],
    ["{'a':1}", '1:2', /a key in double quotes/],
    ['{"a":\'x\'}', '1:6', /double quotes/],
    ['{"a":abc}', '1:6', /abc is not a value/],
    ['{"a":01}', '1:6', /01 is not a value/],
    ['{"a":1.}', '1:6', /1\. is not a value/],
    ['{"a":}', '1:6', /expected a value, found }/],
    ['{"a":"x\n"}', '1:6', /no closing quote on its line/],
    ['{"a":"x', '1:6', /no closing quote/],
    ['{"a":"\\x"}', '1:7', /no such escape/],
    ['{"a":"\\u12g4"}', '1:7', /no such escape/],
    ['{"a":"\t"}', '1:7', /control character/],
    ['{"a":[1 2]}', '1:9', /expected , or ], found 2/],
    ['{"a":[1,]}', '1:9', /expected a value, found ]/],
    ['{"a":1', '1:7', /ends before it is complete/],
    ['{"a":1} x', '1:9', /x after the end/],
    ['[{"a":1}] {}', '1:11', /\{ after the end/],
    ['', '1:1', /ends before it is complete/],
    ['[]', '1:1', /at least one record/],
    ['[{},\n 1]', '2:2', /every record must be a JSON object/],
    ['"x"', '1:1', /every record must be a JSON object/],
    ['{]', '1:2', /a key in double quotes/],
    ['[}', '1:2', /expected a value/],
    [`{"a":${'['.repeat(100)}`, '1:105', /nested more than 100/],
  ]
  for (const [text, place, message] of cases) {
    const { fault } = checkRecords(text)
    t.equal(`${fault?.line}:${fault?.column}`, place, text)
    t.match(fault?.message, message, text)
  }
})

t.test('more records than are parked are named', async (t) => {
  t.match(checkRecords('[{},{}]', 1).fault, { line: 1, column: 5, message: /at most 1/ })
  t.equal(checkRecords('[{},{}]', 2).fault, null)
})

t.test('it takes what JSON.parse takes, and nothing else', async (t) => {
  let taken = 0
  for (let seed = 1; seed <= 20_000; seed += 1) {
    const body = randomBody(seed, 'json')
    const text = (seed % 2 === 0 ? body : damaged(body, seed)).toString()
    const { records, fault } = checkRecords(text)
    if (records !== null) taken += 1
    if (fault?.message.includes('nested') || same(recordsOf(text), records)) continue
    t.fail(`${seed}: ${JSON.stringify(text)}: ${fault?.message}`)
  }
  t.ok(taken > 4_000, `${taken} were valid`)
})

function recordsOf(text: string): unknown[] | null {
  try {
    const value: unknown = JSON.parse(text)
    const all = Array.isArray(value) ? value : [value]
    const isRecord = (one: unknown) => typeof one === 'object' && one !== null && !Array.isArray(one)
    return all.length > 0 && all.every(isRecord) ? all : null
  } catch {
    return null
  }
}

function same(parsed: unknown[] | null, texts: string[] | null): boolean {
  if (parsed === null || texts === null) return parsed === texts
  return isDeepStrictEqual(
    texts.map((text) => JSON.parse(text)),
    parsed,
  )
}
