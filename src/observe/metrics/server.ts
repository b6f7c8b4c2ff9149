/**
 * `/metrics` for Prometheus on a separate loopback listener: ingest, buffer, lanes, the process and its event loop.
 * Names and units follow the Prometheus conventions: base units, `_total` on counters. Values are read when they are
 * scraped; the hot path only increments plain numbers. monitoring/metrics.md describes each metric.
 *
 * Names of pipes and destinations belong to workspaces. They are shown only here, to the operator of the daemon.
 */
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, isIP } from 'node:net'
import { collectDefaultMetrics, Registry } from 'prom-client'
import type { Logger } from '../../platform/log.ts'
import { formatAddress } from '../../settings/config.ts'
import type { ListenAddress } from '../../settings/settings.ts'
import { type BufferSources, registerBuffer } from './buffer-metrics.ts'
import { FoldedSeries } from './families.ts'
import { type IngestSources, registerIngest } from './ingest-metrics.ts'
import { type DeliverySources, registerLanes } from './lane-metrics.ts'
import { type ReplicaSource, registerReplica } from './replica-metrics.ts'
import {
  type CertificateSource,
  type ClusterSource,
  type PrivacySource,
  registerCertificates,
  registerCluster,
  registerPrivacy,
  registerProcess,
} from './service-metrics.ts'

export interface MetricsSources extends BufferSources, DeliverySources {
  /** The build as labels: version, node, … */
  build: Record<string, string>
  /** True: the previous run did not stop normally. */
  followsCrash: boolean
  /** The certificates of the TLS listeners. */
  certificates: readonly CertificateSource[]
  ingest: IngestSources
  /** Null: a single machine. */
  cluster: ClusterSource | null
  /** Null: in a cluster. */
  privacy: PrivacySource | null
  /** Null: there is no replica. */
  replica: ReplicaSource | null
}

export interface MetricsServer {
  address: ListenAddress
  close(): Promise<void>
}

/** Serves GET /metrics. Rejects if it cannot listen on the address. */
export async function openMetrics(
  listen: ListenAddress,
  sources: MetricsSources,
  log: Logger,
): Promise<MetricsServer> {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  registerProcess(registry, sources)
  registerCertificates(registry, sources.certificates)
  if (sources.privacy !== null) registerPrivacy(registry, sources.privacy)
  const folded = new FoldedSeries(registry)
  const readers = [
    registerIngest(registry, sources.ingest, folded),
    registerBuffer(registry, sources),
    registerLanes(registry, sources, folded),
    ...(sources.cluster === null ? [] : [registerCluster(registry, sources.cluster)]),
    ...(sources.replica === null ? [] : [registerReplica(registry, sources.replica)]),
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
 * A web page in a browser on this machine can point its own host name to a loopback address ("DNS rebinding"). Its
 * requests carry that name and are rejected. The operator must protect a listener on any other address.
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
