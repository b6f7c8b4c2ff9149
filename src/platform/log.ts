/**
 * Structured logs: one line per event, with its name and fields (`log.info({pipe_id}, 'lane.blocked')`). JSON lines to
 * stderr, pretty on a terminal; every thread writes to the same stderr. A secret is never a field, only whether it is set.
 */
import { createRequire } from 'node:module'
import { destination, type Logger, pino } from 'pino'

export type { Logger }

export interface LogSettings {
  level: string
  format: 'auto' | 'json' | 'pretty'
}

const levelChannel = 'pipectl.log-level'
/** The limit for lines that stderr has not accepted yet. */
const maxWaitingBytes = 1024 * 1024

/** Opens the log of a thread; `thread` names it in every line. Any thread can change the level later with `setLogLevel`. */
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

/** Resolves `auto`. Call it on the main thread: in worker threads `isTTY` is undefined. */
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
    const stderr = destination({ dest: 2, sync: true, maxLength: maxWaitingBytes })
    // A failed write (a full disk, for example) must not end the process: lines up to the limit are kept in memory,
    // later ones are lost.
    stderr.on('error', () => {})
    return pino(options, stderr)
  }
  // Loaded on demand: it would add 40 ms to the start of every thread.
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
