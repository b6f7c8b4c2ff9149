/**
 * How fast requests are accepted, with fsync on, by each HTTP engine: single records and arrays of 100; beside them, in the same run, two
 * floors (servers that parse the same body and keep nothing) and the ratio to each.
 */
import { fork } from 'node:child_process'
import { startDaemon } from '../test/support/daemon.ts'
import { type LoadResult, load } from './load.ts'
import { cpuSeconds, peakRssMiB } from './process-stats.ts'
import { record, recordArray } from './records.ts'
import { count, table } from './table.ts'

const seconds = Number(process.env.BENCH_SECONDS ?? 10)

interface Case {
  name: string
  bodies: string[]
  records: number
  connections: number
}

export async function benchIngest(): Promise<string> {
  const cases: Case[] = [
    { name: 'single record', bodies: distinct(256, (at) => record(at)), records: 1, connections: 64 },
    {
      name: 'array of 100',
      bodies: distinct(16, (at) => recordArray(at * 100, 100)),
      records: 100,
      connections: 16,
    },
  ]
  const rows: string[][] = []
  for (const one of cases) {
    const floors = [await floor('uws', one), await floor('node', one)]
    for (const engine of ['uws', 'node']) {
      const { rate, row } = await measure(one, engine)
      rows.push([...row, ...floors.map((most) => `${count(most)} (${(rate / most).toFixed(2)})`)])
    }
  }
  const head = [
    'ingest',
    'http.engine',
    'connections',
    'requests/s',
    'records/s',
    'p50 ms',
    'p99 ms',
    'CPU',
    'peak RSS MiB',
    'failed',
    'uWebSockets alone (ratio)',
    'node:http alone (ratio)',
  ]
  return table(head, rows)
}

function distinct(howMany: number, make: (at: number) => string): string[] {
  return Array.from({ length: howMany }, (_, at) => make(at))
}

/** Requests per second of a server that parses the body and keeps nothing. */
async function floor(kind: 'uws' | 'node', { bodies, connections }: Case): Promise<number> {
  const child = fork(new URL('floor-server.ts', import.meta.url), {
    execArgv: ['--import=tsx'],
    env: { ...process.env, BENCH_FLOOR: kind },
  })
  try {
    const port = await new Promise<number>((resolve) =>
      child.once('message', (port) => resolve(Number(port))),
    )
    const options = {
      url: `http://127.0.0.1:${port}/`,
      headers: { 'Content-Type': 'application/json' },
      bodies,
      connections,
    }
    await load({ ...options, seconds: 1 })
    return (await load({ ...options, seconds })).requestsPerSecond
  } finally {
    child.kill()
  }
}

async function measure(
  { name, bodies, records, connections }: Case,
  engine: string,
): Promise<{ rate: number; row: string[] }> {
  const daemon = await startDaemon({ env: { PIPECTL_HTTP_ENGINE: engine } })
  try {
    const pipeId = await daemon.createPipe({ pipe_name: 'bench' })
    const options = {
      url: `${daemon.dataUrl}/v1/ingest/${pipeId}`,
      headers: { Authorization: `Bearer ${daemon.apiKey}`, 'Content-Type': 'application/json' },
      bodies,
      connections,
    }
    await load({ ...options, seconds: 2 })
    const cpuBefore = cpuSeconds(daemon.pid)
    const startedAt = performance.now()
    const result: LoadResult = await load({ ...options, seconds })
    const cpu = ((cpuSeconds(daemon.pid) - cpuBefore) / (performance.now() - startedAt)) * 100_000
    const row = [
      name,
      engine,
      String(connections),
      count(result.requestsPerSecond),
      count(result.requestsPerSecond * records),
      result.p50Ms.toFixed(2),
      result.p99Ms.toFixed(2),
      `${count(cpu)}%`,
      count(peakRssMiB(daemon.pid)),
      count(result.failed),
    ]
    return { rate: result.requestsPerSecond, row }
  } finally {
    await daemon.close()
  }
}
