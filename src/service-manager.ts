/**
 * What the service manager is told (systemd, Type=notify): ready, still alive, stopping. Node cannot write to a
 * datagram UNIX socket, so the messages go through systemd's own `systemd-notify`; without NOTIFY_SOCKET nothing
 * happens. The unit needs NotifyAccess=all, because the messages come from a child of ours.
 */
import { spawn } from 'node:child_process'
import type { Logger } from './log.ts'

export interface ServiceManager {
  ready(): void
  reloading(): void
  stopping(): void
  close(): void
}

export function openServiceManager(env: NodeJS.ProcessEnv, log: Logger): ServiceManager {
  if (env.NOTIFY_SOCKET === undefined) return { ready() {}, reloading() {}, stopping() {}, close() {} }
  const notify = (...messages: string[]) => {
    const child = spawn('systemd-notify', messages, { stdio: 'ignore', env })
    child.on('error', (error) => log.warn({ error: error.message }, 'service_manager.unreachable'))
    child.unref()
  }
  // Twice in each watchdog interval, as sd_watchdog_enabled(3) advises: a hung event loop misses both.
  const watchdogMs = Number(env.WATCHDOG_USEC ?? 0) / 1000
  const watchdog = watchdogMs > 0 ? setInterval(() => notify('WATCHDOG=1'), watchdogMs / 2) : null
  watchdog?.unref()
  return {
    ready: () => notify('--ready', '--status=accepting records', `--pid=${process.pid}`),
    reloading: () => notify('--reloading', `--pid=${process.pid}`),
    stopping: () => notify('--stopping', `--pid=${process.pid}`),
    close: () => {
      if (watchdog !== null) clearInterval(watchdog)
    },
  }
}
