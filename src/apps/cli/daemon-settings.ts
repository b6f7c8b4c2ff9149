/** Reads the daemon's settings for commands that work on its data directory. */
import type { requireSingleMachine } from '../../maintenance/single-machine.ts'
import { ConfigError } from '../../platform/config-error.ts'
import type { Settings } from '../../settings/settings.ts'
import { usageFailure } from '../client/failure.ts'
import { settingsFrom } from './daemon-commands.ts'
import { io } from './io.ts'

const settingsHint = '`pipectl config show --origin` shows where settings come from'

/** Throws Failure (usage) for an invalid setting. */
export function daemonSettings(options: object): Settings {
  try {
    return settingsFrom({ ...options }, io().env).settings
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    throw usageFailure(error.message, error.hint || settingsHint, error)
  }
}

/** The settings of a command that cannot work on a cluster. Throws Failure. */
export async function singleMachineSettings(
  command: Parameters<typeof requireSingleMachine>[0],
  options: object,
): Promise<Settings> {
  const settings = daemonSettings(options)
  const checks = await import('../../maintenance/single-machine.ts')
  checks.requireSingleMachine(command, settings)
  return settings
}
