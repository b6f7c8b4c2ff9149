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
  // One after the other: RELOADING=1 that overtakes the READY=1 behind it would leave the unit reloading for ever.
  let last = Promise.resolve()
  const notify = (...messages: string[]) => {
    last = last.then(() => tell(messages, env, log))
  }
  // Twice in each watchdog interval, as sd_watchdog_enabled(3) advises: a hung event loop misses both.
  const watchdogMs = Number(env.WATCHDOG_USEC ?? 0) / 1000
  const watchdog = watchdogMs > 0 ? setInterval(() => notify('WATCHDOG=1'), watchdogMs / 2) : null
  watchdog?.unref()
  const mainPid = `MAINPID=${process.pid}`
  return {
    ready: () => notify('READY=1', 'STATUS=accepting records', mainPid),
    reloading: () => notify('RELOADING=1', mainPid),
    stopping: () => notify('STOPPING=1', 'STATUS=delivering what is under way', mainPid),
    close: () => {
      if (watchdog !== null) clearInterval(watchdog)
    },
  }
}

/** Resolves when systemd-notify has ended; the daemon runs on whatever comes of it. */
function tell(messages: string[], env: NodeJS.ProcessEnv, log: Logger): Promise<void> {
  return new Promise((resolve) => {
    const child = spawn('systemd-notify', messages, { stdio: 'ignore', env })
    child.once('error', (error) => {
      log.warn({ reason: error.message }, 'service_manager.unreachable')
      resolve()
    })
    child.once('exit', () => resolve())
    child.unref()
  })
}
