/**
 * Podman with images and containers of its own in a temporary folder: it neither sees nor changes those of the machine.
 *
 * The tests run in containers themselves, mostly without systemd: so builds use no namespaces (`--isolation chroot`), runc
 * runs the containers, and there is no network between them and the machine.
 */
import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'

export interface Podman {
  /** Runs a command to its end and returns what it printed. Throws when it fails. */
  run(args: readonly string[], input?: string): Promise<string>
  /** Returns the exit code instead. */
  exitCode(args: readonly string[]): number
}

/** Options of `podman run`. */
export const inThisMachine = [
  ...['--runtime', 'runc', '--network', 'none', '--health-interval', 'disable'],
  // Below those of this process, which podman would raise.
  ...['--ulimit=nofile=4096:4096', '--ulimit=nproc=4096:4096'],
]

/** Everything ends with the test. */
export function startPodman(t: Test): Podman {
  if (process.getuid?.() !== 0) throw new Error('this test builds an image: run it as root')
  const folder = mkdtempSync(path.join(os.tmpdir(), 'pipectl-podman-'))
  const own = ['--root', path.join(folder, 'root'), '--runroot', path.join(folder, 'run')]
  const options = [
    ...own,
    '--tmpdir',
    path.join(folder, 'tmp'),
    '--cgroup-manager',
    'cgroupfs',
    '--events-backend',
    'none',
  ]
  const exitCode = (args: readonly string[]) =>
    spawnSync('podman', [...options, ...args], { stdio: 'ignore' }).status ?? -1
  t.teardown(() => {
    exitCode(['rm', '--force', '--all', '--volumes', '--time', '0'])
    exitCode(['rmi', '--force', '--all'])
    spawnSync('umount', [path.join(folder, 'root/overlay')], { stdio: 'ignore' })
    rmSync(folder, { recursive: true, force: true })
  })
  const run = async (args: readonly string[], input = '') => {
    const running = promisify(execFile)('podman', [...options, ...args], { maxBuffer: 1 << 26 })
    running.child.stdin?.end(input)
    return (await running).stdout
  }
  return { run, exitCode }
}
