/**
 * `pipectl ingest` of a CSV file against arrays of the same records over HTTP, in one run on one machine, and the memory of
 * the command. BENCH_RECORDS is the number of rows, BENCH_SECONDS the length of the array load.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, mkdtempSync, rmSync, statSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { binary, cleanEnv, startDaemon, type TestDaemon } from '../test/support/daemon.ts'
import { load } from './load.ts'
import { cpuSeconds, peakRssMiB } from './process-stats.ts'
import { record } from './records.ts'
import { count, table } from './table.ts'

const rows = Number(process.env.BENCH_RECORDS ?? 1_000_000)
const seconds = Number(process.env.BENCH_SECONDS ?? 10)
const names = ['id', 'type', 'user_id', 'amount', 'currency', 'ok', 'note'] as const
const types = 'user_id:number,amount:number,ok:boolean'

export async function benchBackfill(): Promise<string> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'pipectl-bench-'))
  const file = path.join(folder, 'rows.csv')
  try {
    await writeRows(file)
    const arrays = await arrayRate()
    const ordered = await backfill(file, [])
    const unordered = await backfill(file, ['--in-flight', '4'])
    const ratio = ordered.rate / arrays
    return [
      table(
        [
          'CSV backfill',
          'records',
          'MiB',
          'seconds',
          'records/s',
          'of arrays',
          'CPU, µs/record',
          'peak RSS, MiB',
        ],
        [
          ['arrays of 100, 16 connections', '', '', String(seconds), count(arrays), '1.00', '', ''],
          line('pipectl ingest FILE.csv', ordered, arrays, file),
          line('pipectl ingest --in-flight 4', unordered, arrays, file),
        ],
      ),
      table(
        ['goal', 'measured', 'goal', ''],
        [['CSV against arrays', ratio.toFixed(2), '≥ 0.5', ratio >= 0.5 ? 'met' : 'missed']],
      ),
    ].join('\n\n')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

interface Measured {
  seconds: number
  rate: number
  cpu: number
  peakMiB: number
}

function line(
  name: string,
  { seconds, rate, cpu, peakMiB }: Measured,
  arrays: number,
  file: string,
): string[] {
  const size = count(statSync(file).size / 2 ** 20)
  const cost = ((cpu * 1e6) / rows).toFixed(1)
  return [
    name,
    count(rows),
    size,
    seconds.toFixed(1),
    count(rate),
    (rate / arrays).toFixed(2),
    cost,
    count(peakMiB),
  ]
}

function valuesOf(index: number): unknown[] {
  const event: Record<string, unknown> = JSON.parse(record(index))
  return names.map((name) => event[name])
}

async function writeRows(file: string): Promise<void> {
  const out = createWriteStream(file)
  out.write(`${names.join(',')}\n`)
  const tails = Array.from({ length: 256 }, (_, index) => valuesOf(index).slice(1).map(String).join(','))
  let text = ''
  for (let index = 0; index < rows; index += 1) {
    text += `evt-${String(index).padStart(12, '0')},${tails[index % 256]}\n`
    if (text.length < 1_000_000) continue
    if (!out.write(text)) await once(out, 'drain')
    text = ''
  }
  out.end(text)
  await once(out, 'close')
}

/** The records of the CSV file as arrays, as the bench of ingest sends them. */
async function arrayRate(): Promise<number> {
  const daemon = await startDaemon()
  try {
    const pipeId = await daemon.createPipe({ pipe_name: 'arrays' })
    const objectOf = (index: number) =>
      Object.fromEntries(valuesOf(index).map((value, at) => [names[at], value]))
    const bodies = Array.from({ length: 16 }, (_, at) =>
      JSON.stringify(Array.from({ length: 100 }, (_, index) => objectOf(at * 100 + index))),
    )
    const { requestsPerSecond, failed } = await load({
      url: `${daemon.dataUrl}/v1/ingest/${pipeId}`,
      headers: { Authorization: `Bearer ${daemon.apiKey}`, 'Content-Type': 'application/json' },
      bodies,
      connections: 16,
      seconds,
    })
    if (failed > 0) throw new Error(`${failed} requests failed`)
    return requestsPerSecond * 100
  } finally {
    await daemon.close()
  }
}

async function backfill(file: string, options: readonly string[]): Promise<Measured> {
  const daemon = await startDaemon({ env: { PIPECTL_BUFFER_MAX_BYTES: String(60 * 2 ** 30) } })
  try {
    await daemon.createPipe({ pipe_name: 'backfill' })
    return await measured(daemon, ['ingest', 'backfill', file, '--types', types, ...options])
  } finally {
    await daemon.close()
  }
}

async function measured(daemon: TestDaemon, args: readonly string[]): Promise<Measured> {
  const home = mkdtempSync(path.join(os.tmpdir(), 'pipectl-bench-'))
  const env = cleanEnv({
    HOME: home,
    XDG_STATE_HOME: home,
    PIPECTL_URL: daemon.url,
    PIPECTL_DATA_URL: daemon.dataUrl,
    PIPECTL_API_KEY: daemon.apiKey,
  })
  const startedAt = performance.now()
  const child = spawn(process.execPath, [binary, ...args], { env, stdio: ['ignore', 'ignore', 'inherit'] })
  const facts = { cpu: 0, peakMiB: 0 }
  const sampling = setInterval(() => {
    if (child.pid === undefined || child.exitCode !== null) return
    facts.cpu = cpuSeconds(child.pid)
    facts.peakMiB = peakRssMiB(child.pid)
  }, 50)
  const [code] = await once(child, 'exit')
  clearInterval(sampling)
  rmSync(home, { recursive: true, force: true })
  if (code !== 0) throw new Error(`pipectl ended with ${String(code)}`)
  const took = (performance.now() - startedAt) / 1000
  return { seconds: took, rate: rows / took, ...facts }
}
