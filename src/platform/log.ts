/**
 * Logs: an event name and fields, one wide line each (`log.info({pipe_id}, 'lane.blocked')`), JSON lines to stderr,
 * pretty on a terminal. A secret is never a field; only whether it is set. Every thread writes to the same stderr.
 */
import { createRequire } from 'node:module'
import { destination, type Logger, pino } from 'pino'

export type { Logger }

export interface LogSettings {
  level: string
  format: 'auto' | 'json' | 'pretty'
}

const levelChannel = 'pipectl.log-level'
/** The limit for lines that could not be written yet. */
const mostWaitingBytes = 1024 * 1024

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

/** `auto` decided: only the main thread knows whether stderr is a terminal, in the others `isTTY` is undefined. */
export function resolveLogFormat(format: LogSettings['format']): LogSettings['format'] {
  if (format !== 'auto') return format
  return process.stderr.isTTY === true ? 'pretty' : 'json'
}

function buildLog(settings: LogSettings, thread: string): Logger {
  const isPretty = resolveLogFormat(settings.format) === 'pretty'
  const options = {
    level: settings.level,
    base: { thread },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  }
  // Synchronous: a line written just before the process ends must not be lost.
  if (!isPretty) {
    const stderr = destination({ dest: 2, sync: true, maxLength: mostWaitingBytes })
    // A log that is written to a full disk must not end the process: what fits waits in memory, the rest is lost.
    stderr.on('error', () => {})
    return pino(options, stderr)
  }
  // Loaded where it is used: for each of the daemon's threads it is 40 ms of its start.
  const pretty: typeof import('pino-pretty') = createRequire(import.meta.url)('pino-pretty')
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
