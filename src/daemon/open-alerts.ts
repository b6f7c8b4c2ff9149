/** Opens alerts on top of the other parts: the check of lanes, the sender, and the thread that posts. */
import { randomUUID } from 'node:crypto'
import type { ManagementDeps } from '../api/management/deps.ts'
import type { RunMarker } from '../maintenance/run-marker.ts'
import { testMessage } from '../observe/alerts/message.ts'
import { AlertPoster } from '../observe/alerts/poster.ts'
import { AlertSender } from '../observe/alerts/sender.ts'
import { AlertWatch } from '../observe/alerts/watch.ts'
import { endsWithin } from '../platform/deadline.ts'
import { StorageUnavailableError } from '../platform/error-code.ts'
import type { Settings } from '../settings/settings.ts'
import type { Stores } from './open-stores.ts'
import type { StartContext } from './start-context.ts'

const checkEveryMs = 5_000
/** Shorter than the deadline of the step in shutdown-steps.ts. */
const settleMs = 1_500

export type TestAlert = ManagementDeps['testAlert']

/** In safe mode only test alerts are sent, because the directory can be a copy of another one. */
export function openAlerts(
  settings: Settings,
  { cluster, now, metadata, buffer, delivery, drivers, replica }: Stores,
  marker: RunMarker,
  { log, shutdown, isSafe = false }: StartContext,
): TestAlert {
  const poster = new AlertPoster(drivers, log)
  const store = metadata.alertStore
  const sender = new AlertSender({ store, poster, log, now, random: Math.random })
  const watch = new AlertWatch({
    metadata,
    troubles: (query) => delivery.troubles(query),
    bufferStatus: () => buffer.status(),
    replicaLagMs: async () => replica && Date.now() - (await replica.status()).storedThroughMs,
    limits: {
      maxBytes: settings['buffer.max_bytes'],
      minFreeBytes: settings['buffer.min_free_bytes'],
      undeliveredHours: settings['buffer.undelivered_hours'],
    },
    crash: () => marker.crash,
    settleCrash: () => marker.settleCrash(),
    dashboardUrl: dashboardUrl(settings),
    onQueued: (workspaceId) => sender.notify(workspaceId),
    log,
    now,
  })
  // In a cluster, only one node sends alerts about lanes.
  const duty = cluster?.node.lease('alerts') ?? null
  const checkAndSend = async () => {
    if (duty !== null && !(await duty.isMine())) return
    await watch.check()
    await sender.run()
  }
  let running: Promise<void> | null = null
  const check = () => {
    running ??= checkAndSend()
      .catch((error) => {
        if (error instanceof StorageUnavailableError) log.warn({ err: error }, 'alerts.not_stored')
        else if (!shutdown.isRunning) log.error({ err: error }, 'alerts.failed')
      })
      .finally(() => {
        running = null
      })
  }
  const timer = isSafe ? null : setInterval(check, checkEveryMs)
  timer?.unref()
  if (!isSafe) check()
  shutdown.set('close alerts', async () => {
    if (timer !== null) clearInterval(timer)
    sender.close()
    await poster.close()
    // Alerts that are unsettled by then are sent again after the next start.
    const isSettled = await endsWithin(settleMs, Promise.all([running, sender.settled()]))
    if (!isSettled) log.warn({ limit_ms: settleMs }, 'alerts.not_settled')
  })
  return async (workspaceId, settingsOfAlerts) => {
    const workspaces = await metadata.workspaces.list()
    const name = workspaces.find((one) => one.workspaceId === workspaceId)?.name ?? ''
    const alert = testMessage({ id: workspaceId, name }, randomUUID(), now())
    const { ok, status, message } = await sender.post(settingsOfAlerts, alert)
    return { ok, status, message }
  }
}

function dashboardUrl(settings: Settings): string | null {
  if (settings.public_url === null || settings.dashboard === 'off') return null
  return `${settings.public_url.replace(/\/$/, '')}/dashboard`
}
