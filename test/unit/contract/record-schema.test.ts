/** The verification of a schema: each keyword, the limits, and references. docs/dev/contract.md#schemas */
import t from 'tap'
import { jsonPointer, verifySchema } from '../../../src/contract/record-schema.ts'
import { schemaLimits } from '../../../src/contract/schema-words.ts'

const faults = (schema: unknown) => verifySchema(schema).map(({ path }) => jsonPointer(path))
const messages = (schema: unknown) => verifySchema(schema).map(({ message }) => message)

t.test('every keyword of the subset is accepted', async (t) => {
  const schema = {
    ...{
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      $id: 'https://example.com/order',
      $comment: 'c',
    },
    ...{ title: 'Order', description: 'd', default: {}, examples: [{}], deprecated: false },
    type: 'object',
    properties: {
      id: { type: ['string', 'null'], minLength: 1, maxLength: 10, pattern: '^o', format: 'uuid' },
      amount: {
        type: 'number',
        minimum: 0,
        maximum: 9,
        exclusiveMinimum: -1,
        exclusiveMaximum: 10,
        multipleOf: 0.5,
      },
      state: { enum: ['new', 1, null, { a: [] }] },
      kind: { const: 'order' },
      items: { type: 'array', items: { $ref: '#/$defs/item' }, minItems: 1, maxItems: 5, uniqueItems: true },
      pair: { prefixItems: [true, { type: 'integer' }], items: false },
      any: { anyOf: [{}, true], oneOf: [{ type: 'null' }], allOf: [{}], not: { type: 'boolean' } },
    },
    required: ['id'],
    additionalProperties: { type: 'string' },
    minProperties: 1,
    maxProperties: 50,
    $defs: { item: { type: 'object' }, 'a/b~c': { $ref: '#/$defs/item' } },
  }
  t.same(verifySchema(schema), [])
  t.same(verifySchema({ $defs: { 'a/b~c': true }, $ref: '#/$defs/a~1b~0c' }), [])
})

t.test('a keyword outside the subset is named with its path, at any depth', async (t) => {
  for (const keyword of [
    'patternProperties',
    'propertyNames',
    'if',
    'dependentRequired',
    'contains',
    'minimun',
    '$anchor',
  ])
    t.same(faults({ properties: { 'a/b': { items: { [keyword]: {} } } } }), [
      `/properties/a~1b/items/${keyword}`,
    ])
  t.match(messages({ patternProperties: {} }), [/Allowed: type, enum, const/])
  t.same(faults({ properties: { __proto__: null, constructor: { toString: 1 } } }), [
    '/properties/constructor/toString',
  ])
  t.same(faults(JSON.parse('{"properties":{"__proto__":{"hasOwnProperty":1}}}')), [
    '/properties/__proto__/hasOwnProperty',
  ])
})

t.test('a wrong value of each keyword is a fault at that keyword', async (t) => {
  const wrong: Record<string, unknown[]> = {
    type: ['text', [], ['string', 'string'], 1],
    enum: [[], 'a', Array.from({ length: schemaLimits.enumValues + 1 }, (_, index) => index)],
    properties: [[], { a: 1 }],
    required: ['a', ['a', 'a'], [1]],
    additionalProperties: [null, 'false'],
    items: [[{}], 1],
    prefixItems: [[], {}],
    ...Object.fromEntries(
      ['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'].map((one) => [
        one,
        [-1, 1.5, '1'],
      ]),
    ),
    ...Object.fromEntries(
      ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'].map((one) => [one, ['1', true, null]]),
    ),
    multipleOf: [0, -1, '2'],
    uniqueItems: [1],
    pattern: [1, 'a'.repeat(schemaLimits.patternCharacters + 1)],
    format: ['int32', 1],
    anyOf: [[], {}],
    not: [1],
    $schema: ['http://json-schema.org/draft-07/schema#'],
    $ref: ['#/definitions/a', 'https://example.com/a', '#', '#/$defs/missing', 1],
    title: [1],
  }
  for (const [keyword, values] of Object.entries(wrong))
    for (const value of values)
      t.ok(
        faults({ [keyword]: value }).every((path) => path.startsWith(`/${keyword}`)) &&
          faults({ [keyword]: value }).length > 0,
        `${keyword}: ${JSON.stringify(value).slice(0, 50)}`,
      )
  t.same(faults([]), [''])
  t.same(faults(null), [''])
})

t.test('a pattern is verified by the engine that is passed', async (t) => {
  const found = verifySchema({ properties: { a: { pattern: '(' } } }, () => 'missing )')
  t.same(
    found.map(({ path }) => jsonPointer(path)),
    ['/properties/a/pattern'],
  )
  t.match(found[0]?.message, 'missing )')
})

t.test('a reference to itself, through any number of definitions, is a fault', async (t) => {
  t.match(messages({ $defs: { a: { items: { $ref: '#/$defs/a' } } } }), [/itself/])
  const chain = {
    $defs: {
      a: { not: { $ref: '#/$defs/b' } },
      b: { items: { $ref: '#/$defs/c' } },
      c: { $ref: '#/$defs/a' },
    },
  }
  t.match(messages(chain), [/itself/])
})

t.test('definitions that multiply are counted after expansion', async (t) => {
  const doubling: Record<string, unknown> = { d0: { type: 'string' } }
  for (let level = 1; level < 16; level++)
    doubling[`d${level}`] = { anyOf: [{ $ref: `#/$defs/d${level - 1}` }, { $ref: `#/$defs/d${level - 1}` }] }
  t.match(messages({ $defs: doubling, $ref: '#/$defs/d15' }), [/at most 2000 schemas/])
  t.same(messages({ $defs: doubling, $ref: '#/$defs/d4' }), [], 'a smaller one is accepted')
})

t.test('depth, bytes and patterns are bounded, whatever the order of definitions', async (t) => {
  let deep: object = {}
  for (let level = 0; level < schemaLimits.depth; level++) deep = { items: deep }
  t.match(messages(deep), [/32 schemas deep/])
  const chain: Record<string, unknown> = {}
  for (let index = 0; index < 2_000; index++) chain[`d${index}`] = { $ref: `#/$defs/d${index + 1}` }
  chain.d2000 = true
  t.match(messages({ $defs: chain }).join(), /32 schemas deep/, 'a chain does not overflow the stack')
  t.match(messages({ description: 'x'.repeat(schemaLimits.bytes) }), [/at most 65536 bytes/])
  const properties = Object.fromEntries(
    Array.from({ length: 51 }, (_, index) => [`p${index}`, { pattern: 'a' }]),
  )
  t.match(messages({ properties }), [/too many/])
})
