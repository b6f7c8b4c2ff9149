/**
 * `npm run demo:cluster`: three nats-servers, PostgreSQL, three nodes and traffic, all throw-away, and you in the TUI, which asks node
 * a. Every half minute b or c is killed (kill -9) and comes back: the line of nodes and the column NODE show how pipes move. In the end
 * it says what was acknowledged and what arrived.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startCluster, type TestCluster, type TestNode } from '../test/support/cluster.ts'
import { binary, cleanEnv } from '../test/support/daemon.ts'
import { order, some } from './demo-records.ts'
import { ownChildren } from './process-stats.ts'

const pipes = [
  'orders',
  'invoices',
  'returns',
  'shipments',
  'payments',
  'reviews',
  'carts',
  'visits',
  'searches',
]
const firstKillMs = 10_000
const awayMs = 15_000
const betweenMs = 15_000

if (!process.stdout.isTTY) {
  process.stderr.write('npm run demo:cluster shows a terminal interface: run it in a terminal\n')
  process.exit(2)
}

// One place for everything that the servers write, however the demo ends. PostgreSQL runs as another user and has to get in.
const place = mkdtempSync(path.join(os.tmpdir(), 'pipectl-demo-'))
chmodSync(place, 0o755)
process.env.TMPDIR = place
process.once('exit', () => rmSync(place, { recursive: true, force: true, maxRetries: 5 }))

const stopping = new AbortController()
let tui: ChildProcess | null = null
for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    stopping.abort()
    if (tui !== null) tui.kill()
    else endAtOnce()
  })
}

/** While servers are being started some may wait for others that a Ctrl-C has ended: nothing of value is lost. */
function endAtOnce(): void {
  for (const pid of ownChildren()) process.kill(pid, 'SIGKILL')
  process.exit(130)
}

const arrived = new Set<string>()
const sink = http.createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (chunk) => {
    body += chunk
  })
  request.on('end', () => {
    for (const [, id] of body.matchAll(/"order_id":"([^"]+)"/g)) arrived.add(id!)
    response.end()
  })
})
await new Promise<void>((resolve) => sink.listen(0, '127.0.0.1', resolve))
const address = sink.address()
const sinkUrl = `http://127.0.0.1:${address !== null && typeof address === 'object' ? address.port : 0}/`

process.stderr.write(
  'starting three nats-servers, PostgreSQL and three nodes with throw-away directories …\n',
)
const acknowledged = new Set<string>()
let cluster: TestCluster | null = null
try {
  cluster = await startCluster({ nodes: 3, replicas: 3 })
  if (!stopping.signal.aborted) await show(cluster)
} catch (error) {
  // A Ctrl-C ends the servers as well; what they say of it may be here before the signal is.
  await sleep(100)
  if (!stopping.signal.aborted) throw error
} finally {
  process.stderr.write('stopping …\n')
  await cluster?.close()
  sink.close()
}
process.exit(0)

async function show({ nodes }: TestCluster): Promise<void> {
  const [first] = nodes as [TestNode]
  const pipeIds: string[] = []
  for (const name of pipes) {
    const id = await first.createPipe({ pipe_name: name })
    await first.createDestination(id, {
      destination_type: 'destination_http_endpoint',
      destination_config: { url: sinkUrl },
    })
    pipeIds.push(id)
  }
  const traffic = [...pipeIds.map((id) => send(nodes, id)), killInTurns(nodes.slice(1))]
  tui = spawn(process.execPath, [binary, 'top'], {
    stdio: 'inherit',
    env: cleanEnv({ PIPECTL_URL: first.url, PIPECTL_API_KEY: first.apiKey }),
  })
  if (stopping.signal.aborted) tui.kill()
  await new Promise((resolve) => tui?.once('exit', resolve))
  stopping.abort()
  await Promise.all(traffic)
  process.stderr.write('waiting until everything that was acknowledged has arrived …\n')
  const missing = () => [...acknowledged].filter((id) => !arrived.has(id)).length
  for (let tries = 0; missing() > 0 && tries < 60; tries += 1) await sleep(500)
  process.stderr.write(
    `acknowledged ${acknowledged.size.toLocaleString('en-US')} records, of which ${missing() === 0 ? 'none is' : `${missing()} are`} missing at the endpoint\n`,
  )
}

/** As a load balancer would: to any node that runs; what it does not acknowledge is sent again to the next. */
async function send(nodes: readonly TestNode[], pipeId: string): Promise<void> {
  let turn = Math.floor(Math.random() * nodes.length)
  while (!stopping.signal.aborted) {
    const records = some(8, order)
    while (!stopping.signal.aborted) {
      turn += 1
      const node = nodes[turn % nodes.length]!
      const isTaken =
        node.isReady &&
        (await node.ingest(pipeId, records).then(
          () => true,
          () => false,
        ))
      if (isTaken) break
      await pause(100)
    }
    if (stopping.signal.aborted) return
    for (const { order_id } of records) acknowledged.add(String(order_id))
    await pause(100 + Math.random() * 200)
  }
}

async function killInTurns(nodes: readonly TestNode[]): Promise<void> {
  await pause(firstKillMs)
  for (let turn = 0; !stopping.signal.aborted; turn += 1) {
    const node = nodes[turn % nodes.length]!
    await node.kill()
    await pause(awayMs)
    // Also in the end: what is not running is closed all the same.
    if (stopping.signal.aborted) return
    await node.start()
    await pause(betweenMs)
  }
}

/** Ends early when the demo does. */
async function pause(ms: number): Promise<void> {
  await sleep(ms, undefined, { signal: stopping.signal }).catch(() => {})
}
