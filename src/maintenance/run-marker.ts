/**
 * Whether the last run of the daemon stopped by itself: the file `running` in the data directory.
 *
 *   start: found? the last run ended without stopping ─▶ written ─▶ … ─▶ stop: removed, last of all but the lock
 *
 * kill -9, a power cut, running out of memory and every fatal error leave it; so does a stop that a second signal cut short. A
 * run that has not told of the crash before it (its start failed, say) leaves it as well, so that the next one tells.
 * It is read and written under the lock of the directory. What it says is a hint for people: nothing depends on it.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { errorCode } from '../platform/error-code.ts'
import { fsyncDirectory, fsyncFile } from '../platform/fsync.ts'

export interface RunMarker {
  /** The run before this one ended without stopping; null: it stopped, or there was none, or somebody was told. */
  readonly crash: { startedMs: number | null } | null
  /** The crash was reported, durably. */
  settleCrash(): void
  /** The daemon stops by itself. */
  stop(): void
}

/** `onFault`: it cannot be written (a full disk): a crash of this run may go unnoticed. */
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

/** Whole or not at all. */
function write(root: string, file: string, startedMs: number | null): void {
  const temporary = `${file}.tmp`
  writeFileSync(temporary, startedMs === null ? '' : `${new Date(startedMs).toISOString()}\n`, {
    mode: 0o600,
  })
  fsyncFile(temporary)
  renameSync(temporary, file)
  fsyncDirectory(root)
}
