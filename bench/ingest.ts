/**
 * How fast requests are accepted, with fsync on: single records and arrays of 100, by one and several ingest threads and by
 * each HTTP engine; beside them two floors, servers that parse the same body on one thread and keep nothing. All are measured
 * in turns, a slice of each and then the next slice of each, so that an hour in which the machine is slow is so for all of
 * them. The second table holds the figures against what is wanted of them.
 */
import { availableParallelism } from 'node:os'
import { arrayOf100, type Case, single } from './ingest-cases.ts'
import { type Goal, goalsTable } from './ingest-goals.ts'
import { schemaHead, schemaRows } from './ingest-schema.ts'
import { daemonTarget, floorTarget, type Target } from './ingest-targets.ts'
import { type LoadResult, load } from './load.ts'
import { cpuSeconds, cpuSecondsOfTrees, peakRssMiB } from './process-stats.ts'
import { count, median, table } from './table.ts'

/** The duration of each target and case, over all its slices. */
const seconds = Number(process.env.BENCH_SECONDS ?? 10)
const slices = 3

/** Medians of the slices. */
export interface Measured {
  target: Target
  requestsPerSecond: number
  p50Ms: number
  p99Ms: number
  /** The CPU of all threads for each request, in microseconds. */
  cpuUsPerRequest: number
  /** The same of the servers that it keeps its data in; 0: it has none. */
  serversCpuUsPerRequest: number
  /** Per cent of one core. */
  cpuPercent: number
  peakRssMiB: number
  failed: number
}

/** Threads that are measured: more than there are cores would only show how they take turns. */
export const workerCounts = [1, 2, 4].filter((workers) => workers === 1 || workers <= availableParallelism())

const floors = ['uWebSockets alone', 'node:http alone']

export async function benchIngest(): Promise<string> {
  const before = process.env.BENCH_BEFORE
  const rows: string[][] = []
  const goals: Goal[] = []
  for (const one of [single, arrayOf100]) {
    const measured = await inTurns(one, await targetsOf(before))
    rows.push(...measured.flatMap((each) => throughputRow(one, each, measured)))
    goals.push(...throughputGoals(one, measured))
  }
  const head = ['ingest', 'server', 'connections', 'requests/s', 'records/s', 'p50 ms', 'p99 ms', 'CPU']
  const more = ['CPU µs/record', 'peak RSS MiB', 'failed', ...floors.map((name) => `× ${name}`)]
  const withSchema = await schemaRows()
  goals.push(...withSchema.goals)
  const tables = [table([...head, ...more], rows), table(schemaHead, withSchema.rows)]
  return [...tables, await goalsTable(goals)].join('\n\n')
}

async function targetsOf(before: string | undefined): Promise<Target[]> {
  const targets: Target[] = [await floorTarget('uws'), await floorTarget('node')]
  for (const workers of workerCounts) {
    targets.push(await daemonTarget(workers === 1 ? 'uws, 1 worker' : `uws, ${workers} workers`, { workers }))
  }
  targets.push(await daemonTarget('node', { engine: 'node' }))
  if (before !== undefined) targets.push(await daemonTarget('before', { program: before }))
  return targets
}

/** Closes them in the end. */
export async function inTurns(one: Case, targets: readonly Target[]): Promise<Measured[]> {
  try {
    const found = targets.map(() => [] as Slice[])
    for (const target of targets) await slice(target, one, 1)
    for (let turn = 0; turn < slices; turn++) {
      for (const [index, target] of targets.entries())
        found[index]!.push(await slice(target, one, seconds / slices))
    }
    return targets.map((target, index) => summary(target, found[index]!))
  } finally {
    for (const target of targets) await target.close()
  }
}

interface Slice extends LoadResult {
  cpuSeconds: number
  serversCpuSeconds: number
  seconds: number
}

async function slice(target: Target, one: Case, forSeconds: number): Promise<Slice> {
  const { url, headers, pid } = target
  const { bodies, connections } = one
  const cpuBefore = cpuSeconds(pid)
  const serversBefore = cpuSecondsOfTrees(target.serverPids ?? [])
  const startedAt = performance.now()
  const result = await load({ url, headers, bodies, connections, seconds: forSeconds })
  const tookSeconds = (performance.now() - startedAt) / 1000
  // Its CPU counts, and must not be missing in the next turn.
  await target.settled?.()
  return {
    ...result,
    seconds: tookSeconds,
    cpuSeconds: cpuSeconds(pid) - cpuBefore,
    serversCpuSeconds: cpuSecondsOfTrees(target.serverPids ?? []) - serversBefore,
  }
}

function summary(target: Target, all: readonly Slice[]): Measured {
  const of = (value: (one: Slice) => number) => median(all.map(value))
  return {
    target,
    requestsPerSecond: of((one) => one.requestsPerSecond),
    p50Ms: of((one) => one.p50Ms),
    p99Ms: of((one) => one.p99Ms),
    cpuUsPerRequest: of((one) => (one.cpuSeconds / one.seconds / one.requestsPerSecond) * 1e6),
    serversCpuUsPerRequest: of((one) => (one.serversCpuSeconds / one.seconds / one.requestsPerSecond) * 1e6),
    cpuPercent: of((one) => (one.cpuSeconds / one.seconds) * 100),
    peakRssMiB: peakRssMiB(target.pid),
    failed: all.reduce((sum, { failed }) => sum + failed, 0),
  }
}

function throughputRow(one: Case, each: Measured, all: readonly Measured[]): string[][] {
  const { target, requestsPerSecond, cpuUsPerRequest } = each
  return [
    [
      one.name,
      target.name,
      String(one.connections),
      count(requestsPerSecond),
      count(requestsPerSecond * one.records),
      each.p50Ms.toFixed(2),
      each.p99Ms.toFixed(2),
      `${count(each.cpuPercent)}%`,
      (cpuUsPerRequest / one.records).toFixed(2),
      count(each.peakRssMiB),
      count(each.failed),
      ...floors.map((name) => (requestsPerSecond / named(all, name).requestsPerSecond).toFixed(2)),
    ],
  ]
}

function named(all: readonly Measured[], name: string): Measured {
  const found = all.find(({ target }) => target.name === name)
  if (found === undefined) throw new Error(`${name} was not measured`)
  return found
}

/** The ratios of one case. */
function throughputGoals(one: Case, all: readonly Measured[]): Goal[] {
  const isSingle = one.records === 1
  const most = named(all, 'uWebSockets alone').requestsPerSecond
  const ours = all.filter(({ target }) => target.name.startsWith('uws, '))
  const [alone, ...threaded] = ours
  const ratio = ({ requestsPerSecond }: Measured) => requestsPerSecond / most
  const of = `${isSingle ? 'single records' : 'arrays of 100'}, ${one.connections} connections`
  const goals: Goal[] = ours.map((each) => {
    const isAlone = each === alone
    const wanted = isSingle ? 0.75 : 1.6
    return {
      what: `${of}, ${each.target.name.slice('uws, '.length)}, against uWebSockets + JSON.parse`,
      value: ratio(each).toFixed(2),
      goal: isAlone ? `≥ ${wanted}` : 'more than 1 worker',
      isMet: isAlone ? ratio(each) >= wanted : ratio(each) > ratio(alone!),
    }
  })
  if (threaded.length === 0) goals.push({ what: `${of}, 2 workers`, value: 'needs 2 cores', goal: '' })
  const cpu = alone!.cpuUsPerRequest / one.records
  const old = all.find(({ target }) => target.name === 'before')
  const share = isSingle ? 0.7 : 0.35
  goals.push({
    what: `CPU of all threads per record, ${one.name}, 1 worker`,
    value: `${cpu.toFixed(1)} µs${old ? ` (${(alone!.cpuUsPerRequest / old.cpuUsPerRequest).toFixed(2)} of ${(old.cpuUsPerRequest / one.records).toFixed(1)} µs)` : ''}`,
    goal: `≤ ${share} of before${old ? '' : ' (--before)'}`,
    ...(old ? { isMet: alone!.cpuUsPerRequest <= share * old.cpuUsPerRequest } : {}),
  })
  return goals
}
