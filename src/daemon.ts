/**
 * The composition root: opens every part in the order they need each other. Each adds its step to the shutdown, whose
 * order is in `shutdown-steps.ts`.
 *
 *   main thread                         writer thread            delivery worker
 *   sockets ─ ingest ─ appender ──────▶ buffer segments ──feed──▶ lanes ─ drivers ─▶ destinations
 *      └──── management ─ metadata                                  └── metadata (lane state)
 *
 * A second signal ends the process at once. A writer that dies ends the process with code 70, for the service manager to
 * start it again: what it held in memory cannot be trusted. A delivery worker that dies is started again by itself, and ends
 * the process only when its files fail or it dies again and again for no lane's reason: delivery-proxy.ts.
 */
import { keepRoomToOpen, makeRoomToOpen } from './buffer/open.ts'
import { requireSoundSqlite } from './buffer/segments/sqlite-version.ts'
import { formatAddress, type SettingOrigin } from './config.ts'
import { dataDirAt, requirePrivate, requireSetUp } from './data-dir/data-dir.ts'
import { lockDataDir } from './data-dir/lock.ts'
import { startHousekeeping } from './housekeeping.ts'
import { createBodyMemory } from './ingest/body-memory.ts'
import { type ClientIp, createClientIp } from './ingest/client-ip.ts'
import { type Logger, openLog, setLogLevel } from './log.ts'
import { openAccounting, openIngest } from './open-ingest.ts'
import { openMetricsServer, openServer } from './open-listeners.ts'
import { exitFailed, openStores, type StartContext } from './open-stores.ts'
import { bufferSpec, logSettings } from './part-settings.ts'
import { openServiceManager } from './service-manager.ts'
import type { Settings } from './settings.ts'
import { ShutdownSteps } from './shutdown-steps.ts'
import { startWhenSpace } from './start-when-space.ts'
import { inWords } from './storage-error.ts'

/** Then the service manager is no longer told that the daemon is alive. */
const longestSilenceMs = 10_000

export interface DaemonOptions {
  env: NodeJS.ProcessEnv
  /** Where each setting came from. */
  origins: Record<string, SettingOrigin>
  /** Sets the data directory up where needed; null: it must be set up. */
  setUp: (() => Promise<void>) | null
  /** Starts with all destinations blocked, in memory alone. */
  isSafe: boolean
  /** Reads the settings again (SIGHUP). Throws ConfigError. */
  reload(): Settings
}

/** Runs until a signal, closes everything and ends the process. Throws what prevents the start, nothing left open. */
export async function runDaemon(settings: Settings, options: DaemonOptions): Promise<never> {
  const log = openLog(logSettings(settings), 'main')
  const serviceManager = openServiceManager(options.env, log)
  let shutdown = new ShutdownSteps(log)
  let isStopping = false
  process.on('uncaughtException', (error) => {
    log.fatal({ part: 'main', err: inWords(error, 'using', settings.data_dir) }, 'daemon.failed')
    // As when a thread dies: the steps that remain save what can be saved.
    if (!isStopping) process.exit(exitFailed)
  })
  let stopped: Promise<NodeJS.Signals> | null = null
  const untilStopped = () => (stopped ??= stopSignal())
  const daemon = await startWhenSpace(
    async () => {
      shutdown = new ShutdownSteps(log)
      return await startDaemon(settings, { ...options, log, shutdown })
    },
    { directory: settings.data_dir, log, serviceManager, stopSignal: untilStopped },
  )
  if (daemon === null) process.exit(0)
  serviceManager.watch(daemon.silentPart)
  // Whoever reads the line may send a signal at once.
  const stopping = untilStopped()
  process.on('SIGHUP', () => {
    serviceManager.reloading()
    reloadSettings(options.reload, daemon, log)
    serviceManager.ready()
  })
  if (options.isSafe) log.warn('daemon.safe_mode')
  log.info(daemon.served, 'daemon.ready')
  serviceManager.ready()
  const signal = await stopping
  isStopping = true
  log.info({ signal }, 'daemon.stopping')
  serviceManager.stopping()
  const failedSteps = await shutdown.run()
  serviceManager.close()
  log.info({ failed_steps: failedSteps }, 'daemon.stopped')
  // Idle sockets of libraries must not keep the process alive now that all parts are closed.
  process.exit(failedSteps.length === 0 ? 0 : exitFailed)
}

/** Resolves at the first SIGTERM or SIGINT; the second ends the process. */
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
    log.error({ reason: error instanceof Error ? error.message : String(error) }, 'daemon.reload_failed')
  }
}

export interface Daemon {
  clientIp: ClientIp
  /** A part that has given no sign of life for too long; null: all are alive. */
  silentPart(): string | null
  /** For the log: where what is served. */
  served: object
}

/** Resolves when every address is served. Throws what prevents the start, everything closed again. */
export async function startDaemon(settings: Settings, context: StartContext): Promise<Daemon> {
  try {
    return await openParts(settings, context)
  } catch (error) {
    await context.shutdown.run()
    throw error
  }
}

async function openParts(settings: Settings, context: StartContext): Promise<Daemon> {
  const { shutdown } = context
  requireSoundSqlite()
  const dir = dataDirAt(settings.data_dir)
  const spec = bufferSpec(settings, dir)
  // First of all: on a disk filled to the last byte nothing below would open.
  makeRoomToOpen(spec)
  await context.setUp?.()
  requireSetUp(dir)
  requirePrivate(dir)
  shutdown.set('release data directory', lockDataDir(dir))
  const stores = await openStores(settings, dir, spec, context)
  const accounting = await openAccounting(stores, context)
  startHousekeeping({ ...stores, ...accounting }, context)
  const clientIp = createClientIp(settings.trusted_proxies)
  const bodyMemory = createBodyMemory(settings['ingest.max_in_flight_bytes'], stores.counters)
  const ingest = await openIngest(settings, { ...stores, ...accounting, clientIp, bodyMemory }, context)
  const { addresses, engine } = await openServer(settings, { ...stores, ...accounting, ingest }, context)
  const metrics = await openMetricsServer(settings, { ...stores, ...accounting, bodyMemory }, context)
  // Now, because a start that fails for lack of space must not hold any itself.
  shutdown.set('hold disk space', () => keepRoomToOpen(spec))
  const [main, data = main] = addresses
  const served = {
    url: `http://${formatAddress(main!)}`,
    data_url: `http://${formatAddress(data!)}`,
    http_engine: engine,
    metrics_url: metrics && `http://${formatAddress(metrics.address)}/metrics`,
    data_dir: dir.root,
  }
  const { buffer, delivery } = stores
  const silentPart = () => {
    if (shutdown.isRunning) return null
    if (buffer.silentMs() > longestSilenceMs) return 'buffer'
    return delivery.silentMs() > longestSilenceMs ? 'delivery' : null
  }
  return { clientIp, silentPart, served }
}
