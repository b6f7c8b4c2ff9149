import { type LogSettings, resolveLogFormat } from '../platform/log.ts'
import type { Settings } from './settings.ts'

/** `auto` is resolved here on the main thread, because other threads cannot see whether stderr is a terminal. */
export function logSettings(settings: Settings): LogSettings {
  return { level: settings['log.level'], format: resolveLogFormat(settings['log.format']) }
}
