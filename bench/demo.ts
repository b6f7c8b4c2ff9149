/**
 * `npm run demo`: a throw-away daemon with traffic, one lane stuck on purpose, and you in the TUI to unblock it.
 *
 *   orders   → an HTTP endpoint that takes everything, and a pull lane with a consumer
 *   sensors  → an HTTP endpoint that rejects a reading without a unit: the lane stops at that message (s skips it)
 */
import { spawn } from 'node:child_process'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { binary, cleanEnv, startDaemon, type TestDaemon } from '../test/support/daemon.ts'
import { order, reading, some } from './demo-records.ts'

if (!process.stdout.isTTY) {
  process.stderr.write('npm run demo shows a terminal interface: run it in a terminal\n')
  process.exit(2)
}

const sink = http.createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (chunk) => {
    body += chunk
  })
  request.on('end', () => {
    const isRefused = request.url === '/strict' && body.includes('"unit":null')
    response.statusCode = isRefused ? 422 : 200
    response.end(isRefused ? '{"problem":"unit is required"}' : '')
  })
})
await new Promise<void>((resolve) => sink.listen(0, '127.0.0.1', resolve))
const address = sink.address()
const sinkUrl = `http://127.0.0.1:${address !== null && typeof address === 'object' ? address.port : 0}`

process.stderr.write('starting a daemon with a throw-away data directory …\n')
const daemon = await startDaemon()
const stopping = new AbortController()
try {
  const orders = await daemon.createPipe({ pipe_name: 'orders', pipe_description: 'web shop orders' })
  const sensors = await daemon.createPipe({ pipe_name: 'sensors', pipe_description: 'greenhouse readings' })
  await daemon.createDestination(orders, endpoint(`${sinkUrl}/`))
  const pullId = await daemon.createDestination(orders, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  await daemon.createDestination(sensors, endpoint(`${sinkUrl}/strict`))
  const traffic = [
    repeat(150, () => daemon.ingest(orders, some(12, order))),
    repeat(400, () => daemon.ingest(sensors, some(6, reading))),
    repeat(0, () => daemon.api('GET', `/v1/pull/${pullId}?wait_ms=1000`)),
    breakSensors(daemon, sensors),
  ]
  const tui = spawn(process.execPath, [binary, 'top'], {
    stdio: 'inherit',
    env: cleanEnv({ PIPECTL_URL: daemon.url, PIPECTL_API_KEY: daemon.apiKey }),
  })
  // Closed or killed from outside: the daemon and its directory go too.
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) process.on(signal, () => tui.kill())
  await new Promise((resolve) => tui.once('exit', resolve))
  stopping.abort()
  await Promise.all(traffic)
} finally {
  await daemon.close()
  sink.close()
}

function endpoint(url: string): Record<string, unknown> {
  return { destination_type: 'destination_http_endpoint', destination_config: { url } }
}

async function repeat(everyMs: number, work: () => Promise<unknown>): Promise<void> {
  while (!stopping.signal.aborted) {
    // A pipe that you paused or deleted rejects its records: the demo goes on sending, as an application would.
    await work().catch(() => {})
    await pause(Math.max(20, everyMs * (0.5 + Math.random())))
  }
}

async function breakSensors(target: TestDaemon, pipeId: string): Promise<void> {
  await pause(3000)
  if (stopping.signal.aborted) return
  await target.ingest(pipeId, { sensor: 'bed-4', celsius: 21.4, unit: null }).catch(() => {})
}

/** Ends early when the demo does. */
async function pause(ms: number): Promise<void> {
  await sleep(ms, undefined, { signal: stopping.signal }).catch(() => {})
}
