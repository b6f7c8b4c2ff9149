/** The cost of lanes for each other and for ingest: ratios within one run. */
import net from 'node:net'
import { startDaemon, type TestDaemon } from '../test/support/daemon.ts'
import { blockedDestination, drain, endpoint, fill } from './backlog.ts'
import { load } from './load.ts'
import { record } from './records.ts'
import { startSink } from './sink.ts'
import { count, table } from './table.ts'

const seconds = Number(process.env.BENCH_SECONDS ?? 10)

export async function benchLanes(): Promise<string> {
  const sink = await startSink()
  try {
    return table(
      ['lanes', 'without', 'with', 'ratio'],
      [await manyLanes(sink.url), ...(await blackHole(sink.url))],
    )
  } finally {
    sink.close()
  }
}

/** Ingest with one lane on the pipe against a hundred. */
async function manyLanes(url: string): Promise<string[]> {
  const rates: number[] = []
  for (const lanes of [1, 100]) {
    const daemon = await startDaemon()
    try {
      const pipeId = await daemon.createPipe({ pipe_name: 'bench' })
      for (let lane = 0; lane < lanes; lane++) await daemon.createDestination(pipeId, endpoint(url))
      rates.push(await ingestRate(daemon, pipeId))
    } finally {
      await daemon.close()
    }
  }
  return ratioRow('ingest requests/s, 1 against 100 lanes on the pipe', rates[0] ?? 0, rates[1] ?? 0)
}

/** Ingest and another lane's delivery while one lane's destination accepts connections and never responds. */
async function blackHole(url: string): Promise<string[][]> {
  const hole = net.createServer(() => {})
  await new Promise<void>((resolve) => hole.listen(0, '127.0.0.1', resolve))
  const address = hole.address()
  const port = address !== null && typeof address === 'object' ? address.port : 0
  const ingest: number[] = []
  const delivery: number[] = []
  for (const withHole of [false, true]) {
    const daemon = await startDaemon()
    try {
      const pipeId = await daemon.createPipe({ pipe_name: 'bench' })
      if (withHole) await daemon.createDestination(pipeId, endpoint(`http://127.0.0.1:${port}/`))
      const id = await blockedDestination(daemon, pipeId, endpoint(url))
      await fill(daemon, pipeId, 200_000)
      delivery.push(200_000 / (await drain(daemon, pipeId, [id])))
      ingest.push(await ingestRate(daemon, pipeId))
    } finally {
      await daemon.close()
    }
  }
  hole.close()
  return [
    ratioRow('delivery records/s, another lane black-holed', delivery[0] ?? 0, delivery[1] ?? 0),
    ratioRow('ingest requests/s, a lane black-holed', ingest[0] ?? 0, ingest[1] ?? 0),
  ]
}

async function ingestRate(daemon: TestDaemon, pipeId: string): Promise<number> {
  const result = await load({
    url: `${daemon.dataUrl}/v1/ingest/${pipeId}`,
    headers: { Authorization: `Bearer ${daemon.apiKey}`, 'Content-Type': 'application/json' },
    bodies: Array.from({ length: 256 }, (_, at) => record(at)),
    connections: 64,
    seconds,
  })
  return result.requestsPerSecond
}

function ratioRow(name: string, without: number, withIt: number): string[] {
  return [name, count(without), count(withIt), (withIt / without).toFixed(2)]
}
