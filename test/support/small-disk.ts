/** A small disk of its own, which a test can fill to the last byte. Needs root: it mounts a RAM disk. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'

const MiB = 1024 * 1024

/** Gone at the end of the test. */
export function smallDisk(t: Test, bytes = 64 * MiB): string {
  if (process.getuid?.() !== 0)
    throw new Error(
      'this test mounts a RAM disk: run it as root (or in a container, as root with CAP_SYS_ADMIN)',
    )
  const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-disk-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', root])
  t.teardown(() => {
    execFileSync('umount', ['--lazy', root])
    rmSync(root, { recursive: true, force: true })
  })
  return root
}

export function freeBytes(root: string): number {
  const { bavail, bsize } = statfsSync(root)
  return bavail * bsize
}

/** To the last byte; other writers may take or give back some meanwhile. */
export function fillDisk(file: string): void {
  for (let size = MiB; size >= 512; size /= 2) {
    try {
      for (;;) writeFileSync(file, Buffer.alloc(size, 1), { flag: 'a' })
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error
    }
  }
}
