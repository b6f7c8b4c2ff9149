/** The context with which every part of the daemon is opened, and the handling of a part that dies. */
import type { Logger } from '../platform/log.ts'
import type { SettingOrigin } from '../settings/config.ts'
import type { ShutdownSteps } from './shutdown-steps.ts'

export const exitFailed = 70

export interface StartContext {
  env: NodeJS.ProcessEnv
  origins: Record<string, SettingOrigin>
  setUp: (() => Promise<void>) | null
  /** Nothing is delivered: every destination counts as blocked. */
  isSafe?: boolean
  log: Logger
  /** Takes a step for everything that is opened. */
  shutdown: ShutdownSteps
}

/** During shutdown a dead thread is only logged: the steps that remain save what can be saved. */
export function exitWhenDead(part: string, { log, shutdown }: StartContext): (error: Error) => void {
  return (error) => {
    log.fatal({ part, err: error }, 'daemon.failed')
    if (!shutdown.isRunning) process.exit(exitFailed)
  }
}
