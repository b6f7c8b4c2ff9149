/**
 * Notifies the service manager (systemd, Type=notify): ready, alive, stopping. Node cannot write to a datagram UNIX
 * socket, so the messages go through `systemd-notify`. Without NOTIFY_SOCKET nothing is sent. The unit needs
 * NotifyAccess=all, because the messages come from a child process.
 */
import { spawn } from 'node:child_process'
import { endsWithin } from '../platform/deadline.ts'
import type { Logger } from '../platform/log.ts'
import { SerialQueue } from '../platform/serial-queue.ts'

const closeWithinMs = 2_000

export interface ServiceManager {
  /** Reports that the start is still in progress, with the reason. The start may take `moreMs` longer from now on. */
  starting(status: string, moreMs: number): void
  ready(): void
  reloading(): void
  stopping(): void
  /** From now on, reports that the daemon is alive only while `silentPart` returns null. */
  watch(silentPart: () => string | null): void
  /** Resolves when every message was sent, or after 2 s. Queued messages must not be lost when the process ends. */
  close(): Promise<void>
}

export function openServiceManager(env: NodeJS.ProcessEnv, log: Logger): ServiceManager {
  if (env.NOTIFY_SOCKET === undefined)
    return { starting() {}, ready() {}, reloading() {}, stopping() {}, watch() {}, close: async () => {} }
  // Messages are sent one after another: a RELOADING=1 that overtakes a READY=1 would leave the unit reloading
  // forever.
  const queue = new SerialQueue()
  const notify = (...messages: string[]) => {
    void queue.run(() => send(messages, env, log))
  }
  // Twice per watchdog interval, as sd_watchdog_enabled(3) advises. A blocked event loop misses both.
  const watchdogMs = Number(env.WATCHDOG_USEC ?? 0) / 1000
  let silentPart: () => string | null = () => null
  const tellAlive = () => {
    const part = silentPart()
    if (part === null) notify('WATCHDOG=1')
    else log.error({ part }, 'service_manager.watchdog_withheld')
  }
  const watchdog = watchdogMs > 0 ? setInterval(tellAlive, watchdogMs / 2) : null
  watchdog?.unref()
  const mainPid = `MAINPID=${process.pid}`
  return {
    starting: (status, moreMs) => notify(`STATUS=${status}`, `EXTEND_TIMEOUT_USEC=${moreMs * 1000}`, mainPid),
    ready: () => notify('READY=1', 'STATUS=accepting records', mainPid),
    reloading: () => notify('RELOADING=1', mainPid),
    stopping: () => notify('STOPPING=1', 'STATUS=finishing requests and deliveries', mainPid),
    watch: (check) => {
      silentPart = check
    },
    close: async () => {
      if (watchdog !== null) clearInterval(watchdog)
      await endsWithin(closeWithinMs, queue.ended())
    },
  }
}

/** Resolves when systemd-notify has ended. A failure is only logged. */
function send(messages: string[], env: NodeJS.ProcessEnv, log: Logger): Promise<void> {
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
