/** The end of the log is damaged or gone: the WAL of the active segment, the segment itself, the mark with it. */
import { readFileSync, rmSync, truncateSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { copyOf, goesOn, makeBase } from './damaged-directory.ts'
import { flipBitOfRecord, garbage, overwrite } from './damaging.ts'

const base = await makeBase(t)

t.test('a bit in the WAL of the active segment', async (t) => {
  const { dataDir, segments } = copyOf(t, base, 'killed')
  const { file, numbers } = segments.at(-1)!
  const hurt = numbers.at(-3)!
  flipBitOfRecord(`${file}-wal`, hurt)
  await goesOn(t, base, dataDir, {
    told: ['buffer.segment_damaged'],
    mayLose: numbers,
    mayRepeat: true,
    isEndLost: true,
  })
})

const wals: [string, (wal: string) => void, string][] = [
  ['deleted', (wal) => rmSync(wal), 'buffer.acknowledged_messages_missing'],
  ['emptied', (wal) => truncateSync(wal), 'buffer.acknowledged_messages_missing'],
  ['given a header of garbage', (wal) => overwrite(wal, 0, garbage(32)), 'buffer.segment_damaged'],
]
for (const [what, damage, told] of wals) {
  t.test(`the WAL of the active segment is ${what}`, async (t) => {
    const { dataDir, segments } = copyOf(t, base, 'killed')
    const { file, numbers } = segments.at(-1)!
    damage(`${file}-wal`)
    await goesOn(t, base, dataDir, {
      told: [told],
      mayLose: numbers,
      mayRepeat: true,
      isEndLost: true,
    })
  })
}

t.test('the active segment is gone, its WAL is there', async (t) => {
  const { dataDir, segments } = copyOf(t, base, 'killed')
  const { file, numbers } = segments.at(-1)!
  const wal = readFileSync(`${file}-wal`)
  rmSync(file)
  await goesOn(t, base, dataDir, {
    told: ['buffer.segment_damaged', 'buffer.segment_salvaged'],
    mayLose: numbers.filter((n) => !wal.includes(`"n":${n},`)),
    mayRepeat: true,
    isEndLost: true,
  })
})

t.test('the WAL of the active segment and the mark are gone', async (t) => {
  const { dataDir, buffer, segments } = copyOf(t, base, 'killed')
  const { file, numbers } = segments.at(-1)!
  rmSync(`${file}-wal`)
  rmSync(path.join(buffer, 'high-water'))
  await goesOn(t, base, dataDir, {
    told: ['buffer.behind_lanes'],
    mayLose: numbers,
    mayRepeat: true,
    isEndLost: true,
  })
})

t.test('the active segment, its WAL and the mark are gone', async (t) => {
  const { dataDir, buffer, segments } = copyOf(t, base, 'killed')
  const { file, numbers } = segments.at(-1)!
  for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true })
  rmSync(path.join(buffer, 'high-water'))
  await goesOn(t, base, dataDir, {
    told: ['buffer.behind_lanes'],
    mayLose: numbers,
    mayRepeat: true,
    isEndLost: true,
  })
})

t.test('the whole buffer is gone', async (t) => {
  const { dataDir, buffer, segments } = copyOf(t, base, 'stopped')
  rmSync(buffer, { recursive: true })
  await goesOn(t, base, dataDir, {
    told: ['buffer.behind_lanes'],
    mayLose: segments.flatMap(({ numbers }) => numbers),
    mayRepeat: true,
    isEndLost: true,
  })
})
