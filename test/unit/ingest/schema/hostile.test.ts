/** The work for a hostile schema and record is bounded by its steps, in the scanner's walk and in the check. */
import t from 'tap'
import { verifySchema } from '../../../../src/contract/record-schema.ts'
import { resourceLimits } from '../../../../src/contract/resource-limits.ts'
import { openScanner, type Preparation, prepare, prepareBody } from '../../../../src/ingest/prepare.ts'
import { schemaCompiler } from '../../../../src/ingest/schema/compile.ts'
import { linearPattern, patternVerifier } from '../../../../src/ingest/schema/linear-pattern.ts'
import { type MatchTable, matchTable } from '../../../../src/ingest/schema/match-table.ts'
import { loadPatterns, type SchemaRules, stepsInThread } from '../../../../src/ingest/schema/record-check.ts'
import { type Check, OutOfSteps, Run } from '../../../../src/ingest/schema/run.ts'
import { hostilePairs, recordSchema } from './hostile.ts'

const scanner = openScanner(resourceLimits.mainScannerBytes)!
const steps = 100_000
/** Reads of keys and elements per step, at most. A step of `uniqueItems` pays for reading its list several times. */
const readsPerStep = 4

const rules = (schema: object, bytes: number): SchemaRules => ({
  schema: JSON.stringify(schema),
  hasPatterns: true,
  onMismatch: 'reject',
  tagField: 'e',
  steps: stepsInThread(bytes),
  isInTurn: false,
})
await loadPatterns(rules({}, 0))

const preparation: Preparation = {
  format: 'json',
  limits: { maxRecords: 100, maxKeys: 100_000, maxValues: resourceLimits.mainThreadValues },
  pipeMaxRecords: null,
  enrichment: { keys: [], text: '' },
  requiredFields: [],
  schema: null,
  withHash: false,
}

/** Counts what a check reads of a value: an independent measure of its work. */
class Reads {
  count = 0

  of<T>(value: T): T {
    if (typeof value !== 'object' || value === null) return value
    return new Proxy(value, {
      get: (target, key) => {
        this.count++
        return this.of(Reflect.get(target, key))
      },
      ownKeys: (target) => {
        const keys = Reflect.ownKeys(target)
        this.count += keys.length
        return keys
      },
    })
  }
}

/** `undefined`: the steps were used up. */
function resultOf(check: () => boolean): boolean | undefined {
  try {
    return check()
  } catch (error) {
    if (error instanceof OutOfSteps) return undefined
    throw error
  }
}

/** Its checks read through `reads`. */
function countedTable(table: MatchTable, reads: Reads): MatchTable {
  const counted =
    (check: Check): Check =>
    (value, run) =>
      check(reads.of(value), run)
  return { ...table, checks: table.checks.map(counted) }
}

for (const [name, pair] of Object.entries(hostilePairs))
  t.test(name, async (t) => {
    const schema = recordSchema(pair)
    t.same(verifySchema(schema, patternVerifier()), [], 'a pipe can have the schema')
    const record = { a: pair.value }
    const body = Buffer.from(JSON.stringify(record))
    const compile = schemaCompiler(schema, linearPattern)

    const inCheck = new Reads()
    t.equal(
      resultOf(() => compile(schema)(inCheck.of(record), new Run(steps))),
      undefined,
      'the check ends',
    )
    t.ok(inCheck.count <= readsPerStep * steps, `the check reads ${inCheck.count} values`)

    const inWalk = new Reads()
    const table = countedTable(matchTable(schema, compile)!, inWalk)
    t.ok(scanner.scan(body, preparation))
    t.equal(
      resultOf(() => scanner.confirms(table, new Run(steps))),
      undefined,
      'the walk ends',
    )
    t.ok(inWalk.count <= readsPerStep * steps, `the walk reads ${inWalk.count} values`)

    const inTurn = { ...preparation, schema: { ...rules(schema, 0), steps, isInTurn: true } }
    t.equal(
      prepare(scanner, body, inTurn, () => {}),
      null,
      'it is checked in another thread',
    )
    const inThread = { ...preparation, schema: rules(schema, body.length) }
    const limits = { ...preparation.limits, maxValues: Number.POSITIVE_INFINITY }
    const found = prepareBody(body, { ...inThread, limits }, () => {})?.mismatched
    t.same(found?.errors, [
      {
        record: 0,
        path: '',
        message:
          'takes too many steps to check, together with the other records of the request: send fewer or smaller records',
      },
    ])
  })

t.test('without a limit of steps the work would be seen', async (t) => {
  const schema = { allOf: Array.from({ length: 60 }, () => ({ uniqueItems: true })) }
  const check = schemaCompiler(schema, linearPattern)(schema)
  const list = Array.from({ length: 4_000 }, (_, index) => ({ k: index }))
  const reads = new Reads()
  t.ok(check(reads.of(list), new Run(Number.POSITIVE_INFINITY)), 'it matches')
  t.ok(reads.count > readsPerStep * steps, `${reads.count} values are read`)
})
