/** The goals of ingest in addition to its throughput, each measured on a daemon of its own with one ingest thread. */
import { setTimeout as sleep } from 'node:timers/promises'
import { arrayOf100, type Case, single } from './ingest-cases.ts'
import { daemonTarget } from './ingest-targets.ts'
import { load } from './load.ts'
import { pacedLoad } from './paced-load.ts'
import { peakRssMiB, rssMiB } from './process-stats.ts'
import { startSink } from './sink.ts'
import { count, table } from './table.ts'

const seconds = Number(process.env.BENCH_SECONDS ?? 10)
const bytesPerMiB = 1024 * 1024

export interface Goal {
  what: string
  value: string
  goal: string
  /** Missing: it cannot be said. */
  isMet?: boolean
}

/** `more`: those that the throughput has shown. */
export async function goalsTable(more: readonly Goal[]): Promise<string> {
  const goals = [...more, await latencyGoal(single), await latencyGoal(arrayOf100)]
  goals.push(await deliveryGoal(single), await deliveryGoal(arrayOf100), ...(await memoryGoals()))
  return table(
    ['ingest against its goals', 'measured', 'goal', ''],
    goals.map(({ what, value, goal, isMet }) => [
      what,
      value,
      goal,
      isMet === undefined ? '' : isMet ? 'met' : 'missed',
    ]),
  )
}

/** At a constant rate, four fifths of what it takes at most; from when a request was due, not from when it could be sent. */
async function latencyGoal(one: Case): Promise<Goal> {
  const target = await daemonTarget('uws, 1 worker')
  try {
    const { url, headers } = target
    const { bodies, connections } = one
    await load({ url, headers, bodies, connections, seconds: 1 })
    const most = await load({ url, headers, bodies, connections, seconds: seconds / 2 })
    const rate = most.requestsPerSecond * 0.8
    const result = await pacedLoad({ url, headers, bodies, connections, rate, seconds })
    return {
      what: `p99 at 80 % of its maximum rate, ${one.name}, ${connections} connections`,
      value: `${result.p99Ms.toFixed(1)} ms at ${count(result.requestsPerSecond)} of ${count(rate)}/s`,
      goal: '< 15 ms',
      isMet: result.p99Ms < 15 && result.failed === 0,
    }
  } finally {
    await target.close()
  }
}

/** Into an HTTP endpoint while ingest is as fast as it can be. */
async function deliveryGoal(one: Case): Promise<Goal> {
  const sink = await startSink()
  const target = await daemonTarget('uws, 1 worker')
  try {
    const { url, headers, daemon, pipeId } = target
    const laneId = await daemon.createDestination(pipeId, {
      destination_type: 'destination_http_endpoint',
      destination_config: { url: sink.url, body_format: 'ndjson' },
    })
    const { bodies, connections, records } = one
    await load({ url, headers, bodies, connections, seconds: 1 })
    const before = { delivered: await sink.records(), atMs: performance.now() }
    const ingest = await load({ url, headers, bodies, connections, seconds })
    const delivered = (await sink.records()) - before.delivered
    const rate = delivered / ((performance.now() - before.atMs) / 1000)
    const { oldest_pending_age_seconds: behind } = await daemon.lane(pipeId, laneId)
    const wanted = ingest.requestsPerSecond * records
    return {
      what: `delivery to an HTTP endpoint at full ingest, ${one.name}`,
      value: `${(rate / wanted).toFixed(2)} (${count(rate)} of ${count(wanted)} records/s, ${Math.round(Number(behind))} s behind)`,
      goal: 'not below ingest',
      // Less than 1 % is what is under way when it is looked at.
      isMet: rate >= 0.99 * wanted,
    }
  } finally {
    await target.close()
    sink.close()
  }
}

async function memoryGoals(): Promise<Goal[]> {
  const target = await daemonTarget('uws, 1 worker')
  try {
    const { url, headers, pid } = target
    await sleep(restsAfterMs)
    const atRest = rssMiB(pid)
    for (const { bodies, connections } of [single, arrayOf100])
      await load({ url, headers, bodies, connections, seconds })
    const goal = (what: string, mib: number, maxMB: number): Goal => ({
      what,
      value: `${count((mib * bytesPerMiB) / 1e6)} MB`,
      goal: `≤ ${maxMB} MB`,
      isMet: mib * bytesPerMiB <= maxMB * 1e6,
    })
    return [
      goal('memory (RSS) at rest, 1 worker', atRest, 120),
      goal('memory (RSS) under load at most, 1 worker', peakRssMiB(pid), 300),
    ]
  } finally {
    await target.close()
  }
}

/** V8 gives back what the start took some ten seconds after it, later where the machine is busy. */
const restsAfterMs = 30_000
