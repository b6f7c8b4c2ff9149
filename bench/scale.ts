/**
 * The cost of size: 1,000 pipes with two lanes each at rest, 10,000,000 records pending beside other pipes' ingest,
 * lists and lanes, and a start with 10 GB in the buffer. Each is measured in turns with a daemon without it. On a
 * machine that others use too, the CPU time for each request says more than the rate.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { startDaemon, type TestDaemon } from '../test/support/daemon.ts'
import { blockedDestination, drain, endpoint, fill } from './backlog.ts'
import { load } from './load.ts'
import { cpuSeconds, rssMiB } from './process-stats.ts'
import { record, recordArray } from './records.ts'
import { startSink } from './sink.ts'
import { count, table } from './table.ts'

const seconds = Number(process.env.BENCH_SECONDS ?? 5)
const rounds = Number(process.env.BENCH_ROUNDS ?? 5)
const pipes = 1_000
const pending = 10_000_000
const startBytes = 10e9
const drained = 100_000

export async function benchScale(): Promise<string> {
  const wanted = (process.env.BENCH_SCALE ?? 'rest,pending,start').split(',')
  const tables: string[] = []
  if (wanted.includes('rest')) tables.push(table(['at rest', 'without', 'with'], await atRest()))
  if (wanted.includes('pending')) {
    const head = [
      `beside ${count(pending)} pending records`,
      'without',
      'with',
      'ratio',
      'CPU µs',
      'CPU µs with',
      'ratio',
    ]
    tables.push(table(head, await besidePending()))
  }
  if (wanted.includes('start'))
    tables.push(table(['seconds from start to ready', 'without', 'CPU', 'with', 'CPU with'], [await start()]))
  return tables.join('\n\n')
}

/** After a start, when nothing has happened for a while. */
async function atRest(): Promise<string[][]> {
  const figures: { rss: number; cpu: number }[] = []
  for (const howMany of [0, pipes]) {
    const env = { PIPECTL_WORKSPACE_MAX_DESTINATIONS: String(2 * pipes) }
    const daemon = await startDaemon({ env })
    try {
      for (let at = 0; at < howMany; at++) {
        const pipeId = await daemon.createPipe({ pipe_name: `bench${at}` })
        for (const port of [9, 10])
          await daemon.createDestination(pipeId, endpoint(`http://127.0.0.1:${port}/`))
      }
      await daemon.stop()
      await daemon.start()
      await sleep(20_000)
      const before = cpuSeconds(daemon.pid)
      await sleep(30_000)
      figures.push({ rss: rssMiB(daemon.pid), cpu: ((cpuSeconds(daemon.pid) - before) / 30) * 100 })
    } finally {
      await daemon.close()
    }
  }
  const [empty, full] = figures as [(typeof figures)[0], (typeof figures)[0]]
  const name = `${count(pipes)} pipes with 2 lanes each at rest`
  return [
    [`${name}, MiB`, count(empty.rss), count(full.rss)],
    [`${name}, % of a core`, empty.cpu.toFixed(1), full.cpu.toFixed(1)],
  ]
}

/** Measures another pipe than the one with the backlog. */
async function besidePending(): Promise<string[][]> {
  const sink = await startSink()
  const others = [await openOther(sink.url), await openOther(sink.url)] as const
  try {
    await fillTenMillion(others[1])
    const rows = [
      await inTurns('ingest of another pipe, requests/s', others, ingest),
      await inTurns('GET /v1/pipes, requests/s', others, list),
    ]
    // The backlog that ingest has left is not part of the lanes' measurement.
    for (const other of others) await empty(other)
    rows.push(await inTurns('another pipe ingested and delivered, records/s', others, lane))
    return rows
  } finally {
    for (const { daemon } of others) await daemon.close()
    sink.close()
  }
}

async function openOther(url: string): Promise<Other> {
  const daemon = await startDaemon()
  const pipeId = await daemon.createPipe({ pipe_name: 'other' })
  const destinationId = await blockedDestination(daemon, pipeId, endpoint(url))
  const pendingId = await daemon.createPipe({ pipe_name: 'pending' })
  await blockedDestination(daemon, pendingId, endpoint(url))
  return { daemon, pipeId, destinationId, pendingId }
}

interface Other {
  daemon: TestDaemon
  pipeId: string
  destinationId: string
  /** Its records are pending, if it has any. */
  pendingId: string
}

/** The number of finished items, and the seconds they took. */
interface Done {
  count: number
  seconds: number
}

/** Medians of both daemons, and the median of the rounds' ratios: of the rate, and of the daemon's CPU time for each. */
async function inTurns(
  name: string,
  others: readonly [Other, Other],
  work: (other: Other) => Promise<Done>,
): Promise<string[]> {
  const rates: [number[], number[]] = [[], []]
  const costs: [number[], number[]] = [[], []]
  for (let round = 0; round < rounds; round++) {
    // They change places: who is second may have the warmer cache.
    for (const at of round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
      const { pid } = others[at].daemon
      const before = cpuSeconds(pid)
      const done = await work(others[at])
      rates[at].push(done.count / done.seconds)
      costs[at].push(((cpuSeconds(pid) - before) * 1e6) / done.count)
    }
  }
  return [name, ...compared(rates, count), ...compared(costs, (us) => us.toFixed(1))]
}

function compared([without, withIt]: [number[], number[]], shown: (value: number) => string): string[] {
  const ratios = without.map((value, round) => (withIt[round] ?? 0) / value)
  return [shown(median(without)), shown(median(withIt)), median(ratios).toFixed(2)]
}

async function ingest({ daemon, pipeId }: Other): Promise<Done> {
  const result = await load({
    url: `${daemon.dataUrl}/v1/ingest/${pipeId}`,
    headers: { Authorization: `Bearer ${daemon.apiKey}`, 'Content-Type': 'application/json' },
    bodies: Array.from({ length: 256 }, (_, at) => record(at)),
    connections: 64,
    seconds,
  })
  return { count: result.requestsPerSecond * seconds, seconds }
}

async function list({ daemon }: Other): Promise<Done> {
  return await timed(200, async () => {
    for (let run = 0; run < 200; run++) await daemon.api('GET', '/v1/pipes')
  })
}

async function lane(other: Other): Promise<Done> {
  return await timed(drained, async () => {
    await fill(other.daemon, other.pipeId, drained)
    await empty(other)
  })
}

async function empty({ daemon, pipeId, destinationId }: Other): Promise<void> {
  await drain(daemon, pipeId, [destinationId])
  const path = `/v1/pipes/${pipeId}/destinations/${destinationId}/status`
  await daemon.api('PATCH', path, { destination_status: 'blocked' })
}

async function timed(howMany: number, work: () => Promise<unknown>): Promise<Done> {
  const startedAt = performance.now()
  await work()
  return { count: howMany, seconds: (performance.now() - startedAt) / 1000 }
}

/** Small records, so that they are many and not much. */
async function fillTenMillion({ daemon, pendingId }: Other): Promise<void> {
  const body = `[${Array.from({ length: 1_000 }, (_, at) => `{"n":${at}}`).join(',')}]`
  await send(daemon, pendingId, [body], pending / 1_000)
}

/** From the program's start to its being ready, after an orderly end. */
async function start(): Promise<string[]> {
  const daemon = await startDaemon()
  try {
    const without = await startTimes(daemon)
    const pipeId = await daemon.createPipe({ pipe_name: 'bench' })
    await blockedDestination(daemon, pipeId, endpoint('http://127.0.0.1:9/'))
    const bodies = Array.from({ length: 4 }, (_, at) => recordArray(at * 2_000, 2_000))
    const stored = (bodies[0] ?? '').length + 2_000 * '"ingest_ts":"2026-11-22T11:11:11.111Z",'.length
    await send(daemon, pipeId, bodies, Math.ceil(startBytes / stored))
    const withIt = await startTimes(daemon)
    return ['10 GB in the buffer', ...[...without, ...withIt].map((time) => time.toFixed(1))]
  } finally {
    await daemon.close()
  }
}

/** Seconds, by the clock and of the CPU. */
async function startTimes(daemon: TestDaemon): Promise<[number, number]> {
  const times: number[] = []
  const costs: number[] = []
  for (let run = 0; run < rounds; run++) {
    await daemon.stop()
    const startedAt = performance.now()
    await daemon.start()
    times.push((performance.now() - startedAt) / 1000)
    costs.push(cpuSeconds(daemon.pid))
  }
  return [median(times), median(costs)]
}

/** These bodies in turn, eight requests at a time. */
async function send(daemon: TestDaemon, pipeId: string, bodies: string[], requests: number): Promise<void> {
  let next = 0
  const sender = async () => {
    while (next < requests) {
      next += 1
      await daemon.ingest(pipeId, bodies[next % bodies.length] as string)
    }
  }
  await Promise.all(Array.from({ length: 8 }, sender))
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}
