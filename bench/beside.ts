/**
 * Delivery beside ingest at full rate, to an HTTP endpoint: does the lane keep up, and does one with a backlog of a
 * million records come through it meanwhile?
 */
import { startDaemon, type TestDaemon } from '../test/support/daemon.ts'
import { blockedDestination, endpoint, fill } from './backlog.ts'
import { type LoadResult, load } from './load.ts'
import { record, recordArray } from './records.ts'
import { startSink } from './sink.ts'
import { count, table } from './table.ts'

const seconds = Number(process.env.BENCH_SECONDS ?? 10)
const backlog = 1_000_000

interface Case {
  name: string
  bodies: string[]
  records: number
  connections: number
}

const single: Case = {
  name: 'single record',
  bodies: Array.from({ length: 256 }, (_, at) => record(at)),
  records: 1,
  connections: 64,
}
const arrays: Case = {
  name: 'array of 100',
  bodies: Array.from({ length: 16 }, (_, at) => recordArray(at * 100, 100)),
  records: 100,
  connections: 16,
}

export async function benchBeside(): Promise<string> {
  const sink = await startSink()
  try {
    const kept = [await keepUp(single, sink.url), await keepUp(arrays, sink.url)]
    const drained = await drainBeside(single, sink.url)
    return [
      table(['delivery while ingesting', 'ingested/s', 'delivered/s', 'ratio', 'pending at the end'], kept),
      table(
        ['backlog while ingesting', 'seconds', 'delivered/s', 'ingest/s alone', 'ingest/s beside'],
        [drained],
      ),
    ].join('\n\n')
  } finally {
    sink.close()
  }
}

/** Records per second, both counted over the same seconds. */
async function keepUp(one: Case, url: string): Promise<string[]> {
  const daemon = await startDaemon()
  try {
    const pipeId = await daemon.createPipe({ pipe_name: 'bench' })
    const id = await daemon.createDestination(pipeId, endpoint(url))
    await loadOn(daemon, pipeId, one, 2)
    const before = Number((await daemon.lane(pipeId, id)).delivered_records)
    const startedAt = performance.now()
    const { requestsPerSecond } = await loadOn(daemon, pipeId, one, seconds)
    const lane = await daemon.lane(pipeId, id)
    const ingested = requestsPerSecond * one.records
    const delivered = ((Number(lane.delivered_records) - before) / (performance.now() - startedAt)) * 1000
    const ratio = (delivered / ingested).toFixed(2)
    return [
      one.name,
      count(ingested),
      count(delivered),
      ratio,
      count(Number(lane.pending_messages) * one.records),
    ]
  } finally {
    await daemon.close()
  }
}

/** A backlog in messages of 100 records, delivered while single records keep coming to the same pipe. */
async function drainBeside(one: Case, url: string): Promise<string[]> {
  const daemon = await startDaemon()
  try {
    const pipeId = await daemon.createPipe({ pipe_name: 'bench' })
    const id = await blockedDestination(daemon, pipeId, endpoint(url))
    await fill(daemon, pipeId, backlog)
    const endSeq = Number((await daemon.lane(pipeId, id)).head_seq)
    const alone = await loadOn(daemon, pipeId, one, seconds)
    await daemon.api('PATCH', `/v1/pipes/${pipeId}/destinations/${id}/status`, {
      destination_status: 'active',
    })
    const startedAt = performance.now()
    const loading = loadOn(daemon, pipeId, one, seconds)
    for (;;) {
      if (Number((await daemon.lane(pipeId, id)).cursor_seq) >= endSeq) break
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    const took = (performance.now() - startedAt) / 1000
    const beside = await loading
    return [
      `${count(backlog)} records`,
      took.toFixed(1),
      count(backlog / took),
      count(alone.requestsPerSecond),
      count(beside.requestsPerSecond),
    ]
  } finally {
    await daemon.close()
  }
}

function loadOn(daemon: TestDaemon, pipeId: string, one: Case, forSeconds: number): Promise<LoadResult> {
  return load({
    url: `${daemon.dataUrl}/v1/ingest/${pipeId}`,
    headers: { Authorization: `Bearer ${daemon.apiKey}`, 'Content-Type': 'application/json' },
    bodies: one.bodies,
    connections: one.connections,
    seconds: forSeconds,
  })
}
