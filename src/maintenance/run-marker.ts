/**
 * Detects whether the last run of the daemon stopped normally, with the file `running` in the data directory.
 *
 *   start: file exists? the last run crashed ─▶ written ─▶ … ─▶ stop: removed, last of all except the lock
 *
 * The file is left behind by kill -9, a power failure, lack of memory, every fatal error, and a stop that a second signal cut
 * short. A run that could not report the previous crash, for example because its start failed, leaves the file too. Then the
 * next run reports it. The file is read and written under the lock of the directory. It is only information for operators:
 * no decision depends on it.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { errorCode } from '../platform/error-code.ts'
import { fsyncDirectory, fsyncFile } from '../platform/fsync.ts'

export interface RunMarker {
  /**
   * Set if the previous run did not stop normally. Null: it did, there was none, or the crash was already reported.
   */
  readonly crash: { startedMs: number | null } | null
  /** The crash was durably reported. */
  settleCrash(): void
  /** The daemon stops normally. */
  stop(): void
}

/** `onFault`: the file cannot be written (a full disk), so a crash of this run may not be detected. */
export function markRunning(root: string, nowMs: number, onFault: (error: unknown) => void): RunMarker {
  const file = path.join(root, 'running')
  let crash = found(file)
  const attempt = (work: () => void) => {
    try {
      work()
    } catch (error) {
      onFault(error)
    }
  }
  const startedMs = crash === null ? nowMs : crash.startedMs
  attempt(() => write(root, file, startedMs))
  return {
    get crash() {
      return crash
    },
    settleCrash() {
      if (crash === null) return
      crash = null
      attempt(() => write(root, file, nowMs))
    },
    stop() {
      if (crash !== null) return
      attempt(() => {
        rmSync(file, { force: true })
        fsyncDirectory(root)
      })
    },
  }
}

function found(file: string): { startedMs: number | null } | null {
  try {
    const startedMs = Date.parse(readFileSync(file, 'utf8').trim())
    return { startedMs: Number.isNaN(startedMs) ? null : startedMs }
  } catch (error) {
    return errorCode(error) === 'ENOENT' ? null : { startedMs: null }
  }
}

/** Writes the file atomically. */
function write(root: string, file: string, startedMs: number | null): void {
  const temporary = `${file}.tmp`
  writeFileSync(temporary, startedMs === null ? '' : `${new Date(startedMs).toISOString()}\n`, {
    mode: 0o600,
  })
  fsyncFile(temporary)
  renameSync(temporary, file)
  fsyncDirectory(root)
}
