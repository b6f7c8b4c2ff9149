/**
 * Write amplification: the bytes that the daemon writes to storage for each byte of a request's body, by how many pipes
 * share a commit. The daemons of two builds are measured in turns (`--before`).
 */
import { startDaemon, type TestDaemon } from '../test/support/daemon.ts'
import { arrayOf100, type Case, single } from './ingest-cases.ts'
import { load } from './load.ts'
import { peakRssMiB, writtenBytes } from './process-stats.ts'
import { count, table } from './table.ts'

const seconds = Number(process.env.BENCH_SECONDS ?? 20)

export async function benchWritten(): Promise<string> {
  const before = process.env.BENCH_BEFORE
  const rows: string[][] = []
  for (const [one, pipes] of [
    [single, 1],
    [single, 20],
    [single, 1000],
    [arrayOf100, 1],
  ] as const) {
    if (before !== undefined) rows.push(await measure(one, pipes, 'before', { program: before }))
    rows.push(await measure(one, pipes, 'now'))
  }
  const head = ['written', 'pipes', 'build', 'connections', 'requests/s', 'p50 ms', 'p99 ms', 'peak RSS MiB']
  return table([...head, 'bytes written / bytes sent'], rows)
}

async function measure(
  { name, bodies, connections }: Case,
  pipes: number,
  build: string,
  options: { program?: string } = {},
): Promise<string[]> {
  const daemon = await startDaemon(options)
  try {
    const paths = await makePipes(daemon, pipes)
    const headers = { Authorization: `Bearer ${daemon.apiKey}`, 'Content-Type': 'application/json' }
    const target = { url: daemon.dataUrl, headers, bodies, paths, connections }
    await load({ ...target, seconds: 1 })
    const writtenBefore = writtenBytes(daemon.pid)
    const { requestsPerSecond, p50Ms, p99Ms, failed } = await load({ ...target, seconds })
    if (failed > 0) throw new Error(`${failed} requests failed`)
    const bodyBytes = bodies.reduce((sum, body) => sum + Buffer.byteLength(body), 0) / bodies.length
    const sentBytes = requestsPerSecond * seconds * bodyBytes
    return [
      ...[name, count(pipes), build, String(connections), count(requestsPerSecond)],
      ...[p50Ms.toFixed(2), p99Ms.toFixed(2), count(peakRssMiB(daemon.pid))],
      ((writtenBytes(daemon.pid) - writtenBefore) / sentBytes).toFixed(2),
    ]
  } finally {
    await daemon.close()
  }
}

async function makePipes(daemon: TestDaemon, pipes: number): Promise<string[]> {
  const paths: string[] = []
  for (let n = 0; n < pipes; n += 1)
    paths.push(`/v1/ingest/${await daemon.createPipe({ pipe_name: `bench-${n}` })}`)
  return paths
}
