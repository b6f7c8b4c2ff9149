/**
 * Logs: an event name and fields, one wide line each (`log.info({pipe_id}, 'lane.blocked')`), JSON lines to stderr,
 * pretty on a terminal. A secret is never a field; only whether it is set. Every thread writes to the same stderr.
 */
import { destination, type Logger, pino } from 'pino'
import pretty from 'pino-pretty'

export type { Logger }

export interface LogSettings {
  level: string
  format: 'auto' | 'json' | 'pretty'
}

const levelChannel = 'pipectl.log-level'

/** `thread` names the writing thread in every line. Its level follows `setLogLevel`, whichever thread calls that. */
export function openLog(settings: LogSettings, thread: string): Logger {
  const log = buildLog(settings, thread)
  const levels = new BroadcastChannel(levelChannel)
  levels.onmessage = (event: { data?: unknown }) => {
    if (typeof event.data === 'string') log.level = event.data
  }
  // A log must not keep its thread alive.
  levels.unref()
  return log
}

/** Sets the level of every log of this process. */
export function setLogLevel(level: LogSettings['level']): void {
  const levels = new BroadcastChannel(levelChannel)
  levels.postMessage(level)
  levels.close()
}

function buildLog(settings: LogSettings, thread: string): Logger {
  const isPretty =
    settings.format === 'pretty' || (settings.format === 'auto' && process.stderr.isTTY === true)
  const options = {
    level: settings.level,
    base: { thread },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  }
  // Synchronous: a line written just before the process ends must not be lost.
  if (!isPretty) return pino(options, destination({ dest: 2, sync: true }))
  return pino(
    options,
    pretty({
      destination: 2,
      sync: true,
      colorize: process.env.NO_COLOR === undefined,
      ignore: 'pid,hostname',
      singleLine: true,
    }),
  )
}
