/**
 * The metadata or the sealing key is damaged: without them nothing can be right, so the daemon does not start, and says
 * what to do. A WAL that is damaged or gone costs what was in it.
 */
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { copyOf, goesOn, makeBase, refusesToStart } from './damaged-directory.ts'
import { flipBit, garbage, overwrite, pageBytes, zeroPage } from './damaging.ts'

const base = await makeBase(t)

async function refuses(t: Test, dataDir: string, file: string): Promise<void> {
  const before = readFileSync(path.join(dataDir, file), { flag: 'a+' })
  await refusesToStart(t, dataDir, 78, [new RegExp(file), /restore|put back|init/])
  t.same(readFileSync(path.join(dataDir, file)), before, 'and leaves it as it is')
}

const metadata: [string, (file: string) => void][] = [
  ['is empty', (file) => truncateSync(file)],
  ['has a header of garbage', (file) => overwrite(file, 0, garbage(100))],
  ['has a page of zeros', (file) => zeroPage(file, 2)],
]
for (const [what, damage] of metadata) {
  t.test(`metadata.db ${what}`, async (t) => {
    const { dataDir } = copyOf(t, base, 'stopped')
    damage(path.join(dataDir, 'metadata.db'))
    await refuses(t, dataDir, 'metadata.db')
  })
}

t.test('metadata.db is empty, its WAL is there', async (t) => {
  const { dataDir } = copyOf(t, base, 'killed')
  truncateSync(path.join(dataDir, 'metadata.db'))
  await refuses(t, dataDir, 'metadata.db')
})

t.test('metadata.db is gone', async (t) => {
  const { dataDir } = copyOf(t, base, 'stopped')
  rmSync(path.join(dataDir, 'metadata.db'))
  await refusesToStart(t, dataDir, 78, [/metadata\.db|not set up/, /init|restore|put back/])
})

const wals: [string, (wal: string) => void][] = [
  ['has a wrong bit', (wal) => flipBit(wal, readFileSync(wal).length - pageBytes / 2)],
  ['is gone', (wal) => rmSync(wal)],
]
for (const [what, damage] of wals) {
  t.test(`the WAL of metadata.db ${what}`, async (t) => {
    const { dataDir } = copyOf(t, base, 'killed')
    damage(path.join(dataDir, 'metadata.db-wal'))
    await goesOn(t, base, dataDir, { told: [], mayRepeat: true })
  })
}

const keys: [string, (file: string) => void][] = [
  ['has a wrong bit', (file) => flipBit(file, 3)],
  ['is short', (file) => truncateSync(file, 10)],
  ['can be read by others', (file) => chmodSync(file, 0o644)],
  ['is gone', (file) => rmSync(file)],
]
for (const [what, damage] of keys) {
  t.test(`sealing.key ${what}`, async (t) => {
    const { dataDir } = copyOf(t, base, 'stopped')
    damage(path.join(dataDir, 'sealing.key'))
    await refusesToStart(t, dataDir, 78, [
      /sealing[. ]key/,
      /put back|restore|chmod|secrets forget|must contain 32 bytes/,
    ])
  })
}

t.test('the lock is a directory', async (t) => {
  const { dataDir } = copyOf(t, base, 'stopped')
  const lock = path.join(dataDir, 'daemon.lock')
  rmSync(lock)
  mkdirSync(lock)
  await refusesToStart(t, dataDir, 78, [/daemon\.lock/])
  t.ok(existsSync(lock))
  writeFileSync(path.join(lock, 'kept'), '')
})
