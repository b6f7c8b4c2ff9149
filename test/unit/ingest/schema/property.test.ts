/** The check of records gives the same verdicts as ajv, for random schemas of the subset and random records. */
import { createRequire } from 'node:module'
import t from 'tap'
import { verifySchema } from '../../../../src/contract/record-schema.ts'
import { loadPatterns, mismatchesOf, type SchemaRules } from '../../../../src/ingest/schema/record-check.ts'
import { Random } from './random.ts'

interface OtherChecker {
  compile(schema: object): (value: unknown) => boolean
}
const require = createRequire(import.meta.url)
const Ajv: { default: new (options: object) => OtherChecker } = require('ajv/dist/2020.js')
const addFormats: { default(checker: OtherChecker): void } = require('ajv-formats')

const rules = {
  hasPatterns: true,
  onMismatch: 'tag',
  tagField: 'e',
  steps: 1_000_000,
  isInTurn: false,
} as const
await loadPatterns({ ...rules, schema: '{}' } satisfies SchemaRules)

t.test('random schemas and records', async (t) => {
  const other = new Ajv.default({ strict: false })
  addFormats.default(other)
  const random = new Random(7)
  const different: string[] = []
  let matching = 0
  let compared = 0
  for (let round = 0; round < 1_500; round++) {
    const schema = random.schema()
    if (typeof schema === 'boolean') continue
    t.same(verifySchema(schema), [], JSON.stringify(schema))
    const isValid = other.compile(schema)
    for (let index = 0; index < 20; index++) {
      const record = random.value()
      const matches = mismatchesOf([record], { ...rules, schema: JSON.stringify(schema) }) === null
      compared++
      if (matches) matching++
      if (matches !== isValid(record))
        different.push(`${JSON.stringify(schema)} ${JSON.stringify(record)}: ${matches}`)
    }
  }
  t.same(different, [])
  t.ok(matching > compared / 10 && matching < (compared * 9) / 10, `${matching} of ${compared} match`)
})
