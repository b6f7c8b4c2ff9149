/** A clock for the daemon beside the true one (libfaketime), which a test moves while the daemon runs. */
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import { fakeTimeLibrary } from './programs.ts'

export interface FakeClock {
  env: Record<string, string>
  /** Seconds beside the true time, from now on. */
  set(seconds: number): void
}

export function fakeClock(t: Test): FakeClock {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'pipectl-clock-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = path.join(folder, 'offset')
  const set = (seconds: number) => {
    // Read at every look at the clock: it must never be seen half written.
    writeFileSync(`${file}.new`, `${seconds < 0 ? '' : '+'}${seconds}\n`)
    renameSync(`${file}.new`, file)
  }
  set(0)
  return {
    env: {
      LD_PRELOAD: fakeTimeLibrary(),
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      DONT_FAKE_MONOTONIC: '1',
      NO_FAKE_STAT: '1',
    },
    set,
  }
}
