/**
 * The cost of a body from its bytes to its stored text: by JSON.parse and its rules, and by the scanner, in turns.
 * The figure of each is the quickest tenth of many short runs, so that other load on the machine hardly counts.
 */
import { resourceLimits } from '../src/contract/resource-limits.ts'
import { openScanner, type Preparation, prepare, prepareBody } from '../src/ingest/prepare.ts'
import { record, recordArray } from './records.ts'
import { table } from './table.ts'

const runs = 300
const runMs = 2

const rules: Omit<Preparation, 'format'> = {
  limits: { maxRecords: 50_000, maxKeys: 10_000, maxValues: Number.POSITIVE_INFINITY },
  pipeMaxRecords: null,
  enrichment: { keys: ['ingest_ts'], text: '"ingest_ts":"2026-11-22T11:11:11.111Z"' },
  requiredFields: ['id', 'amount'],
  schema: null,
  withHash: false,
}

export async function benchScanner(): Promise<string> {
  const scanner = openScanner(resourceLimits.mainScannerBytes)
  const lines = Array.from({ length: 100 }, (_, at) => record(at)).join('\n')
  const cases: [string, string, Preparation['format']][] = [
    ['single record', record(7), 'json'],
    ['array of 100', recordArray(0, 100), 'json'],
    ['NDJSON of 100', lines, 'ndjson'],
    ['array of 100, indented', JSON.stringify(JSON.parse(recordArray(0, 100)), null, 2), 'json'],
  ]
  const rows = cases.map(([name, text, format]) => {
    const body = Buffer.from(text)
    const asked = { ...rules, format }
    const [parsed, scanned] = timed(
      () => prepareBody(body, asked, () => {}),
      () => prepare(scanner, body, asked, () => {}),
    )
    const times = [parsed, scanned].map((us) => us.toFixed(1))
    return [name, String(body.length), ...times, (parsed / scanned).toFixed(1)]
  })
  return table(['body to stored text', 'bytes', 'JSON.parse µs', 'scanner µs', 'ratio'], rows)
}

/** Microseconds of each. */
function timed(one: () => void, other: () => void): [number, number] {
  const times: [number[], number[]] = [[], []]
  for (let run = 0; run < runs; run++) {
    times[0].push(microseconds(one))
    times[1].push(microseconds(other))
  }
  return [quickest(times[0]), quickest(times[1])]
}

function microseconds(work: () => void): number {
  const startedAt = performance.now()
  let count = 0
  while (performance.now() - startedAt < runMs) {
    for (let ten = 0; ten < 10; ten++) work()
    count += 10
  }
  return ((performance.now() - startedAt) / count) * 1000
}

function quickest(times: number[]): number {
  return times.sort((a, b) => a - b)[Math.floor(times.length / 10)] ?? 0
}
