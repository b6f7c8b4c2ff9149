import { Buffer } from 'node:buffer'
import t from 'tap'
import { ApiError } from '../../../src/contract/errors.ts'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import {
  openScanner,
  type Preparation,
  type Prepared,
  prepareBody,
  type Scanner,
} from '../../../src/ingest/prepare.ts'
import { bodies, invalidValues, validValues } from '../../support/json-cases.ts'
import { damaged, randomBody } from '../../support/random-json.ts'
import { scaled } from '../../support/scale.ts'

/** The number of documents of each kind, times `--scale`. */
const documents = scaled(25_000)

// Half of all documents are rejected, and nobody looks where.
Error.stackTraceLimit = 0

const limits = { maxRecords: 50, maxKeys: 30, maxValues: Number.POSITIVE_INFINITY }
const nothing = { keys: [], text: '' }
const stamp = { keys: ['ts'], text: '"ts":"now"' }
const several = {
  keys: ['ingest_ts', 'größe', 'a_long_key_of_sixteen_characters_'],
  text: '"ingest_ts":"2026-11-22T11:00:00.000Z","größe":1.5,"a_long_key_of_sixteen_characters_":"\\n東京"',
}

/**
 * Many different requirements of a pipe: each body comes with the next one, so the scanner changes its rules all the
 * time.
 */
const asked: readonly Omit<Preparation, 'format'>[] = [
  { enrichment: nothing, requiredFields: [] },
  { enrichment: stamp, requiredFields: [] },
  { enrichment: stamp, requiredFields: ['id'] },
  { enrichment: nothing, requiredFields: ['amount', 'id', 'amount'] },
  { enrichment: several, requiredFields: [] },
  { enrichment: several, requiredFields: ['x', '', 'ingest_ts'] },
  { enrichment: stamp, requiredFields: [], limits: { ...limits, maxRecords: 2 } },
  { enrichment: stamp, requiredFields: [], pipeMaxRecords: 1 },
  { enrichment: nothing, requiredFields: [], limits: { ...limits, maxKeys: 3 } },
  { enrichment: nothing, requiredFields: ['\ud800'] },
].map((rules) => ({ limits, pipeMaxRecords: null, schema: null, withHash: false, ...rules }))

type Verdict = { rejected: string } | (Prepared & { reserved: number })

/** The verdict of the values. */
function verdictOf(bytes: Buffer, preparation: Preparation): Verdict {
  let reserved = 0
  try {
    const prepared = prepareBody(bytes, preparation, (bytes) => {
      reserved = bytes
    })
    return { ...prepared!, reserved }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return { rejected: `${error.code}: ${error.message}` }
  }
}

interface Comparison {
  /** The difference; null: none. */
  fault: string | null
  isAccepted: boolean
  isScanned: boolean
}

function compare(scanner: Pick<Scanner, keyof Scanner>, bytes: Buffer, preparation: Preparation): Comparison {
  const isScanned = scanner.scan(bytes, preparation)
  const verdict = verdictOf(bytes, preparation)
  const isAccepted = 'body' in verdict
  let fault: string | null = null
  if (!isAccepted) {
    if (isScanned) fault = `takes what is rejected: ${verdict.rejected}`
  } else if (!isScanned) {
    if (!needsValues(bytes, preparation)) fault = 'refuses a plain case'
  } else if (!scanner.body().equals(verdict.body)) {
    fault = `gives other bytes: ${scanner.body()} instead of ${verdict.body}`
  } else if (scanner.recordCount !== verdict.recordCount || scanner.longestBytes !== verdict.reserved) {
    fault = 'counts otherwise'
  }
  return { fault: fault && `${fault}, of ${JSON.stringify(bytes.toString('latin1'))}`, isAccepted, isScanned }
}

/** Whether there may be an escaped or an enrichment key at the top, which are left to JSON.parse. */
function needsValues(bytes: Buffer, { enrichment, requiredFields }: Preparation): boolean {
  if (requiredFields.includes('\ud800')) return true
  const text = bytes.toString()
  if (enrichment.keys.length + requiredFields.length > 0 && text.includes('\\')) return true
  return enrichment.keys.some((key) => text.includes(`"${key}"`))
}

function open(maxMemoryBytes: number = resourceLimits.mainScannerBytes): Scanner {
  const scanner = openScanner(maxMemoryBytes)
  if (scanner === null) throw new Error('this processor does not run the scanner')
  return scanner
}

/** Compares the bodies with these numbers; half of them come as lines. */
function compareMany(make: (seed: number, format: Preparation['format']) => Buffer) {
  const scanner = open()
  const faults: string[] = []
  let accepted = 0
  let scanned = 0
  for (let seed = 1; seed <= documents && faults.length < 5; seed++) {
    const format = seed % 2 === 0 ? 'json' : 'ndjson'
    const preparation = { ...asked[seed % asked.length]!, format } as const
    const one = compare(scanner, make(seed, format), preparation)
    if (one.fault !== null) faults.push(`seed ${seed}, ${format}: ${one.fault}`)
    if (one.isAccepted) accepted++
    if (one.isScanned) scanned++
  }
  return { faults, accepted, scanned }
}

t.test(
  'scanner: random documents get the verdict of JSON.parse and our rules, and the same bytes',
  async (t) => {
    const { faults, accepted, scanned } = compareMany(randomBody)
    t.strictSame(faults, [])
    t.ok(accepted > documents / 4 && accepted < documents * 0.75, `${accepted} of ${documents} are accepted`)
    t.ok(scanned > accepted / 2, `${scanned} of them by the scanner`)
  },
)

t.test('scanner: damaged documents, too', async (t) => {
  const { faults, accepted } = compareMany((seed, format) => damaged(randomBody(seed, format), seed))
  t.strictSame(faults, [])
  t.ok(accepted > documents / 40, `${accepted} of ${documents} are accepted`)
})

t.test('scanner: what JSON parsers get wrong, wherever a record can have it', async (t) => {
  const scanner = open()
  const faults: string[] = []
  const check = (bytes: Buffer) => {
    for (const format of ['json', 'ndjson'] as const) {
      for (const rules of asked) {
        const { fault } = compare(scanner, bytes, { ...rules, format })
        if (fault !== null) faults.push(`${format}: ${fault}`)
      }
    }
  }
  for (const value of [...validValues, ...invalidValues]) {
    check(Buffer.from(value))
    check(Buffer.from(`{"a":${value}}`))
    check(Buffer.from(`[{"a":${value},"id":1},{"b":[ ${value} ,${value}],"ts":2}]`))
    check(Buffer.from(`{"id":${value}}\n{"a":{"b":${value}}}\n`))
    check(Buffer.from(`{${value}:1}`))
    check(Buffer.from(`[${value}]`))
  }
  for (const body of bodies) check(Buffer.from(body))
  t.strictSame(faults, [])
})

t.test('the cases are what they are said to be', async (t) => {
  const parses = (text: string): boolean => {
    try {
      JSON.parse(text)
      return true
    } catch {
      return false
    }
  }
  t.strictSame(
    validValues.filter((value) => !parses(value)),
    [],
  )
  t.strictSame(
    invalidValues.filter((value) => parses(`{"a":${value}}`)),
    [],
  )
})

t.test('each of these mistakes of a scanner would be seen', async (t) => {
  const scanner = open()
  const rules = { ...asked[1]!, format: 'json' } as const
  const body = Buffer.from('[{"a":1},{"b":2}]')
  t.equal(compare(scanner, body, rules).fault, null)
  const broken = (changes: Partial<Pick<Scanner, keyof Scanner>>) => ({
    scan: scanner.scan.bind(scanner),
    body: scanner.body.bind(scanner),
    recordCount: 2,
    longestBytes: scanner.longestBytes,
    confirms: () => false,
    valueCount: 0,
    ...changes,
  })
  t.match(compare(broken({ body: () => Buffer.from('{}') }), body, rules).fault, 'other bytes')
  t.match(compare(broken({ recordCount: 1 }), body, rules).fault, 'counts otherwise')
  t.match(compare(broken({ scan: () => false }), body, rules).fault, 'refuses')
  t.match(compare(broken({ scan: () => true }), Buffer.from('[{},]'), rules).fault, 'takes what is rejected')
})
