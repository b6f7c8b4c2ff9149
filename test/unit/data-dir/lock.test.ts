import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { dataDirAt } from '../../../src/maintenance/data-dir.ts'
import { DataDirInUseError, lockDataDir } from '../../../src/maintenance/lock.ts'
import { startDaemon } from '../../support/daemon.ts'

function newDirectory(t: Test) {
  const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-lock-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  return dataDirAt(root)
}

const inode = (file: string) => statSync(file).ino

t.test('the lock is an empty file of mode 0600 without a journal, and can be taken again', async (t) => {
  const dir = newDirectory(t)
  const unlock = lockDataDir(dir)
  const { size, mode } = statSync(dir.lockFile)
  t.same([size, mode & 0o777], [0, 0o600])
  t.notOk(statSync(`${dir.lockFile}-journal`, { throwIfNoEntry: false }))
  unlock()
  lockDataDir(dir)()
})

t.test('a lock file that others may read is closed to them', async (t) => {
  const dir = newDirectory(t)
  writeFileSync(dir.lockFile, '', { mode: 0o644 })
  lockDataDir(dir)()
  t.equal(statSync(dir.lockFile).mode & 0o777, 0o600)
})

t.test('garbage in it is cut off in place: two daemons still exclude each other', async (t) => {
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const dir = dataDirAt(daemon.dataDir)
  t.equal(await daemon.stop(), 0)
  const before = inode(dir.lockFile)
  writeFileSync(dir.lockFile, 'garbage '.repeat(1000))

  await daemon.start()
  t.equal(inode(dir.lockFile), before, 'the same file')
  t.throws(() => lockDataDir(dir), DataDirInUseError)
  // The same when the garbage comes into it while it is held.
  writeFileSync(dir.lockFile, 'garbage '.repeat(1000))
  t.throws(() => lockDataDir(dir), DataDirInUseError)
  t.throws(() => lockDataDir(dir), DataDirInUseError)
  t.equal(await daemon.stop(), 0)
  lockDataDir(dir)()
})

t.test('a directory in its place is a matter of configuration, and is named', async (t) => {
  const dir = newDirectory(t)
  mkdirSync(dir.lockFile)
  t.throws(() => lockDataDir(dir), {
    name: 'ConfigError',
    message: new RegExp(`${dir.lockFile} is not a file`),
  })
})
