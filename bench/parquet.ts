/**
 * A lane beside Parquet: how long a record takes from its request to an HTTP endpoint, alone and while four Parquet lanes deliver a
 * backlog, and the memory of the daemon. Both are measured on one daemon, in one run.
 */
import { fork } from 'node:child_process'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { startDaemon } from '../test/support/daemon.ts'
import { startSigV4Receiver } from '../test/support/s3.ts'
import { block, drain, fill } from './backlog.ts'
import { peakRssMiB, rssMiB } from './process-stats.ts'
import { quantile } from './quantile.ts'
import { recordColumns } from './records.ts'
import { count, table } from './table.ts'

const total = Number(process.env.BENCH_RECORDS ?? 200_000)
const seconds = Number(process.env.BENCH_SECONDS ?? 10)
const lanes = 4
const everyMs = 20
const columns = recordColumns.filter(({ column_name }) => column_name !== 'amount')

export async function benchParquet(): Promise<string> {
  const account = { bucket: 'bench', region: 'us-east-1', accessKey: 'bench', secretKey: 'bench-secret' }
  const store = await startSigV4Receiver(account)
  const daemon = await startDaemon()
  const probe = await startProbe()
  try {
    const probed = await daemon.createPipe({ pipe_name: 'probed' })
    await daemon.createDestination(probed, {
      destination_type: 'destination_http_endpoint',
      destination_config: { url: probe.url, body_format: 'ndjson' },
      flush: { max_records: 1, max_bytes: 1_000_000, max_seconds: 1 },
    })
    const pipeId = await daemon.createPipe({ pipe_name: 'parquet' })
    const parquet = {
      destination_type: 'destination_object_store',
      destination_config: {
        bucket: account.bucket,
        endpoint: store.endpoint,
        access_key: account.accessKey,
        secret_key: account.secretKey,
        format: 'parquet',
      },
      columns,
      // The last batch of a lane closes after a second, so that the run does not depend on where the memory budget cuts batches.
      flush: { max_records: 50_000, max_bytes: 32 * 1024 * 1024, max_seconds: 1 },
    }
    const ids: string[] = []
    for (let lane = 0; lane < lanes; lane++) ids.push(await daemon.createDestination(pipeId, parquet))
    // The first delivery loads the client of the store, once in the life of the daemon.
    await fill(daemon, pipeId, 1)
    await drain(daemon, pipeId, ids)
    for (const id of ids) await block(daemon, pipeId, id)
    await fill(daemon, pipeId, total)
    const target = { url: `${daemon.dataUrl}/v1/ingest/${probed}`, apiKey: daemon.apiKey }
    await probe.measure({ ...target, seconds: 2 })
    const rest = rssMiB(daemon.pid)
    const alone = await probe.measure({ ...target, seconds })
    const drained = drain(daemon, pipeId, ids)
    const isOver = drained.then(() => true)
    const times: number[] = []
    while (!(await Promise.race([isOver, sleep(0, false)])))
      times.push(...(await probe.measure({ ...target, seconds: 1 })))
    const took = await drained
    const p99 = quantile(times, 0.99) / quantile(alone, 0.99)
    const peak = peakRssMiB(daemon.pid)
    return [
      table(
        ['a lane beside Parquet, ms', 'records', 'p50', 'p99', 'worst'],
        [row('alone', alone), row(`beside ${lanes} Parquet lanes`, times)],
      ),
      `Parquet: ${lanes} × ${count(total)} records in ${took.toFixed(1)} s, ${count((lanes * total) / took)} records/s.`,
      table(
        ['goal', 'measured', 'goal', ''],
        [
          ['p99 beside Parquet against alone', p99.toFixed(2), '< 2', p99 < 2 ? 'met' : 'missed'],
          [
            `peak RSS, MiB (${count(rest)} before)`,
            count(peak),
            '< 350 MB',
            peak * 1.048576 < 350 ? 'met' : 'missed',
          ],
        ],
      ),
    ].join('\n\n')
  } finally {
    probe.close()
    await daemon.close()
    await store.stop()
  }
}

function row(name: string, times: readonly number[]): string[] {
  return [name, count(times.length), ...[0.5, 0.99, 1].map((share) => quantile(times, share).toFixed(1))]
}

interface Measurement {
  url: string
  apiKey: string
  seconds: number
}

/** Sends records to the daemon and gets them back as its endpoint, in a process of its own. */
async function startProbe() {
  const child = fork(new URL(import.meta.url), {
    execArgv: ['--import=tsx'],
    env: { ...process.env, BENCH_PROBE: '1' },
  })
  const heard = () => new Promise<unknown>((resolve) => child.once('message', resolve))
  const port = await heard()
  return {
    url: `http://127.0.0.1:${String(port)}/`,
    /** Milliseconds from each record's request to its arrival. */
    async measure(measurement: Measurement): Promise<number[]> {
      child.send(measurement)
      return (await heard()) as number[]
    },
    close: () => child.kill(),
  }
}

function serveProbe(): void {
  const sent = new Map<number, number>()
  let times: number[] = []
  let last = 0
  const server = http.createServer((request, response) => {
    let text = ''
    request.on('data', (chunk: Buffer) => {
      text += chunk.toString()
    })
    request.on('end', () => {
      response.end()
      for (const [, n] of text.matchAll(/"n":(\d+)/g)) {
        const begun = sent.get(Number(n))
        if (begun === undefined) continue
        sent.delete(Number(n))
        times.push(performance.now() - begun)
      }
    })
  })
  process.on('message', async ({ url, apiKey, seconds: forSeconds }: Measurement) => {
    times = []
    const headers = { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' }
    const begun = performance.now()
    for (let next = begun; next < begun + forSeconds * 1000; next += everyMs) {
      await sleep(Math.max(0, next - performance.now()))
      last += 1
      sent.set(last, performance.now())
      void fetch(url, { method: 'POST', headers, body: `{"n":${last}}` }).then((response) => response.text())
    }
    while (sent.size > 0) await sleep(5)
    process.send?.(times)
  })
  server.listen(0, '127.0.0.1', () => {
    const address = server.address()
    if (address !== null && typeof address === 'object') process.send?.(address.port)
  })
}

if (process.env.BENCH_PROBE === '1') serveProbe()
