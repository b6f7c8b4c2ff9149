/** Single values: the scanner's walk, with the check of what it does not know, decides as the check does. */
import t from 'tap'
import type { RecordSchema } from '../../../../src/contract/record-schema.ts'
import { resourceLimits } from '../../../../src/contract/resource-limits.ts'
import { openScanner, type Preparation, prepareBody } from '../../../../src/ingest/prepare.ts'
import { isConfirmed } from '../../../../src/ingest/schema/body-check.ts'
import { loadPatterns, mismatchesOf, type SchemaRules } from '../../../../src/ingest/schema/record-check.ts'

const scanner = openScanner(resourceLimits.mainScannerBytes)!
const preparation: Preparation = {
  format: 'json',
  limits: { maxRecords: 100, maxKeys: 10_000, maxValues: Number.POSITIVE_INFINITY },
  pipeMaxRecords: null,
  enrichment: { keys: [], text: '' },
  requiredFields: [],
  schema: null,
  withHash: false,
}
const rulesOf = (schema: RecordSchema): SchemaRules => ({
  schema: JSON.stringify(schema),
  hasPatterns: true,
  onMismatch: 'reject',
  tagField: 'e',
  steps: 10_000_000,
  isInTurn: false,
})
await loadPatterns(rulesOf({}))

/** Null: the scanner rejects the text. */
function isWalked(text: string, schema: RecordSchema): boolean | null {
  return scanner.scan(Buffer.from(text), preparation) ? isConfirmed(scanner, rulesOf(schema)) : null
}

/** The texts of values for which the two differ. */
function differing(schema: RecordSchema, values: readonly string[]): string[] {
  const properties = { v: schema }
  return values.filter((value) => {
    const matches = mismatchesOf([JSON.parse(`{"v":${value}}`)], rulesOf({ properties })) === null
    return isWalked(`{"v":${value}}`, { properties }) !== matches
  })
}

const quoted = (texts: readonly string[]) => texts.map((text) => JSON.stringify(text))

t.test('every day of some years, and days that no month has', async (t) => {
  const two = (number: number) => String(number).padStart(2, '0')
  const days = ['1900', '2000', '2024', '2026', '2100', '0000', '9999'].flatMap((year) =>
    Array.from({ length: 14 * 33 }, (_, at) => `${year}-${two(Math.floor(at / 33))}-${two(at % 33)}`),
  )
  const odd = [
    '2026-1-001',
    '2026/01/01',
    '20260101',
    '2026-01-1',
    '2026-01-011',
    '２026-01-01',
    '-026-01-01',
    '',
  ]
  t.same(differing({ format: 'date' }, quoted([...days, ...odd])), [])
  const times = days.filter((_, at) => at % 5 === 0).map((day) => `${day}T23:59:59.5+14:00`)
  t.same(differing({ format: 'date-time' }, quoted(times)), [])
})

t.test('times of day, fractions and offsets', async (t) => {
  const clocks = [
    '00:00:00',
    '23:59:59',
    '24:00:00',
    '12:60:00',
    '12:00:60',
    '23:59:60',
    '1:00:00',
    '12:00',
    '12-00-00',
  ]
  const fractions = ['', '.', '.0', '.123456789', `.${'9'.repeat(25)}`, `.${'9'.repeat(40)}`, ',5', '.5a']
  const zones = [
    'Z',
    'z',
    '',
    '+00:00',
    '-23:59',
    '+24:00',
    '+01:60',
    '+0100',
    '+01',
    'Z ',
    '+01:000',
    '−01:00',
    'ZZ',
  ]
  const texts = clocks.flatMap((clock) =>
    fractions.flatMap((fraction) =>
      zones.flatMap((zone) =>
        ['T', 't', ' '].map((separator) => `2026-02-28${separator}${clock}${fraction}${zone}`),
      ),
    ),
  )
  t.same(differing({ format: 'date-time' }, quoted(texts)), [])
})

t.test('identifiers with one other character', async (t) => {
  const uuid = '123e4567-E89b-12d3-a456-42661417400f'
  const others = Array.from({ length: 36 }, (_, at) =>
    ['g', '-', '/', ':', '@', '`', 'F', 'é'].map((one) => `${uuid.slice(0, at)}${one}${uuid.slice(at + 1)}`),
  )
  t.same(differing({ format: 'uuid' }, quoted([uuid, `${uuid}0`, uuid.slice(1), ...others.flat()])), [])
})

t.test('lengths are in code points', async (t) => {
  const parts = ['a', 'é', '東', '😀', '\ud83d', '"', '\n']
  const texts = parts.flatMap((one) =>
    parts.flatMap((two) => [0, 1, 2, 3, 7].map((times) => one.repeat(times) + two.repeat(3))),
  )
  for (const limits of [
    { minLength: 2 },
    { maxLength: 4 },
    { minLength: 5, maxLength: 5 },
    { minLength: 1e12 },
  ])
    t.same(differing({ ...limits }, quoted(texts)), [], JSON.stringify(limits))
})

t.test('numbers in every spelling', async (t) => {
  const whole = ['0', '-0', '1', '-1', '12', '123456789012345', '1234567890123456', '99999999999999999999']
  const spellings = whole.flatMap((one) => [
    one,
    `${one}.0`,
    `${one}.5`,
    `${one}e0`,
    `${one}E-1`,
    `${one}.25e2`,
  ])
  const more = [
    '0.1',
    '0.3',
    '0.30000000000000004',
    '1e400',
    '-1e400',
    '1e-400',
    '4.35',
    '0.000000000000001',
    '2.5',
  ]
  const schemas: RecordSchema[] = [
    ...[
      { type: 'integer' },
      { type: 'number' },
      { type: ['integer', 'null'] },
      { minimum: 0 },
      { maximum: 12 },
    ],
    ...[{ exclusiveMinimum: 1 }, { exclusiveMaximum: 0.3 }, { minimum: 0, exclusiveMaximum: 12.5 }],
    ...[{ multipleOf: 3 }, { multipleOf: 0.1 }, { multipleOf: 1e15 }, { multipleOf: 2 ** 60 }, { const: 0 }],
    ...[{ enum: [1, 12.5, '1'] }, { type: 'integer', enum: [0.5, 12] }],
    { enum: Array.from({ length: 40 }, (_, at) => at / 4) },
  ]
  for (const schema of schemas) t.same(differing(schema, [...spellings, ...more]), [], JSON.stringify(schema))
})

t.test('enumerated texts, few and many, with a common beginning and end', async (t) => {
  for (const count of [1, 3, 9, 300, 1_000]) {
    const values = Array.from({ length: count }, (_, at) => `value-${at * 7}-ü`)
    const texts = Array.from({ length: 500 }, (_, at) => `value-${at}-ü`)
    t.same(
      differing(
        { enum: ['', 'a', 'ab', 'abc', '\ud800', ...values] },
        quoted([...texts, 'a', 'b', 'abcd', '\ufffd']),
      ),
      [],
    )
  }
  // The same length, first, middle and last bytes: they share a hash, so the check decides.
  const alike = Array.from(
    { length: 40 },
    (_, at) => `same${String(at).padStart(4, '0')}middle${'x'.repeat(4)}same`,
  )
  t.same(differing({ enum: alike }, quoted([...alike, alike[0]!.replace('0000', '9999')])), [])
  const keys = Object.fromEntries(alike.map((key) => [key, { type: 'string' }]))
  const schema = { properties: keys, required: [alike[3]!], additionalProperties: false }
  t.same(differing(schema, [`{"${alike[3]}":"a"}`, `{"${alike[4]}":"a"}`, `{"${alike[3]}":1}`, '{}']), [])
})

t.test('a long expected key would pass the end of the memory', async (t) => {
  const key = 'k'.repeat(60_000)
  const schema = { properties: { f: { type: 'string' }, [key]: { type: 'string' } }, maxProperties: 2 }
  // The memory is just enough for the body and its stored form.
  const small = openScanner(3 * 65_536)!
  for (const other of ['b', key.slice(0, 100)]) {
    const text = `{"f":"${'x'.repeat(32_000)}","${other}":1}`
    t.ok(small.scan(Buffer.from(text), preparation))
    t.ok(isConfirmed(small, rulesOf(schema)))
  }
  t.equal(isWalked(`{"f":"","${key}":"x"}`, schema), true)
  t.equal(isWalked(`{"f":"","${key}":1}`, schema), false)
})

t.test('alternatives by type, which the scanner decides, and others', async (t) => {
  const values = [
    'null',
    'true',
    'false',
    '0',
    '1',
    '1.5',
    '"a"',
    '"ab"',
    '{}',
    '{"a":1}',
    '{"a":null}',
    '[]',
    '[1]',
  ]
  const alternatives: RecordSchema[][] = [
    ...[
      [{ type: 'null' }, { type: 'string', minLength: 2 }],
      [{ type: 'integer' }, { type: 'number', minimum: 1 }],
    ],
    ...[
      [{ type: 'boolean' }, { $ref: '#/$defs/o' }],
      [{ type: ['null', 'integer'] }, { type: 'array', maxItems: 0 }],
    ],
    ...[
      [{ type: 'string', pattern: '^a$' }, { enum: [null, 1] }],
      [{ type: 'object', enum: [{ a: 1 }] }, { type: 'null' }],
    ],
    ...[
      [{ type: 'string' }, { type: 'string', maxLength: 1 }],
      [
        { type: 'integer', title: 'x' },
        { type: 'null', enum: [1] },
      ],
    ],
    [{ type: ['null', 'boolean'] }, { type: 'number' }, { type: ['string', 'array'] }, { type: 'object' }],
    [
      { type: 'boolean', const: true },
      { type: 'null', not: {} },
    ],
  ]
  const $defs = { o: { $ref: '#/$defs/p' }, p: { type: 'object', required: ['a'] } }
  for (const all of alternatives)
    for (const keyword of ['anyOf', 'oneOf']) {
      const root = { properties: { v: { [keyword]: all } }, $defs }
      const wrong = values.filter(
        (value) =>
          isWalked(`{"v":${value}}`, root) !==
          (mismatchesOf([JSON.parse(`{"v":${value}}`)], rulesOf(root)) === null),
      )
      t.same(wrong, [], JSON.stringify(root))
    }
})

t.test('numbers of members and elements', async (t) => {
  const values = [
    '{}',
    '{ }',
    '{"a":1}',
    '{"a":1,"b":2}',
    '{"a":1,"b":2,"c":3}',
    '[]',
    '[ ]',
    '[1]',
    '[1,2]',
    '[1,2,3]',
  ]
  const schemas: RecordSchema[] = [
    ...[
      { minProperties: 1 },
      { maxProperties: 1 },
      { maxProperties: 0 },
      { minProperties: 2, maxProperties: 2 },
    ],
    ...[{ minItems: 1 }, { maxItems: 2 }, { minItems: 2, maxItems: 2 }, { maxItems: 0 }],
    ...[{ prefixItems: [{ const: 1 }, { const: 2 }], items: false }, { prefixItems: [{ const: 2 }] }],
    ...[{ required: ['b'] }, { properties: { a: { const: 1 } }, additionalProperties: { const: 2 } }],
    { properties: { a: false }, minProperties: 1 },
  ]
  for (const schema of schemas) t.same(differing(schema, values), [], JSON.stringify(schema))
})

t.test('a schema that is too large for the scanner is left to the check', async (t) => {
  const names = Array.from({ length: 1_900 }, (_, at) => `property_${at}`)
  const schema = { properties: Object.fromEntries(names.map((name) => [name, { type: 'integer' }])) }
  t.equal(isWalked('{"property_7":1}', schema), false)
  t.equal(isWalked('{"a":1}', { properties: { a: { type: 'integer' } } }), true, 'and the next one is not')
})

t.test('schemas take turns, and members change their order', async (t) => {
  const schemas = [
    { properties: { a: { type: 'integer' }, b: { type: 'string' }, c: {} }, additionalProperties: false },
    { properties: { a: { type: 'string' }, b: { type: 'integer' } }, required: ['b'] },
  ]
  const texts = [
    '{"a":1,"b":"x","c":[]}',
    '{"c":1,"b":"x","a":2}',
    '{"b":"x"}',
    '{"a":"x","b":1}',
    '{"b":1,"a":"x"}',
  ]
  for (let turn = 0; turn < 40; turn++) {
    const schema = schemas[turn % 3 === 0 ? 0 : 1]!
    const text = texts[turn % texts.length]!
    t.equal(isWalked(text, schema), mismatchesOf([JSON.parse(text)], rulesOf(schema)) === null, text)
  }
})

// JSON.parse of Node.js 24 takes the second record's key for the first one's.
t.test('the members of a record are those that it has, however it writes their keys', async (t) => {
  const body = Buffer.from('{"the check":1,"\\\\":"x"}\n{"the check":1,"\\u005d":2}')
  const schema = rulesOf({
    properties: { '\\': { type: 'string' }, ']': { type: 'integer' } },
    additionalProperties: { const: 1 },
  })
  const prepared = prepareBody(body, { ...preparation, format: 'ndjson', schema }, () => {})
  t.equal(prepared?.mismatched, null)
  const strict = { ...schema, schema: JSON.stringify({ required: [']'] }) }
  const found = prepareBody(body, { ...preparation, format: 'ndjson', schema: strict }, () => {})
  t.same(found?.mismatched?.errors, [{ record: 0, path: '/]', message: 'is required' }])
})
