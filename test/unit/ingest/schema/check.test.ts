/** The check of records: each keyword with values that match and do not match, and the words of errors. */
import t from 'tap'
import { type RecordSchema, verifySchema } from '../../../../src/contract/record-schema.ts'
import { patternVerifier } from '../../../../src/ingest/schema/linear-pattern.ts'
import {
  loadPatterns,
  type Mismatched,
  mismatchesOf,
  type SchemaRules,
  tagOf,
} from '../../../../src/ingest/schema/record-check.ts'

const rules = (schema: RecordSchema, given: Partial<SchemaRules> = {}): SchemaRules => ({
  schema: JSON.stringify(schema),
  hasPatterns: true,
  onMismatch: 'tag',
  tagField: 'schema_errors',
  steps: 1_000_000,
  isInTurn: false,
  ...given,
})
await loadPatterns(rules({}))

function checked(
  schema: RecordSchema,
  records: unknown[],
  given: Partial<SchemaRules> = {},
): Mismatched | null {
  const found = mismatchesOf(records, rules(schema, given))
  if (found === 'elsewhere') throw new Error('the steps were used up')
  return found
}
const errors = (schema: RecordSchema, record: unknown) =>
  checked(schema, [record])?.errors.map(({ path, message }) => `${path}: ${message}`) ?? []

/** Schema → values that match, values that do not. */
const cases: [RecordSchema, unknown[], unknown[]][] = [
  [{ type: 'string' }, ['', 'a'], [1, null, {}, []]],
  [{ type: 'integer' }, [1, -0, 1e15, 2.0], [1.5, '1', true]],
  [{ type: ['number', 'null'] }, [1.5, null], ['1', [], false]],
  [{ type: 'object' }, [{}], [[], null, 'a']],
  [{ type: 'array' }, [[]], [{}, null]],
  [{ type: 'boolean' }, [true, false], [0, 'true', null]],
  [
    { enum: ['a', 1, null, { x: [1], y: 2 }, [1, 2]] },
    ['a', 1, null, { y: 2, x: [1] }, [1, 2]],
    ['b', '1', 2, false, [2, 1], { x: [1] }],
  ],
  [{ enum: ['{"a":1}', '"x'] }, ['{"a":1}', '"x'], [{ a: 1 }, 'x']],
  [{ const: 0 }, [0, -0], [false, '0', null]],
  [{ properties: { a: { type: 'string' } } }, [{}, { a: 'x' }, { b: 1 }, 'not an object'], [{ a: 1 }]],
  [{ required: ['a', 'toString'] }, [{ a: null, toString: 1 }], [{ a: 1 }, { toString: 1 }, {}]],
  [{ properties: { a: true }, additionalProperties: false }, [{}, { a: 1 }], [{ b: 1 }, { a: 1, b: 1 }]],
  [{ required: ['a'], additionalProperties: false }, [], [{ a: 1 }, {}]],
  [{ additionalProperties: { type: 'integer' } }, [{ a: 1, b: 2 }], [{ a: 1, b: 'x' }]],
  [{ minProperties: 1, maxProperties: 2 }, [{ a: 1 }, { a: 1, b: 1 }], [{}, { a: 1, b: 1, c: 1 }]],
  [{ items: { type: 'integer' } }, [[], [1, 2], {}], [[1, 'x'], [null]]],
  [
    { prefixItems: [{ type: 'string' }, { type: 'integer' }], items: false },
    [[], ['a'], ['a', 1]],
    [['a', 1, 2], [1]],
  ],
  [{ prefixItems: [{ type: 'string' }] }, [['a', 1, {}]], [[1]]],
  [{ minItems: 1, maxItems: 2 }, [[1], [1, 2]], [[], [1, 2, 3]]],
  [
    { uniqueItems: true },
    [[], [1, '1', true, null], [{ a: 1 }, { a: 2 }]],
    [
      [1, 1],
      [
        { a: 1, b: 2 },
        { b: 2, a: 1 },
      ],
    ],
  ],
  [{ minLength: 2, maxLength: 3 }, ['ab', 'abc', '😀😀', '😀😀😀'], ['a', 'abcd', '😀', '😀😀😀😀']],
  [{ pattern: '^o-[0-9]+$' }, ['o-1', 'o-123', 5], ['o-', 'x', 'o-1x']],
  [{ pattern: 'b' }, ['abc'], ['ac', '']],
  [{ minimum: 1, maximum: 2 }, [1, 1.5, 2, 'x'], [0.99, 2.01]],
  [{ exclusiveMinimum: 1, exclusiveMaximum: 2 }, [1.5], [1, 2]],
  [{ multipleOf: 0.1 }, [0.3, 1, -0.7, 0], [0.35]],
  [{ multipleOf: 3 }, [0, 9, -3], [1, 3.5]],
  [{ anyOf: [{ type: 'string' }, { type: 'integer', minimum: 5 }] }, ['a', 5], [4, 5.5, null]],
  [{ oneOf: [{ type: 'number' }, { type: 'integer' }, { const: 'a' }] }, [1.5, 'a'], [1, null]],
  [{ allOf: [{ required: ['a'] }, { properties: { a: { type: 'null' } } }] }, [{ a: null }], [{}, { a: 1 }]],
  [{ not: { type: 'string' } }, [1, null], ['']],
  [{ $ref: '#/$defs/x', maximum: 5, $defs: { x: { type: 'integer' } } }, [5], [6, 1.5]],
  [
    { format: 'date-time' },
    ['2026-01-31T12:00:00Z', '2024-02-29t23:59:60.5z', '2026-01-01T00:00:00+05:30', 7],
    [
      '2026-02-29T00:00:00Z',
      '2026-01-31',
      '2026-01-31 12:00:00Z',
      '2026-01-31T12:00:00',
      '2026-01-31T24:00:00Z',
      '2026-01-31T12:00:60Z',
      '2026-01-31T12:00:00.Z',
    ],
  ],
  [
    { format: 'date' },
    ['2026-12-31', '2000-02-29'],
    ['2026-13-01', '1900-02-29', '2026-1-1', '2026-01-01T', ''],
  ],
  [
    { format: 'time' },
    ['12:00:00Z', '23:59:60Z', '00:59:60+01:00', '12:00:00.123-23:59'],
    ['12:00', '12:00:00', '25:00:00Z', '12:00:60Z'],
  ],
  [
    { format: 'email' },
    ['ada@example.com', 'a.b+c@x.y.org'],
    ['ada', '@x.y', 'a@b', 'a..b@x.y', 'a@x..y', 'a b@x.y', 'a@-x.y'],
  ],
  [{ format: 'uuid' }, ['123e4567-e89b-12d3-a456-426614174000'], ['123e4567e89b12d3a456426614174000', '']],
  [
    { format: 'uri' },
    ['https://example.com/a?b=c#d', 'urn:x:y', 'mailto:a@b.c', 'https://x/%20'],
    ['example.com', '/a', 'https://x/%2', 'https://x/a b', 'x:', 'https://ä'],
  ],
  [{ format: 'ipv4' }, ['192.0.2.1', '0.0.0.0'], ['256.1.1.1', '1.2.3', '01.2.3.4', '1.2.3.4.']],
  [{ format: 'ipv6' }, ['::1', '2001:db8::1', '::ffff:192.0.2.1'], ['1.2.3.4', ':::', '::1%eth0', '']],
  [{ format: 'hostname' }, ['example.com', 'a', '1-2.x'], ['-a', 'a-', 'a..b', '', `${'a'.repeat(64)}.b`]],
]

t.test('each keyword: what matches and what does not', async (t) => {
  for (const [schema, matching, others] of cases) {
    t.same(verifySchema(schema, patternVerifier()), [], `${JSON.stringify(schema)} is a schema`)
    for (const value of matching)
      t.same(errors(schema, value), [], `${JSON.stringify(schema)} ${JSON.stringify(value)}`)
    for (const value of others)
      t.ok(errors(schema, value).length > 0, `${JSON.stringify(schema)} not ${JSON.stringify(value)}`)
  }
})

t.test('an error names the path and what is allowed, never the value', async (t) => {
  const schema = {
    type: 'object',
    properties: {
      id: { type: 'string', pattern: '^o-' },
      state: { enum: ['open', 'paid'] },
      'a/b': { items: { type: 'object', required: ['x'] } },
      amount: { anyOf: [{ type: 'null' }, { type: 'number', minimum: 0 }] },
    },
    required: ['id'],
    additionalProperties: false,
  }
  const secret = 'SECRET'
  const found = errors(schema, {
    id: secret,
    state: secret,
    'a/b': [{ x: 1 }, {}, secret],
    amount: -7531,
    more: secret,
  })
  t.same(found, [
    '/id: must match the pattern ^o-',
    '/state: must be one of "open", "paid"',
    '/a~1b/1/x: is required',
    '/a~1b/2: must be an object, not a string',
    '/amount: must be at least 0',
    '/more: is not allowed; allowed: id, state, a/b, amount',
  ])
  t.notMatch(JSON.stringify(found), /SECRET|7531/)
  t.same(errors(schema, {}), ['/id: is required'])
})

t.test('at most ten errors of a record and of a request; `reject` counts all records', async (t) => {
  const schema = { additionalProperties: { type: 'integer' } }
  const record = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`k${index}`, 'x']))
  t.equal(errors(schema, record).length, 10)
  const all = checked(schema, [record, { a: 1 }, record, record], { onMismatch: 'reject' })
  t.match(all, { records: 3 })
  t.equal(all?.errors.length, 10)
  t.equal(all?.byRecord.size, 0)
  const tagged = checked(schema, [{ a: 1 }, record, { b: 'x' }])
  t.same([...(tagged?.byRecord.keys() ?? [])], [1, 2])
  t.equal(
    tagOf(rules(schema), tagged?.byRecord.get(2) ?? []),
    '"schema_errors":["/b: must be a whole number, not a string"]',
  )
})

t.test('keys with a meaning in JavaScript are ordinary keys', async (t) => {
  const schema = JSON.parse(
    '{"properties":{"__proto__":{"type":"string"},"constructor":{"type":"string"}},"required":["__proto__"],"additionalProperties":false}',
  )
  t.same(errors(schema, JSON.parse('{"__proto__":"a","constructor":"b"}')), [])
  t.same(errors(schema, JSON.parse('{"__proto__":1}')), ['/__proto__: must be a string, not a whole number'])
  t.same(errors(schema, {}), ['/__proto__: is required'])
})

t.test('keys in paths are shortened, without control characters and lone surrogates', async (t) => {
  const [found = ''] = errors({ additionalProperties: false }, { [`\u0000\ud800${'x'.repeat(1_000)}`]: 1 })
  t.ok(found.isWellFormed() && found.length < 200 && !found.includes('\u0000'), found)
})
