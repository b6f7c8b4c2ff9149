/** The scanner's walk over a body never confirms what the check rejects, and confirms the common cases. */
import t from 'tap'
import type { RecordSchema } from '../../../../src/contract/record-schema.ts'
import { resourceLimits } from '../../../../src/contract/resource-limits.ts'
import { openScanner } from '../../../../src/ingest/prepare.ts'
import { isConfirmed } from '../../../../src/ingest/schema/body-check.ts'
import { loadPatterns, mismatchesOf, type SchemaRules } from '../../../../src/ingest/schema/record-check.ts'
import { Random } from './random.ts'

const rulesOf = (schema: RecordSchema): SchemaRules => ({
  schema: JSON.stringify(schema),
  hasPatterns: true,
  onMismatch: 'reject',
  tagField: 'e',
  steps: 1_000_000,
  isInTurn: false,
})
await loadPatterns(rulesOf({}))

const scanner = openScanner(resourceLimits.mainScannerBytes)!
const scanRules = {
  limits: { maxRecords: 100, maxKeys: 1_000 },
  pipeMaxRecords: null,
  enrichment: { keys: [], text: '' },
  requiredFields: [],
}
const isScanned = (text: string) =>
  scanner.scan(Buffer.from(text), { ...scanRules, format: 'json' }) ||
  scanner.scan(Buffer.from(text), { ...scanRules, format: 'ndjson' })
const walks = (schema: RecordSchema, text: string) => isScanned(text) && isConfirmed(scanner, rulesOf(schema))
const matches = (schema: RecordSchema, records: readonly unknown[]) =>
  mismatchesOf(records, rulesOf(schema)) === null

const oddTexts = [
  ...['2026-02-30T12:00:00Z', '2026-01-28T23:59:60Z', '2026-01-28T24:00:00Z', '2026-01-28T12:00:00.Z'],
  ...['2026-01-28T12:00:00.123Z', '2026-01-28t12:00:00z', '2026-01-28T12:00:00+01:00', '2026-01-28T12:00Z'],
  ...['2026-13-01', '2026-02-30', '2026-1-01', '20260101', '123e4567-e89b-12d3-a456-42661417400g'],
  ...['"', '\\', 'a"b', 'a\\', '\n', 'é', 'ab😀', '\ud800', '{"a":1}', 'a":'],
]
const oddNumbers = ['-0', '1.0', '1e0', '10e-1', '0.1', '1E400', '-1e-400', '2.50', '9007199254740993']
const moreNumbers = [
  '123456789012345',
  '1234567890123456',
  '0.30000000000000004',
  '4.999999999999999999',
  '-2',
]
const oddKeys = ['a"', 'a\\', '', '__proto__', 'a":', '\ud800', '\ufffd', 'ab', 'toString']

/** JSON text of a value, in one of its many spellings, sometimes with keys twice. */
class Writer {
  readonly #random: Random

  constructor(random: Random) {
    this.#random = random
  }

  text(value: unknown): string {
    const random = this.#random
    if (random.below(12) === 0) return this.#space() + random.pick([...oddNumbers, ...moreNumbers])
    if (random.below(12) === 0) return this.#space() + this.#string(random.pick(oddTexts))
    return this.#space() + this.#token(value) + this.#space()
  }

  #token(value: unknown): string {
    if (typeof value === 'string') return this.#string(value)
    if (Array.isArray(value)) return `[${value.map((one) => this.text(one)).join(',') || this.#space()}]`
    if (typeof value !== 'object' || value === null) return JSON.stringify(value)
    return `{${
      Object.entries(value)
        .flatMap(([key, inner]) => this.#members(key, inner))
        .join(',') || this.#space()
    }}`
  }

  #members(key: string, value: unknown): string[] {
    const random = this.#random
    const member = () => `${this.#space()}${this.#string(key)}${this.#space()}:${this.text(value)}`
    const other = () => `${this.#string(random.pick([...oddKeys, key]))}:${this.text(random.value(3))}`
    const members = [member()]
    if (random.below(10) === 0) members.unshift(other())
    if (random.below(10) === 0) members.push(random.below(2) === 0 ? other() : member())
    return members
  }

  #string(value: string): string {
    const text = JSON.stringify(value)
    if (this.#random.below(12) > 0) return text
    const escaped = value.replace(/./su, (one) =>
      [...Array(one.length).keys()]
        .map((at) => `\\u${one.charCodeAt(at).toString(16).padStart(4, '0')}`)
        .join(''),
    )
    return /["\\\n]/.test(value) ? text : `"${escaped}"`
  }

  #space(): string {
    return this.#random.below(8) === 0 ? this.#random.pick([' ', '  ', '\t', ' \r\n']) : ''
  }
}

t.test('random schemas and texts: what it confirms matches', async (t) => {
  const random = new Random(11)
  const writer = new Writer(random)
  const wrong: string[] = []
  let matching = 0
  let confirmed = 0
  for (let round = 0; round < 2_500; round++) {
    const inner = random.schema()
    const keys = random.below(3) === 0 ? [random.pick(oddKeys)] : ['v', random.pick(oddKeys)]
    const schema = { type: 'object', properties: Object.fromEntries(keys.map((key) => [key, inner])) }
    for (let index = 0; index < 12; index++) {
      const texts = [0, 1].map(() => writer.text({ [keys[0]!]: random.value() }))
      if (!texts.every((text) => text.trim().startsWith('{'))) continue
      const records = texts.map((text) => JSON.parse(text))
      const isMatch = matches(schema, records)
      const bodies = [`[${texts.join(',')}]`, texts.map((text) => text.replace(/\r\n/g, ' ')).join('\n')]
      if (isMatch) matching++
      for (const body of bodies) {
        if (!walks(schema, body)) continue
        confirmed++
        if (!isMatch) wrong.push(`${JSON.stringify(schema)} ${body}`)
      }
    }
  }
  t.same(wrong, [])
  t.ok(confirmed > matching, `${confirmed} of ${2 * matching} bodies are confirmed`)
})

const order = {
  type: 'object',
  properties: {
    id: { type: 'string', minLength: 1, maxLength: 40 },
    state: { enum: ['open', 'paid', 'für später', null] },
    total: { type: 'number', minimum: 0, maximum: 1e6 },
    items: { type: 'array', minItems: 1, items: { $ref: '#/$defs/item' } },
    at: { type: 'string', format: 'date-time' },
    key: { type: 'string', format: 'uuid' },
  },
  required: ['id', 'total'],
  additionalProperties: false,
  $defs: { item: { type: 'object', properties: { n: { type: 'integer', multipleOf: 2 } }, required: ['n'] } },
}
const [start, uuid] = ['"id":"a","total":1', '123e4567-e89b-12d3-a456-426614174000']

t.test('confirms the common cases', async (t) => {
  const texts = [
    `{${start}}`,
    `\ufeff [ {${start}} , {"total":0.5,"id":"b\\n"} ]`,
    `{${start},"state":"für später"}\n{${start},"state":null}\n`,
    `{${start},"items":[{"n":2},{"n":-4,"other":{"x":["\\"}"]}}]}`,
    `{${start},"at":"2026-01-28T12:00:00.123Z","key":"${uuid}"}`,
    `{${start},"at":"2026-01-31T12:00:00+01:00"}`,
    `{${start},"total":37.550000000000004}`,
  ]
  for (const text of texts) t.ok(walks(order, text), text)
  t.ok(walks({ properties: { a: { pattern: '^o-' } } }, '{"a":"o-1"}'), 'a pattern, for its value alone')
  t.ok(walks({ properties: { a: { anyOf: [{ type: 'string' }, { const: 1 }] } } }, '{"a":1}'), 'alternatives')
  const many = { properties: { a: { enum: Array.from({ length: 200 }, (_, at) => `v${at + 100}`) } } }
  t.ok(walks(many, '{"a":"v150"}') && !walks(many, '{"a":"v999"}'), 'an enum with many values')
})

t.test('leaves the others to the check', async (t) => {
  const texts = [
    ...[
      '{"id":"a"}',
      '{"id":"a","id":"b"}',
      `{${start},"more":1}`,
      `{${start},"total":-1}`,
      `{${start},"state":1}`,
    ],
    ...[`{${start},"items":[]}`, `{${start},"items":[{"n":3}]}`, `{${start},"items":[{"n":2,"n":3}]}`],
    ...[
      `{${start},"at":"2026-02-29T12:00:00Z"}`,
      `{${start},"key":"${uuid.slice(1)}x"}`,
      `{${start},"id":""}`,
    ],
    `[{${start}},{"id":1,"total":1}]`,
  ]
  for (const text of texts) {
    const value = JSON.parse(text)
    t.notOk(matches(order, Array.isArray(value) ? value : [value]), text)
    t.notOk(walks(order, text), text)
  }
  const others: [RecordSchema, string][] = [
    [{ properties: { a: { format: 'date-time' } } }, '{"a":"2026-01-28T12:00:60Z"}'],
    [{ properties: { a: { enum: ['\\u0061'] } } }, '{"a":"\\u0061"}'],
    // Digit by digit, rounding would give 919846785255900600000.
    [{ properties: { a: { maximum: 919_846_785_255_900_600_000 } } }, '{"a":919846785255900644578}'],
    [{ properties: { a: { type: 'integer' } } }, '{"a":1.5}'],
    [{ minProperties: 2 }, '{"a":1,"a":2}'],
  ]
  for (const [schema, text] of others) {
    t.notOk(matches(schema, [JSON.parse(text)]), text)
    t.notOk(walks(schema, text), text)
  }
  t.notOk(walks(order, '{"\\u0069d":"a","total":1}'), 'a key with an escape')
  t.notOk(
    walks({ required: ['a'] }, '{"a":{"\\u0061":1}}'),
    'a key with an escape in a value that is not checked',
  )
})
