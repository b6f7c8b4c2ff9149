/**
 * The cost of a cluster compared with one machine: ingest through one node with one and with three replicas, in turns
 * with a single machine, delivery of a backlog, and three nodes at once. All servers run on this machine and compete
 * for it: on few cores compare the CPU of a record, not the rates.
 */
import { availableParallelism } from 'node:os'
import { startCluster, type TestCluster } from '../test/support/cluster.ts'
import { startDaemon, type TestDaemon } from '../test/support/daemon.ts'
import { blockedDestination, drain, endpoint, fill } from './backlog.ts'
import { inTurns, type Measured } from './ingest.ts'
import { arrayOf100, type Case, single } from './ingest-cases.ts'
import { daemonTarget, type Target } from './ingest-targets.ts'
import { load } from './load.ts'
import { cpuSeconds, cpuSecondsOfTrees, ownChildren } from './process-stats.ts'
import { startSink } from './sink.ts'
import { count, table } from './table.ts'

const seconds = Number(process.env.BENCH_SECONDS ?? 10)
const backlog = Number(process.env.BENCH_RECORDS ?? 200_000)
/** Three nodes, as many clients, a nats-server and PostgreSQL each want one. */
const coresForScaling = 8
/** As the single machine that they are compared with. */
const env = { PIPECTL_HTTP_ENGINE: 'uws', PIPECTL_INGEST_WORKERS: '1' }

export async function benchCluster(): Promise<string> {
  return [await ingestTable(), await deliveryTable(), await scalingTable()].join('\n\n')
}

async function ingestTable(): Promise<string> {
  const rows: string[][] = []
  const goals: string[][] = []
  for (const [one, wanted] of [
    [single, 0.5],
    [arrayOf100, 0.7],
  ] as const) {
    const measured = await inTurns(one, [
      await daemonTarget('single machine'),
      await clusterTarget('one node, R1', 1),
      await clusterTarget('one node, R3', 3),
      await clusterTarget('one node, R1, synced', 1, true),
      await clusterTarget('one node, R3, synced', 3, true),
    ])
    const [alone, r1] = measured
    rows.push(...measured.map((each) => ingestRow(one, each, alone!)))
    const ratio = r1!.requestsPerSecond / alone!.requestsPerSecond
    goals.push([
      `${one.name}, one node on R1`,
      ratio.toFixed(2),
      `≥ ${wanted}`,
      ratio >= wanted ? 'met' : 'missed',
    ])
  }
  const head = ['ingest', 'server', 'connections', 'requests/s', 'records/s', 'p50 ms', 'p99 ms']
  return [
    table([...head, 'CPU µs/record', 'of NATS and PostgreSQL', 'failed', '× single machine'], rows),
    table(['ingest against a single machine', 'measured', 'goal', ''], goals),
  ].join('\n\n')
}

function ingestRow(one: Case, each: Measured, alone: Measured): string[] {
  const { target, requestsPerSecond, cpuUsPerRequest, serversCpuUsPerRequest } = each
  return [
    one.name,
    target.name,
    String(one.connections),
    count(requestsPerSecond),
    count(requestsPerSecond * one.records),
    each.p50Ms.toFixed(2),
    each.p99Ms.toFixed(2),
    (cpuUsPerRequest / one.records).toFixed(2),
    (serversCpuUsPerRequest / one.records).toFixed(2),
    count(each.failed),
    (requestsPerSecond / alone.requestsPerSecond).toFixed(2),
  ]
}

/** One node with servers of its own; `syncAlways`: a 202 waits for their disks too. */
async function clusterTarget(name: string, replicas: 1 | 3, syncAlways = false): Promise<Target> {
  const before = new Set(ownChildren())
  const cluster = await startCluster({ nodes: 1, replicas, syncAlways, env })
  const node = cluster.nodes[0]!
  const pipeId = await node.createPipe({ pipe_name: 'bench' })
  return {
    name,
    pid: node.pid,
    serverPids: ownChildren().filter((pid) => !before.has(pid) && pid !== node.pid),
    url: ingestUrl(node, pipeId),
    headers: headers(node),
    close: () => cluster.close(),
  }
}

const ingestUrl = (node: TestDaemon, pipeId: string) => `${node.dataUrl}/v1/ingest/${pipeId}`
const headers = (node: TestDaemon) => ({
  Authorization: `Bearer ${node.apiKey}`,
  'Content-Type': 'application/json',
})

async function deliveryTable(): Promise<string> {
  const rows: string[][] = []
  let alone = 0
  const measure = async (name: string, open: () => Promise<{ node: TestDaemon; close(): Promise<void> }>) => {
    const sink = await startSink()
    const { node, close } = await open()
    try {
      const pipeId = await node.createPipe({ pipe_name: 'bench' })
      const id = await blockedDestination(node, pipeId, endpoint(sink.url))
      await fill(node, pipeId, backlog)
      const cpuBefore = cpuSeconds(node.pid)
      const took = await drain(node, pipeId, [id])
      const cpu = cpuSeconds(node.pid) - cpuBefore
      const stored = await sink.records()
      // At least once: a batch may come twice.
      if (stored < backlog) throw new Error(`${name}: ${stored} of ${backlog} records arrived`)
      alone ||= backlog / took
      const ratio = backlog / took / alone
      const cpuUs = (cpu / backlog) * 1e6
      rows.push([
        name,
        count(backlog),
        took.toFixed(2),
        count(backlog / took),
        cpuUs.toFixed(2),
        ratio.toFixed(2),
      ])
    } finally {
      await close()
      sink.close()
    }
  }
  const ofCluster = (replicas: 1 | 3) => async () => {
    const cluster = await startCluster({ nodes: 1, replicas, env })
    return { node: cluster.nodes[0]!, close: () => cluster.close() }
  }
  await measure('single machine', async () => {
    const node = await startDaemon({ env })
    return { node, close: () => node.close() }
  })
  await measure('one node, R1', ofCluster(1))
  await measure('one node, R3', ofCluster(3))
  const head = ['delivery to an HTTP endpoint', 'records', 'seconds', 'records/s', 'CPU µs/record']
  return table([...head, '× single machine'], rows)
}

/** The same load on one of three nodes, then on all of them at once, each with a pipe of its own. */
async function scalingTable(): Promise<string> {
  const before = new Set(ownChildren())
  const cluster = await startCluster({ nodes: 3, replicas: 1, env })
  try {
    const nodePids = cluster.nodes.map(({ pid }) => pid)
    const servers = ownChildren().filter((pid) => !before.has(pid) && !nodePids.includes(pid))
    const pipeIds: string[] = []
    for (const node of cluster.nodes) pipeIds.push(await node.createPipe({ pipe_name: `bench-${node.name}` }))
    const rows: string[][] = []
    for (const one of [single, arrayOf100]) {
      const first = await loadNodes(cluster, pipeIds, one, 1, servers)
      const all = await loadNodes(cluster, pipeIds, one, 3, servers)
      const cores = availableParallelism()
      const scale =
        cores >= coresForScaling
          ? `${(all.requestsPerSecond / first.requestsPerSecond).toFixed(2)} (goal ≥ 2.2)`
          : `needs ${coresForScaling} cores, there are ${cores}`
      rows.push(scalingRow(one, 'one of three nodes', first, ''), scalingRow(one, 'three nodes', all, scale))
    }
    const head = ['scaling, R1', 'load on', 'requests/s', 'failed', "nodes' CPU µs/record"]
    return table([...head, 'of NATS and PostgreSQL', '× one node'], rows)
  } finally {
    await cluster.close()
  }
}

interface Scaled {
  requestsPerSecond: number
  failed: number
  cpuUsPerRequest: number
  serversCpuUsPerRequest: number
}

async function loadNodes(
  { nodes }: TestCluster,
  pipeIds: readonly string[],
  { bodies, connections }: Case,
  howMany: number,
  servers: readonly number[],
): Promise<Scaled> {
  const loaded = nodes.slice(0, howMany)
  const pids = nodes.map(({ pid }) => pid)
  const run = (forSeconds: number) =>
    Promise.all(
      loaded.map((node, at) =>
        load({
          url: ingestUrl(node, pipeIds[at]!),
          headers: headers(node),
          bodies,
          connections,
          seconds: forSeconds,
        }),
      ),
    )
  await run(1)
  const [nodesBefore, serversBefore] = [cpuSecondsOfTrees(pids), cpuSecondsOfTrees(servers)]
  const startedAt = performance.now()
  const results = await run(seconds)
  const took = (performance.now() - startedAt) / 1000
  const requestsPerSecond = results.reduce((sum, one) => sum + one.requestsPerSecond, 0)
  const perRequest = (cpu: number) => (cpu / took / requestsPerSecond) * 1e6
  return {
    requestsPerSecond,
    failed: results.reduce((sum, one) => sum + one.failed, 0),
    cpuUsPerRequest: perRequest(cpuSecondsOfTrees(pids) - nodesBefore),
    serversCpuUsPerRequest: perRequest(cpuSecondsOfTrees(servers) - serversBefore),
  }
}

function scalingRow(one: Case, where: string, found: Scaled, scale: string): string[] {
  return [
    one.name,
    where,
    count(found.requestsPerSecond),
    count(found.failed),
    (found.cpuUsPerRequest / one.records).toFixed(2),
    (found.serversCpuUsPerRequest / one.records).toFixed(2),
    scale,
  ]
}
