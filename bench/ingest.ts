/** How fast requests are accepted, with fsync on: single records and arrays of 100. */
import { startDaemon } from '../test/support/daemon.ts'
import { type LoadResult, load } from './load.ts'
import { cpuSeconds, peakRssMiB } from './process-stats.ts'
import { record, recordArray } from './records.ts'
import { count, table } from './table.ts'

const seconds = Number(process.env.BENCH_SECONDS ?? 10)

export async function benchIngest(): Promise<string> {
  const rows = [
    await measure('single record', record(1), 1, 64),
    await measure('array of 100', recordArray(1, 100), 100, 16),
  ]
  const head = [
    'ingest',
    'connections',
    'requests/s',
    'records/s',
    'p50 ms',
    'p99 ms',
    'CPU',
    'peak RSS MiB',
    'failed',
  ]
  return table(head, rows)
}

async function measure(name: string, body: string, records: number, connections: number): Promise<string[]> {
  const daemon = await startDaemon()
  try {
    const pipeId = await daemon.createPipe({ pipe_name: 'bench' })
    const options = {
      url: `${daemon.dataUrl}/v1/ingest/${pipeId}`,
      headers: { Authorization: `Bearer ${daemon.apiKey}`, 'Content-Type': 'application/json' },
      body,
      connections,
    }
    await load({ ...options, seconds: 2 })
    const cpuBefore = cpuSeconds(daemon.pid)
    const startedAt = performance.now()
    const result: LoadResult = await load({ ...options, seconds })
    const cpu = ((cpuSeconds(daemon.pid) - cpuBefore) / (performance.now() - startedAt)) * 100_000
    return [
      name,
      String(connections),
      count(result.requestsPerSecond),
      count(result.requestsPerSecond * records),
      result.p50Ms.toFixed(2),
      result.p99Ms.toFixed(2),
      `${count(cpu)}%`,
      count(peakRssMiB(daemon.pid)),
      count(result.failed),
    ]
  } finally {
    await daemon.close()
  }
}
