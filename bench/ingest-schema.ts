/**
 * The cost of a schema: the same records into a pipe without a schema, into one with it, and into one whose schema the
 * scanner cannot check, in turns.
 */
import { inTurns, type Measured } from './ingest.ts'
import type { Case } from './ingest-cases.ts'
import type { Goal } from './ingest-goals.ts'
import { daemonTarget, type Target } from './ingest-targets.ts'
import { benchSchema, schemaRecord, schemaRecordArray } from './schema-records.ts'
import { count } from './table.ts'

const cases: readonly Case[] = [
  {
    name: 'single record',
    bodies: Array.from({ length: 256 }, (_, at) => schemaRecord(at)),
    records: 1,
    connections: 64,
  },
  {
    name: 'array of 100',
    bodies: Array.from({ length: 16 }, (_, at) => schemaRecordArray(at * 100, 100)),
    records: 100,
    connections: 16,
  },
]

export const schemaHead = [
  ...['ingest with a schema', 'schema', 'requests/s', 'records/s', 'p99 ms', 'CPU µs/record', 'failed'],
  '× the CPU of no schema',
]

export async function schemaRows(): Promise<{ rows: string[][]; goals: Goal[] }> {
  const rows: string[][] = []
  const goals: Goal[] = []
  for (const one of cases) {
    const measured = await inTurns(one, await targets())
    const ratio = (each: Measured) => each.cpuUsPerRequest / measured[0]!.cpuUsPerRequest
    rows.push(...measured.map((each) => [...row(one, each), ratio(each).toFixed(2)]))
    const value = ratio(measured[1]!)
    const what = `CPU with a schema of 20 properties, ${one.name}, against none`
    goals.push({ what, value: value.toFixed(2), goal: '< 1.5', isMet: value < 1.5 })
  }
  return { rows, goals }
}

async function targets(): Promise<Target[]> {
  // An alternative at the root: the whole body is parsed.
  const parsed = { ...benchSchema, anyOf: [{ required: ['id'] }, { required: ['order_id'] }] }
  return [
    await daemonTarget('none'),
    await daemonTarget('20 properties', { pipe: { pipe_schema: benchSchema } }),
    await daemonTarget('20 properties, and anyOf', { pipe: { pipe_schema: parsed } }),
  ]
}

function row(one: Case, { target, requestsPerSecond, p99Ms, cpuUsPerRequest, failed }: Measured): string[] {
  return [
    ...[one.name, target.name, count(requestsPerSecond), count(requestsPerSecond * one.records)],
    ...[p99Ms.toFixed(2), (cpuUsPerRequest / one.records).toFixed(2), count(failed)],
  ]
}
