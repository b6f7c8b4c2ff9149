/** Opens all listeners on top of open parts: the HTTP servers with their routes, and `/metrics`. */
import { browserFiles } from '../api/http/browser-files.ts'
import { dashboardPages } from '../api/http/dashboard-files.ts'
import { DashboardGate } from '../api/http/dashboard-gate.ts'
import { dashboardRoutes } from '../api/http/dashboard-routes.ts'
import { docsPages } from '../api/http/docs-files.ts'
import type { HttpEngine } from '../api/http/engine.ts'
import { AddressInUseError, requireFreeAddress } from '../api/http/listen.ts'
import { LongPoll } from '../api/http/long-poll.ts'
import { managementRoutes } from '../api/http/management-routes.ts'
import { pullRoutes } from '../api/http/pull-routes.ts'
import { readiness } from '../api/http/readiness.ts'
import type { Route } from '../api/http/route.ts'
import { openHttpServer } from '../api/http/server.ts'
import { serviceRoutes, type UrlSources } from '../api/http/service-routes.ts'
import { Tails } from '../api/http/tail-routes.ts'
import { IngestThreads } from '../api/ingest-threads/ingest-threads.ts'
import type { ManagementDeps, ServiceFacts } from '../api/management/deps.ts'
import { openManagement } from '../api/management/management.ts'
import { Sessions } from '../api/management/sessions.ts'
import { surfaces } from '../api/surfaces.ts'
import type { ListenerCertificate } from '../api/tls/listener-certificate.ts'
import { targetFault, unavailableFault } from '../destinations/drivers.ts'
import { isPrivateDenied } from '../destinations/guards.ts'
import { tablesDirOf } from '../destinations/sqlite/files.ts'
import { QueryProcesses } from '../destinations/sqlite/query-processes.ts'
import type { ClientIp } from '../ingest/client-ip.ts'
import type { Ingest } from '../ingest/ingest.ts'
import type { IngestObserved } from '../ingest/observed.ts'
import { PipeReplays } from '../ingest/parked/replays.ts'
import type { BodyMemory } from '../ingest/shared-counters.ts'
import type { Actor } from '../metadata/audit.ts'
import { Passwords } from '../metadata/password-hash.ts'
import { type MetricsServer, openMetrics } from '../observe/metrics/server.ts'
import { endsWithin } from '../platform/deadline.ts'
import type { Logger } from '../platform/log.ts'
import { version } from '../platform/version.ts'
import type { PrivacyRunner } from '../privacy/jobs.ts'
import { formatAddress } from '../settings/config.ts'
import type { Settings } from '../settings/settings.ts'
import type { Accounting } from './open-ingest.ts'
import type { Stores } from './open-stores.ts'
import { measuredReplica, replicaFacts } from './replica-facts.ts'
import type { StartContext } from './start-context.ts'

/** When the daemon stops, clients that are still sending are disconnected after this time. */
const responseGraceMs = 1_000

interface ServerParts extends Stores, Accounting {
  pipeReplays: PipeReplays
  engine: HttpEngine
  tlsEngine: HttpEngine
  certificates: readonly ListenerCertificate[]
  ingest: Ingest | IngestThreads
  ingestWorkers: number
  clientIp: ClientIp
  testAlert: ManagementDeps['testAlert']
  privacy: PrivacyRunner | null
}

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: the start is a sequence, read best in one place.
export async function openServer(
  settings: Settings,
  parts: ServerParts,
  { isSafe = false, log, shutdown }: StartContext,
) {
  const { cluster, metadata, buffer, engine, tlsEngine, certificates, authenticate } = parts
  const certificateOf = (listener: string) => certificates.find((one) => one.listener === listener) ?? null
  const threads = parts.ingest instanceof IngestThreads ? parts.ingest : null
  const ingest = parts.ingest instanceof IngestThreads ? null : parts.ingest
  let dataPort: number | null = null
  const readinessSources = {
    isBufferRejecting: async () => (await buffer.status()).unavailableReason !== null,
    isDiskFull: async () => (await buffer.status()).unavailableReason === 'low_disk_space',
    damage: async () => {
      const { damagedSegments, missingSegments, lostMessages, missingAcknowledged } = await buffer.status()
      return { damagedSegments, missingSegments, lostMessages: lostMessages + missingAcknowledged }
    },
    readMetadata: () => metadata.workspaces.list(),
    isStopping: () => shutdown.isRunning,
    isInCluster: () => cluster?.node.isLive ?? true,
    isSafe,
    certificates,
    log,
  }
  const hasTls = certificateOf('listen') !== null
  const urls = {
    publicUrls: { management: settings.public_url, data: settings.public_data_url },
    dataPort: () => dataPort,
    tls: { management: hasTls, data: certificateOf('data_listen') !== null },
  }
  const services = serviceRoutes({ now: parts.now, ...readinessSources, ...urls })
  const passwords = new Passwords()
  const service = {
    version: version(),
    started_ts: new Date().toISOString(),
    http_engine: engine.name,
    ingest_workers: parts.ingestWorkers,
  }
  const serviceFacts = async () => {
    const ready = await readiness(readinessSources)
    const delivery_restarts = parts.delivery.workerRestarts
    const replica = parts.replica && (await replicaFacts(settings, parts.replica))
    return {
      buffer: await bufferFacts(settings, buffer),
      service: { ...service, ...ready, is_ready: ready.reasons.length === 0, delivery_restarts, replica },
    }
  }
  const tails = new Tails({
    history: parts.history,
    hasPipe: ({ workspaceId, pipeId }) => parts.directory.pipe(pipeId)?.workspaceId === workspaceId,
    log,
  })
  shutdown.set('end tails', () => tails.end())
  const tableQueries = new QueryProcesses(tablesDirOf(settings.data_dir))
  shutdown.set('end queries', () => tableQueries.close())
  const undeliveredHours = settings['buffer.undelivered_hours']
  const usersChanged = (workspaceId: string) => tails.accessChanged({ usersOf: workspaceId })
  parts.changes.subscribe(async (change) => {
    if ('apiKeyId' in change && change.isRevoked) tails.accessChanged(change)
  })
  const v1 = [
    ...routesOf(
      {
        ...parts,
        passwords,
        serviceFacts,
        tableQueries,
        usersChanged,
        undeliveredHours,
      },
      log,
    ),
    tails.route,
    ...services,
  ]
  const dashboard = openDashboard(settings, { ...parts, passwords, hasTls, usersChanged, urls }, v1, log)
  const server = await openHttpServer({
    engine,
    dataEngine: threads?.engine ?? null,
    tlsEngine,
    surfaces: surfaces(settings).map((one) => ({ ...one, certificate: certificateOf(one.name) })),
    routes: [...v1, ...browserFiles(), ...dashboard.routes],
    ingest,
    authenticate,
    gate: dashboard.gate,
    clientIp: parts.clientIp,
    log,
  })
  dataPort = server.addresses[1]?.port ?? null
  shutdown.set('stop accepting', () => {
    threads?.stopping()
    return server.stopAccepting()
  })
  // The threads come last, because they still send the responses of the main thread.
  const idle = async () => {
    await server.idle()
    await threads?.idle()
  }
  shutdown.set('finish responses', () => endsWithin(responseGraceMs, idle()))
  shutdown.set('close connections', () => server.close())
  return { addresses: server.addresses }
}

export function openPipeReplays(
  settings: Settings,
  parts: Pick<ServerParts, 'metadata' | 'directory' | 'buffer' | 'usageOf' | 'now'>,
): PipeReplays {
  return new PipeReplays({
    store: parts.metadata.pipeParked,
    directory: parts.directory,
    appender: parts.buffer.appender,
    usage: parts.usageOf(0),
    maxKeys: settings['ingest.max_keys_per_record'],
    now: parts.now,
  })
}

async function bufferFacts(settings: Settings, buffer: Stores['buffer']): Promise<ServiceFacts['buffer']> {
  const { bytes, freeBytes, oldestMs, unavailableReason } = await buffer.status()
  return {
    size_bytes: bytes,
    max_bytes: settings['buffer.max_bytes'],
    free_disk_bytes: freeBytes,
    min_free_disk_bytes: settings['buffer.min_free_bytes'],
    oldest_ts: oldestMs === null ? null : new Date(oldestMs).toISOString(),
    unavailable_reason: unavailableReason,
  }
}

interface Dashboard {
  gate: DashboardGate | null
  routes: Route[]
}

function openDashboard(
  settings: Settings,
  {
    metadata,
    now,
    passwords,
    clientIp,
    hasTls,
    usersChanged,
    urls,
  }: Stores & {
    passwords: Passwords
    clientIp: ClientIp
    hasTls: boolean
    usersChanged: (workspaceId: string) => void
    urls: UrlSources
  },
  v1: readonly Route[],
  log: Logger,
): Dashboard {
  if (settings.dashboard === 'off') return { gate: null, routes: [] }
  const sessions = new Sessions({ metadata, passwords, now, log, usersChanged })
  const { public_url: publicUrl, listen } = settings
  const gate = new DashboardGate({ publicUrl, listenHost: listen.host, hasTls, clientIp, sessions })
  return { gate, routes: [...dashboardRoutes(sessions, urls, v1), ...dashboardPages(), ...docsPages()] }
}

type ManagementParts = Stores &
  Accounting &
  Pick<
    ManagementDeps,
    | 'pipeReplays'
    | 'passwords'
    | 'serviceFacts'
    | 'tableQueries'
    | 'testAlert'
    | 'usersChanged'
    | 'undeliveredHours'
  > & {
    privacy: PrivacyRunner | null
  }

function routesOf(parts: ManagementParts, log: Logger): Route[] {
  const { cluster, metadata, changes, buffer, delivery, history, directory, usage, egress, drivers } = parts
  const deps: ManagementDeps = {
    metadata,
    passwords: parts.passwords,
    serviceFacts: parts.serviceFacts,
    testAlert: parts.testAlert,
    ingestTotals: () => parts.ingestTotals.ofPipes((pipeId) => directory.pipe(pipeId) !== undefined),
    changes,
    laneViews: delivery,
    laneCommands: delivery,
    pipeReplays: parts.pipeReplays,
    trials: delivery,
    tableQueries: parts.tableQueries,
    history,
    headSeq: () => buffer.headSeq(),
    checkTarget: (type, config) => unavailableFault(type, drivers) ?? targetFault(type, config, egress),
    isPrivateDenied: () => isPrivateDenied(egress),
    usersChanged: parts.usersChanged,
    now: parts.now,
    undeliveredHours: parts.undeliveredHours,
    privacyChanged: (jobId) => parts.privacy?.changed(jobId),
    cluster: cluster && (() => cluster.view.facts()),
    pendingUsage: () => usage.pending(),
  }
  const management = openManagement(deps)
  const actingAs = (actor: Actor) => openManagement({ ...deps, metadata: metadata.as(actor) })
  const longPoll = new LongPoll(delivery)
  changes.subscribe(async (change) => {
    if ('apiKeyId' in change && change.isRevoked) longPoll.revoke(change.apiKeyId)
  })
  const pulls = pullRoutes({
    findDestination: (destination) => metadata.destinations.get(destination),
    pulls: delivery,
    longPoll,
    log,
  })
  return [
    ...managementRoutes(management, actingAs, {
      versions: metadata.versions,
      replicated: parts.replica?.stored ?? null,
    }),
    ...pulls,
  ]
}

/** Null if metrics are switched off, or if the default address is in use and was not set explicitly. */
export async function openMetricsServer(
  settings: Settings,
  {
    cluster,
    metadata,
    buffer,
    delivery,
    directory,
    ingestTotals,
    bodyMemory,
    observed,
    httpEngine,
    certificates,
    followsCrash,
    privacy,
    replica,
  }: Stores &
    Accounting & {
      bodyMemory: BodyMemory
      observed: IngestObserved
      httpEngine: string
      certificates: readonly ListenerCertificate[]
      followsCrash: boolean
      privacy: PrivacyRunner | null
    },
  { origins, log, shutdown }: StartContext,
): Promise<MetricsServer | null> {
  const listen = settings['metrics.listen']
  if (listen === null) return null
  try {
    await requireFreeAddress('metrics.listen', listen)
  } catch (error) {
    if (origins['metrics.listen'] !== 'default' || !(error instanceof AddressInUseError)) throw error
    log.warn({ address: formatAddress(listen) }, 'metrics.off_address_in_use')
    return null
  }
  const metrics = await openMetrics(
    listen,
    {
      followsCrash,
      privacy,
      replica: replica && (() => measuredReplica(settings, replica)),
      certificates,
      build: { version: version(), node: process.versions.node, http_engine: httpEngine },
      limits: {
        bufferBytes: settings['buffer.max_bytes'],
        minFreeBytes: settings['buffer.min_free_bytes'],
        retentionSeconds: settings['buffer.undelivered_hours'] * 3600,
      },
      ingest: {
        totals: ingestTotals,
        observed,
        labelWorkers: settings['metrics.worker_label'],
        bodyBytes: () => bodyMemory.heldBytes(),
        pipeName: (pipeId) => directory.pipe(pipeId)?.pipe.pipe_name,
        parkedAtPipes: () => metadata.pipeParked.counts(),
      },
      buffer: { status: () => buffer.status(), histograms: () => buffer.histograms() },
      delivery: () => delivery.metrics(),
      cluster: cluster && (() => cluster.view.measured()),
    },
    log,
  )
  shutdown.set('close metrics', () => metrics.close())
  return metrics
}
