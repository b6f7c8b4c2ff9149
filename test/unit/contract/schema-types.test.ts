/** TypeScript types of a schema: they compile, and a record that the schema accepts has the type. */
import t from 'tap'
import { Compile } from 'typebox/schema'
import ts from 'typescript'
import { typesOfSchema } from '../../../src/contract/schema-types.ts'
import { generator, type Random } from '../../support/random-json.ts'

type Schema = Record<string, unknown> | boolean

/** The errors of the compiler in strict mode. */
function errorsOf(source: string): string[] {
  const options: ts.CompilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noEmit: true,
    types: [],
    lib: ['lib.es2022.d.ts'],
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext,
  }
  const host = ts.createCompilerHost(options)
  const { getSourceFile, readFile, fileExists } = host
  const name = 'types.ts'
  host.getSourceFile = (file, language) =>
    file === name ? ts.createSourceFile(file, source, language) : getSourceFile.call(host, file, language)
  host.readFile = (file) => (file === name ? source : readFile.call(host, file))
  host.fileExists = (file) => file === name || fileExists.call(host, file)
  const program = ts.createProgram([name], options, host)
  return ts.getPreEmitDiagnostics(program).map(({ messageText, start = 0 }) => {
    const line = source.slice(0, start).split('\n').length
    return `${line}: ${ts.flattenDiagnosticMessageText(messageText, ' ')} ${source.split('\n')[line - 1]}`
  })
}

t.test('types of an order', async (t) => {
  const schema = {
    type: 'object',
    title: 'An order of the shop',
    properties: {
      id: { type: 'string', format: 'uuid' },
      status: { type: ['string', 'null'], enum: ['new', 'paid', null], description: 'The state.' },
      total: { type: 'number' },
      'ship to': { $ref: '#/$defs/address' },
      lines: { type: 'array', items: { type: 'object', properties: { n: { type: 'integer' } } } },
      pair: {
        type: 'array',
        prefixItems: [{ type: 'string' }, { type: 'number' }],
        items: false,
        minItems: 1,
      },
      stock: { type: 'object', additionalProperties: { type: 'integer' } },
    },
    required: ['id', 'total'],
    additionalProperties: false,
    $defs: { address: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } },
  }
  t.equal(
    typesOfSchema(schema, 'orders-eu'),
    `/**
 * An order of the shop
 */
export type OrdersEuRecord = {
  /**
   * Format: uuid
   */
  id: string
  /**
   * The state.
   */
  status?: "new" | "paid" | null
  total: number
  "ship to"?: Address
  lines?: Array<{
    n?: number
    [key: string]: unknown
  }>
  pair?: [(string), (number)?]
  stock?: {
    [key: string]: number
  }
}

export type Address = {
  city: string
  [key: string]: unknown
}
`,
  )
})

const hostileTexts = [
  ...[
    '*/ export const evil = 1 /*',
    '@ts-ignore',
    '@ts-expect-error',
    '"; evil(); "',
    '`evil()`',
    '// <reference',
  ],
  ...[
    '\u2028evil()',
    '\u202e',
    'line\nnext',
    '\\',
    "'",
    '</script>',
    '__proto__',
    'constructor',
    '\u0000',
    '',
    '\ud800',
  ],
]

t.test('texts of a schema never leave comments and strings', async (t) => {
  const sources = hostileTexts.map((text, at) => {
    const schema = {
      type: 'object',
      title: text,
      description: `${text}\n${text}`,
      properties: { [text]: { enum: [text, { [text]: [text] }], description: text } },
      required: [`other ${text}`],
      $defs: { [text]: { const: text, title: text } },
    }
    return typesOfSchema(schema, text).replaceAll('export type ', `export type N${at}_`)
  })
  const source = sources.join('\n')
  t.same(errorsOf(source), [])
  const file = ts.createSourceFile('types.ts', source, ts.ScriptTarget.ES2022)
  t.ok(file.statements.every(ts.isTypeAliasDeclaration), 'there are only declarations of types')
  t.equal(file.statements.length, 2 * hostileTexts.length)
  t.notMatch(source, /[\u2028\u202e\ud800]|@ts-\S+ *\*\//)
})

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]!
const below = (random: Random, limit: number): number => Math.floor(random() * limit)
const names = ['a', 'b', 'c d', 'e']
const scalars: Schema[] = [
  { type: 'string' },
  { type: 'integer' },
  { type: 'number' },
  { type: 'boolean' },
  { type: ['string', 'null'] },
  { enum: ['x', 'y', 1, null] },
  { type: 'string', enum: ['x', 'y', 1] },
  { const: 7 },
  { type: 'string', not: { const: 'never seen' } },
  { $ref: '#/$defs/code' },
  {},
  true,
]

function anySchema(random: Random, depth: number): Schema {
  if (depth > 3) return pick(random, scalars)
  switch (below(random, 7)) {
    case 0:
      return { type: 'array', items: anySchema(random, depth + 1) }
    case 1:
      return {
        type: 'array',
        prefixItems: [anySchema(random, depth + 1), anySchema(random, depth + 1)],
        minItems: below(random, 3),
        ...(random() < 0.5 ? { items: pick<Schema>(random, [false, { type: 'string' }]) } : {}),
      }
    case 2:
      return { [pick(random, ['anyOf', 'oneOf'])]: [anySchema(random, depth + 1), { type: 'null' }] }
    case 3:
      return {
        type: ['object', 'array', 'boolean'],
        ...objectRules(random, depth),
        items: anySchema(random, depth + 1),
      }
    case 4:
    case 5:
      return { type: 'object', ...objectRules(random, depth) }
    default:
      return pick(random, scalars)
  }
}

function objectRules(random: Random, depth: number): Record<string, unknown> {
  const keys = names.filter(() => random() < 0.6)
  return {
    properties: Object.fromEntries(keys.map((key) => [key, anySchema(random, depth + 1)])),
    required: names.filter(() => random() < 0.3),
    ...(random() < 0.6
      ? { additionalProperties: pick<Schema>(random, [false, true, { type: 'string' }, { type: 'integer' }]) }
      : {}),
  }
}

function anyValue(random: Random, depth: number): unknown {
  switch (below(random, depth > 4 ? 7 : 10)) {
    case 0:
      return 'x'
    case 1:
      return pick(random, ['y', 'text'])
    case 2:
      return pick(random, [1, 7, -3])
    case 3:
      return pick(random, [1.5, 1e300])
    case 4:
      return random() < 0.5
    case 5:
    case 6:
      return null
    case 7:
      return Array.from({ length: below(random, 3) }, () => anyValue(random, depth + 1))
    default:
      return Object.fromEntries(
        [...names, 'other'].filter(() => random() < 0.5).map((key) => [key, anyValue(random, depth + 1)]),
      )
  }
}

t.test('a record that a schema accepts has its type, for any schema', async (t) => {
  const sources: string[] = []
  const wrong: string[] = []
  let accepted = 0
  for (let seed = 0; seed < 150; seed += 1) {
    const random = generator(seed)
    const schema = { type: 'object', ...objectRules(random, 0), $defs: { code: { type: 'string' } } }
    const types = typesOfSchema(schema, `pipe ${seed}`).replace('type Code', `type Code${seed}`)
    sources.push(types.replaceAll(/\bCode\b/g, `Code${seed}`))
    const check = Compile(schema)
    for (let tries = 0, found = 0; tries < 300 && found < 4; tries += 1) {
      const value = anyValue(random, 0)
      if (typeof value !== 'object' || value === null || Array.isArray(value) || !check.Check(value)) continue
      found += 1
      accepted += 1
      sources.push(`export const v${seed}_${found}: Pipe${seed}Record = ${JSON.stringify(value)}`)
    }
    wrong.push(`export const w${seed}: Pipe${seed}Record = 'no object'`)
  }
  t.ok(accepted > 200, `${accepted} records are accepted`)
  t.same(errorsOf(sources.join('\n')), [])
  t.equal(errorsOf([...sources, ...wrong].join('\n')).length, 150, 'negative control: a text is no record')
})
