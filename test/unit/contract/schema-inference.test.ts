/** A schema that is inferred from records accepts all of them, and rejects records that deviate. */
import t from 'tap'
import { verifySchema } from '../../../src/contract/record-schema.ts'
import {
  type InferenceOptions,
  type JsonSchema,
  SchemaInference,
} from '../../../src/contract/schema-inference/infer-schema.ts'
import { openRecordCheck } from '../../../src/ingest/schema/open-check.ts'
import { generator, type Random } from '../../support/random-json.ts'

type Json = Record<string, unknown>
/** The check of ingest, for a schema that a pipe can have. */
async function compiled(schema: JsonSchema): Promise<(record: Json) => boolean> {
  t.same(verifySchema(schema), [])
  const check = await openRecordCheck(schema)
  return (record) => check(record, 1_000_000).length === 0
}
const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]!
const below = (random: Random, limit: number): number => Math.floor(random() * limit)
const hex = (random: Random, digits: number) =>
  Array.from({ length: digits }, () => below(random, 16).toString(16)).join('')
const uuid = (random: Random) => [8, 4, 4, 4, 12].map((digits) => hex(random, digits)).join('-')
const time = (random: Random) => new Date(1.6e12 + below(random, 1e11)).toISOString()

function order(random: Random): Json {
  const items = Array.from({ length: below(random, 4) }, () => ({
    sku: `A-${below(random, 1e6)}`,
    quantity: 1 + below(random, 9),
    price: below(random, 10_000) / 100,
    ...(random() < 0.3 ? { gift: random() < 0.5 } : {}),
  }))
  return {
    id: uuid(random),
    created: time(random),
    day: time(random).slice(0, 10),
    status: pick(random, ['new', 'paid', 'shipped', 'in transit']),
    total: below(random, 100_000) / 100,
    count: below(random, 50),
    express: random() < 0.5,
    note: random() < 0.5 ? null : `text ${below(random, 1e9)} of a person who writes`,
    customer: {
      name: pick(random, ['Ada', 'Grace', 'Edsger']),
      email: `user${below(random, 1e6)}@example.com`,
      ip: random() < 0.5 ? `10.0.${below(random, 256)}.7` : '192.0.2.1',
      address: { country: pick(random, ['AT', 'DE', 'CH']), lines: [`Street ${below(random, 99)}`] },
    },
    items,
    stock: Object.fromEntries(
      Array.from({ length: 1 + below(random, 5) }, () => [
        `wh${below(random, 100_000) + 10_000}`,
        below(random, 9),
      ]),
    ),
    reading: pick<unknown>(random, [1, 2.5, 'n/a']),
    ...(random() < 0.2 ? { coupon: `C${below(random, 1e4)}` } : {}),
  }
}

function inferred(
  records: Iterable<Json>,
  options: InferenceOptions = {},
  ignored: string[] = [],
): JsonSchema {
  const inference = new SchemaInference(ignored)
  for (const record of records) inference.add(record)
  return inference.schema(options).schema
}

const orders = Array.from(
  (function* () {
    const random = generator(1)
    for (let at = 0; at < 100_000; at += 1) yield order(random)
  })(),
)
const closed = inferred(orders, { additionalProperties: false })
const open = inferred(orders)

t.test('it accepts each of 100,000 varied records', async (t) => {
  for (const schema of [closed, open]) {
    const check = await compiled(schema)
    t.equal(
      orders.findIndex((record) => !check(record)),
      -1,
    )
  }
})

/** A record with one change at a path. `undefined` removes the key. */
function changed(path: string, value: unknown): Json {
  const record = structuredClone(orders.find(({ items }) => (items as unknown[]).length > 0)!)
  const keys = path.split('.')
  const last = keys.pop()!
  let inside: Json = record
  for (const key of keys) inside = inside[key] as Json
  if (value === undefined) delete inside[last]
  else inside[last] = value
  return record
}

const required = [
  ...['id', 'created', 'day', 'status', 'total', 'count', 'express', 'note', 'customer', 'items', 'stock'],
  ...['customer.name', 'customer.email', 'customer.ip', 'customer.address', 'customer.address.country'],
  ...['customer.address.lines', 'items.0.sku', 'items.0.quantity', 'items.0.price', 'reading'],
]
const deviations: Record<string, unknown[]> = {
  id: ['no uuid', 1, null, '0190b0a0-0000-7000-8000-00000000000g'],
  created: ['yesterday', 1, '2024-02-30T00:00:00Z', null],
  day: ['2024-13-01', '2024-01-01T00:00:00Z', {}],
  status: ['lost', 'PAID', '', null, 1],
  total: ['1', null, [1]],
  count: [1.5, '1', null, true],
  express: ['true', 0, null],
  note: [1, {}],
  customer: ['Ada', null, []],
  'customer.name': [1, null],
  'customer.email': ['nobody', 'a@', 1],
  'customer.ip': ['10.0.0.256', '::1', 1],
  'customer.address.country': ['FR', null],
  'customer.address.lines': ['Street 1', {}],
  'customer.address.lines.0': [1, null, {}],
  items: [{}, null, 'none'],
  'items.0': [null, 'A-1', []],
  'items.0.sku': [1],
  'items.0.quantity': [1.5, '1'],
  'items.0.price': ['1.00'],
  'items.0.gift': ['yes', null],
  stock: [[], null],
  'stock.wh10001': [1.5, '1', null],
  reading: [null, true, {}],
  coupon: [1, null],
}
const extraKeys = ['extra', 'customer.extra', 'customer.address.extra', 'items.0.extra', 'Status']

t.test(
  'it rejects each single deviation: a missing key, a type, a value, a format, an extra key',
  async (t) => {
    for (const [name, schema] of Object.entries({ closed, open })) {
      const check = await compiled(schema)
      for (const path of required) t.notOk(check(changed(path, undefined)), `${name}: without ${path}`)
      for (const [path, values] of Object.entries(deviations))
        for (const value of values)
          t.notOk(check(changed(path, value)), `${name}: ${path} = ${JSON.stringify(value)}`)
      for (const path of extraKeys) t.equal(check(changed(path, 1)), name === 'open', `${name}: with ${path}`)
    }
    t.ok((await compiled(closed))(changed('coupon', 'C1')), 'negative control: an optional key is accepted')
    t.ok((await compiled(closed))(changed('stock.wh77777', 1)), 'a new key of a map is accepted')
  },
)

t.test('names, free text and rare values get no enum', async (t) => {
  const { properties } = open as { properties: Record<string, Json> }
  t.same(properties.status, { type: 'string', enum: ['in transit', 'new', 'paid', 'shipped'] })
  const customer = properties.customer as { properties: Record<string, Json> }
  t.same(customer.properties.name, { type: 'string' })
  t.same(properties.note, { type: ['string', 'null'] })
  const rare = Array.from({ length: 200 }, (_, at) => ({ state: at === 7 ? 'rare' : 'usual' }))
  t.same(inferred(rare).properties, { state: { type: 'string' } })
  const few = Array.from({ length: 99 }, () => ({ state: 'usual' }))
  t.same(inferred(few).properties, { state: { type: 'string' } })
})

t.test('options switch enums, formats and minimums', async (t) => {
  const plain = inferred(orders, { enums: false, formats: false, minimums: true })
  const { properties } = plain as { properties: Record<string, Json> }
  t.same(properties.status, { type: 'string' })
  t.same(properties.id, { type: 'string' })
  t.same(properties.count, { type: 'integer', minimum: 0 })
})

t.test('keys that the pipe adds are left out', async (t) => {
  const schema = inferred([{ id: 1, ingest_ts: 'x', inner: { ingest_ts: 1 } }], {}, ['ingest_ts'])
  t.same(schema.required, ['id', 'inner'])
})

t.test('numbers that a double cannot hold, __proto__ and long keys are accepted', async (t) => {
  const record = JSON.parse(
    `{"n":1e400,"__proto__":{"a":1},"${'k'.repeat(3_000)}":1,"":"","a":[],"b":[[1],[]]}`,
  )
  const check = await compiled(inferred([record], { additionalProperties: false }))
  t.ok(check(record))
})

/** Any JSON, with few keys, so that many values meet at one path. */
function anyValue(random: Random, depth: number): unknown {
  switch (below(random, depth > 4 ? 6 : 9)) {
    case 0:
      return null
    case 1:
      return random() < 0.5
    case 2:
      return below(random, 100)
    case 3:
      return random() * 100
    case 4:
      return pick(random, ['a', 'b', '2024-01-01', '10.0.0.1', uuid(random)])
    case 5:
      return pick(random, [1e300, -0, 2 ** 60])
    case 6:
      return Array.from({ length: below(random, 4) }, () => anyValue(random, depth + 1))
    default:
      return anyObject(random, depth + 1)
  }
}

function anyObject(random: Random, depth: number): Json {
  const isMap = random() < 0.1
  const key = () =>
    isMap ? `${below(random, 1e5) + 1000}` : pick(random, ['a', 'b', 'c', 'd', 'toString', '__proto__'])
  const entries = Array.from({ length: below(random, isMap ? 40 : 5) }, () => [
    key(),
    anyValue(random, depth),
  ])
  return JSON.parse(`{${entries.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`)}}`)
}

t.test('any records match the schema that was inferred from them', async (t) => {
  for (let seed = 0; seed < 150; seed += 1) {
    const random = generator(seed)
    const many = Array.from({ length: 1 + below(random, 150) }, () => anyObject(random, 0))
    const schema = inferred(many, { additionalProperties: seed % 2 === 0, minimums: true })
    const check = await compiled(schema)
    const rejected = many.find((record) => !check(record))
    if (rejected !== undefined) t.fail(`seed ${seed}`, { rejected, schema })
  }
  t.pass()
})

const deep = (levels: number, value: unknown): unknown =>
  levels === 0 ? value : { d: [deep(levels - 1, value)] }
const hostile: Record<string, Json[]> = {
  'many keys': Array.from({ length: 50 }, (_, at) =>
    Object.fromEntries(Array.from({ length: 2_000 }, (_, key) => [`k${at}x${key}y`, key % 2 ? 'a' : 1])),
  ),
  'many nested keys': Array.from({ length: 2_000 }, (_, at) => ({
    [`a${at}`]: { [`b${at}`]: { [`c${at}`]: [[[1]]] } },
  })),
  'deep values': [deep(1_000, 1) as Json, deep(1_000, 'a') as Json],
  'long keys and values': Array.from({ length: 300 }, (_, at) => ({
    [`${at}`.repeat(199)]: 'v'.repeat(1e5),
  })),
  'maps in maps': Array.from({ length: 500 }, (_, at) => ({
    m: { [`${at}000`]: { [`${at}111`]: { id: at } } },
  })),
  'many values': [{ list: Array.from({ length: 1e5 }, (_, at) => (at % 3 === 0 ? at : `v${at}`)) }],
}

t.test('hostile records give a schema within the limits, which accepts them', async (t) => {
  for (const [name, many] of Object.entries(hostile)) {
    for (const additionalProperties of [true, false]) {
      const schema = inferred(many, { additionalProperties })
      const text = JSON.stringify(schema)
      t.ok(text.length <= 32 * 1024, `${name}: ${text.length} characters`)
      const check = await compiled(schema)
      t.equal(
        many.findIndex((record) => !check(record)),
        -1,
        name,
      )
    }
  }
})
