/** A disk that is full, and one whose fsync fails. Needs root (a RAM disk of a few MiB) and strace, on Linux. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { until } from '../../support/until.ts'
import { findAll, runUntilDead } from './crash-run.ts'
import {
  KiB,
  MiB,
  message,
  newPipeId,
  openAt,
  readAll,
  specAt,
  temporaryDirectory,
  watermark,
} from './open.ts'

t.equal(process.getuid?.(), 0, 'these tests mount a RAM disk: run them as root (or in a container as root)')

/** A small disk of its own, gone at the end of the test. */
function smallDisk(t: Test, bytes: number): string {
  const root = path.join(temporaryDirectory(t), 'disk')
  mkdirSync(root)
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', root])
  // Before the directory is removed; lazily, because a buffer may still be closing.
  t.teardown(() => execFileSync('umount', ['--lazy', root]))
  return root
}

const freeBytes = (root: string) => {
  const { bavail, bsize } = statfsSync(root)
  return bavail * bsize
}

/** Fills the disk to the last byte; other writers may have taken or given some back meanwhile. */
function fillDisk(file: string): void {
  for (let size = MiB; size >= 512; size /= 2) {
    try {
      for (;;) writeFileSync(file, Buffer.alloc(size, 1), { flag: 'a' })
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error
    }
  }
}

t.test(
  'a full disk fails the appends, not the daemon; cursors can move; it recovers by itself',
  async (t) => {
    const root = smallDisk(t, 64 * MiB)
    const { handle, reader } = await openAt(t, root)
    const ballast = path.join(specAt(root).dir, 'ballast')
    const pipeId = newPipeId()
    t.ok(existsSync(ballast), 'the ballast is in place')
    await handle.appender.append(message(pipeId, 'before'))
    const fill = path.join(root, 'fill')
    fillDisk(fill)
    t.equal(freeBytes(root), 0)
    const body = 'x'.repeat(256 * KiB)
    const failures: unknown[] = []
    const accepted: string[] = ['before']
    for (let n = 0; n < 40 && failures.length < 3; n += 1) {
      const text = `${n} ${body}`
      await handle.appender.append(message(pipeId, text)).then(
        () => accepted.push(text),
        (error) => failures.push(error),
      )
    }
    t.match(failures, Array(3).fill({ name: 'BufferUnavailableError' }))
    t.notOk(existsSync(ballast), 'the ballast is given up')
    writeFileSync(path.join(root, 'cursor'), Buffer.alloc(64 * KiB, 1))
    t.pass('there is room for others')
    t.equal((await handle.status()).unavailableReason, 'low_disk_space')
    t.same(
      (await readAll(reader, pipeId)).map(({ body }) => body.toString()),
      accepted,
      'exactly what was acknowledged is there',
    )
    rmSync(fill)
    await until('it takes messages again', async () => (await handle.status()).unavailableReason === null, {
      timeoutMs: 5_000,
    })
    t.ok(existsSync(ballast), 'the ballast is in place again')
    await handle.appender.append(message(pipeId, 'after'))
    t.equal((await readAll(reader, pipeId)).length, accepted.length + 1)
  },
)

t.test('under buffer.min_free_bytes delivered history goes first, then appends are rejected', async (t) => {
  const root = smallDisk(t, 64 * MiB)
  const { handle, reader, feed } = await openAt(t, root, { segmentMaxBytes: MiB, minFreeBytes: 40 * MiB })
  const pipeId = newPipeId()
  const body = 'x'.repeat(64 * KiB)
  for (let n = 0; n < 64; n += 1) await handle.appender.append(message(pipeId, body))
  const fill = path.join(root, 'fill')
  feed.reportLowWatermarks([watermark(pipeId, 32)])
  writeFileSync(fill, Buffer.alloc(freeBytes(root) - 39 * MiB, 1))
  await until('delivered history is dropped', async () => (await reader.earliest(pipeId)).seq > 0)
  t.ok((await reader.earliest(pipeId)).seq <= 32)
  writeFileSync(fill, Buffer.alloc(freeBytes(root) - 30 * MiB, 1), { flag: 'a' })
  await until(
    'appends are refused',
    async () => (await handle.status()).unavailableReason === 'low_disk_space',
  )
  await t.rejects(handle.appender.append(message(pipeId, 'x')), {
    name: 'BufferUnavailableError',
    message: /min_free_bytes/,
  })
  const kept = await readAll(reader, pipeId, 32)
  t.equal(kept.length, 32, 'undelivered messages are kept')
  rmSync(fill)
  await until('it takes messages again', async () => (await handle.status()).unavailableReason === null, {
    timeoutMs: 5_000,
  })
})

t.test(
  'it starts on a disk that is full, keeps what it has and takes messages when there is room',
  async (t) => {
    const root = smallDisk(t, 64 * MiB)
    const pipeId = newPipeId()
    const first = await openAt(t, root)
    await first.handle.appender.append(message(pipeId, 'before'))
    await first.close()
    const fill = path.join(root, 'fill')
    fillDisk(fill)
    const { handle, reader } = await openAt(t, root)
    t.equal((await handle.status()).unavailableReason, 'low_disk_space')
    t.equal((await readAll(reader, pipeId)).length, 1)
    rmSync(fill)
    await until('it takes messages', async () => (await handle.status()).unavailableReason === null, {
      timeoutMs: 5_000,
    })
    await handle.appender.append(message(pipeId, 'after'))
  },
)

t.test(
  'after a failed fsync nothing is acknowledged and the process ends; nothing acknowledged is missing',
  async (t) => {
    for (const when of [30, 70]) {
      const root = temporaryDirectory(t)
      const pipes = [newPipeId()]
      const inject = `inject=fsync,fdatasync:error=EIO:when=${when}+`
      const strace = ['-e', 'trace=fsync,fdatasync', '-e', inject]
      const run = await runUntilDead({ root, pipes, settings: { segmentMaxBytes: MiB } }, { strace })
      t.equal(run.exit.code, 70, 'ended by the buffer')
      t.ok(run.isFatal)
      t.same(run.failed, [], 'what was under way is not answered at all')
      t.ok(run.acknowledged.length > 0, `${run.acknowledged.length} acknowledged before it`)
      const { reader, handle } = await openAt(t, root)
      t.equal(await findAll(reader, run.acknowledged), run.acknowledged.length)
      t.equal((await handle.status()).missingAcknowledged, 0)
    }
  },
)

t.test('control: without the failing fsync the same program goes on for longer', async (t) => {
  const task = { root: temporaryDirectory(t), pipes: [newPipeId()], settings: { segmentMaxBytes: MiB } }
  const run = await runUntilDead(task, { killAfter: 5_000 })
  t.equal(run.exit.signal, 'SIGKILL')
  t.equal(run.isFatal, false)
})
