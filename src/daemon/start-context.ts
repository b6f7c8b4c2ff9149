/** The context in which each part of the daemon is opened, and the handler for parts that die. */
import type { Logger } from '../platform/log.ts'
import type { SettingOrigin } from '../settings/config.ts'
import type { ShutdownSteps } from './shutdown-steps.ts'

export const exitFailed = 70

export interface StartContext {
  env: NodeJS.ProcessEnv
  origins: Record<string, SettingOrigin>
  setUp: (() => Promise<void>) | null
  /** Safe mode: nothing is delivered, and every destination counts as blocked. */
  isSafe?: boolean
  log: Logger
  /** Receives a shutdown step for every part that is opened. */
  shutdown: ShutdownSteps
}

/** During shutdown, a dead thread is only logged: the remaining steps save what can be saved. */
export function exitWhenDead(part: string, { log, shutdown }: StartContext): (error: Error) => void {
  return (error) => {
    log.fatal({ part, err: error }, 'daemon.failed')
    if (!shutdown.isRunning) process.exit(exitFailed)
  }
}
