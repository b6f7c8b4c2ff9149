import t from 'tap'
import { ApiError } from '../../../src/contract/errors.ts'
import { parseJsonBody, parseNdjsonBody, scanJson } from '../../../src/ingest/parse.ts'
import { spliceRecords } from '../../../src/ingest/splice.ts'
import { confusedKeysInWords, confusesEscapedKeys } from '../../support/confused-keys.ts'

const noLimits = { maxRecords: 1e9, maxKeys: 1e9, maxValues: 1e9 }
const json = (text: string | Buffer) => parseJsonBody(Buffer.from(text), noLimits)!
const ndjson = (text: string | Buffer) => parseNdjsonBody(Buffer.from(text), noLimits)!

/** Text in, stored lines out. */
function stored(text: string | Buffer, enrichment = { keys: [] as string[], text: '' }): string[] {
  return spliceRecords(json(text), enrichment, () => {})
    .toString()
    .split('\n')
}
function storedLines(text: string): string[] {
  return spliceRecords(ndjson(text), { keys: [], text: '' }, () => {})
    .toString()
    .split('\n')
}
const stamp = { keys: ['ts'], text: '"ts":"now"' }

function codeOf(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    if (error instanceof ApiError) return `${error.code}: ${error.message}`
    throw error
  }
  return 'no error'
}

/** A small random generator with a seed, so that a failure can be repeated. */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

const nastyStrings = [
  '',
  'a',
  '{',
  '}',
  '[',
  ']',
  ',',
  '"',
  '\\',
  '\\"',
  '\n',
  '\u0000',
  'é',
  '😀',
  '\ud800',
  '}{',
  '__proto__',
  'ts',
]
const nastyNumbers = ['0', '-0', '1.10', '1e400', '12345678901234567890', '-1E-7', '9007199254740993']

/** JSON text with random white space, keys that repeat, and strings full of brackets. */
function randomText(random: () => number, depth: number): string {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
  const space = () => pick(['', '', '', ' ', '\n', '\r\n', '\t', ' \n '])
  const text = (value: string) => (random() < 0.2 ? escaped(value) : JSON.stringify(value))
  const kind = depth === 0 ? 'object' : pick(['object', 'array', 'string', 'number', 'word'])
  const count = depth > 4 ? 0 : Math.floor(random() * 4)
  const many = (one: () => string) => Array.from({ length: count }, () => space() + one() + space()).join(',')
  switch (kind) {
    case 'object':
      return `{${many(() => `${text(pick(nastyStrings))}${space()}:${space()}${randomText(random, depth + 1)}`) || space()}}`
    case 'array':
      return `[${many(() => randomText(random, depth + 1)) || space()}]`
    case 'string':
      return text(pick(nastyStrings))
    case 'number':
      return pick(nastyNumbers)
    default:
      return pick(['true', 'false', 'null'])
  }
}

function escaped(value: string): string {
  return `"${[...Array(value.length).keys()].map((i) => `\\u${value.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')}"`
}

t.test('record text: random JSON is cut into the records that JSON.parse sees', async (t) => {
  const wrong: string[] = []
  for (let seed = 1; seed <= 3000; seed++) {
    const random = generator(seed)
    const records = Array.from({ length: 1 + Math.floor(random() * 4) }, () => randomText(random, 0))
    const lines = stored(` [${records.join(' ,\n')}] `)
    // Only newlines may have changed, into spaces.
    const expected = records.map((record) => record.replace(/[\r\n]/g, ' '))
    if (JSON.stringify(lines) !== JSON.stringify(expected)) wrong.push(`seed ${seed}: ${lines}`)
  }
  t.strictSame(wrong, [])
})

// Where JSON.parse confuses keys there is nothing to compare with; on Node.js 20 and 22 it does not.
const oracle = confusesEscapedKeys() ? { skip: confusedKeysInWords } : {}
t.test(
  'record text: enrichment stands exactly once and wins, the other members are as sent',
  oracle,
  async (t) => {
    const wrong: string[] = []
    for (let seed = 1; seed <= 3000; seed++) {
      const record = randomText(generator(seed), 0)
      const [line] = stored(record, stamp)
      const given = new Map(Object.entries<unknown>(JSON.parse(line!)))
      const expected = new Map(Object.entries<unknown>(JSON.parse(record))).set('ts', 'now')
      const same = [...expected].every(
        ([key, value]) => JSON.stringify(given.get(key)) === JSON.stringify(value),
      )
      const stamps = line!.split('"ts":"now"').length - 1
      if (!same || given.size !== expected.size || stamps !== 1)
        wrong.push(`seed ${seed}: ${record} → ${line}`)
    }
    t.strictSame(wrong, [])
  },
)

t.test('record text: numbers, key order, spacing and duplicate keys are kept', async (t) => {
  const kept = [
    '{"big":12345678901234567890,"d":1.10,"huge":1e400,"one":1.0}',
    '{"b":1,"a":2,"2":3,"1":4}',
    '{ "a" : 1 ,  "a":2 }',
    '{"__proto__":{"x":1},"constructor":1}',
    '{"s":"\\ud800 \\u0000 \\/"}',
    '{"t":"ein 😀"}',
  ]
  t.strictSame(stored(`[${kept.join(',')}]`), kept)
  t.strictSame(
    stored(`[${kept.join(',')}]`, stamp),
    kept.map((text) =>
      text.endsWith(' }') ? '{ "a" : 1 ,  "a":2 ,"ts":"now"}' : `${text.slice(0, -1)},"ts":"now"}`,
    ),
  )
})

t.test('record text: an empty record gets the enrichment without a comma', async (t) => {
  t.strictSame(stored('{}', stamp), ['{"ts":"now"}'])
  t.strictSame(stored('{ }', stamp), ['{ "ts":"now"}'])
  t.strictSame(stored('[{},{}]', stamp), ['{"ts":"now"}', '{"ts":"now"}'])
})

t.test('record text: a member with an enrichment key goes, however often and however spelled', async (t) => {
  const cases: [string, string][] = [
    ['{"ts":1}', '{"ts":"now"}'],
    ['{"ts":1,"a":2}', '{"a":2,"ts":"now"}'],
    ['{"a":2,"ts":1}', '{"a":2,"ts":"now"}'],
    ['{"ts":{"x":[1,"}",{}]},"a":2,"ts":[3]}', '{"a":2,"ts":"now"}'],
    ['{"\\u0074s":1,"a":"\\",\\"ts\\":"}', '{"a":"\\",\\"ts\\":","ts":"now"}'],
    ['{"a":{"ts":1},"ts":2}', '{"a":{"ts":1},"ts":"now"}'],
    ['{"t":1,"ts":2,"tsx":3}', '{"t":1,"tsx":3,"ts":"now"}'],
  ]
  for (const [given, expected] of cases) t.strictSame(stored(given, stamp), [expected], given)
})

t.test('record text: an enrichment key named __proto__ is a key like any other', async (t) => {
  const proto = { keys: ['__proto__'], text: '"__proto__":"now"' }
  t.strictSame(stored('{"a":1}', proto), ['{"a":1,"__proto__":"now"}'])
  t.strictSame(stored('{"__proto__":{"x":1},"a":1}', proto), ['{"a":1,"__proto__":"now"}'])
})

t.test(
  'record text: raw newlines in white space become spaces, those in the enrichment or between records stay',
  async (t) => {
    t.strictSame(stored('[{\r\n"a":\n1}\n,\n{"b":[\n{}\r]}]', stamp), [
      '{  "a": 1,"ts":"now"}',
      '{"b":[ {} ],"ts":"now"}',
    ])
  },
)

t.test('a byte order mark is skipped (RFC 8259, section 8.1)', async (t) => {
  t.strictSame(stored(Buffer.from('\ufeff{"a":1}')), ['{"a":1}'])
  t.strictSame(storedLines('\ufeff{"a":1}\n{"b":2}'), ['{"a":1}', '{"b":2}'])
})

t.test('NDJSON: one object a line, blank lines and CRLF taken', async (t) => {
  t.strictSame(storedLines('{"a":1}\n\n  \r\n{"b":"}{"}\r\n{"c":3}\n'), ['{"a":1}', '{"b":"}{"}', '{"c":3}'])
  t.strictSame(storedLines('  {"a":1}  '), ['{"a":1}'])
})

t.test('NDJSON: the error names the line', async (t) => {
  t.match(
    codeOf(() => storedLines('{"a":1}\n\n{"b":}\n')),
    /^invalid_payload: Line 3 is not valid JSON/,
  )
  t.match(
    codeOf(() => storedLines('{"a":1}\n[1]\n')),
    /^invalid_payload: Line 2 is an array/,
  )
  t.match(
    codeOf(() => storedLines('null')),
    /^invalid_payload: Line 1 is null/,
  )
  t.match(
    codeOf(() => storedLines('{"a":1}{"b":2}')),
    /^invalid_payload: Line 1 is not valid JSON/,
  )
  t.match(
    codeOf(() => storedLines(`{"a":${'['.repeat(100)}${']'.repeat(100)}}`)),
    /^invalid_payload: Line 1: .*100 levels/,
  )
  t.match(
    codeOf(() => storedLines('\n \r\n')),
    /^empty_payload/,
  )
})

t.test('what is no object or array of objects is invalid_payload, naming the element', async (t) => {
  for (const text of [
    '1',
    '"x"',
    'true',
    'null',
    '{',
    '{"a":1}}',
    '{a:1}',
    '[{}',
    "{'a':1}",
    '{"a":01}',
    '{"a":1,}',
    'NaN',
    '{"a":1} x',
  ]) {
    t.match(
      codeOf(() => stored(text)),
      /^invalid_payload/,
      text,
    )
  }
  t.match(
    codeOf(() => stored('[{},1]')),
    /^invalid_payload: Element 1 of the array is a number/,
  )
  t.match(
    codeOf(() => stored('[{},{},null]')),
    /^invalid_payload: Element 2 of the array is null/,
  )
  t.match(
    codeOf(() => stored('[[{}]]')),
    /^invalid_payload: Element 0 of the array is an array/,
  )
  t.match(
    codeOf(() => stored('{"a":"\n"}')),
    /^invalid_payload/,
    'a raw newline in a string is not JSON',
  )
})

t.test('an empty array or body is empty_payload', async (t) => {
  for (const text of ['', ' \n', '[]', ' [ ] ', '\ufeff'])
    t.match(
      codeOf(() => stored(text)),
      /^empty_payload/,
      text,
    )
})

t.test('an object holding a records array is a single record', async (t) => {
  t.strictSame(stored('{"records":[{"a":1},{"a":2}]}'), ['{"records":[{"a":1},{"a":2}]}'])
})

t.test('nesting: 100 levels are taken, 101 rejected, the same in an array as alone', async (t) => {
  const nested = (levels: number) => `${'{"a":'.repeat(levels - 1)}{}${'}'.repeat(levels - 1)}`
  t.equal(stored(nested(100)).length, 1)
  t.equal(stored(`[${nested(100)},{}]`).length, 2)
  t.match(
    codeOf(() => stored(nested(101))),
    /^invalid_payload: A record is nested more than 100 levels/,
  )
  t.match(
    codeOf(() => stored(`[${nested(101)}]`)),
    /^invalid_payload: A record is nested more than 100 levels/,
  )
  t.match(
    codeOf(() => stored('['.repeat(200_000))),
    /^invalid_payload/,
  )
  t.equal(stored(`{"a":"${'['.repeat(500)}"}`).length, 1, 'brackets in a string are no nesting')
})

t.test('invalid UTF-8 is rejected, wherever it is', async (t) => {
  for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xf8, 0x88, 0x80, 0x80], [0xc0, 0x80]]) {
    const body = Buffer.concat([Buffer.from('{"a":"'), Buffer.from(bytes), Buffer.from('"}')])
    t.match(
      codeOf(() => stored(body)),
      /^invalid_payload: The body is not valid UTF-8/,
    )
    t.match(
      codeOf(() => ndjson(body)),
      /^invalid_payload: The body is not valid UTF-8/,
    )
  }
})

t.test('hostile bytes: the scan stays in bounds, and what JSON.parse rejects is rejected', async (t) => {
  const alphabet = Buffer.from('{}[]",:\\ \n1a\u00e9')
  const wrong: string[] = []
  let taken = 0
  for (let seed = 1; seed <= 30_000; seed++) {
    const random = generator(seed)
    const byte = () => alphabet[Math.floor(random() * alphabet.length)]!
    const bytes = Buffer.from(Array.from({ length: Math.floor(random() * 16) }, byte))
    const { bounds } = scanJson(bytes, 0, bytes.length, noLimits)
    if (bounds.some((bound) => bound < 0 || bound > bytes.length)) wrong.push(`seed ${seed}: out of bounds`)
    const isTaken = codeOf(() => json(bytes)) === 'no error'
    if (isTaken) taken++
    if (isTaken !== isRecords(bytes)) wrong.push(`seed ${seed}: ${bytes}`)
  }
  t.strictSame(wrong, [])
  t.ok(taken > 0, 'some of them are records')
})

function isRecords(bytes: Buffer): boolean {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
    const records = Array.isArray(value) ? value : [value]
    return (
      records.length > 0 &&
      records.every((one) => typeof one === 'object' && one !== null && !Array.isArray(one))
    )
  } catch {
    return false
  }
}
