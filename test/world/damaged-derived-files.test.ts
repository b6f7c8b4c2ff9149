/**
 * Files that can be created again are damaged or missing: the mark, the look-up of idempotency keys, the ballast, the
 * lock.
 */
import { existsSync, mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { copyOf, goesOn, makeBase } from './damaged-directory.ts'
import { flipBit, garbage, garbleAfterHeader, overwrite } from './damaging.ts'

const base = await makeBase(t)

const marks: [string, (mark: string) => void, string[]][] = [
  ['has a wrong bit', (mark) => flipBit(mark, 10), ['buffer.high_water_rebuilt']],
  ['is gone', (mark) => rmSync(mark), ['buffer.high_water_rebuilt']],
  ['is short', (mark) => truncateSync(mark, 7), ['buffer.high_water_rebuilt']],
  ['is a directory', becomeDirectory, ['buffer.high_water_rebuilt']],
]
for (const [what, damage, told] of marks) {
  t.test(`the mark ${what}`, async (t) => {
    const { dataDir, buffer } = copyOf(t, base, 'stopped')
    damage(path.join(buffer, 'high-water'))
    await goesOn(t, base, dataDir, { told })
  })
}

const lookUps: [string, (file: string) => void, string[]][] = [
  ['has a header of garbage', (file) => overwrite(file, 0, garbage(100)), ['buffer.idempotency_rebuilt']],
  ['has one page of garbage', (file) => overwrite(file, 4096, garbage(4096)), ['buffer.idempotency_rebuilt']],
  ['is garbage after its first page', garbleAfterHeader, ['buffer.idempotency_rebuilt']],
  ['is gone', (file) => rmSync(file), []],
]
for (const [what, damage, told] of lookUps) {
  t.test(`the look-up of idempotency keys ${what}`, async (t) => {
    const { dataDir, buffer } = copyOf(t, base, 'stopped')
    const file = path.join(buffer, 'idempotency.db')
    for (const suffix of ['-wal', '-shm']) rmSync(file + suffix, { force: true })
    damage(file)
    await goesOn(t, base, dataDir, { told })
  })
}

t.test('the ballast is gone', async (t) => {
  const { dataDir, buffer } = copyOf(t, base, 'stopped')
  rmSync(path.join(buffer, 'ballast'), { force: true })
  await goesOn(t, base, dataDir, { told: [] })
})

const locks: [string, (lock: string) => void][] = [
  ['holds garbage', (lock) => writeFileSync(lock, garbage(5000))],
  ['is gone', (lock) => rmSync(lock)],
]
for (const [what, damage] of locks) {
  t.test(`the lock ${what}`, async (t) => {
    const { dataDir } = copyOf(t, base, 'stopped')
    damage(path.join(dataDir, 'daemon.lock'))
    await goesOn(t, base, dataDir, { told: [] })
  })
}

t.test('the journal of the lock is garbage', async (t) => {
  const { dataDir } = copyOf(t, base, 'killed')
  writeFileSync(path.join(dataDir, 'daemon.lock-journal'), garbage(5000))
  await goesOn(t, base, dataDir, { told: [] })
  t.ok(existsSync(path.join(dataDir, 'daemon.lock')))
})

function becomeDirectory(file: string): void {
  rmSync(file)
  mkdirSync(file)
}
