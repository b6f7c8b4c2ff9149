/** A clock for the daemon beside the true one (libfaketime), which a test moves while the daemon runs. */
import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'

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

/** Debian: /usr/lib/<triplet>/faketime; elsewhere /usr/lib or /usr/local/lib. */
function fakeTimeLibrary(): string {
  const roots = ['/usr/lib', '/usr/local/lib', '/usr/lib64']
  const folders = roots.flatMap((root) => [root, ...(existsSync(root) ? subfolders(root) : [])])
  for (const folder of folders) {
    const file = path.join(folder, 'faketime', 'libfaketimeMT.so.1')
    if (existsSync(file)) return file
  }
  throw new Error('this test needs libfaketime: apt-get install faketime')
}

function subfolders(root: string): string[] {
  return readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name.includes('-linux-'))
    .map((entry) => path.join(root, entry.name))
}
