/**
 * `/metrics` for Prometheus, on a loopback listener of its own: ingest, buffer, lanes, the process and its event loop.
 * Names and units follow the Prometheus conventions: base units, `_total` on counters. Everything is read when it is
 * scraped; the hot path only adds to plain numbers. What each metric means is in monitoring/metrics.md.
 *
 * Names of pipes and destinations are data of workspaces: they are shown here alone, to who runs the daemon.
 */
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, isIP } from 'node:net'
import { collectDefaultMetrics, Registry } from 'prom-client'
import type { Logger } from '../../platform/log.ts'
import { formatAddress } from '../../settings/config.ts'
import type { ListenAddress } from '../../settings/settings.ts'
import { type BufferSources, registerBuffer } from './buffer-metrics.ts'
import { type CertificateSource, registerCertificates } from './certificate-metrics.ts'
import { type ClusterSource, registerCluster } from './cluster-metrics.ts'
import { FoldedSeries } from './families.ts'
import { type IngestSources, registerIngest } from './ingest-metrics.ts'
import { type DeliverySources, registerLanes } from './lane-metrics.ts'
import { registerProcess } from './process-metrics.ts'

export interface MetricsSources extends BufferSources, DeliverySources {
  /** The build as labels: version, node, … */
  build: Record<string, string>
  /** The run before this one ended without stopping. */
  followsCrash: boolean
  /** The certificates of the listeners that speak TLS. */
  certificates: readonly CertificateSource[]
  ingest: IngestSources
  /** Null: it is a single machine. */
  cluster: ClusterSource | null
}

export interface MetricsServer {
  address: ListenAddress
  close(): Promise<void>
}

/** Serves GET /metrics. Rejects when the address cannot be listened on. */
export async function openMetrics(
  listen: ListenAddress,
  sources: MetricsSources,
  log: Logger,
): Promise<MetricsServer> {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  registerProcess(registry, sources)
  registerCertificates(registry, sources.certificates)
  const folded = new FoldedSeries(registry)
  const readers = [
    registerIngest(registry, sources.ingest, folded),
    registerBuffer(registry, sources),
    registerLanes(registry, sources, folded),
    ...(sources.cluster === null ? [] : [registerCluster(registry, sources.cluster)]),
  ]
  const server = createServer((request, response) => {
    if (!isOwnHost(request.headers.host, listen.host)) {
      response
        .writeHead(403, { 'Content-Type': 'text/plain' })
        .end('Use an address: this listener is only for this machine.\n')
      return
    }
    if (request.url !== '/metrics' || request.method !== 'GET') {
      response.writeHead(404, { 'Content-Type': 'text/plain' }).end('GET /metrics\n')
      return
    }
    respond(registry, () => Promise.all(readers.map((read) => read())), response).catch((error) => {
      log.error({ err: error }, 'metrics.failed')
      if (!response.headersSent) response.writeHead(500)
      response.end()
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(listen.port, listen.host, resolve)
  })
  const { port } = server.address() as AddressInfo
  log.info({ url: `http://${formatAddress({ host: listen.host, port })}/metrics` }, 'metrics.listening')
  return {
    address: { host: listen.host, port },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/**
 * A page in a browser on this machine can make its own name stand for a loopback address ("DNS rebinding"); what it then
 * asks for carries that name. A listener on another address is the operator's to protect.
 */
function isOwnHost(host: string | undefined, listenHost: string): boolean {
  const isLoopback = listenHost === 'localhost' || listenHost === '::1' || listenHost.startsWith('127.')
  if (!isLoopback || host === undefined) return true
  const name = host.replace(/:\d*$/, '').replace(/^\[(.*)\]$/, '$1')
  return name.toLowerCase() === 'localhost' || isIP(name) !== 0
}

async function respond(
  registry: Registry,
  read: () => Promise<unknown>,
  response: ServerResponse,
): Promise<void> {
  await read()
  const text = await registry.metrics()
  response.writeHead(200, { 'Content-Type': registry.contentType }).end(text)
}
