/**
 * The composition root: opens every part in the order they need each other, and closes them in the only order that
 * loses nothing.
 *
 *   main thread                         writer thread            delivery thread
 *   sockets ─ ingest ─ appender ──────▶ buffer segments ──feed──▶ lanes ─ drivers ─▶ destinations
 *      └──── management ─ metadata                                  └── metadata (lane state)
 *
 * Shutdown: stop accepting → answer waiting pulls 204 → drain the appender → let attempts under way finish, then abort
 * them → save lane state → checkpoint and close. A second signal ends the process at once. A thread that dies ends the
 * process with code 70, for the service manager to start it anew: what it held in memory cannot be trusted.
 */
import { type BufferHandle, openBuffer } from './buffer/segments/open-buffer.ts'
import { formatAddress } from './config.ts'
import { openapiYaml } from './contract/openapi.ts'
import { type DataDir, dataDirAt, lockDataDir, openDataDirMetadata, requireSetUp } from './data-dir.ts'
import { type DeliveryHandle, openDelivery } from './delivery/delivery-client.ts'
import type { DriverSettings } from './destinations/driver.ts'
import { targetRefusal } from './destinations/target-refusal.ts'
import { requireFreeAddress } from './http/listen.ts'
import { managementRoutes } from './http/management-routes.ts'
import { openApiRoute } from './http/openapi-route.ts'
import { pullRoutes } from './http/pull-routes.ts'
import { openHttpServer, type Surface } from './http/server.ts'
import { createIngest } from './ingest/accept.ts'
import { createAuthenticate } from './ingest/bearer.ts'
import { createBodyMemory } from './ingest/body-memory.ts'
import { type ClientIp, createClientIp } from './ingest/client-ip.ts'
import type { Directory } from './ingest/directory.ts'
import { openDirectory } from './ingest/directory-cache.ts'
import { openGeo } from './ingest/geo.ts'
import { createQuota } from './ingest/quota.ts'
import { createUsageCounter, type UsageCounter } from './ingest/usage.ts'
import { catchUpUsage, startUsageFlush } from './ingest/usage-flush.ts'
import { type Logger, openLog, setLogLevel } from './log.ts'
import { openManagement } from './management/management.ts'
import type { Metadata } from './metadata/store.ts'
import { observeUsage, openMetrics } from './metrics.ts'
import { createLongPoll } from './pull/long-poll.ts'
import { openServiceManager } from './service-manager.ts'
import type { Settings } from './settings.ts'

const exitFailed = 70
const dayMs = 86_400_000
/** Roll-ups older than this are of no use to the 24 h window or the day quotas. */
const usageKeptMs = 8 * dayMs

export interface DaemonOptions {
  env: NodeJS.ProcessEnv
  /** Reads the settings anew (SIGHUP). Throws ConfigError. */
  reload(): Settings
}

/** Runs until a signal; resolves when everything is closed. Throws what hinders the start, nothing left open. */
export async function runDaemon(settings: Settings, { env, reload }: DaemonOptions): Promise<void> {
  const log = openLog({ level: settings['log.level'], format: settings['log.format'] }, 'main')
  const serviceManager = openServiceManager(env, log)
  const daemon = await startDaemon(settings, env, log)
  serviceManager.ready()

  await new Promise<void>((resolve) => {
    let isStopping = false
    const stop = (signal: NodeJS.Signals) => {
      if (isStopping) process.exit(1)
      isStopping = true
      log.info({ signal }, 'daemon.stopping')
      serviceManager.stopping()
      resolve()
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
    process.on('SIGHUP', () => {
      serviceManager.reloading()
      reloadSettings(reload, daemon, log)
      serviceManager.ready()
    })
  })
  await daemon.stop()
  serviceManager.close()
  log.info({}, 'daemon.stopped')
  // Idle sockets of libraries must not hold the process back now that all of ours is closed.
  process.exit(0)
}

interface Daemon {
  clientIp: ClientIp
  stop(): Promise<void>
}

/** What can change without a restart; a wrong file leaves the settings as they are. */
function reloadSettings(reload: () => Settings, { clientIp }: Daemon, log: Logger): void {
  try {
    const settings = reload()
    clientIp.trust(settings.trusted_proxies)
    setLogLevel(settings['log.level'])
    log.info(
      { trusted_proxies: settings.trusted_proxies, log_level: settings['log.level'] },
      'daemon.reloaded',
    )
  } catch (error) {
    log.error({ reason: error instanceof Error ? error.message : String(error) }, 'daemon.reload_refused')
  }
}

/** Closes in the reverse order of opening what has been opened so far. */
class Closers {
  readonly #closers: (() => unknown)[] = []
  add(close: () => unknown): void {
    this.#closers.push(close)
  }
  async run(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close()
  }
}

async function startDaemon(settings: Settings, env: NodeJS.ProcessEnv, log: Logger): Promise<Daemon> {
  const opened = new Closers()
  try {
    return await openParts(settings, env, log, opened)
  } catch (error) {
    await opened.run()
    throw error
  }
}

async function openParts(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  log: Logger,
  opened: Closers,
): Promise<Daemon> {
  const dir = dataDirAt(settings.data_dir)
  requireSetUp(dir)
  opened.add(lockDataDir(dir))
  const { metadata, sealingKey } = await openDataDirMetadata(settings, env, false)
  opened.add(() => metadata.close())
  const fatal = (part: string) => (error: Error) => {
    log.fatal({ part, err: error }, 'daemon.failed')
    process.exit(exitFailed)
  }
  const logSettings = { level: settings['log.level'], format: settings['log.format'] }
  const buffer = await openBuffer({
    ...bufferOptions(settings, dir),
    log: logSettings,
    onFatal: fatal('buffer'),
  })
  opened.add(() => buffer.close())
  const driverSettings = driverSettingsFrom(settings)
  const delivery = await openDelivery({
    feedPort: buffer.feedPort,
    bufferDir: dir.bufferDir,
    quarantineDir: dir.quarantineDir,
    metadataFile: dir.metadataFile,
    sealingKey,
    driverSettings,
    maxInFlightBytes: settings['delivery.max_in_flight_bytes'],
    log: logSettings,
    onFatal: fatal('delivery'),
  })
  opened.add(() => delivery.close())
  const directory = await openDirectory(metadata.directory)
  const totals = await buffer.pipeTotals()
  await catchUpUsage(metadata.usage, totals, directory, Date.now())
  const usage = observeUsage(createUsageCounter(totals))
  const clientIp = createClientIp(settings.trusted_proxies)
  const geo = await openGeo({ file: settings['geoip.database'], log })
  opened.add(() => geo.close())
  const parts = { metadata, buffer, delivery, directory, usage, log }
  const server = await openHttpServer({
    surfaces: surfacesOf(settings),
    routes: routesOf(parts, driverSettings),
    ingest: createIngest({
      ...parts,
      appender: buffer.appender,
      geo,
      clientIp,
      quota: createQuota(await metadata.usage.ingestedSince(startOfUtcDay(Date.now())), Date.now()),
      bodyMemory: createBodyMemory(settings['ingest.max_in_flight_bytes']),
      maxBodyBytes: settings['ingest.max_body_bytes'],
      now: Date.now,
    }),
    authenticate: createAuthenticate(directory),
    log,
  })
  opened.add(() => server.close())
  const metrics =
    settings['metrics.listen'] === null
      ? null
      : await openMetricsAt(settings['metrics.listen'], buffer, delivery, log)
  if (metrics !== null) opened.add(() => metrics.close())
  const housekeeping = startHousekeeping(metadata, log)
  const usageFlush = startUsageFlush({ counter: usage, usage: metadata.usage, directory, log })
  const [main, data = main] = server.addresses
  log.info(
    {
      url: `http://${formatAddress(main!)}`,
      data_url: `http://${formatAddress(data!)}`,
      metrics_url: metrics && `http://${formatAddress(metrics.address)}/metrics`,
      data_dir: dir.root,
    },
    'daemon.ready',
  )

  return {
    clientIp,
    stop: async () => {
      clearInterval(housekeeping)
      server.stopAccepting()
      await delivery.endPulls()
      await buffer.appender.drain()
      await Promise.race([server.idle(), after(1000)])
      await usageFlush.close()
      await opened.run()
    },
  }
}

function bufferOptions(settings: Settings, dir: DataDir) {
  return {
    dir: dir.bufferDir,
    quarantineDir: dir.quarantineDir,
    maxBytes: settings['buffer.max_bytes'],
    minFreeBytes: settings['buffer.min_free_bytes'],
    segmentMaxBytes: settings['buffer.segment_max_bytes'],
    segmentMaxSeconds: settings['buffer.segment_max_seconds'],
    undeliveredHours: settings['buffer.undelivered_hours'],
    deliveredHours: settings['buffer.delivered_hours'],
    deliveredMaxBytes: settings['buffer.delivered_max_bytes'],
  }
}

function driverSettingsFrom(settings: Settings): DriverSettings {
  return {
    databaseTls: settings.destination_db_ssl,
    egress: {
      allow: settings['egress.allow'],
      deny: settings['egress.deny'],
      private: settings['egress.private'],
    },
  }
}

/** With a second listener, ingest and pull leave the first: what strangers reach must not show management. */
function surfacesOf(settings: Settings): Surface[] {
  const { listen, data_listen: dataListen } = settings
  if (dataListen === null) return [{ name: 'listen', listen, management: true, data: true }]
  return [
    { name: 'listen', listen, management: true, data: false },
    { name: 'data_listen', listen: dataListen, management: false, data: true },
  ]
}

interface Parts {
  metadata: Metadata
  buffer: BufferHandle
  delivery: DeliveryHandle
  directory: Directory
  usage: UsageCounter
  log: Logger
}

function routesOf(
  { metadata, buffer, delivery, directory, usage, log }: Parts,
  driverSettings: DriverSettings,
) {
  const management = openManagement({
    metadata,
    delivery,
    directory,
    headSeq: () => buffer.appender.headSeq,
    checkTarget: (type, config) => targetRefusal(type, config, driverSettings.egress),
    now: Date.now,
    pendingUsage: () => usage.pending(),
  })
  const pulls = pullRoutes({
    findDestination: (workspaceId, id) => metadata.destinations.find(workspaceId, id),
    delivery,
    longPoll: createLongPoll(delivery),
    log,
  })
  return [...managementRoutes(management), ...pulls, openApiRoute(Buffer.from(openapiYaml()))]
}

async function openMetricsAt(
  listen: NonNullable<Settings['metrics.listen']>,
  buffer: BufferHandle,
  delivery: DeliveryHandle,
  log: Logger,
) {
  await requireFreeAddress('metrics.listen', listen)
  const { missingAcknowledged } = buffer
  const sources = { buffer: () => buffer.status(), delivery: () => delivery.metrics(), missingAcknowledged }
  return await openMetrics(listen, sources, log)
}

function startHousekeeping(metadata: Metadata, log: Logger): NodeJS.Timeout {
  const timer = setInterval(() => {
    metadata.usage
      .prune(Date.now() - usageKeptMs)
      .catch((error) => log.error({ err: error }, 'usage.prune_failed'))
  }, 3_600_000)
  timer.unref()
  return timer
}

function startOfUtcDay(nowMs: number): number {
  return nowMs - (nowMs % dayMs)
}

function after(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}
