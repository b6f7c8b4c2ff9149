/**
 * The composition root: opens all parts in the order of their dependencies. Each part adds its step to the shutdown, whose
 * order is in `shutdown-steps.ts`.
 *
 *   main thread, or ingest threads      writer thread            delivery worker
 *   sockets ─ ingest ─ appender ──────▶ buffer segments ──feed──▶ lanes ─ drivers ─▶ destinations
 *      └──── management ─ metadata                                  └── metadata (lane state)
 *
 * A second signal ends the process immediately. If the writer dies, its memory cannot be trusted: the process ends with code
 * 70 and the service manager restarts it. If the delivery worker dies, it is restarted within the process. The process ends
 * only if its files fail, or if it dies repeatedly without a lane as the cause: delivery-proxy.ts.
 */
import { openEngine } from '../api/http/open-engine.ts'
import type { IngestThreads } from '../api/ingest-threads/ingest-threads.ts'
import { surfaces } from '../api/surfaces.ts'
import type { ListenerCertificate } from '../api/tls/listener-certificate.ts'
import { type ClientIp, createClientIp } from '../ingest/client-ip.ts'
import type { Ingest } from '../ingest/ingest.ts'
import { IngestObserved } from '../ingest/observed.ts'
import { type BodyMemory, createBodyMemory } from '../ingest/shared-counters.ts'
import { requireSoundSqlite } from '../log/segments/sqlite-version.ts'
import { bufferSpec, dataDirAt, requireDirectory } from '../maintenance/data-dir.ts'
import { lockDataDir } from '../maintenance/lock.ts'
import { markRunning } from '../maintenance/run-marker.ts'
import { messageOf } from '../platform/error-code.ts'
import { type Logger, openLog, setLogLevel } from '../platform/log.ts'
import { requireSoundSqliteAddon } from '../platform/node-bugs.ts'
import { inWords } from '../platform/storage-error.ts'
import { formatAddress, type SettingOrigin } from '../settings/config.ts'
import { logSettings } from '../settings/log-settings.ts'
import type { Settings } from '../settings/settings.ts'
import { clusterSettings } from '../stores/cluster-settings.ts'
import { keepRoomToOpen, makeRoomToOpen } from '../stores/open-log.ts'
import { startHousekeeping } from './housekeeping.ts'
import { openAlerts } from './open-alerts.ts'
import { openCertificates, reloadCertificates } from './open-certificates.ts'
import {
  type Accounting,
  ingestWorkers,
  openAccounting,
  openIngest,
  openThreadedIngest,
} from './open-ingest.ts'
import { openMetricsServer, openPipeReplays, openServer } from './open-listeners.ts'
import { openPrivacy } from './open-privacy.ts'
import { openStores, type Stores } from './open-stores.ts'
import { openServiceManager } from './service-manager.ts'
import { ShutdownSteps } from './shutdown-steps.ts'
import { exitFailed, exitWhenDead, type StartContext } from './start-context.ts'
import { startWhenReachable } from './start-when-reachable.ts'
import { startWhenSpace } from './start-when-space.ts'

/** If a part is silent for longer, the service manager gets no further sign of life. */
const longestSilenceMs = 10_000

export interface DaemonOptions {
  env: NodeJS.ProcessEnv
  /** The source of each setting. */
  origins: Record<string, SettingOrigin>
  /** Sets up the data directory if needed. Null: it must be set up already. */
  setUp: (() => Promise<void>) | null
  /** Starts with all destinations blocked. The stored status does not change. */
  isSafe: boolean
  /** Reads the settings again (SIGHUP). Throws ConfigError. */
  reload(): Settings
}

/**
 * Runs until a signal, closes everything and ends the process. If the start fails, it closes everything and throws.
 */
export async function runDaemon(settings: Settings, options: DaemonOptions): Promise<never> {
  const log = openLog(logSettings(settings), 'main')
  const serviceManager = openServiceManager(options.env, log)
  let shutdown = new ShutdownSteps(log)
  let isStopping = false
  process.on('uncaughtException', (error) => {
    log.fatal({ part: 'main', err: inWords(error, 'using', settings.data_dir) }, 'daemon.failed')
    // During shutdown the process continues, as in `exitWhenDead`: the remaining steps save what can be saved.
    if (!isStopping) process.exit(exitFailed)
  })
  let stopped: Promise<NodeJS.Signals> | null = null
  const untilStopped = () => (stopped ??= stopSignal())
  const daemon = await startWhenSpace(
    async () => {
      const start = async () => {
        shutdown = new ShutdownSteps(log)
        return await startDaemon(settings, { ...options, log, shutdown })
      }
      return clusterSettings(settings) === null ? await start() : await startWhenReachable(start, log)
    },
    { directory: settings.data_dir, log, serviceManager, stopSignal: untilStopped },
  )
  if (daemon === null) process.exit(0)
  serviceManager.watch(daemon.silentPart)
  // Listen before the next log line, because a process that reads the log can send a signal immediately after it.
  const stopping = untilStopped()
  process.on('SIGHUP', () => {
    serviceManager.reloading()
    void reloadSettings(options.reload, daemon, log).then(() => serviceManager.ready())
  })
  if (options.isSafe) log.warn('daemon.safe_mode')
  log.info(daemon.served, 'daemon.ready')
  serviceManager.ready()
  const signal = await stopping
  isStopping = true
  log.info({ signal }, 'daemon.stopping')
  serviceManager.stopping()
  const failedSteps = await shutdown.run()
  await serviceManager.close()
  log.info({ failed_steps: failedSteps }, 'daemon.stopped')
  // All parts are closed. Idle sockets of libraries must not keep the process alive.
  process.exit(failedSteps.length === 0 ? 0 : exitFailed)
}

/** Resolves at the first SIGTERM or SIGINT. The second one ends the process. */
function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isStopping = false
    const stop = (signal: NodeJS.Signals) => {
      if (isStopping) process.exit(1)
      isStopping = true
      resolve(signal)
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
  })
}

/** Reloads the settings that can change without a restart. If the file is invalid, the settings do not change. */
async function reloadSettings(
  reload: () => Settings,
  { trust, certificates }: Daemon,
  log: Logger,
): Promise<void> {
  try {
    const settings = reload()
    await trust(settings.trusted_proxies)
    reloadCertificates(certificates, settings)
    setLogLevel(settings['log.level'])
    log.info(
      { trusted_proxies: settings.trusted_proxies, log_level: settings['log.level'] },
      'daemon.reloaded',
    )
  } catch (error) {
    log.error({ reason: messageOf(error) }, 'daemon.reload_failed')
  }
}

export interface Daemon {
  /** Resolves when requests use the new `trusted_proxies`. */
  trust(cidrs: readonly string[]): Promise<void>
  certificates: readonly ListenerCertificate[]
  /** A part that has given no sign of life for too long. Null: all parts are alive. */
  silentPart(): string | null
  /** The addresses and what they serve, for the log. */
  served: object
}

/** Resolves when every address is served. If the start fails, it closes everything and throws. */
export async function startDaemon(settings: Settings, context: StartContext): Promise<Daemon> {
  try {
    return await openParts(settings, context)
  } catch (error) {
    await context.shutdown.run()
    throw error
  }
}

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: the start is a sequence, read best in one place.
async function openParts(settings: Settings, context: StartContext): Promise<Daemon> {
  const { shutdown } = context
  requireSoundSqliteAddon()
  requireSoundSqlite()
  const dir = dataDirAt(settings.data_dir)
  const certificates = openCertificates(settings, context)
  const spec = bufferSpec(settings, dir)
  // Must come first: on a disk without any free space the following parts cannot open.
  makeRoomToOpen(spec)
  await context.setUp?.()
  requireDirectory(settings)
  shutdown.set('release data directory', lockDataDir(dir))
  const marker = markRunning(dir.root, Date.now(), (err) => context.log.warn({ err }, 'daemon.not_marked'))
  shutdown.set('note the stop', () => marker.stop())
  const followsCrash = marker.crash !== null
  if (followsCrash) context.log.warn('daemon.restarted_after_crash')
  const stores = await openStores(settings, spec, context)
  const accounting = await openAccounting(stores, context)
  startHousekeeping({ ...stores, ...accounting }, settings['parked.days'], context)
  const clientIp = createClientIp(settings.trusted_proxies)
  const connectionLimits = {
    perAddress: settings['http.max_connections_per_address'],
    isTrusted: clientIp.isTrusted,
  }
  const onlyTls = certificates.length === surfaces(settings).length
  const engine = await openEngine(onlyTls ? 'node' : settings['http.engine'], context.log, connectionLimits)
  const tlsEngine = engine.name === 'node' ? engine : await openEngine('node', context.log, connectionLimits)
  const workers = ingestWorkers(settings, engine.name)
  const bodyMemory = createBodyMemory(settings['ingest.max_in_flight_bytes'], stores.counters)
  const observed = new IngestObserved({ slots: workers })
  const { ingest, trust, silentMs } = await openIngestParts(workers, settings, {
    ...stores,
    ...accounting,
    bodyMemory,
    clientIp,
    observed,
    context,
  })
  // From here on, other nodes wait until this node has seen their changes. All parts that follow changes are open
  // now.
  await stores.cluster?.node.join()
  stores.cluster?.view.open()
  const testAlert = openAlerts(settings, stores, marker, context)
  const pipeReplays = openPipeReplays(settings, { ...stores, ...accounting })
  const privacy = openPrivacy(stores, pipeReplays, context)
  const { addresses } = await openServer(
    settings,
    {
      ...stores,
      ...accounting,
      engine,
      tlsEngine,
      certificates,
      ingest,
      ingestWorkers: workers,
      clientIp,
      testAlert,
      privacy,
      pipeReplays,
    },
    context,
  )
  const metrics = await openMetricsServer(
    settings,
    {
      ...stores,
      ...accounting,
      bodyMemory,
      observed,
      httpEngine: engine.name,
      certificates,
      followsCrash,
      privacy,
    },
    context,
  )
  // Set late, because a start that fails for lack of space must not take space itself.
  shutdown.set('hold disk space', () => keepRoomToOpen(spec))
  const [main, data = main] = addresses
  const urlOf = (address: (typeof addresses)[number]) => {
    const hasTls = certificates.some(({ listener }) => listener === address.name)
    return `${hasTls ? 'https' : 'http'}://${formatAddress(address)}`
  }
  const served = {
    url: urlOf(main!),
    data_url: urlOf(data!),
    http_engine: engine.name,
    ingest_workers: workers,
    metrics_url: metrics && `http://${formatAddress(metrics.address)}/metrics`,
    data_dir: dir.root,
    ...(stores.cluster && { cluster: stores.cluster.settings.name, node: stores.cluster.node.name }),
  }
  const { buffer, delivery } = stores
  const silentPart = () => {
    if (shutdown.isRunning) return null
    if (buffer.silentMs() > longestSilenceMs) return 'buffer'
    if (silentMs() > longestSilenceMs) return 'ingest'
    return delivery.silentMs() > longestSilenceMs ? 'delivery' : null
  }
  return { trust, certificates, silentPart, served }
}

interface IngestParts {
  ingest: Ingest | IngestThreads
  trust: Daemon['trust']
  /** The time since a thread of this part last gave a sign of life. */
  silentMs(): number
}

/** On the main thread, or in ingest threads. */
async function openIngestParts(
  workers: number,
  settings: Settings,
  {
    context,
    clientIp,
    ...parts
  }: Stores &
    Accounting & {
      bodyMemory: BodyMemory
      clientIp: ClientIp
      observed: IngestObserved
      context: StartContext
    },
): Promise<IngestParts> {
  if (workers > 1) {
    const onThreadFailed = exitWhenDead('ingest', context)
    const threads = await openThreadedIngest(workers, settings, parts, { ...context, onThreadFailed })
    const trust = async (cidrs: readonly string[]) => {
      clientIp.trust(cidrs)
      await threads.trust(cidrs)
    }
    return { ingest: threads, trust, silentMs: () => threads.silentMs() }
  }
  const ingest = await openIngest(settings, { ...parts, clientIp }, context)
  return { ingest, trust: async (cidrs) => clientIp.trust(cidrs), silentMs: () => 0 }
}
